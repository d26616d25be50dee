"""What the metadata log makes of a broker's partitions: made, given their roles, given up, and put into directories."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kraft import Message, Uuid
from quorate.errors import ErrorCode
from quorate.nouns import NodeId, parse_uuid
from quorate.partition_log.names import LOG_STARTS, RECOVERY_POINTS
from quorate.partition_log.offset_checkpoints import TopicPartition, read_offsets, write_offsets
from quorate.records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode_record,
)
from quorate.replication import ReplicationSettings
from quorate.runtime.calls.health import IN_SYNC
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import CommittedBatch
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from quorate.wire.batch import data_batch, read_header
from services.broker.directories import LogDirectories
from services.broker.driver import BrokerDriver
from services.broker.in_sync import InSync
from services.broker.news import News
from services.broker.partitions import Partitions
from services.broker.replicas import Replicas
from services.broker.store import Opened, PartitionStore
from services.broker.table import Hosted
from tests.partition_log.batches import NOW_MS, produced
from tests.services.broker.test_directories import IDS, formatted

ME, OTHER = 101, 102
LEVEL = 29
"""4.2-IV1, which has log directories and metadata transactions."""
TOPIC = Uuid(bytes(range(16)))
DIRECTORIES = tuple(map(parse_uuid, IDS))
ELSEWHERE = parse_uuid("zzzzzzzzQ_W6vw9j6V3SwA")


class Log:
    """A metadata log that gets its batches from a test."""

    cluster_id = "ours"
    leader_id = 1
    is_led_elsewhere = False
    high_watermark = 0

    def __init__(self) -> None:
        self._batches: asyncio.Queue[tuple[Message, ...]] = asyncio.Queue()
        self.end = 0

    def append(self, *records: Message) -> None:
        self.end += len(records)
        self._batches.put_nowait(records)

    async def events(self) -> AsyncIterator[CommittedBatch]:
        offset = 0
        while True:
            values = [encode_record(record, _version(record)) for record in await self._batches.get()]
            data = data_batch(base_offset=offset, epoch=1, timestamp_ms=0, values=values)
            offset += len(values)
            yield CommittedBatch(header=read_header(data), data=data, high_watermark=offset)


def _version(record: Message) -> int:
    return {RegisterBrokerRecord: 3, PartitionRecord: 2, PartitionChangeRecord: 2}.get(type(record), 0)


class Followed:
    """Fetchers that fetch nothing: who would be fetched from whom."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, NodeId] = {}

    def start(self, hosted: Hosted, leader_id: NodeId) -> None:
        self.leaders[hosted.name] = leader_id

    def stop(self, hosted: Hosted) -> None:
        del self.leaders[hosted.name]

    def look_again(self, hosted: Hosted) -> None:
        """Nothing was looked at."""


class Scene:
    """A broker's partitions on two disks, by a log."""

    def __init__(self, disks: list[Path], new_store: type[PartitionStore] = PartitionStore) -> None:
        self.log = Log()
        self.replicas = Replicas(ME, ReplicationSettings(), SystemClock(), _raised)
        self.replicas.fetchers = self.followed = Followed()
        self.placed: list[TopicPartition] = []
        self.directories = LogDirectories(disks, ME)
        self.news = news = News()
        self.replica = Replica(self.log, SystemClock(), OFF, news.hear)
        self.store = new_store(self.directories)
        self.partitions = Partitions(
            self.replicas, self.store, self.replica, news, placed=lambda hosted: self.placed.append(hosted.name)
        )

    async def applied(self, is_there: Callable[[], bool]) -> None:
        """Waits until something is so."""
        async with asyncio.timeout(60):
            while not is_there():
                await self.partitions.applied(lambda _: True)

    async def replayed(self) -> None:
        """Waits until the whole log is replayed, within a transaction or not."""
        async for replayed in self.replica.changes():
            if replayed == self.log.end:
                return

    @property
    def names(self) -> list[str]:
        return sorted(str(hosted.name) for hosted in self.replicas.table)


def _raised(problem: BaseException) -> None:
    raise problem


