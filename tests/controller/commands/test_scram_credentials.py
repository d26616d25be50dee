"""AlterUserScramCredentials and DescribeUserScramCredentials, against a released Kafka and by rule."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from quorate.controller.commands.alter_user_scram_credentials import alter_user_scram_credentials
from quorate.controller.commands.describe_user_scram_credentials import describe_user_scram_credentials
from quorate.errors import ErrorCode
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import FeatureLevelRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord
from quorate.wire.codec import decode
from quorate.wire.protobuf import json_form
from tests.controller.clusters import Cluster

Delete = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Set = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Name = DescribeUserScramCredentialsRequest.UserName
TOLD = [
    json.loads(line) for line in (Path(__file__).parents[1] / "kafka/scram_credentials.jsonl").read_text().splitlines()
]
SHA_256, SHA_512 = 1, 2


def by_user(response: dict[str, Any]) -> dict[str, Any]:
    """What was told of each user, but for the words; Kafka's order is that of a hash table."""
    told = {result["user"]: {**result, "errorMessage": None} for result in response["results"]}
    assert len(told) == len(response["results"]), response
    for result in told.values():
        result.get("credentialInfos", []).sort(key=lambda info: info["mechanism"])
    return told


def test_answers_as_kafka_answers_and_writes_what_kafka_writes() -> None:
    cluster = Cluster(33)
    for told in TOLD:
        asked = base64.b64decode(told["request"])
        if told["api"] == "describe":
            describing = describe_user_scram_credentials(decode(DescribeUserScramCredentialsRequest, asked, 0))

            assert by_user(told["response"]) == by_user(json_form(cluster.write(describing)))
            continue
        request = decode(AlterUserScramCredentialsRequest, asked, 0)
        cluster.apply([FeatureLevelRecord(METADATA_VERSION, told["level"])])
        decision = cluster.decide(alter_user_scram_credentials(request))
        cluster.apply([*decision.records, FeatureLevelRecord(METADATA_VERSION, 33)])

        assert by_user(told["response"]) == by_user(json_form(decision.response)), request
        assert in_order(told["records"]) == in_order([json_form(record) for record in decision.records]), request
        assert told["atomic"] == decision.atomic


def in_order(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A user has one at most, and whose comes first changes nothing."""
    return sorted(records, key=lambda record: record["name"])


def test_a_salted_password_becomes_two_keys() -> None:
    """RFC 7677 section 3: the credential that belongs to the example there, of user `user` with password `pencil`."""
    cluster, salt = Cluster(33), base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = bytes.fromhex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d")
    request = AlterUserScramCredentialsRequest(upsertions=(Set("user", SHA_256, 4096, salt, salted),))

    assert cluster.decide(alter_user_scram_credentials(request)).records == (
        UserScramCredentialRecord(
            "user",
            SHA_256,
            salt,
            stored_key=base64.b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
            server_key=base64.b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
            iterations=4096,
        ),
    )


def good(user: str, mechanism: int = SHA_256, iterations: int = 4096, salted_password: bytes = b"p") -> Set:
    return Set(user, mechanism, iterations, b"salt", salted_password)


def altered(cluster: Cluster, *asked: Delete | Set) -> list[tuple[str, ErrorCode]]:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in asked if isinstance(each, Delete)),
        upsertions=tuple(each for each in asked if isinstance(each, Set)),
    )
    response = cluster.write(alter_user_scram_credentials(request))
    return [(result.user, ErrorCode(result.error_code)) for result in response.results]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (good("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Delete("", 0), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (good("eve", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (good("eve", 3, iterations=1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Delete("eve", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (good("eve", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (good("eve", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (good("eve", salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Delete("eve", SHA_256), ErrorCode.RESOURCE_NOT_FOUND),
    ],
    ids=lambda value: str(value) if isinstance(value, ErrorCode) else type(value).__name__,
)
def test_one_user_that_cannot_be_does_not_keep_the_others(asked: Delete | Set, code: ErrorCode) -> None:
    """ScramControlManager: the name, then the mechanism, then the iterations or what there is to delete."""
    cluster = Cluster(33)

    assert sorted([(asked.name, code), ("bob", ErrorCode.NONE)]) == sorted(altered(cluster, asked, good("bob")))
    assert ["bob"] == [credential.name for credential in cluster.state.scram]


def test_a_user_is_changed_once_in_a_request_whatever_the_mechanisms() -> None:
    cluster = Cluster(33)
    assert [("bob", ErrorCode.NONE)] == altered(cluster, good("bob"))

    twice = altered(cluster, good("alice"), good("alice", SHA_512), Delete("bob", SHA_256), good("bob", SHA_512))

    assert [("bob", ErrorCode.DUPLICATE_RESOURCE), ("alice", ErrorCode.DUPLICATE_RESOURCE)] == twice
    assert [("bob", SHA_256)] == [(credential.name, credential.mechanism) for credential in cluster.state.scram]


def test_what_is_wrong_with_the_first_change_is_told_before_that_there_are_two() -> None:
    assert [("eve", ErrorCode.RESOURCE_NOT_FOUND)] == altered(Cluster(33), Delete("eve", SHA_256), good("eve"))


def test_there_are_none_before_the_version_that_brought_them() -> None:
    """3.5-IV2."""
    assert [("bob", ErrorCode.UNSUPPORTED_VERSION)] == altered(Cluster(10), good("bob"))
    assert [("bob", ErrorCode.NONE)] == altered(Cluster(11), good("bob"))


def test_a_deletion_takes_one_mechanism_away() -> None:
    cluster = Cluster(33)
    altered(cluster, good("bob"))
    altered(cluster, good("bob", SHA_512))
    request = AlterUserScramCredentialsRequest(deletions=(Delete("bob", SHA_512),))

    decision = cluster.decide(alter_user_scram_credentials(request))

    assert decision.records == (RemoveUserScramCredentialRecord("bob", SHA_512),)


def described(cluster: Cluster, *users: str) -> list[tuple[str, ErrorCode, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=tuple(Name(user) for user in users) if users else None)
    response = cluster.write(describe_user_scram_credentials(request))
    return [
        (each.user, ErrorCode(each.error_code), [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in response.results
    ]


def test_describes_everybody_by_name_or_who_is_asked_for_in_the_order_of_the_request() -> None:
    cluster = Cluster(33)
    altered(cluster, good("bob", SHA_512, iterations=8192), good("alice"))
    altered(cluster, good("bob", SHA_256))
    alice = ("alice", ErrorCode.NONE, [(SHA_256, 4096)])
    bob = ("bob", ErrorCode.NONE, [(SHA_256, 4096), (SHA_512, 8192)])

    assert [alice, bob] == described(cluster)
    assert [bob, ("eve", ErrorCode.RESOURCE_NOT_FOUND, []), alice] == described(cluster, "bob", "eve", "alice")
    assert [("bob", ErrorCode.DUPLICATE_RESOURCE, []), alice] == described(cluster, "bob", "alice", "bob")
    assert [] == described(Cluster(33))


def test_no_refusal_has_the_salted_password() -> None:
    secret = b"hunter2-hunter2"
    request = AlterUserScramCredentialsRequest(
        upsertions=tuple(
            good(user, mechanism, iterations=iterations, salted_password=secret)
            for user, mechanism, iterations in (("", 1, 4096), ("a", 9, 4096), ("b", 1, 1), ("c", 1, 99999))
        )
    )
    response = Cluster(33).write(alter_user_scram_credentials(request))

    assert 4 == sum(result.error_code != 0 for result in response.results)
    assert "hunter2" not in repr(response)
