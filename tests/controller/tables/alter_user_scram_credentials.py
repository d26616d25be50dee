"""AlterUserScramCredentials (51)."""

from __future__ import annotations

import base64
from typing import Any

from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from quorate.controller.commands.alter_user_scram_credentials import alter_user_scram_credentials
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.records import RemoveUserScramCredentialRecord as Removed
from quorate.records import UserScramCredentialRecord as Kept
from tests.controller.clusters import Cluster
from tests.controller.scram_users import SALT, SALTED, SHA_256, SHA_512, credential, two_users
from tests.controller.tables.table import Row, Table

Delete = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Set = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


def before_scram() -> Cluster:
    """No credentials; the level is 3.5-IV1."""
    return Cluster(10)


def first_level() -> Cluster:
    """No credentials; the level is 3.5-IV2."""
    return Cluster(11)


def sets(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = SALT, salted_password: bytes = SALTED
) -> Set:
    return Set(name, mechanism, iterations, salt, salted_password)


def asked(*changes: Delete | Set) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in changes if isinstance(each, Delete)),
        upsertions=tuple(each for each in changes if isinstance(each, Set)),
    )


def told(**codes: ErrorCode) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=tuple(Result(user, code, error_message=None) for user, code in codes.items())
    )


def refused(case: str, rule: str, change: Delete | Set, code: ErrorCode) -> Row:
    """One user that is refused, and another that is not: deletions come first."""
    return Row(
        case=case,
        rule=rule,
        request=asked(change, sets("zoe")),
        records=(credential("zoe"),),
        answer=told(**{change.name: code, "zoe": NONE}),
    )


def command(_: Cluster, request: AlterUserScramCredentialsRequest) -> Command[Any]:
    return alter_user_scram_credentials(request)


def from_base64(text: str) -> bytes:
    return base64.b64decode(text)


NONE, UNACCEPTABLE, NOT_FOUND = ErrorCode.NONE, ErrorCode.UNACCEPTABLE_CREDENTIAL, ErrorCode.RESOURCE_NOT_FOUND
NO_MECHANISM, TWICE = ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.DUPLICATE_RESOURCE
MANAGER = "ScramControlManager.alterCredentials"
FINISH = "ScramControlManager.finishUpsertion"
WHO = "ScramControlManager.validateScramUsernameAndMechanism"
ROUNDS = "ScramControlManager.validateUpsertion: 4096 to 16384 (KIP-554, RFC 7677)."
DELETED = "ScramControlManager.validateDeletion"
ONCE = f"{MANAGER}: a user is changed once, whatever the mechanisms."
LEVEL = "MetadataVersion.isScramSupported: from 3.5-IV2."