@asynccontextmanager
async def running(disks: list[Path], new_store: type[PartitionStore] = PartitionStore) -> AsyncIterator[Scene]:
    scene = Scene(disks, new_store)
    tasks = [asyncio.ensure_future(each) for each in (scene.replica.run(), scene.partitions.run())]
    try:
        yield scene
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        scene.directories.release()


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two directories of broker 101."""
    return [formatted(tmp_path / text, parse_uuid(text), node_id=ME) for text in IDS]


def partition(index: int, *, leader: NodeId = ME, directory: Uuid = DIRECTORIES[0]) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=TOPIC,
        replicas=(ME, OTHER),
        isr=(ME, OTHER),
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=(directory, ELSEWHERE),
    )


LEVELS = FeatureLevelRecord("metadata.version", LEVEL)
BROKERS = tuple(
    RegisterBrokerRecord(broker_id=each, broker_epoch=5, fenced=False, rack=None, log_dirs=())
    for each in (ME, OTHER)
)  # fmt: skip
ORDERS = TopicRecord("orders", TOPIC)


async def test_leads_and_follows_what_the_log_gives_it(disks: list[Path]) -> None:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, partition(0), partition(1, leader=OTHER))
        await scene.applied(lambda: len(scene.names) == 2)
        first = scene.replicas.table.named(TopicPartition("orders", 0))
        assert first is not None

        assert first.leading is not None
        assert {TopicPartition("orders", 1): OTHER} == scene.followed.leaders
        assert ["orders-0", "orders-1"] == sorted(path.name for path in disks[0].glob("orders-*"))

        change = PartitionChangeRecord(partition_id=1, topic_id=TOPIC, leader=ME)
        scene.log.append(change)
        await scene.applied(lambda: not scene.followed.leaders)


class SlowStore(PartitionStore):
    """Its first log is opened only when a test lets it."""

    def __init__(self, directories: LogDirectories) -> None:
        super().__init__(directories)
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        self.has_ended = False

    def open(self, *arguments: Any) -> Opened:
        self.has_begun.set()
        assert self.may_go_on.wait(60)
        opened = super().open(*arguments)
        self.has_ended = True
        return opened


async def test_a_state_is_applied_only_with_what_was_replayed_while_logs_were_opened(disks: list[Path]) -> None:
    """Else a start would set aside, as strays, partitions that the log gives this broker."""
    async with running(disks, SlowStore) as scene:
        assert isinstance(scene.store, SlowStore)
        scene.log.append(LEVELS, *BROKERS, ORDERS, partition(0))
        await asyncio.to_thread(scene.store.has_begun.wait, 60)
        scene.log.append(partition(1))
        end = scene.log.end

        waiting = asyncio.ensure_future(scene.partitions.applied(lambda _: scene.replica.applied == end))
        async with asyncio.timeout(60):
            async for replayed in scene.replica.changes():
                if replayed == end:
                    break
            told = scene.replicas.applied
            scene.store.may_go_on.set()
            await waiting

        assert ["orders-0", "orders-1"] == scene.names
        assert (0, end) == (told, scene.replicas.applied)  # heartbeats let another broker stop only after this


async def test_a_start_applies_no_state_of_before_its_registration(disks: list[Path]) -> None:
    """The log is read from its last checkpoint or its beginning on: the topic was deleted and made again since."""
    async with running(disks) as before:
        before.log.append(LEVELS, *BROKERS, ORDERS, partition(0))
        await before.applied(lambda: before.names == ["orders-0"])
        (hosted,) = before.replicas.table
        hosted.log.append_as_leader(produced(count=3), epoch=0, now_ms=NOW_MS)
    scene = Scene(disks)
    earlier = Uuid(bytes([7] * 16))
    scene.log.append(LEVELS, TopicRecord("orders", earlier), msgspec.structs.replace(partition(0), topic_id=earlier))

    async def nothing(**_: object) -> None:
        """It is registered, and needs nobody."""

    serves = asyncio.Event()
    lifecycle: Any = SimpleNamespace(broker_epoch=5, register=nothing, run=nothing, get_ready=serves.set)
    parts: Any = SimpleNamespace(
        **{name: getattr(scene, name) for name in ("directories", "replicas", "replica", "news")},
        controllers=None,
        cluster=None,
        wire=SimpleNamespace(begin=lambda *_: None),
    )
    starting = asyncio.ensure_future(BrokerDriver(parts, lifecycle, timeout_ms=1).run())
    await scene.replayed()
    await asyncio.sleep(0.1)
    scene.log.append(RemoveTopicRecord(earlier), ORDERS, partition(0), *BROKERS)
    async with asyncio.timeout(60):
        await serves.wait()
    (found,) = scene.replicas.table

    assert (TopicPartition("orders", 0), 3) == (found.name, found.log.leo)
    assert ["orders-0"] == [path.name for path in disks[0].glob("orders-0*")]
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    scene.directories.release()


class Health:
    """The answers to probes."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    async def set_ready(self, is_ready: bool) -> None:
        """Readiness, which another test asks for."""

    async def tell_health(self, name: str, holds: bool) -> None:
        self.told.append((name, holds))


