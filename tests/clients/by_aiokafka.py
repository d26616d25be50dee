"""The admin calls of aiokafka: `python -m tests.clients.by_aiokafka SERVERS`. It returns codes where others raise."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from aiokafka import admin as api
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code
from aiokafka.structs import TopicPartition

from tests.clients.steps import Step, run

TOPIC: Final = "by-aiokafka"
Wait = Callable[[Coroutine[Any, Any, Any]], Any]


def main(servers: str) -> None:
    """Runs all steps at these servers."""
    with asyncio.Runner() as runner:
        admin = runner.run(_started(servers))
        run(_steps(admin, runner.run), lambda problem: type(problem).__name__)
        runner.run(admin.close())


async def _started(servers: str) -> api.AIOKafkaAdminClient:
    admin = api.AIOKafkaAdminClient(bootstrap_servers=servers.split(","))
    await admin.start()
    return admin


def _steps(admin: api.AIOKafkaAdminClient, wait: Wait) -> Iterator[Step]:
    def create(name: str, factor: int = 1, **configs: str) -> object:
        wanted = api.NewTopic(name, num_partitions=3, replication_factor=factor, topic_configs=configs)
        return _codes(wait(admin.create_topics([wanted])).topic_errors)

    def partitions() -> object:
        (found,) = wait(admin.describe_topics([TOPIC]))
        return f"{len(found['partitions'])} partitions"

    def alter(name: str, value: str, topic: str = TOPIC) -> object:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        return [
            for_code(each[0]).__name__ for answer in wait(admin.alter_configs([wanted])) for each in answer.resources
        ]

    def retention() -> object:
        wanted = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
        (answer,) = wait(admin.describe_configs([wanted]))
        return [each[1] for each in answer.resources[0][4] if each[0] == "retention.ms"]

    def grow(count: int) -> None:
        wait(admin.create_partitions({TOPIC: api.NewPartitions(count)}))

    def delete(topic: str) -> object:
        return _codes(wait(admin.delete_topics([topic])).topic_error_codes)

    def delete_records() -> object:
        return wait(admin.delete_records({TopicPartition(TOPIC, 0): api.RecordsToDelete(0)})).values()

    yield "brokers of the cluster", lambda: len(wait(admin.describe_cluster())["brokers"]), None
    yield "create a topic", lambda: create(TOPIC), None
    yield "create it again", lambda: create(TOPIC), None
    yield "create with too many replicas", lambda: create("too-many", 9), None
    yield "create with a bad name", lambda: create("a/b"), None
    yield "create with a bad config", lambda: create("bad", **{"retention.ms": "soon"}), None
    yield "describe the topic", partitions, lambda said: said == "3 partitions"
    yield "list topics", lambda: TOPIC in wait(admin.list_topics()), lambda said: said == "True"
    yield "set a config", lambda: alter("retention.ms", "60000"), None
    yield "set an unknown config", lambda: alter("nonsense", "1"), None
    yield "set a bad value", lambda: alter("retention.ms", "soon"), None
    yield "set a config of no topic", lambda: alter("retention.ms", "1", "nothing"), None
    yield "describe the config", retention, lambda said: "60000" in said
    yield "add a partition", lambda: grow(4), None
    yield "describe the topic", partitions, lambda said: said == "4 partitions"
    yield "take partitions away", lambda: grow(2), None
    yield "delete no records", delete_records, lambda said: "[0]" in said
    yield "consumer groups", lambda: wait(admin.list_consumer_groups()), None
    yield "delete the topic", lambda: delete(TOPIC), None
    yield "delete no topic", lambda: delete("nothing"), None


def _codes(topics: list[tuple[Any, ...]]) -> list[str]:
    return [f"{each[0]} {for_code(each[1]).__name__}" for each in topics]


if __name__ == "__main__":
    main(sys.argv[1])
