"""DescribeUserScramCredentials (50)."""

from __future__ import annotations

from typing import Any

from kraft.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from quorate.controller.commands.describe_user_scram_credentials import describe_user_scram_credentials
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from tests.controller.clusters import Cluster
from tests.controller.scram_users import SHA_256, SHA_512, no_credentials, two_users
from tests.controller.tables.table import Row, Table

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def asked(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(tuple(map(DescribeUserScramCredentialsRequest.UserName, names)))


def told(*results: Result) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def shown(name: str, *credentials: tuple[int, int]) -> Result:
    """A user: mechanism and iterations of each credential."""
    infos = tuple(Result.CredentialInfo(mechanism, iterations) for mechanism, iterations in credentials)
    return Result(name, error_message=None, credential_infos=infos)


def refused(name: str, code: ErrorCode) -> Result:
    return Result(name, code, error_message=None)


def command(_: Cluster, request: DescribeUserScramCredentialsRequest) -> Command[Any]:
    return describe_user_scram_credentials(request)


DESCRIBE = "ScramImage.describe"
EVERYBODY = DescribeUserScramCredentialsRequest(None)
ALICE, BOB = shown("alice", (SHA_256, 4096)), shown("bob", (SHA_256, 4096), (SHA_512, 8192))
NOT_FOUND, TWICE = ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DUPLICATE_RESOURCE

TABLE = Table(
    api="DescribeUserScramCredentials",
    kafka=f"KafkaApis.handleDescribeUserScramCredentialsRequest, {DESCRIBE} (KIP-554)",
    command=command,
    given=two_users,
    rows=(
        Row(
            case="everybody",
            rule=f"{DESCRIBE}: null is everybody; mechanisms and iterations, and nothing secret (KIP-554).",
            request=EVERYBODY,
            answer=told(ALICE, BOB),
        ),
        Row(
            case="an empty list",
            rule=f"{DESCRIBE}: that is everybody, too.",
            request=asked(),
            answer=told(ALICE, BOB),
        ),
        Row(case="one", rule=f"{DESCRIBE}: those who are named.", request=asked("bob"), answer=told(BOB)),
        Row(
            case="some, one of whom has none",
            rule=f"{DESCRIBE}: each succeeds or fails by himself.",
            request=asked("bob", "eve", "alice"),
            answer=told(BOB, refused("eve", NOT_FOUND), ALICE),
        ),
        Row(
            case="one twice, and another",
            rule=f"{DESCRIBE}: who is named twice is told once, without credentials.",
            request=asked("bob", "alice", "bob"),
            answer=told(refused("bob", TWICE), ALICE),
        ),
        Row(
            case="one three times",
            rule=f"{DESCRIBE}: who is named twice is told once, without credentials.",
            request=asked("bob", "bob", "bob"),
            answer=told(refused("bob", TWICE)),
        ),
        Row(
            case="one who has none, twice",
            rule=f"{DESCRIBE}: that he is named twice, before that he has none.",
            request=asked("eve", "eve"),
            answer=told(refused("eve", TWICE)),
        ),
        Row(
            case="nobody",
            rule=f"{DESCRIBE}: an empty name is one that has none.",
            request=asked(""),
            answer=told(refused("", NOT_FOUND)),
        ),
        Row(
            case="everybody, where nobody has one",
            rule=f"{DESCRIBE}: that is no error.",
            given=no_credentials,
            request=EVERYBODY,
            answer=told(),
        ),
        Row(
            case="one, where nobody has one",
            rule=DESCRIBE,
            given=no_credentials,
            request=asked("alice"),
            answer=told(refused("alice", NOT_FOUND)),
        ),
    ),
)
