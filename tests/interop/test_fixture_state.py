"""The metadata log of a Kafka release, replayed by us, is the cluster that its own Admin client saw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from quorate.metadata.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from quorate.metadata.state import ClusterState
from quorate.nouns import uuid_text
from quorate.records import LeaderChangeMessage, VotersRecord, decode_record
from quorate.wire.batch import ControlType, batches, data_values, records
from quorate.wire.codec import decode

FIXTURES: Final = Path(__file__).parent / "fixtures"
DIRECTORY: Final = "__cluster_metadata-0"
LISTENER: Final = "PLAINTEXT"
KINDS: Final = {TOPIC: "TOPIC", BROKER: "BROKER", CLIENT_METRICS: "CLIENT_METRICS", GROUP: "GROUP"}
INHERITED: Final = {"max.message.bytes": "message.max.bytes", "min.insync.replicas": "min.insync.replicas"}
"""Configs of a topic that it has from the default of all brokers, by the name they have there."""


class Case(NamedTuple):
    """A node's metadata log, and a moment that lies in it."""

    node: Path
    moment: str
    end: int


@cache
def moments(cluster: Path) -> dict[str, Any]:
    return {each["moment"]: each for each in json.loads((cluster / "described.json").read_text())}


def cases() -> Iterator[Case]:
    """Every node with every moment that its log reaches, and that is not before the log's begin."""
    for node in sorted(path for path in FIXTURES.glob("*/*") if path.is_dir()):
        data = log_of(node).read_bytes()
        *_, (_, last) = batches(data)
        for moment, seen in moments(node.parent).items():
            end = seen["quorum"]["highWatermark"]
            if begin_of(node) <= end <= last.next_offset:
                yield Case(node, moment, end)


def log_of(node: Path) -> Path:
    (log,) = (node / DIRECTORY).glob("*.log")
    return log


def begin_of(node: Path) -> int:
    return int(log_of(node).stem)


@cache
def replayed(case: Case) -> ClusterState:
    """The state below `case.end`: from the checkpoint that the log begins with, if it does not begin at 0."""
    state = ClusterState()
    if begin_of(case.node):
        (checkpoint,) = (case.node / DIRECTORY).glob(f"{begin_of(case.node):020}-*.checkpoint")
        state.load((decode_record(value) for _, value in values(checkpoint)), begin_of(case.node))
    for offset, value in values(log_of(case.node)):
        if offset < case.end:
            state.apply(decode_record(value), offset)
            state.settle()
    return state


def values(path: Path) -> Iterator[tuple[int, bytes]]:
    data = path.read_bytes()
    for position, header in batches(data):
        if not header.is_control:
            yield from enumerate(data_values(data, position, header), header.base_offset)


every_case = pytest.mark.parametrize(
    "case", list(cases()), ids=lambda case: f"{case.node.parent.name}/{case.node.name}, {case.moment}"
)


@every_case
def test_topics_and_partitions(case: Case) -> None:
    ours = {
        topic.name: {
            "topicId": uuid_text(topic.id),
            "internal": False,
            "partitions": [
                {
                    "partition": number,
                    "leader": partition.leader,
                    "replicas": list(partition.replicas),
                    "isr": list(partition.isr),
                    "elr": list(partition.elr),
                    "lastKnownElr": list(partition.last_known_elr),
                }
                for number, partition in topic.partitions.items()
            ],
        }
        for topic in replayed(case).topics
    }

    assert seen(case)["topics"] == ours


@every_case
def test_brokers(case: Case) -> None:
    ours = []
    for broker in replayed(case).brokers:
        (end_point,) = (each for each in broker.end_points if each.name == LISTENER)
        where = {"host": end_point.host, "port": end_point.port}
        ours.append({"id": broker.id, **where, "rack": broker.rack, "fenced": broker.fenced})

    assert seen(case)["brokers"] == ours


@every_case
def test_configs_of_topics(case: Case) -> None:
    configs = replayed(case).configs
    default = configs.of(BROKER, "")
    for each in seen(case)["configs"]:
        if each["type"] == "TOPIC":
            own = configs.of(TOPIC, each["name"])
            inherited = {name: default[there] for name, there in INHERITED.items() if there in default}

            assert dynamic(each, "DYNAMIC_TOPIC_CONFIG") == own
            assert dynamic(each, "DYNAMIC_DEFAULT_BROKER_CONFIG") == {
                name: value for name, value in inherited.items() if name not in own
            }


@every_case
def test_configs_of_brokers(case: Case) -> None:
    configs = replayed(case).configs
    for each in seen(case)["configs"]:
        if each["type"] == "BROKER" and each["dynamic"] is not None:
            source = "DYNAMIC_BROKER_CONFIG" if each["name"] else "DYNAMIC_DEFAULT_BROKER_CONFIG"

            assert dynamic(each, source) == configs.of(BROKER, each["name"])


