"""Handlers of the security APIs: access control entries, SCRAM credentials, and delegation tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

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
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Handler, random_id, read, written

__all__ = ["ACCESS"]


async def _create_delegation_token(apis: Apis, call: Call) -> Answer:
    """Creates a delegation token. The HMAC is added to the answer last, so that no record or stored answer has it."""
    tokens = apis.settings.delegation_tokens
    command = create_delegation_token(
        call.asked, principal=call.principal, new_token_id=random_id, settings=tokens, allows=call.allows
    )
    answer = await apis.write(call, command)
    return answer if call.validate_only else replace(answer, response=with_hmac(answer.response, tokens))


ACCESS: Final[Mapping[str, Handler]] = {
    "AlterUserScramCredentials": written(lambda _, call: alter_user_scram_credentials(call.asked)),
    "CreateAcls": written(lambda _, call: create_acls(call.asked, new_acl_id=random_id)),
    "CreateDelegationToken": _create_delegation_token,
    "DeleteAcls": written(lambda _, call: delete_acls(call.asked)),
    "DescribeAcls": read(lambda _, call: describe_acls(call.asked)),
    "DescribeDelegationToken": read(
        lambda apis, call: describe_delegation_token(
            call.asked, principal=call.principal, settings=apis.settings.delegation_tokens, allows=call.allows
        )
    ),
    "DescribeUserScramCredentials": read(lambda _, call: describe_user_scram_credentials(call.asked)),
    "ExpireDelegationToken": written(
        lambda apis, call: expire_delegation_token(
            call.asked, principal=call.principal, settings=apis.settings.delegation_tokens
        )
    ),
    "RenewDelegationToken": written(
        lambda apis, call: renew_delegation_token(
            call.asked, principal=call.principal, settings=apis.settings.delegation_tokens
        )
    ),
}
