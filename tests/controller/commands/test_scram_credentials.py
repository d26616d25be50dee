"""SCRAM credentials as a Kafka release changes and describes them, and what no refusal shows."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from quorate.controller.commands.alter_user_scram_credentials import alter_user_scram_credentials
from quorate.controller.commands.describe_user_scram_credentials import describe_user_scram_credentials
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import FeatureLevelRecord
from quorate.wire.codec import decode
from quorate.wire.protobuf import json_form
from tests.controller.clusters import Cluster
from tests.controller.tables.alter_user_scram_credentials import sets

TOLD = [
    json.loads(line) for line in (Path(__file__).parents[1] / "kafka/scram_credentials.jsonl").read_text().splitlines()
]


def by_user(response: dict[str, Any]) -> dict[str, Any]:
    """The answer on each user, but for the words; Kafka's order is that of a hash table."""
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


def test_no_refusal_has_the_salted_password() -> None:
    secret = b"hunter2-hunter2"
    request = AlterUserScramCredentialsRequest(
        upsertions=tuple(
            sets(user, mechanism, iterations, salted_password=secret)
            for user, mechanism, iterations in (("", 1, 4096), ("a", 9, 4096), ("b", 1, 1), ("c", 1, 99999))
        )
    )
    response = Cluster(33).write(alter_user_scram_credentials(request))

    assert 4 == sum(result.error_code != 0 for result in response.results)
    assert "hunter2" not in repr(response)
