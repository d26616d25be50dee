"""Answers DescribeAcls, DescribeDelegationToken, DescribeClientQuotas and DescribeUserScramCredentials at a broker.

The answers are those of the controllers, of the state that this broker has applied; so are the rights and refusals.
"""

from __future__ import annotations

from typing import Any, Final

from kraft.api.describe_acls import DescribeAclsRequest
from kraft.api.describe_client_quotas import DescribeClientQuotasRequest
from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest
from kraft.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.commands.describe_acls import describe_acls
from quorate.controller.commands.describe_client_quotas import describe_client_quotas
from quorate.controller.commands.describe_delegation_token import describe_delegation_token
from quorate.controller.commands.describe_user_scram_credentials import describe_user_scram_credentials
from quorate.controller.engine.decision import Command
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.protocol import Request
from quorate.runtime.access.token_requests import check_token_request
from services.broker.callers import Caller

__all__ = ["ABOUT_ACCESS", "access_command"]

ABOUT_ACCESS: Final = (
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
    DescribeDelegationTokenRequest,
)


def access_command(request: Request, caller: Caller, tokens: TokenSettings) -> Command[Any]:
    """Returns the controller's command that answers a request of `ABOUT_ACCESS`; it is not run here.

    Raises ApiError: CLUSTER_AUTHORIZATION_FAILED for a caller without the right on the cluster, SECURITY_DISABLED for
    ACLs without an authorizer, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for who has logged in with a token (Kafka's
    `allowTokenRequests`).
    """
    match request.message:
        case DescribeAclsRequest() as asked:
            caller.check(AclOperation.DESCRIBE, ResourceType.CLUSTER)
            if caller.may_do_all:
                why = "authorizer.class.name is not set on this broker: there are no ACLs"
                raise ApiError(ErrorCode.SECURITY_DISABLED, why)
            return describe_acls(asked)
        case DescribeClientQuotasRequest() as asked:
            caller.check(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
            return describe_client_quotas(asked)
        case DescribeUserScramCredentialsRequest() as asked:
            caller.check(AclOperation.DESCRIBE, ResourceType.CLUSTER)
            return describe_user_scram_credentials(asked)
        case DescribeDelegationTokenRequest() as asked:
            check_token_request(request.api.name, is_token=request.is_token)
            return describe_delegation_token(asked, principal=request.principal, settings=tokens, allows=caller.sees)
    raise AssertionError(type(request.message))
