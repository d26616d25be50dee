"""What-if analysis: the loss of brokers or racks, with the new leaders, offline partitions and small ISRs that follow.

The controller fences one broker after another; `quorate.what_if` does the same with the controller's own commands, in a
Python worker, on the cluster's state. A controlled shutdown of a broker has the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as fn

from quorate.controller.configs.settings import ControllerSettings
from quorate.metadata.partitions import Partition, led_uncleanly
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, Offset
from quorate.what_if import lose
from quorate.what_if.min_isrs import MinIsrs
from services.pipeline.gold.clusters import Cluster, clusters, rows_of_clusters
from services.pipeline.silver.image import HISTORIES, SILVER
from services.pipeline.silver.present import MIN_ISR, MIN_ISR_DEFAULT, present
from services.pipeline.tables import Computed, Tables

__all__ = ["Fate", "Loss", "consequences", "fates", "what_if"]

SHOWN_MAX: Final = 50
"""Most brokers and most partitions that are listed one by one."""
_SCHEMA: Final = pa.schema({"cluster_id": pa.string(), "line": pa.string(), "refusal": pa.string()})


class Loss(NamedTuple):
    """The loss of these brokers, in this order, then of those of these racks by id.

    With `prefer`, preferred leaders are elected afterwards, like `kafka-leader-election --election-type preferred`
    (KIP-460). `min_isr` is assumed if no record sets it.
    """

    brokers: Sequence[NodeId] = ()
    racks: Sequence[str] = ()
    prefer: bool = False
    min_isr: int = MIN_ISR_DEFAULT


class UnknownLoss(LookupError):
    """A broker or a rack that the cluster does not have, or none at all."""


class Fate(NamedTuple):
    """A partition before and after the loss.

    `min_isrs` are its min.insync.replicas before and after, as its leader has it then (KIP-226).
    """

    topic: str
    partition_id: int
    was: Partition
    will: Partition
    min_isrs: tuple[int, int]

    @property
    def goes_offline(self) -> bool:
        """Whether the loss takes its leader, and there is no other."""
        return self.was.has_leader and not self.will.has_leader


def what_if(tables: Tables, cluster_id: str | None, loss: Loss, *, at_offset: Offset | None = None) -> list[str]:
    """Returns the lines that tell the consequences of a loss as of an offset, or now.

    `cluster_id` may be None if there is only one cluster. Raises LookupError for a negative offset, without silver, for
    an unknown cluster, broker or rack, and if nothing is lost.
    """
    if at_offset is not None and at_offset < 0:
        raise LookupError(f"offset {at_offset} is negative; offsets begin at 0")
    found = {name: tables.read(f"{SILVER}/{name}") for name in (*HISTORIES, "events")}
    silver = {name: table for name, table in found.items() if table is not None}
    if len(silver) < len(found):
        raise LookupError("there is no silver to ask: run silver before")
    if cluster_id is None:
        ids = silver["events"].select("cluster_id").distinct().orderBy("cluster_id").limit(SHOWN_MAX).collect()
        if len(ids) != 1:
            named = ", ".join(row[0] for row in ids)
            raise LookupError(f"there are several clusters; say which with --cluster-id: {named}")
        cluster_id = ids[0][0]
    of_cluster = {name: table.where(fn.col("cluster_id") == cluster_id) for name, table in silver.items()}
    name = f"cluster {cluster_id!r}" + ("" if at_offset is None else f" as of offset {at_offset}")

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for cluster in clusters(batches):
            try:
                lines, refusal = list(consequences(cluster, loss, name)), None
            except UnknownLoss as problem:
                lines, refusal = [""], str(problem)
            count = len(lines)
            yield pa.table([[cluster.id] * count, lines, [refusal] * count], schema=_SCHEMA)

    told = Computed(rows_of_clusters(present(of_cluster, at_offset)), compute, _SCHEMA).frame().collect()
    if not told:
        raise LookupError(f"there is no {name}")
    if told[0]["refusal"] is not None:
        raise LookupError(told[0]["refusal"])
    return [row["line"] for row in told]


def consequences(cluster: Cluster, loss: Loss, name: str) -> Iterator[str]:
    """Yields the lines: counts before and after, each broker's leaderships, and the partitions that go offline.

    Raises UnknownLoss, with the cluster's `name`, for an unknown broker or rack, and if nothing is lost.
    """
    state = cluster.state
    lost = _lost(state, loss, name)
    fenced = {each.id for each in state.brokers if each.fenced}
    found = fates(state, [each for each in lost if each not in fenced], loss, next_offset=cluster.end.offset)
    left = sum(each.id not in lost and each.id not in fenced for each in state.brokers)
    yield f"cluster {cluster.id} as of offset {cluster.end.offset}, without broker {', '.join(map(str, lost))}"
    yield f"  {len(found)} partitions, {left} brokers left"
    sides = [(each.was, each.min_isrs[0]) for each in found], [(each.will, each.min_isrs[1]) for each in found]
    offline = [sum(not each.has_leader for each, _ in side) for side in sides]
    under = [sum(not each.has_leader or len(each.isr) < least for each, least in side) for side in sides]
    yield f"  offline: {offline[0]} → {offline[1]}"
    yield f"  under min ISR: {under[0]} → {under[1]}"
    moves = (each.was.has_leader and each.will.has_leader and each.was.leader != each.will.leader for each in found)
    yield f"  leaders that move: {sum(moves)}"
    yield f"  unclean elections: {sum(each.will.has_leader and led_uncleanly(each.was, each.will) for each in found)}"
    short = (not set(lost).isdisjoint(each.was.replicas) and len(each.was.replicas) > left for each in found)
    yield f"  with more replicas than brokers are left: {sum(short)}"
    yield from _titled("brokers", list(_brokers(state, found, lost, fenced)))
    yield from _titled(
        "partitions that go offline",
        [
            f"  {each.topic}-{each.partition_id}: replicas {list(each.was.replicas)}, ISR {list(each.was.isr)},"
            f" led by {each.was.leader}"
            for each in sorted(found, key=lambda each: each[:2])
            if each.goes_offline
        ],
    )


def fates(state: ClusterState, lost: Sequence[NodeId], loss: Loss, *, next_offset: Offset) -> list[Fate]:
    """Changes the state as the loss of these brokers does, and returns the fate of each partition."""
    settings = ControllerSettings(static_configs={MIN_ISR: str(loss.min_isr)})
    before = [(each.topic.name, each.partition_id, each.partition) for each in state.topics.all()]
    least = MinIsrs(state, settings).least
    lose(state, brokers=lost, settings=settings, next_offset=next_offset, with_preferred_leaders=loss.prefer)
    after = list(state.topics.all())
    assert [each[:2] for each in before] == [(each.topic.name, each.partition_id) for each in after], len(after)
    return [
        Fate(topic, number, was, each.partition, (least(topic, was), least(topic, each.partition)))
        for (topic, number, was), each in zip(before, after, strict=True)
    ]


def _lost(state: ClusterState, loss: Loss, name: str) -> list[NodeId]:
    """Returns the ids of the brokers to lose, in the order of their loss, each once."""
    if not loss.brokers and not loss.racks:
        raise UnknownLoss("nothing is lost: name brokers or racks")
    known = {each.id: each.rack for each in state.brokers}
    for broker_id in loss.brokers:
        if broker_id not in known:
            raise UnknownLoss(f"broker {broker_id} is none of {name}, which has {sorted(known) or 'none'}")
    for rack in loss.racks:
        if rack not in known.values():
            there = sorted({each for each in known.values() if each is not None})
            raise UnknownLoss(f"rack {rack!r} is none of {name}, which has {there or 'none'}")
    in_racks = sorted(broker_id for broker_id, rack in known.items() if rack in loss.racks)
    return list(dict.fromkeys((*loss.brokers, *in_racks)))


def _brokers(state: ClusterState, found: Sequence[Fate], lost: Sequence[NodeId], fenced: set[NodeId]) -> Iterator[str]:
    led, led_after = Counter(each.was.leader for each in found), Counter(each.will.leader for each in found)
    within = Counter(each for fate in found for each in fate.was.isr)
    within_after = Counter(each for fate in found for each in fate.will.isr)
    for each in sorted(state.brokers, key=lambda each: each.id):
        is_lost, is_fenced = each.id in lost, each.id in fenced
        how = "lost" if is_lost else "fenced" if is_fenced else f"rack {each.rack}" if each.rack else "serves"
        leads = f"leads {led[each.id]} → {led_after[each.id]}"
        yield f"  broker {each.id} ({how}): {leads}, in ISRs {within[each.id]} → {within_after[each.id]}"


def _titled(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield title if len(lines) <= SHOWN_MAX else f"{title}: the first {SHOWN_MAX} of {len(lines)}"
    yield from lines[:SHOWN_MAX]
