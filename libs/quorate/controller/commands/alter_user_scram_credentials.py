"""AlterUserScramCredentials (51): sets and deletes credentials; each user succeeds or fails by itself. KIP-554.

The request has salted passwords, which are enough to log in; the records have only the derived keys (RFC 5802).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from kraft import Message
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from quorate.controller.access.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, verifier_keys
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.scram import MECHANISMS
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import SCRAM, release_of
from quorate.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

__all__ = ["alter_user_scram_credentials"]

_Deletion: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialDeletion
_Upsertion: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
_Result: TypeAlias = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest,
) -> Command[AlterUserScramCredentialsResponse]:
    """Returns the command that sets and deletes the credentials of `request`. Each user succeeds or fails by itself.

    A user with two changes fails, also with two mechanisms (DUPLICATE_RESOURCE). Results are in the order in which the
    request first names each user, deletions before upsertions; Kafka's are in the order of a hash table.
    """

    def command(state: ClusterState, _: Moment) -> Decision[AlterUserScramCredentialsResponse]:
        results: list[_Result] = []
        records: list[Message] = []
        for asked, count in _users(request):
            try:
                record = _record(state, asked)
                # As in Kafka, an error in the first change is reported rather than the duplicate user.
                _check_once(asked.name, count)
            except ApiError as refusal:
                results.append(_Result(asked.name, int(refusal.code), refusal.message))
            else:
                records.append(record)
                results.append(_Result(asked.name, error_message=None))
        assert len(records) == sum(not result.error_code for result in results), (results, len(records))
        assert len({result.user for result in results}) == len(results), f"one result a user: {results}"
        return Decision(AlterUserScramCredentialsResponse(results=tuple(results)), tuple(records))

    return command


def _users(request: AlterUserScramCredentialsRequest) -> Iterator[tuple[_Deletion | _Upsertion, int]]:
    """Yields the first change of each user, and the number of changes that the request has for that user."""
    asked: tuple[_Deletion | _Upsertion, ...] = (*request.deletions, *request.upsertions)
    counts = Counter(each.name for each in asked)
    first = {each.name: each for each in reversed(asked)}
    for name, count in counts.items():
        yield first[name], count


def _check_once(user: str, count: int) -> None:
    if count > 1:
        raise ApiError(
            ErrorCode.DUPLICATE_RESOURCE,
            f"user {user!r} is in the request {count} times; it may be there once",
        )


def _record(state: ClusterState, asked: _Deletion | _Upsertion) -> Message:
    level = state.features.record_level
    if level < SCRAM:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"SCRAM credentials need metadata.version {release_of(SCRAM)}; this cluster is at {release_of(level)}",
        )
    if not asked.name:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of the user is empty; a credential belongs to a user"
        )
    if asked.mechanism not in MECHANISMS:
        known = ", ".join(f"{number} ({name})" for number, name in MECHANISMS.items())
        raise ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"user {asked.name!r}: mechanism {asked.mechanism} is not known; known are {known}",
        )
    return _deleted(state, asked) if isinstance(asked, _Deletion) else _set(asked)


def _deleted(state: ClusterState, asked: _Deletion) -> Message:
    if state.scram.get(asked.mechanism, asked.name) is None:
        raise ApiError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"user {asked.name!r} has no credential for {MECHANISMS[asked.mechanism]} that could be deleted",
        )
    return RemoveUserScramCredentialRecord(asked.name, asked.mechanism)


def _set(asked: _Upsertion) -> Message:
    if not ITERATIONS_MIN <= asked.iterations <= ITERATIONS_MAX:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"user {asked.name!r} has {asked.iterations} iterations; "
            f"they must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}",
        )
    if not asked.salted_password:
        # Kafka's crypto library throws here, and clients get UNKNOWN_SERVER_ERROR.
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"user {asked.name!r} has an empty salted password")
    stored_key, server_key = verifier_keys(asked.mechanism, asked.salted_password)
    return UserScramCredentialRecord(
        name=asked.name,
        mechanism=asked.mechanism,
        salt=asked.salt,
        stored_key=stored_key,
        server_key=server_key,
        iterations=asked.iterations,
    )
