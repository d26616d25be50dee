"""Handlers of the security APIs: access control entries, SCRAM credentials, and delegation tokens."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kraft.api.alter_user_scram_credentials_pb2 import AlterUserScramCredentialsRequest
from kraft.api.create_acls_pb2 import CreateAclsRequest
from kraft.api.create_delegation_token_pb2 import CreateDelegationTokenRequest
from kraft.api.delete_acls_pb2 import DeleteAclsRequest
from kraft.api.describe_acls_pb2 import DescribeAclsRequest
from kraft.api.describe_delegation_token_pb2 import DescribeDelegationTokenRequest
from kraft.api.describe_user_scram_credentials_pb2 import DescribeUserScramCredentialsRequest
from kraft.api.expire_delegation_token_pb2 import ExpireDelegationTokenRequest
from kraft.api.renew_delegation_token_pb2 import RenewDelegationTokenRequest
from quorate.controller.commands.alter_user_scram_credentials import alter_user_scram_credentials
from quorate.controller.commands.create_acls import create_acls
from quorate.controller.commands.create_delegation_token import create_delegation_token, with_hmac
from quorate.controller.commands.delete_acls import delete_acls
from quorate.controller.commands.describe_acls import describe_acls
from quorate.controller.commands.describe_delegation_token import describe_delegation_token
from quorate.controller.commands.describe_user_scram_credentials import describe_user_scram_credentials
from quorate.controller.commands.expire_delegation_token import expire_delegation_token
from quorate.controller.commands.renew_delegation_token import renew_delegation_token
from quorate.controller.engine.engine import Answer
from quorate.metadata.acls import AclOperation
from quorate.random_uuid import random_uuid
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Row, read, read_without_leader, written

__all__ = ["ACCESS"]


async def _create_delegation_token(apis: Apis, call: Call) -> Answer:
    """Creates a delegation token. The HMAC is added to the answer last, so that no record or stored answer has it."""
    tokens = apis.settings.delegation_tokens
    command = create_delegation_token(
        call.asked, principal=call.caller.principal, new_token_id=random_uuid, settings=tokens, allows=call.allows
    )
    answer = await apis.write(call, command)
    return answer if call.validate_only else replace(answer, response=with_hmac(answer.response, tokens))


ACCESS: Final = (
    Row(
        Api(
            name="AlterUserScramCredentials",
            request=AlterUserScramCredentialsRequest,
            right=AclOperation.ALTER,
        ),
        written(lambda _, call: alter_user_scram_credentials(call.asked)),
    ),
    Row(
        Api(
            name="CreateAcls",
            request=CreateAclsRequest,
            right=AclOperation.ALTER,
            needs_authorizer=True,
        ),
        written(lambda _, call: create_acls(call.asked, new_acl_id=random_uuid)),
    ),
    Row(
        Api(
            name="CreateDelegationToken",
            request=CreateDelegationTokenRequest,
            right=None,
        ),
        _create_delegation_token,
    ),
    Row(
        Api(
            name="DeleteAcls",
            request=DeleteAclsRequest,
            right=AclOperation.ALTER,
            needs_authorizer=True,
        ),
        written(lambda _, call: delete_acls(call.asked)),
    ),
    Row(
        Api(
            name="DescribeAcls",
            request=DescribeAclsRequest,
            right=AclOperation.DESCRIBE,
            is_read=True,
            needs_leader=False,
            needs_authorizer=True,
        ),
        read_without_leader(lambda _, call: describe_acls(call.asked)),
    ),
    Row(
        Api(
            name="DescribeDelegationToken",
            request=DescribeDelegationTokenRequest,
            right=None,
            is_read=True,
        ),
        read(
            lambda apis, call: describe_delegation_token(
                call.asked,
                principal=call.caller.principal,
                settings=apis.settings.delegation_tokens,
                allows=call.allows,
            )
        ),
    ),
    Row(
        Api(
            name="DescribeUserScramCredentials",
            request=DescribeUserScramCredentialsRequest,
            right=AclOperation.DESCRIBE,
            is_read=True,
        ),
        read(lambda _, call: describe_user_scram_credentials(call.asked)),
    ),
    Row(
        Api(
            name="ExpireDelegationToken",
            request=ExpireDelegationTokenRequest,
            right=None,
        ),
        written(
            lambda apis, call: expire_delegation_token(
                call.asked, principal=call.caller.principal, settings=apis.settings.delegation_tokens
            )
        ),
    ),
    Row(
        Api(
            name="RenewDelegationToken",
            request=RenewDelegationTokenRequest,
            right=None,
        ),
        written(
            lambda apis, call: renew_delegation_token(
                call.asked, principal=call.caller.principal, settings=apis.settings.delegation_tokens
            )
        ),
    ),
)