TABLE = Table(
    api="AlterUserScramCredentials",
    kafka=f"{MANAGER} (KIP-554)",
    command=command,
    given=two_users,
    rows=(
        Row(
            case="a new user: the example of RFC 7677",
            rule=f"{FINISH}: of the salted password two keys are kept (RFC 5802, RFC 7677 section 3).",
            request=asked(
                sets(
                    "user",
                    salt=from_base64("W22ZaJ0SNY7soEsUEjb6gQ=="),
                    salted_password=bytes.fromhex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d"),
                )
            ),
            records=(
                Kept(
                    "user",
                    SHA_256,
                    from_base64("W22ZaJ0SNY7soEsUEjb6gQ=="),
                    stored_key=from_base64("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
                    server_key=from_base64("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
                    iterations=4096,
                ),
            ),
            answer=told(user=NONE),
        ),
        Row(
            case="another mechanism",
            rule=f"{FINISH}: by the hash of the mechanism; those of others stay (KIP-554).",
            request=asked(sets("alice", SHA_512)),
            records=(credential("alice", SHA_512),),
            answer=told(alice=NONE),
        ),
        Row(
            case="the same again",
            rule=f"{FINISH}: written, even if nothing changes.",
            request=asked(sets("alice")),
            records=(credential("alice"),),
            answer=told(alice=NONE),
        ),
        Row(
            case="the most iterations, and no salt",
            rule=f"{ROUNDS[:-1]}; the salt is whatever is sent.",
            request=asked(sets("alice", iterations=16384, salt=b"")),
            records=(credential("alice", iterations=16384, salt=b""),),
            answer=told(alice=NONE),
        ),
        Row(
            case="one of two credentials deleted",
            rule=f"{DELETED}: that of the mechanism (KIP-554).",
            request=asked(Delete("bob", SHA_512)),
            records=(Removed("bob", SHA_512),),
            answer=told(bob=NONE),
        ),
        Row(
            case="one user deleted, two set",
            rule=f"{MANAGER}: deletions before upsertions.",
            request=asked(sets("zoe"), sets("carl", SHA_512, 5000), Delete("alice", SHA_256)),
            records=(Removed("alice", SHA_256), credential("zoe"), credential("carl", SHA_512, 5000)),
            answer=told(alice=NONE, zoe=NONE, carl=NONE),
        ),
        Row(case="no change", rule=f"{MANAGER}: one result a user.", request=asked(), answer=told()),
        Row(
            case="at the first level",
            rule=LEVEL,
            given=first_level,
            request=asked(sets("alice")),
            records=(credential("alice"),),
            answer=told(alice=NONE),
        ),
        refused("nobody", WHO, sets(""), UNACCEPTABLE),
        refused("nobody deleted", WHO, Delete("", SHA_256), UNACCEPTABLE),
        refused("no mechanism", WHO, sets("alice", 0), NO_MECHANISM),
        refused("a mechanism without a name deleted", WHO, Delete("alice", 3), NO_MECHANISM),
        refused("too few iterations", ROUNDS, sets("alice", iterations=4095), UNACCEPTABLE),
        refused("too many iterations", ROUNDS, sets("alice", SHA_512, 16385), UNACCEPTABLE),
        refused(
            "an empty salted password",
            f"{FINISH}: Java knows no empty key, which is an unknown error there; here it is this one.",
            sets("alice", salted_password=b""),
            UNACCEPTABLE,
        ),
        refused("who is not there deleted", DELETED, Delete("eve", SHA_256), NOT_FOUND),
        refused("another mechanism deleted", DELETED, Delete("alice", SHA_512), NOT_FOUND),
        refused("nobody, without a mechanism", f"{WHO}: the name first.", Delete("", 0), UNACCEPTABLE),
        refused(
            "a mechanism without a name, with too few iterations",
            "ScramControlManager.validateUpsertion: the mechanism first.",
            sets("alice", 3, 1),
            NO_MECHANISM,
        ),
        Row(
            case="set twice, by either mechanism, and another",
            rule=ONCE,
            request=asked(sets("alice"), sets("zoe"), sets("alice", SHA_512)),
            records=(credential("zoe"),),
            answer=told(alice=TWICE, zoe=NONE),
        ),
        Row(
            case="deleted twice, by either mechanism",
            rule=ONCE,
            request=asked(Delete("bob", SHA_256), Delete("bob", SHA_512)),
            answer=told(bob=TWICE),
        ),
        Row(
            case="deleted and set",
            rule=ONCE,
            request=asked(Delete("bob", SHA_256), sets("bob", SHA_512)),
            answer=told(bob=TWICE),
        ),
        Row(
            case="set three times",
            rule=f"{ONCE[:-1]}; nor is the third one.",
            request=asked(sets("alice"), sets("alice"), sets("alice", SHA_512)),
            answer=told(alice=TWICE),
        ),
        Row(
            case="who is not there deleted, and set",
            rule=f"{MANAGER}: what is wrong with the first is told before that there are two.",
            request=asked(Delete("eve", SHA_256), sets("eve")),
            answer=told(eve=NOT_FOUND),
        ),
        Row(
            case="set twice, the second wrongly",
            rule=f"{MANAGER}: of the second nothing is looked at.",
            request=asked(sets("eve"), sets("eve", 3)),
            answer=told(eve=TWICE),
        ),
        Row(
            case="below the first level",
            rule=LEVEL,
            given=before_scram,
            request=asked(Delete("bob", SHA_256), sets("alice")),
            answer=told(bob=ErrorCode.UNSUPPORTED_VERSION, alice=ErrorCode.UNSUPPORTED_VERSION),
        ),
        Row(
            case="nobody, twice, below the first level",
            rule=f"{MANAGER}: the level before all else.",
            given=before_scram,
            request=asked(sets(""), sets("")),
            answer=told(**{"": ErrorCode.UNSUPPORTED_VERSION}),
        ),
    ),
)