@every_case
@pytest.mark.parametrize("kind", ["CLIENT_METRICS", "GROUP"])
def test_configs_of_groups_and_client_metrics(case: Case, kind: str) -> None:
    configs = replayed(case).configs
    theirs = {
        each["name"]: dynamic(each, f"DYNAMIC_{kind}_CONFIG") for each in seen(case)["configs"] if each["type"] == kind
    }

    assert theirs == {name: configs.of(number, name) for number, name in configs if KINDS[number] == kind}


@every_case
def test_no_resource_has_configs_that_kafka_does_not_see(case: Case) -> None:
    theirs = {(each["type"], each["name"]) for each in seen(case)["configs"]}

    assert {(KINDS[kind], name) for kind, name in replayed(case).configs} <= theirs


@every_case
def test_reassignments(case: Case) -> None:
    ours = [
        {
            "topic": topic.name,
            "partition": number,
            "replicas": list(partition.replicas),
            "adding": list(partition.adding_replicas),
            "removing": list(partition.removing_replicas),
        }
        for topic, number, partition in replayed(case).topics.reassigning()
    ]

    assert seen(case)["reassignments"] == ours


@every_case
def test_quotas(case: Case) -> None:
    quotas = replayed(case).client_quotas
    theirs = {tuple(sorted(each["entity"].items())): each["values"] for each in seen(case)["quotas"]}

    assert theirs == {entity: quotas.of(entity) for entity in quotas}


@every_case
def test_acls(case: Case) -> None:
    ours = [
        (
            *(entry.resource_type, entry.resource_name, entry.pattern_type),
            *(entry.principal, entry.host, entry.operation, entry.permission_type),
        )
        for entry in replayed(case).acls
    ]

    assert sorted(tuple(each.values()) for each in seen(case)["acls"]) == sorted(ours)


@every_case
def test_scram_users(case: Case) -> None:
    ours = [(entry.name, entry.mechanism, entry.iterations) for entry in replayed(case).scram]

    assert sorted(tuple(each.values()) for each in seen(case)["scram"]) == sorted(ours)


@every_case
def test_features(case: Case) -> None:
    theirs = {name: level for name, level in seen(case)["features"].items() if name != "kraft.version"}

    assert theirs == replayed(case).features.finalized()


@every_case
def test_leader_epoch_and_voters(case: Case) -> None:
    quorum = seen(case)["quorum"]
    leader, voters = controls(case)

    assert voters is None or quorum["voters"] == [
        {"id": each.voter_id, "directoryId": uuid_text(each.voter_directory_id), "logEndOffset": end}
        for each, end in zip(voters.voters, (each["logEndOffset"] for each in quorum["voters"]), strict=True)
    ]
    assert leader is None or (quorum["leaderEpoch"], quorum["leaderId"]) == leader


def test_the_cluster_id_is_in_meta_properties() -> None:
    for case in cases():
        assert f"cluster.id={seen(case)['clusterId']}" in (case.node / "meta.properties").read_text()


def test_the_moments_hold_what_is_hard() -> None:
    """Else the tests above could pass on clusters where nothing ever happened."""
    every = [each for cluster in FIXTURES.glob("*/") for each in moments(cluster).values()]
    partitions = [each for moment in every for topic in moment["topics"].values() for each in topic["partitions"]]

    assert any(each["elr"] for each in partitions)
    assert any(each["lastKnownElr"] for each in partitions)
    assert any(each["leader"] == -1 for each in partitions)
    assert any(broker["fenced"] for moment in every for broker in moment["brokers"])
    for what in ("reassignments", "quotas", "acls", "scram"):
        assert any(moment[what] for moment in every), what


def seen(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = moments(case.node.parent)[case.moment]
    return found


def dynamic(described: dict[str, Any], source: str) -> dict[str, str]:
    return {each["name"]: each["value"] for each in described["dynamic"] if each["source"] == source}


def controls(case: Case) -> tuple[tuple[int, int] | None, VotersRecord | None]:
    """(epoch, leader) and the voter set, by the last control records below the moment; None without one."""
    leader, voters = None, None
    data = log_of(case.node).read_bytes()
    for position, header in batches(data):
        if header.is_control and header.base_offset < case.end:
            for record in records(data, position, header):
                kind, value = ControlType(int.from_bytes((record.key or b"")[2:])), record.value or b""
                if kind is ControlType.LEADER_CHANGE:
                    change = decode(LeaderChangeMessage, value, int.from_bytes(value[:2]))
                    leader = header.epoch, change.leader_id
                elif kind is ControlType.KRAFT_VOTERS:
                    voters = decode(VotersRecord, value, int.from_bytes(value[:2]))
    return leader, voters