async def test_a_rollout_may_go_on_once_the_broker_takes_part_and_is_in_every_isr(disks: list[Path]) -> None:
    """Of a partition that it has and does not lead, too; and not again once it has left one ISR."""
    health = Health()

    async def has_now(isr: tuple[NodeId, ...]) -> None:
        scene.log.append(PartitionChangeRecord(partition_id=1, topic_id=TOPIC, isr=isr))
        await scene.replayed()
        await in_sync.look()

    async with running(disks) as scene:
        in_sync = InSync(ME, lambda: scene.replica.state, scene.replicas.table, health)
        scene.log.append(LEVELS, *BROKERS, ORDERS, partition(0), partition(1, leader=OTHER))
        await scene.applied(lambda: len(scene.names) == 2)
        await in_sync.look()
        before = list(health.told)
        await in_sync.set_ready(True)
        ready = list(health.told)
        await has_now((OTHER,))
        left = list(health.told)
        await has_now((OTHER, ME))
        await in_sync.set_ready(False)

    assert [] == before
    assert [(IN_SYNC, True)] == ready
    assert [(IN_SYNC, True), (IN_SYNC, False)] == left
    assert [True, False, True, False] == [holds for _, holds in health.told]


async def test_a_partition_that_is_not_open_yet_is_not_in_sync(disks: list[Path]) -> None:
    """Its ISR may have the broker from the time before: what is open here counts."""
    health = Health()
    async with running(disks, SlowStore) as scene:
        assert isinstance(scene.store, SlowStore)
        in_sync = InSync(ME, lambda: scene.replica.state, scene.replicas.table, health)
        scene.log.append(LEVELS, *BROKERS)
        waiting = asyncio.ensure_future(scene.partitions.applied(lambda state: bool(len(state.topics))))
        await scene.replayed()
        scene.log.append(ORDERS, partition(0))
        await scene.replayed()
        await in_sync.set_ready(True)
        before = list(health.told)
        scene.store.may_go_on.set()
        await waiting
        await in_sync.look()

    assert [] == before
    assert [(IN_SYNC, True)] == health.told


async def test_a_replica_that_is_still_copied_holds_up_no_rollout(disks: list[Path]) -> None:
    """A rebalance gives each broker one, and clients find a broker meanwhile, too."""
    health = Health()
    added = msgspec.structs.replace(partition(0, leader=OTHER), isr=(OTHER,), adding_replicas=(ME,))
    async with running(disks) as scene:
        in_sync = InSync(ME, lambda: scene.replica.state, scene.replicas.table, health)
        scene.log.append(LEVELS, *BROKERS, ORDERS, added)
        await scene.applied(lambda: len(scene.names) == 1)
        await in_sync.set_ready(True)

    assert [(IN_SYNC, True)] == health.told


async def test_what_a_metadata_transaction_makes_is_there_at_its_end(disks: list[Path]) -> None:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(BeginTransactionRecord("topics"), ORDERS, partition(0))
        scene.log.append(partition(1))
        await scene.replayed()

        assert [] == scene.names

        scene.log.append(EndTransactionRecord())
        await scene.applied(lambda: len(scene.names) == 2)


async def test_a_partition_that_goes_to_others_or_is_deleted_is_set_aside(disks: list[Path]) -> None:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, partition(0), partition(1))
        await scene.applied(lambda: len(scene.names) == 2)
        scene.log.append(
            PartitionChangeRecord(
                partition_id=0, topic_id=TOPIC, isr=(OTHER,), replicas=(OTHER,), leader=OTHER, directories=(ELSEWHERE,)
            )
        )
        await scene.applied(lambda: scene.names == ["orders-1"])
        scene.log.append(RemoveTopicRecord(TOPIC))
        await scene.applied(lambda: scene.names == [])
        aside = sorted(path.name.partition(".")[0] for path in scene.partitions.deleted)

        assert ["orders-0", "orders-1"] == aside
        assert all(path.is_dir() for path in scene.partitions.deleted)


async def test_the_controller_is_told_of_a_directory_that_it_does_not_know(disks: list[Path]) -> None:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, partition(0, directory=DIRECTORIES[1]), partition(1, directory=ELSEWHERE))
        await scene.applied(lambda: len(scene.names) == 2)

        assert [TopicPartition("orders", 1)] == scene.placed
        assert {"orders-0"} == {path.name for path in disks[1].glob("orders-*")}


async def test_a_log_start_is_noted_before_the_recovery_points(disks: list[Path]) -> None:
    """A kill between the two leaves records that were deleted, and none that was not is missed."""
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS, ORDERS, partition(0))
        await scene.applied(lambda: len(scene.names) == 1)
        files = [path.name for path, _ in scene.store.write_starts_and_recovery_points(scene.replicas.table)]

    assert [LOG_STARTS] * len(disks) + [RECOVERY_POINTS] * len(disks) == files


