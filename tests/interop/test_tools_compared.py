"""Tools of a Kafka release and two other clients at a controller of that release, and at a gateway: the same answers.

Sentences of refusals are each one's own, so of these the exceptions are compared; and so are offsets and times.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka import admin as confluent
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from deploy.kafka.node import ToolFailed, tool
from quorate.nouns import uuid_text
from tests.interop.alone import NODE, Alone, Start, kafka, ours
from tests.interop.kafka.fleet import TOOLS
from tests.interop.kafka.release import OPERATIONS_POM as POM
from tests.interop.kafka.release import absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent(POM) is not None, reason=absent(POM) or ""),
    pytest.mark.timeout(600),
]

BROKER: Final = 101
TOPIC: Final = "orders"
NO_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAABA"
QUORUM, FEATURES, CLUSTER = (TOOLS + name for name in ("MetadataQuorumCommand", "FeatureCommand", "ClusterTool"))
ACLS, TOPICS, ELECTION = (TOOLS + name for name in ("AclCommand", "TopicCommand", "LeaderElectionCommand"))
CONFIGS: Final = TOOLS + "ConfigCommand"  # 4.3.1 has it in another package
REASSIGN: Final = TOOLS + "reassign.ReassignPartitionsCommand"
OF_ALL: Final = ("--entity-type", "brokers", "--entity-default")
OF_TOPIC: Final = ("--alter", "--entity-type", "topics", "--entity-name")
OF_METRICS: Final = ("--entity-type", "client-metrics", "--entity-name", "bytes")
LOGGERS: Final = "loggers of the controller"
BAD_VALUE: Final = "a bad value for all brokers"
OURS: Final[Mapping[str, str]] = {
    LOGGERS: "refused: InvalidRequestException",  # there are no such loggers here
    BAD_VALUE: "refused: InvalidRequestException",  # by Kafka a broker refuses it that passes it on, and nobody here
}
"""What we answer by intent, where a Kafka controller grants it."""
CHANCE: Final = (
    (r"\d{13}", "TIME"),
    (r"(?<=Epoch: )\d+", "OFFSET"),
    (r"(?<=HighWatermark: )\s*\d+", "OFFSET"),
    (r"SupportedMaxVersion: (UNKNOWN )?\S+", "SupportedMaxVersion: ITS OWN"),
    (r" +", " "),
)


def commands(alone: Alone, directory: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    """What is asked, one after the other; each has the address of the controller in it."""
    moved, unknown, elected = (directory / f"{name}.json" for name in ("moved", "unknown", "elected"))
    for file, topic in ((moved, TOPIC), (unknown, "nothing")):
        wanted = {"topic": topic, "partition": 0, "replicas": [BROKER]}
        file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    elected.write_text(json.dumps({"partitions": [{"topic": TOPIC, "partition": 0}]}))
    at = ("--bootstrap-controller", alone.address)
    remove = (*at, "remove-controller", "--controller-id")

    yield "status", (QUORUM, *at, "describe", "--status")
    yield "remove of nobody", (QUORUM, *remove, 7, "--controller-directory-id", NO_DIRECTORY)
    only = uuid_text(alone.directory_id)
    yield "remove of the only voter", (QUORUM, *remove, NODE, "--controller-directory-id", only)
    yield "features", (FEATURES, *at, "describe")
    yield "the level that is there", (FEATURES, *at, "upgrade", "--feature", "group.version=1")
    yield "an unknown feature", (FEATURES, *at, "upgrade", "--feature", "nonsense=1")
    yield "an unknown level", (FEATURES, *at, "upgrade", "--feature", "group.version=9")
    yield "a downgrade that loses metadata", (FEATURES, *at, "downgrade", "--feature", "metadata.version=21")
    yield "a dry run", (FEATURES, *at, "downgrade", "--feature", "group.version=0", "--dry-run")
    yield "a config of all brokers", (CONFIGS, *at, "--alter", *OF_ALL, "--add-config", "log.cleaner.threads=2")
    yield "configs of all brokers", (CONFIGS, *at, "--describe", *OF_ALL)
    yield BAD_VALUE, (CONFIGS, *at, "--alter", *OF_ALL, "--add-config", "log.cleaner.threads=x")
    yield "a config of a topic", (CONFIGS, *at, *OF_TOPIC, TOPIC, "--add-config", "retention.ms=5")
    yield "an unknown config", (CONFIGS, *at, *OF_TOPIC, TOPIC, "--add-config", "nonsense=5")
    yield "a config of no topic", (CONFIGS, *at, *OF_TOPIC, "nothing", "--add-config", "retention.ms=5")
    yield "configs of a topic", (CONFIGS, *at, "--describe", "--entity-type", "topics", "--entity-name", TOPIC)
    yield "client metrics", (CONFIGS, *at, "--alter", *OF_METRICS, "--add-config", "interval.ms=5000")
    yield LOGGERS, (CONFIGS, *at, "--describe", "--entity-type", "broker-loggers", "--entity-name", NODE)
    yield "ACLs without an authorizer", (ACLS, *at, "--list")
    yield "endpoints", (CLUSTER, "list-endpoints", *at)
    yield "no such broker", (CLUSTER, "unregister", "--id", 7, *at)
    yield "no reassignment", (REASSIGN, *at, "--list")
    yield "a reassignment", (REASSIGN, *at, "--reassignment-json-file", moved, "--execute")
    yield "cancel of none", (REASSIGN, *at, "--reassignment-json-file", moved, "--cancel")
    yield "cancel for no topic", (REASSIGN, *at, "--reassignment-json-file", unknown, "--cancel")
    yield "an election", (ELECTION, *at, "--election-type", "preferred", "--path-to-json-file", elected)
    yield "topics, as if it were a broker", (TOPICS, "--bootstrap-server", alone.address, "--list")
    yield "unregistration", (CLUSTER, "unregister", "--id", BROKER, *at)


async def test_tools_and_other_clients_are_told_the_same(tmp_path: Path) -> None:
    found: dict[Start, dict[str, str]] = {}
    starts: tuple[Start, ...] = (kafka, ours)
    for start in starts:
        directory = tmp_path / start.__name__
        async with start(directory, 1, POM) as alone:
            await alone.unfence(BROKER)
            await alone.create(TOPIC, 2)
            found[start] = {what: await said(alone, directory, command) for what, command in commands(alone, directory)}
            found[start]["confluent-kafka"] = await asyncio.to_thread(by_confluent, alone.address)
            found[start]["kafka-python"] = await asyncio.to_thread(by_kafka_python, alone.address)

    assert found[kafka] | OURS == found[ours]
    assert OURS.items().isdisjoint(found[kafka].items())


async def said(alone: Alone, directory: Path, command: tuple[object, ...]) -> str:
    """What a tool printed without what chance decides; of a refusal the exception, or the first line."""
    try:
        text = await asyncio.to_thread(tool, *map(str, command), pom=POM)
    except ToolFailed as failed:
        _, _, text = str(failed).partition("\n")
        kinds = re.findall(r"\.errors\.(\w+Exception)", text)
        text = f"refused: {kinds[0] if kinds else text.strip().splitlines()[0].partition('.')[0]}"
    host, _, port = alone.address.rpartition(":")
    names = {
        alone.address: "ADDRESS", f"{host} {port}": "ADDRESS", alone.cluster_id: "CLUSTER",
        uuid_text(alone.directory_id): "DIRECTORY", str(directory): "FOLDER",
    }  # fmt: skip
    for name, instead in names.items():
        text = text.replace(name, instead)
    for pattern, instead in CHANCE:
        text = re.sub(pattern, instead, text)
    return re.sub(r"CurrentObservers: .*", "", text)  # our observer service is one


def by_confluent(address: str) -> str:
    client = confluent.AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return f"told {len(client.list_topics(timeout=30).topics)} topics"
    except confluent_kafka.KafkaException as refused:
        return str(refused.args[0].name())


def by_kafka_python(address: str) -> str:
    try:
        client = KafkaAdminClient(bootstrap_servers=address, bootstrap_timeout_ms=2_000)
    except KafkaError as refused:
        return type(refused).__name__
    client.close()
    return "told"
