"""A broker's metrics: what it leads and follows, what has come and gone, and the page that has all of them (R68)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.records import ConfigRecord, PartitionChangeRecord
from quorate.replication import Altered, Batch, Fetched, Propose, Refused
from quorate.runtime.telemetry import cluster_metrics
from quorate.runtime.telemetry.metric_rows import Row, markdown
from quorate.runtime.telemetry.metrics import Value
from services.broker.metrics import ABSENT, ROWS, Watched, short
from services.broker.table import Hosted
from tests.partition_log.batches import placed, produced
from tests.services.broker import test_partitions
from tests.services.broker.test_partitions import BROKERS, LEVELS, ME, ORDERS, OTHER, TOPIC, Scene, partition, running
from tests.services.broker.test_transactions import leading

disks = test_partitions.disks
PAGE = (Path(__file__).parents[3] / "services" / "broker" / "METRICS.md").read_text()
ADDED = 103
OF_TOPIC = 2
"""A config resource's type."""


def seen(scene: Scene, *names: str) -> list[float]:
    """The values of these metrics, without `kraft.broker.`; of one with labels in their order."""
    watched = Watched(replicas=scene.replicas, state=lambda: scene.replica.state)
    rows = {row.name.removeprefix("kraft.broker."): row for row in ROWS}
    return [value for name in names for value, _ in _read(rows[name])(watched)]


def _read(row: Row[Watched]) -> Callable[[Watched], Iterable[Value]]:
    assert row.read is not None, row.name
    return row.read


def hosted(scene: Scene, index: int) -> Hosted:
    found = scene.replicas.table.named(TopicPartition("orders", index))
    assert found is not None, index
    return found


async def test_partitions_are_counted_as_kafka_counts_them(disks: list[Path]) -> None:
    """Of two replicas in an ISR of two, of one in an ISR of one, and a third replica that is being added."""
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS, ConfigRecord(OF_TOPIC, "orders", "min.insync.replicas", "2"))
        alone = replace(partition(1), isr=(ME,))
        directories = (*partition(2).directories, partition(2).directories[1])
        growing = replace(partition(2), replicas=(ME, OTHER, ADDED), adding_replicas=(ADDED,), directories=directories)
        scene.log.append(ORDERS, partition(0), alone, growing, partition(3, leader=OTHER))
        await scene.applied(lambda: len(scene.names) == 4)

        assert [4, 3] == seen(scene, "partitions", "partitions.led")
        assert [1, 1] == seen(scene, "partitions.under_replicated", "partitions.under_min_isr")
        assert [2, 1] == seen(scene, "partitions.at_min_isr", "partitions.reassigning")


async def test_changes_of_isrs_are_counted_over_the_epochs_of_a_leader(disks: list[Path]) -> None:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, partition(0))
        await scene.applied(lambda: len(scene.names) == 1)
        led = hosted(scene, 0)
        assert led.leading is not None
        produced_now = scene.replicas.now_ms + led.leading.settings.replica_lag_time_max_ms
        led.log.append_as_leader(produced(), epoch=0, now_ms=scene.replicas.wall_ms)
        (shrink,) = led.leading.check_isr(produced_now + 1)
        assert isinstance(shrink, Propose)
        answer = Altered(leader_epoch=0, partition_epoch=1, isr=frozenset({ME}), is_recovering=False)
        led.leading.take_altered(shrink.proposal, answer, now_ms=produced_now + 1)

        assert [0, 1, 0] == seen(scene, "isr.expands", "isr.shrinks", "isr.failed_updates")

        scene.log.append(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(ME,)))
        scene.log.append(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=ME))
        await scene.applied(lambda: led.leading is not None and led.leading.leader_epoch > 0)

        assert [0, 1, 0] == seen(scene, "isr.expands", "isr.shrinks", "isr.failed_updates")


async def test_a_follower_tells_how_far_behind_it_is_and_that_it_has_stopped(disks: list[Path]) -> None:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, partition(0, leader=OTHER))
        await scene.applied(lambda: len(scene.names) == 1)
        follower = hosted(scene, 0)
        role = follower.following
        assert role is not None
        request = role.next_request(0)
        assert request is not None
        data = placed(produced(count=2), offset=0, epoch=0)
        batch = Batch(base_offset=0, end_offset=2, epoch=0, data=data)
        fetched = Fetched(batches=(batch,), high_watermark=5, log_start=0)
        scene.replicas.carry_out(follower, role.take(request, fetched, now_ms=0))

        assert [3, 0] == seen(scene, "replica.lag", "replica.failed")
        assert [len(data), 0] == seen(scene, "replicated.bytes")

        request = role.next_request(0)
        assert request is not None
        scene.replicas.carry_out(follower, role.take(request, Refused(ErrorCode.FENCED_LEADER_EPOCH), now_ms=0))

        assert [1] == seen(scene, "replica.failed")


async def test_what_comes_and_goes_is_counted_once(disks: list[Path]) -> None:
    """A batch that is sent again is not counted again."""
    batch = produced(count=3, producer=(7, 0, 0), timestamp_ms=-1)
    async with leading(disks) as leader:
        for _ in range(2):
            await leader.produce((0, batch), transactional_id=None)

        assert [3, len(batch)] == seen(leader.scene, "produced.records", "produced.bytes")

        await leader.follow()

        assert [0, len(batch), 0] == seen(leader.scene, "replicated.bytes", "fetched.bytes")

        leader.replicate()
        await leader.read()

        assert [0, len(batch), len(batch)] == seen(leader.scene, "replicated.bytes", "fetched.bytes")


def test_the_page_has_the_table() -> None:
    assert "\n".join(markdown(ROWS, ABSENT, short)) in PAGE


def test_each_alert_is_on_metrics_that_there_are() -> None:
    """As Prometheus has their names: a counter's ends with _total."""
    rows = (*ROWS, *cluster_metrics.ROWS)
    ends = {"counter": "_total", "gauge": ""}
    named = {row.name.replace(".", "_") + ends[row.kind] for row in rows if row.kind in ends}
    alerts = set(re.findall(r"kraft_[a-z_]+", PAGE.partition("## Alerts")[2]))

    assert len(alerts) > 5
    assert alerts <= named
