"""Our table of metrics names every quorum metric of a Kafka release, as Kafka spells it."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator

import pytest

from deploy.kafka.release import jars, version
from quorate.runtime.telemetry import cluster_metrics
from services.broker import metrics as broker_metrics
from services.controller import metrics as controller_metrics
from services.heartbeat import metrics as heartbeat_metrics
from services.quorum.metrics import CONTROLLER, RAFT, ROWS, SNAPSHOT
from tests.interop.kafka.release import absent

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=str(absent()))]

UTF8 = 1
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of a constant after its tag, by the tag; a long and a double (5, 6) take two numbers."""
NOT_METRICS = {
    *("append-records", "fetch-records", "poll-idle-ratio", "commit-latency", "election-latency"),
    *("prospective-voted", "unattached-voted"),
}
"""Sensors, under which metrics are kept, and values of current-state."""


def constants(jar: str, name: str) -> Iterator[str]:
    """Every text in a class: names are constants in Kafka."""
    with zipfile.ZipFile(jars() / f"{jar}-{version()}.jar") as archive:
        data = archive.read(name)
    count, at = int.from_bytes(data[8:10], "big"), 10
    number = 1
    while number < count:
        tag = data[at]
        if tag == UTF8:
            size = int.from_bytes(data[at + 1 : at + 3], "big")
            yield data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            at += 1 + SIZES[tag]
        number += 2 if tag in (5, 6) else 1


def ours(prefix: str) -> set[str]:
    return {name.removeprefix(prefix) for row in ROWS for name in row.kafka if name.startswith(prefix)}


def test_raft_metrics() -> None:
    texts = set(constants("kafka-raft", "org/apache/kafka/raft/internals/KafkaRaftMetrics.class"))
    theirs = {text for text in texts if re.fullmatch(r"[a-z]+(-[a-z]+)+", text)} - NOT_METRICS

    assert theirs == ours(RAFT)


def test_metrics_of_the_snapshot_emitter() -> None:
    texts = set(constants("kafka-metadata", "org/apache/kafka/image/publisher/metrics/SnapshotEmitterMetrics.class"))
    theirs = {text for text in texts if re.fullmatch(r"LatestSnapshot[A-Za-z]+", text)}

    assert theirs == ours(SNAPSHOT)


def test_the_controller_says_whether_static_voters_are_ignored() -> None:
    texts = set(constants("kafka-metadata", "org/apache/kafka/controller/metrics/ControllerMetadataMetrics.class"))

    assert ours(CONTROLLER) == {"IgnoredStaticVoters"} <= texts


def in_control(prefix: str) -> set[str]:
    """Names that controller, heartbeat service and observers have for Kafka's, without the quorum's."""
    rows = (*cluster_metrics.ROWS, *controller_metrics.ROWS, *controller_metrics.ISR_ROWS, *heartbeat_metrics.ROWS)
    return {name.removeprefix(prefix) for row in rows for name in row.kafka if name.startswith(prefix)}


def test_metrics_of_the_controller() -> None:
    of = "org/apache/kafka/controller/metrics/"
    texts = {
        text
        for name in ("QuorumControllerMetrics", "ControllerMetadataMetrics")
        for text in constants("kafka-metadata", f"{of}{name}.class")
    }
    named = in_control(CONTROLLER) | in_control(controller_metrics.QUEUE)
    endings = "Count|Ms|Offset|Timestamp|Ratio|State|PerSec"
    theirs = {text for text in texts if re.fullmatch(rf"([A-Z][a-z]+)+({endings})", text)}

    assert named <= texts
    assert theirs - named - {"IgnoredStaticVoters"} == controller_metrics.ABSENT.keys()


def test_metrics_of_a_replica() -> None:
    texts = set(constants("kafka-server", "org/apache/kafka/server/metrics/BrokerServerMetrics.class"))

    assert in_control(cluster_metrics.BROKER) <= texts


def test_metrics_of_brokers_that_are_of_the_cluster_here() -> None:
    texts = {text for name in ("", "$") for text in constants("kafka_2.13", f"kafka/server/ReplicaManager{name}.class")}
    named = in_control(controller_metrics.REPLICAS)

    assert {"UnderReplicatedPartitions", "UnderMinIsrPartitionCount"} <= named <= texts
    assert {name for name in texts if re.fullmatch(r"(Failed)?Isr[A-Z][A-Za-z]+PerSec", name)} <= named


def in_a_broker(prefix: str) -> set[str]:
    return {name.removeprefix(prefix) for row in broker_metrics.ROWS for name in row.kafka if name.startswith(prefix)}


def test_metrics_of_a_broker() -> None:
    """Of replicas, fetchers and log directories all, there or absent with a reason; of records those that are there."""
    texts = {
        text
        for name in ("server/ReplicaManager$", "server/AbstractFetcherManager", "log/LogManager")
        for text in constants("kafka_2.13", f"kafka/{name}.class")
    }
    endings = "Count|PerSec|Partitions|Lag|Rate"
    theirs = {text for text in texts if re.fullmatch(rf"[A-Z][a-z]+[A-Za-z]*({endings})", text)}
    named = in_a_broker(broker_metrics.REPLICAS) | in_a_broker(broker_metrics.FETCHERS)

    assert theirs - named == broker_metrics.ABSENT.keys()
    assert named <= theirs
    of_records = set(constants("kafka-storage", "org/apache/kafka/storage/log/metrics/BrokerTopicMetrics.class"))
    assert set() < in_a_broker(broker_metrics.TOPICS) <= of_records
