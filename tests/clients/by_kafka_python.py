"""The admin calls of kafka-python: `python -m tests.clients.by_kafka_python SERVERS`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from kafka import admin as api

from tests.clients.steps import Step, run

TOPIC = "by-kafka-python"


def main(servers: str) -> None:
    """Runs all steps at these servers."""
    run(_steps(api.KafkaAdminClient(bootstrap_servers=servers.split(","))), lambda problem: type(problem).__name__)


def _steps(admin: api.KafkaAdminClient) -> Iterator[Step]:
    def create(name: str, factor: int = 1) -> None:
        admin.create_topics({name: {"num_partitions": 3, "replication_factor": factor}})

    def partitions() -> Any:
        (found,) = admin.describe_topics([TOPIC])
        return f"{len(found['partitions'])} partitions"

    def alter(name: str, value: str, topic: str = TOPIC) -> None:
        admin.alter_configs([api.ConfigResource(api.ConfigResourceType.TOPIC, topic, {name: value})])

    def retention() -> Any:
        described: Any = admin.describe_configs([api.ConfigResource(api.ConfigResourceType.TOPIC, TOPIC)])
        return described["topic"][TOPIC].get("retention.ms", {}).get("value")

    pattern = api.ResourcePattern(api.ResourceType.TOPIC, TOPIC)
    acl = api.ACL("User:a", "*", api.ACLOperation.READ, api.ACLPermissionType.ALLOW, pattern)
    like = api.ACLFilter("User:a", "*", api.ACLOperation.ANY, api.ACLPermissionType.ANY, pattern)

    yield "brokers of the cluster", lambda: len(admin.describe_cluster()["brokers"]), None
    yield "create a topic", lambda: create(TOPIC), None
    yield "create it again", lambda: create(TOPIC), None
    yield "create with too many replicas", lambda: create("too-many", 9), None
    yield "create with a bad name", lambda: create("a/b"), None
    yield "describe the topic", partitions, lambda said: said == "3 partitions"
    yield "set a config", lambda: alter("retention.ms", "60000"), None
    yield "set an unknown config", lambda: alter("nonsense", "1"), None
    yield "set a bad value", lambda: alter("retention.ms", "soon"), None
    yield "set a config of no topic", lambda: alter("retention.ms", "1", "nothing"), None
    yield "describe the config", retention, lambda said: said == "60000"
    yield "add a partition", lambda: _grow(admin, 4), None
    yield "describe the topic", partitions, lambda said: said == "4 partitions"
    yield "take partitions away", lambda: _grow(admin, 2), None
    yield "create an ACL", lambda: len(admin.create_acls([acl])["succeeded"]), None
    yield "describe ACLs", lambda: len(admin.describe_acls(like)[0]), lambda said: said == "1"
    yield "delete ACLs", lambda: [len(deleted) for _, deleted, _ in admin.delete_acls([like])], None
    yield "describe ACLs", lambda: len(admin.describe_acls(like)[0]), lambda said: said == "0"
    yield "delete the topic", lambda: admin.delete_topics([TOPIC]) and None, None
    yield "delete no topic", lambda: admin.delete_topics(["nothing"]) and None, None


def _grow(admin: api.KafkaAdminClient, count: int) -> None:
    admin.create_partitions({TOPIC: api.NewPartitions(count)})


if __name__ == "__main__":
    main(sys.argv[1])
