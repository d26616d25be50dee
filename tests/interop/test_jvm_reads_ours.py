"""A Kafka release reads what Quorate wrote: its dump tool, its metadata shell, and a controller on our directory."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from deploy.local.broker import stand_in
from deploy.local.client import Admin
from deploy.local.plan import ClusterPlan, make_plan
from deploy.local.processes import Running
from kraft import Uuid
from quorate.cli.offline import load
from quorate.nouns import ReplicaKey
from quorate.raft.log import VotersChange
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet
from quorate.records import BeginTransactionRecord, TopicRecord
from services.quorum.batches import control_batch_of
from tests.cli.directories import END_OFFSET, a_history, batch, write_log
from tests.interop.kafka import release
from tests.interop.kafka.judge import DIRECTORY, dump_log, dumped_batches, files_of, metadata_shell, start_controller_on

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(release.absent() is not None, reason=str(release.absent())),
    pytest.mark.timeout(1_800),
]

TOPICS = {"orders": 3, "payments": 1}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> ClusterPlan:
    """A control plane that ran, created topics, and was stopped: its directories are at rest."""
    plan = make_plan(tmp_path_factory.mktemp("ours"))
    asyncio.run(_run(plan))
    return plan


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_its_dump_tool_finds_every_batch_valid(stopped: ClusterPlan, node_id: int) -> None:
    for path in files_of(stopped.log_dir(node_id)):
        batches = dumped_batches(dump_log(path))

        assert batches
        assert [batch.base_offset for batch in batches[1:]] == [batch.last_offset + 1 for batch in batches[:-1]]


def test_its_dump_tool_shows_the_records_that_were_written(stopped: ClusterPlan) -> None:
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


def test_its_metadata_shell_shows_our_topics(stopped: ClusterPlan) -> None:
    log = stopped.log_dir(1) / DIRECTORY / f"{0:020d}.log"
    shown = metadata_shell(log, "cat", "/image/topics/byName/orders/0")
    replicas = [int(broker) for broker in re.findall(r"replicas=\[([\d, ]+)\]", shown)[0].split(", ")]

    assert sorted(replicas) == [101, 102, 103]
    assert f"leader={replicas[0]}," in shown
    assert "leaderEpoch=0, partitionEpoch=0" in shown


def test_a_jvm_controller_starts_on_a_copy_of_our_directory(stopped: ClusterPlan, tmp_path: Path) -> None:
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


def test_a_jvm_controller_aborts_what_we_did_not_show_of_an_open_transaction(tmp_path: Path) -> None:
    begin, topic = BeginTransactionRecord("move"), TopicRecord("new", bytes(15) + b"\x63")
    write_log(tmp_path / "ours", [*a_history(), batch(2, END_OFFSET, (begin, 0), (topic, 0))])
    shown = load(tmp_path / "ours")
    data = tmp_path / "jvm" / "data"
    (tmp_path / "ours" / DIRECTORY / "quorum-state").unlink()
    with start_controller_on(tmp_path / "ours", tmp_path / "jvm") as controller:
        controller.wait_ready()
        controller.wait_until(lambda: load(data).transaction is None, "done with the transaction", 60)

    assert (
        {"foo.bar"} == {topic.name for topic in shown.state.topics} == {topic.name for topic in load(data).state.topics}
    )


def test_its_dump_tool_shows_the_voters_of_a_record_that_has_our_target(tmp_path: Path) -> None:
    """A tagged field that Kafka's schema does not know is in nobody's way, as in AlterQuorum's records."""
    voters = VoterSet(tuple(map(_voter, (1, 2, 3))))
    change = VotersChange(base_offset=0, epoch=1, voters=voters.walking_to(VoterSet(tuple(map(_voter, (2, 3, 4))))))
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(control_batch_of(change, timestamp_ms=1))
    (found,) = dumped_batches(dump_log(log))

    assert found.is_control
    assert [1, 2, 3] == [int(id) for id in re.findall(r'"voterId":(\d+)', found.lines[0])], found


def _voter(node_id: int) -> Voter:
    key = ReplicaKey(node_id, Uuid(bytes(15) + bytes([node_id])))
    return Voter(key=key, endpoints=(ListenerEndpoint("CONTROLLER", f"host{node_id}", 9093),))


def _ends_beyond(log: Path, end: int) -> bool:
    return any(batch.base_offset >= end for batch in dumped_batches(dump_log(log)))


async def _run(plan: ClusterPlan) -> None:
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
