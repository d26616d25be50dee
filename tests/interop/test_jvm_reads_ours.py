"""A released Kafka reads what Quorate wrote: its dump tool, its metadata shell, and a controller on our directory."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from deploy.local.__main__ import stand_in
from deploy.local.client import Admin
from deploy.local.plan import Plan, make_plan
from deploy.local.processes import Running
from tests.interop.kafka import release
from tests.interop.kafka.judge import DIRECTORY, dump_log, dumped_batches, files_of, metadata_shell, start_controller_on

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(release.absent() is not None, reason=str(release.absent())),
    pytest.mark.timeout(600),
]

TOPICS = {"orders": 3, "payments": 1}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A control plane that ran, created topics, and was stopped: its directories are at rest."""
    plan = make_plan(tmp_path_factory.mktemp("ours"))
    asyncio.run(_run(plan))
    return plan


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_its_dump_tool_finds_every_batch_valid(stopped: Plan, node_id: int) -> None:
    for path in files_of(stopped.log_dir(node_id)):
        batches = dumped_batches(dump_log(path))

        assert batches
        assert [batch.base_offset for batch in batches[1:]] == [batch.last_offset + 1 for batch in batches[:-1]]


def test_its_dump_tool_shows_the_records_that_were_written(stopped: Plan) -> None:
    log = stopped.log_dir(1) / DIRECTORY / f"{0:020d}.log"
    records = [
        json.loads(line) for batch in dumped_batches(dump_log(log)) if not batch.is_control for line in batch.lines
    ]
    created = {
        record["data"]["name"]: record["data"]["topicId"] for record in records if record["type"] == "TOPIC_RECORD"
    }
    partitions = [record["data"] for record in records if record["type"] == "PARTITION_RECORD"]

    assert created.keys() == TOPICS.keys()
    for name, count in TOPICS.items():
        laid_down = [partition for partition in partitions if partition["topicId"] == created[name]]

        assert sorted(partition["partitionId"] for partition in laid_down) == list(range(count))
        assert all(sorted(partition["isr"]) == [101, 102, 103] for partition in laid_down)


def test_its_metadata_shell_shows_our_topics(stopped: Plan) -> None:
    log = stopped.log_dir(1) / DIRECTORY / f"{0:020d}.log"
    shown = metadata_shell(log, "cat", "/image/topics/byName/orders/0")
    replicas = [int(broker) for broker in re.findall(r"replicas=\[([\d, ]+)\]", shown)[0].split(", ")]

    assert sorted(replicas) == [101, 102, 103]
    assert f"leader={replicas[0]}," in shown
    assert "leaderEpoch=0, partitionEpoch=0" in shown


def test_a_jvm_controller_starts_on_a_copy_of_our_directory(stopped: Plan, tmp_path: Path) -> None:
    """It replays strictly: whatever does not fit the record before ends its process. Then it goes on from our log.

    Our quorum had three voters; the copy is a quorum by itself, so the file that says who voted is left out.
    """
    source = tmp_path / "source"
    shutil.copytree(stopped.log_dir(1), source)
    (source / DIRECTORY / "quorum-state").unlink()
    end = dumped_batches(dump_log(source / DIRECTORY / f"{0:020d}.log"))[-1].last_offset + 1
    with start_controller_on(source, tmp_path / "jvm") as controller:
        controller.wait_ready()
        log = tmp_path / "jvm" / "data" / DIRECTORY / f"{0:020d}.log"
        controller.wait_until(lambda: _ends_beyond(log, end), "it goes on from our last record", 60)
    batches = dumped_batches(dump_log(log))
    following = [batch for batch in batches if batch.base_offset >= end]

    assert following[0].base_offset == end
    assert following[0].is_control
    assert following[0].epoch > max(batch.epoch for batch in batches if batch.last_offset < end)


def _ends_beyond(log: Path, end: int) -> bool:
    return any(batch.base_offset >= end for batch in dumped_batches(dump_log(log)))


async def _run(plan: Plan) -> None:
    running, admin = Running(plan), Admin(plan)
    brokers = [stand_in(plan, broker_id) for broker_id in plan.brokers]
    try:
        await running.start()
        for broker in brokers:
            await broker.start()
        for name, count in TOPICS.items():
            answer, _ = await admin.create_topic(name, partitions=count, replication_factor=3)
            assert not answer.topics[0].error_code, answer
    finally:
        for broker in brokers:
            await broker.close()
        await admin.close()
        await running.stop()
