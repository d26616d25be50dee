"""DescribeUserScramCredentials (50): lists users' SCRAM mechanisms and iterations, but no keys. KIP-554."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from kraft.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ErrorCode
from quorate.metadata.scram import MECHANISMS
from quorate.metadata.state import ClusterState

__all__ = ["describe_user_scram_credentials"]

_Result: TypeAlias = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest,
) -> Command[DescribeUserScramCredentialsResponse]:
    """Returns the command that describes the users of `request`, in its order; if it names none, all users by name.

    A user that has no credential, or is named twice, fails by itself.
    """

    def command(state: ClusterState, _: Moment) -> Decision[DescribeUserScramCredentialsResponse]:
        if request.users:
            asked = Counter(user.name for user in request.users)
        else:
            asked = Counter(sorted({credential.name for credential in state.scram}))
        results = tuple(_described(state, user, count) for user, count in asked.items())
        return Decision(DescribeUserScramCredentialsResponse(error_message=None, results=results))

    return command


def _described(state: ClusterState, user: str, count: int) -> _Result:
    if count > 1:
        return _refused(user, ErrorCode.DUPLICATE_RESOURCE, f"user {user!r} is in the request {count} times")
    found = [state.scram.get(mechanism, user) for mechanism in sorted(MECHANISMS)]
    infos = tuple(_Result.CredentialInfo(each.mechanism, each.iterations) for each in found if each is not None)
    if not infos:
        return _refused(user, ErrorCode.RESOURCE_NOT_FOUND, f"user {user!r} has no SCRAM credential")
    return _Result(user, error_message=None, credential_infos=infos)


def _refused(user: str, code: ErrorCode, message: str) -> _Result:
    return _Result(user, int(code), message)
