"""The image for people: Kafka's words, ids as text, no secrets."""

from __future__ import annotations

import json
from random import Random

from kraft import Uuid
from quorate.cli.image_json import as_json
from quorate.controller.secrets import REDACTED
from quorate.doubles import dumps
from quorate.metadata.state import ClusterState
from quorate.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
    UnknownRecord,
    UserScramCredentialRecord,
)
from tests.metadata.histories import write

ID = Uuid(bytes(15) + b"\x77")


def image_of(*records: object) -> dict[str, object]:
    state = ClusterState()
    for offset, record in enumerate(records):
        state.apply(record, offset)  # type: ignore[arg-type]
    shown = as_json(state)
    dumps(shown)
    return shown


def test_a_topic_with_its_partitions_by_number() -> None:
    image = image_of(
        TopicRecord("orders", ID), PartitionRecord(0, ID, (1, 2), (1,), (), (), 1, 1, 5, 7, (ID, ID), (2,), None)
    )

    assert image["topics"] == {
        "orders": {
            "topicId": "AAAAAAAAAAAAAAAAAAAAdw",
            "partitions": {
                "0": {
                    "replicas": [1, 2],
                    "directories": ["AAAAAAAAAAAAAAAAAAAAdw", "AAAAAAAAAAAAAAAAAAAAdw"],
                    "isr": [1],
                    "removingReplicas": [],
                    "addingReplicas": [],
                    "elr": [2],
                    "lastKnownElr": [],
                    "leader": 1,
                    "leaderRecoveryState": "RECOVERING",
                    "leaderEpoch": 5,
                    "partitionEpoch": 7,
                }
            },
        }
    }


def test_secrets_are_not_in_it() -> None:
    image = image_of(
        UserScramCredentialRecord("alice", 2, b"SALT", b"STORED", b"SERVER", 8192),
        ConfigRecord(4, "1", "listener.name.tls.ssl.keystore.password", "hunter2"),
        ConfigRecord(4, "1", "listener.name.tls.scram-sha-256.sasl.jaas.config", "hunter2"),
        ConfigRecord(4, "1", "my.plugin.api.key", "hunter2"),
        ConfigRecord(4, "1", "log.retention.ms", "60000"),
    )

    hidden = {"iterations": 8192, "salt": REDACTED, "storedKey": REDACTED, "serverKey": REDACTED}
    assert {"SCRAM-SHA-512": {"alice": hidden}} == image["scram"]
    assert "60000" in json.dumps(image["configs"])
    for secret in (b"SALT", b"STORED", b"SERVER", b"hunter2"):
        assert secret.decode() not in json.dumps(image)
        assert secret.hex() not in json.dumps(image)


def test_levels_entries_and_the_unknown_have_names() -> None:
    image = image_of(
        FeatureLevelRecord("metadata.version", 25),
        AccessControlEntryRecord(ID, 2, "orders", 4, "User:alice", "*", 3, 2),
        UnknownRecord(99, 1, b"\xab"),
    )

    assert image["features"] == {
        "finalizedVersions": {"metadata.version": 25},
        "metadata.version": "4.0-IV3",
        "zkMigrationState": None,
    }
    assert image["acls"] == {
        "AAAAAAAAAAAAAAAAAAAAdw": {
            "id": "AAAAAAAAAAAAAAAAAAAAdw",
            "resourceType": "TOPIC",
            "resourceName": "orders",
            "patternType": "PREFIXED",
            "principal": "User:alice",
            "host": "*",
            "operation": "READ",
            "permissionType": "DENY",
        }
    }
    assert image["unknownRecords"] == [{"apiKey": 99, "version": 1, "body": "ab"}]


def test_any_state_can_be_shown() -> None:
    for seed in range(20):
        image = image_of(*write(Random(seed), 60))
        assert {"features", "cluster", "topics", "configs", "clientQuotas", "producerIds"} <= set(image)