async def test_a_config_of_the_topic_counts_at_once(disks: list[Path]) -> None:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, partition(0))
        await scene.applied(lambda: len(scene.names) == 1)
        (hosted,) = scene.replicas.table
        scene.log.append(
            ConfigRecord(2, "orders", "min.insync.replicas", "2"),
            ConfigRecord(2, "orders", "retention.ms", "1000"),
            ConfigRecord(2, "orders", "flush.messages", "3"),
        )
        await scene.applied(lambda: hosted.log.settings.retention_ms == 1_000)

        assert hosted.leading is not None
        assert (2, 3) == (hosted.leading.min_insync_replicas, hosted.log.settings.flush_messages)


async def test_who_is_deposed_with_a_lower_min_isr_acknowledges_nothing(disks: list[Path]) -> None:
    """One application has both: the records are not in the new leader's log."""
    async with running(disks) as scene:
        min_isr = ConfigRecord(2, "orders", "min.insync.replicas", "2")
        scene.log.append(LEVELS, *BROKERS, ORDERS, min_isr, partition(0))
        await scene.applied(lambda: scene.names == ["orders-0"])
        (hosted,) = scene.replicas.table
        assert hosted.leading is not None
        hosted.log.append_as_leader(produced(count=3), epoch=0, now_ms=NOW_MS)
        scene.replicas.appended(hosted, hosted.leading)
        waiting = asyncio.ensure_future(scene.replicas.reached({hosted.key: 3}, timeout_ms=60_000))
        scene.log.append(
            PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(ME,), eligible_leader_replicas=(OTHER,))
        )
        await scene.applied(lambda: hosted.partition.partition_epoch == 1)
        scene.log.append(
            ConfigRecord(2, "orders", "min.insync.replicas", "1"),
            PartitionChangeRecord(
                partition_id=0, topic_id=TOPIC, leader=OTHER, isr=(OTHER,), eligible_leader_replicas=(ME,)
            ),
        )

        assert {hosted.key: ErrorCode.NOT_LEADER_OR_FOLLOWER} == await waiting
        assert 0 == hosted.partition.local.high_watermark


async def test_a_stop_while_logs_are_opened_leaves_no_mark_and_keeps_the_checkpoints(disks: list[Path]) -> None:
    """A log that nobody has opened may end in half a batch; what is known of it is still in the files, and only
    there."""
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS, ORDERS, partition(0))
        await scene.applied(lambda: scene.names == ["orders-0"])
        (hosted,) = scene.replicas.table
        for _ in range(3):
            hosted.log.append_as_leader(produced(), epoch=0, now_ms=NOW_MS)
        hosted.log.flush()
        hosted.log.raise_start(2)
        for path, offsets in scene.store.write_starts_and_recovery_points(scene.replicas.table):
            write_offsets(path, offsets)
        hosted.log.append_as_leader(produced(), epoch=0, now_ms=NOW_MS)
        hosted.log.abandon()
        os.truncate(hosted.log.directory / "00000000000000000000.log", 3 * len(produced()) + 7)
    async with running(disks) as stopped:
        end_in_order(stopped, stopped.store)

    assert {TopicPartition("orders", 0): 2} == read_offsets(disks[0] / LOG_STARTS)

    async with running(disks) as again:
        again.log.append(LEVELS, *BROKERS, ORDERS, partition(0))
        await again.applied(lambda: again.names == ["orders-0"])
        (hosted,) = again.replicas.table

        assert -1 == again.directories.previous_broker_epoch
        assert (2, 3) == (hosted.log.start, hosted.log.leo)

        again.store.set_strays_aside()
        end_in_order(again, again.store)
    async with running(disks) as last:
        assert 5 == last.directories.previous_broker_epoch


async def test_a_stop_waits_for_the_log_that_is_just_opened(disks: list[Path]) -> None:
    """A thread cannot be cancelled, and after the stop another process may open the log."""
    async with running(disks, SlowStore) as scene:
        assert isinstance(scene.store, SlowStore)
        scene.log.append(LEVELS, *BROKERS, ORDERS, partition(0))
        await asyncio.to_thread(scene.store.has_begun.wait, 60)
        letting = asyncio.ensure_future(_let_go_on(scene.store))
    has_ended = scene.store.has_ended
    await letting

    assert has_ended


async def _let_go_on(store: SlowStore) -> None:
    """After more turns of the loop than a stop takes that waits for nothing."""
    for _ in range(200):
        await asyncio.sleep(0)
    store.may_go_on.set()


def end_in_order(scene: Scene, store: PartitionStore) -> None:
    """The process has the broker epoch 5, and is stopped now."""
    lifecycle: Any = SimpleNamespace(broker_epoch=5)
    parts: Any = SimpleNamespace(directories=scene.directories, replicas=scene.replicas)
    driver = BrokerDriver(parts, lifecycle, timeout_ms=1)
    scene.directories.begin()
    driver.opens(store)
    driver.close()
