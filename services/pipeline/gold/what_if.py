"""What if these brokers, or this rack, were lost: who would lead what, and what would be offline or under its min ISR.

The controller fences brokers one after the other, in the order given, and so does this: a fold over the lost brokers,
in the engine, by the rules of `quorate.controller.partition_change` and `elections`. A test has the controller itself
fence the same brokers and compares. A broker that shuts down in an orderly way loses its partitions in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.features import ELR_VERSION
from quorate.metadata.partitions import NO_LEADER, RECOVERING
from quorate.nouns import NodeId, Offset
from services.pipeline.silver.image import HISTORIES, SILVER
from services.pipeline.silver.present import Present, present, replicas_of, topic_settings
from services.pipeline.tables import Tables

__all__ = ["WhatIf", "what_if"]

_STATE: Final = (
    "replicas",
    "isr",
    "adding_replicas",
    "removing_replicas",
    "elr",
    "last_known_elr",
    "leader",
    "leader_recovery_state",
)
"""What an election reads and writes of a partition; after it, `…_after`."""


class WhatIf(NamedTuple):
    """The consequences.

    partitions   each partition before and after (`…_after`), with `min_isr`, `election` and what becomes of it
    brokers      each broker: what it leads, is in sync with and holds, before and after
    summary      one row, of counts
    """

    partitions: DataFrame
    brokers: DataFrame
    summary: DataFrame


def what_if(
    tables: Tables,
    cluster_id: str,
    *,
    lost_brokers: Sequence[NodeId] = (),
    lost_racks: Sequence[str] = (),
    at_offset: Offset | None = None,
    prefer: bool = False,
) -> WhatIf:
    """The cluster as of an offset (or now) after the loss of brokers, in this order, and then of racks, by broker id.

    With `prefer`, preferred leaders are elected afterwards, as `kafka-leader-election --election-type preferred` does
    (KIP-460). Raises LookupError: a negative offset, no silver, no such cluster then, a broker or rack that it has not
    then, nothing lost.
    """
    if at_offset is not None and at_offset < 0:
        raise LookupError(f"offset {at_offset} is negative; offsets begin at 0")
    now = _cluster(tables, cluster_id, at_offset)
    lost, fenced = _lost(now, _name(cluster_id, at_offset), lost_brokers, lost_racks)
    # What was fenced before loses nothing by it.
    out = fn.array(*(fn.lit(each) for each in lost if each not in fenced)).cast("array<int>")
    after = fn.aggregate(out, fn.struct(*_STATE), lambda was, broker_id: _without(was, broker_id, out))
    rows = _before(now).withColumn("after", after)
    if prefer:
        rows = rows.withColumn("after", _preferred(fn.col("after"), out))
    partitions = _consequences(rows)
    return WhatIf(partitions, _loads(partitions, now, lost), _summary(partitions, now, lost))


def _cluster(tables: Tables, cluster_id: str, at_offset: Offset | None) -> Present:
    found = {name: tables.read(f"{SILVER}/{name}") for name in (*HISTORIES, "events")}
    silver = {
        name: table.where(fn.col("cluster_id") == cluster_id) for name, table in found.items() if table is not None
    }
    if len(silver) < len(found):
        raise LookupError("there is no silver to ask: run silver before")
    return present(silver, at_offset)


def _name(cluster_id: str, at_offset: Offset | None) -> str:
    return f"cluster {cluster_id!r}" + ("" if at_offset is None else f" as of offset {at_offset}")


def _lost(
    now: Present, cluster: str, brokers: Sequence[NodeId], racks: Sequence[str]
) -> tuple[list[NodeId], set[NodeId]]:
    """Who is lost, in order, and who of all brokers is fenced already."""
    if not now.at.take(1):
        raise LookupError(f"there is no {cluster}")
    if not brokers and not racks:
        raise LookupError("nothing is lost: name brokers or racks")
    known = {row["broker_id"]: row for row in now.brokers.select("broker_id", "rack", "fenced").collect()}
    for broker_id in brokers:
        if broker_id not in known:
            raise LookupError(f"broker {broker_id} is none of {cluster}, which has {sorted(known) or 'none'}")
    for rack in racks:
        if rack not in {row["rack"] for row in known.values()}:
            there = sorted({row["rack"] for row in known.values()} - {None})
            raise LookupError(f"rack {rack!r} is none of {cluster}, which has {there or 'none'}")
    in_racks = sorted(broker_id for broker_id, row in known.items() if row["rack"] in racks)
    return list(dict.fromkeys((*brokers, *in_racks))), {each for each, row in known.items() if row["fenced"]}


def _before(now: Present) -> DataFrame:
    """Partitions, with `there` (which replicas may lead), `min_isr`, `elects_uncleanly`, `elr_enabled`."""
    key = ["cluster_id", "topic_id", "partition_id"]
    named = fn.get_json_object("payload", "$.name") == ELR_VERSION
    enabled = now.kept.where((fn.col("kind") == "feature") & named).select(
        "cluster_id", (fn.get_json_object("payload", "$.featureLevel").cast("int") > 0).alias("elr_enabled")
    )
    there = replicas_of(now).where("is_there").groupBy(*key).agg(fn.collect_set("broker_id").alias("there"))
    rows = now.partitions.select(*key, "topic", *_STATE).join(there, key, "left")
    rows = rows.join(topic_settings(now), ["cluster_id", "topic_id"]).join(fn.broadcast(enabled), "cluster_id", "left")
    return rows.withColumns(
        {
            "there": fn.coalesce("there", _nobody()),
            "elr_enabled": fn.coalesce("elr_enabled", fn.lit(False)),
        }
    )


def _without(was: Column, broker_id: Column, out: Column) -> Column:
    """A partition once this broker of `out` is fenced too; those before it are already. KIP-631."""
    left = fn.array_remove(was["isr"], broker_id)
    so_far = fn.slice(out, fn.lit(1), fn.array_position(out, broker_id).cast("int"))
    changed = _changed(was, left, fn.array(was["leader"]), fn.col("elects_uncleanly"), so_far)
    return fn.when(fn.array_contains(was["isr"], broker_id), changed).otherwise(was)


def _preferred(was: Column, out: Column) -> Column:
    """A partition after the election of its preferred leader, if that is another and may lead. KIP-460."""
    first = fn.array(was["replicas"][0], was["leader"])
    changed = _changed(was, was["isr"], first, fn.lit(False), out)
    return fn.when(was["leader"] == was["replicas"][0], was).otherwise(changed)


def _changed(was: Column, isr: Column, first: Column, uncleanly: Column, out: Column) -> Column:
    """`partition_change` with this ISR wished: its steps, each upon what the last one made."""
    least = fn.least("min_isr", fn.size(was["replicas"]))
    there = fn.array_except("there", out)
    steps: tuple[Callable[[Column], Column], ...] = (
        _reassigned,
        lambda coming: _eligible(was, coming, least),
        lambda coming: _with(coming, leader=_elected(coming, first, there)),
        lambda coming: _resorted(coming, there, uncleanly),
        lambda coming: _in_sync(was, coming, least),
        lambda coming: _remembered(was, coming),
    )
    made = reduce(_let, steps, fn.struct(*_fields(was, {"isr": isr}), fn.lit(False).alias("unclean")))
    return _let(made, lambda coming: fn.struct(*_fields(coming, {})))


def _reassigned(coming: Column) -> Column:
    """A reassignment is over when all that come are in the ISR; where more go than come, all that stay. KIP-455."""
    adding, removing = coming["adding_replicas"], coming["removing_replicas"]
    replicas, isr = fn.array_except(coming["replicas"], removing), fn.array_except(coming["isr"], removing)
    needed = fn.when(fn.size(removing) > fn.size(adding), replicas).otherwise(adding)
    complete = (fn.size(adding) + fn.size(removing) > 0) & (fn.size(replicas) > 0) & (fn.size(isr) > 0)
    complete = complete & (fn.size(fn.array_except(needed, isr)) == 0)
    return _with(
        coming,
        replicas=fn.when(complete, replicas).otherwise(coming["replicas"]),
        isr=fn.when(complete, isr).otherwise(coming["isr"]),
        adding_replicas=fn.when(complete, _nobody()).otherwise(adding),
        removing_replicas=fn.when(complete, _nobody()).otherwise(removing),
    )


def _eligible(was: Column, coming: Column, least: Column) -> Column:
    """The ELR: who left the ISR while that was too small to commit anything. KIP-966."""
    enabled, last = fn.col("elr_enabled"), coming["last_known_elr"]
    among = fn.when(enabled, fn.array_union(was["elr"], was["isr"])).otherwise(was["elr"])
    elr = fn.array_sort(fn.array_except(fn.array_intersect(among, coming["replicas"]), coming["isr"]))
    suffices = enabled & (fn.size(coming["isr"]) >= least)
    return _with(
        coming,
        elr=fn.when(suffices, _nobody()).otherwise(elr),
        last_known_elr=fn.when(suffices, last).otherwise(fn.array_intersect(last, coming["replicas"])),
    )


def _elected(coming: Column, first: Column, there: Column) -> Column:
    """Who of the ISR, or if that is empty of the ELR, is there; in order of `first`, then of the replicas."""
    complete = fn.when(fn.size(coming["isr"]) > 0, coming["isr"]).otherwise(coming["elr"])
    may_lead = fn.array_intersect(complete, there)
    return _first(fn.array_intersect(fn.concat(first, coming["replicas"]), may_lead))


def _resorted(coming: Column, there: Column, uncleanly: Column) -> Column:
    """Where no clean choice is: the last leader known (KIP-966), or any that is there if the topic wants it so."""
    known = coming["last_known_elr"]
    nobody = (fn.size(coming["isr"]) == 0) & (fn.size(coming["elr"]) == 0)
    resort = fn.col("elr_enabled") & (fn.size(known) == 1) & nobody & fn.array_contains(there, _first(known))
    anybody = fn.when(uncleanly, _first(fn.array_intersect(coming["replicas"], there))).otherwise(NO_LEADER)
    found = fn.when(resort, _first(known)).otherwise(anybody)
    is_led = coming["leader"] != NO_LEADER
    return _with(
        coming,
        leader=fn.when(is_led, coming["leader"]).otherwise(found),
        unclean=~is_led & (found != NO_LEADER),
    )


def _in_sync(was: Column, coming: Column, least: Column) -> Column:
    """Who is in the ISR and ELR under the new leader."""
    enabled, leader, elr, unclean = fn.col("elr_enabled"), coming["leader"], coming["elr"], coming["unclean"]
    from_elr = fn.array_contains(elr, leader)
    remains = (fn.size(coming["isr"]) == 0) & ~enabled
    # An ISR of one that suffices ends the ELR.
    others = fn.when(least <= 1, _nobody()).otherwise(fn.array_remove(elr, leader))
    return _with(
        coming,
        isr=fn.when(unclean | from_elr, fn.array(leader)).when(remains, was["isr"]).otherwise(coming["isr"]),
        elr=fn.when(unclean | ~enabled, _nobody()).when(from_elr, others).otherwise(elr),
        leader_recovery_state=fn.when(unclean, RECOVERING).otherwise(coming["leader_recovery_state"]),
    )


def _remembered(was: Column, coming: Column) -> Column:
    """The last leader is kept while there is none. KIP-966."""
    led = (coming["leader"] != NO_LEADER) | ~fn.col("elr_enabled")
    loses = fn.array_contains(coming["replicas"], was["leader"]) & (fn.size(was["last_known_elr"]) == 0)
    last = fn.when(led, _nobody()).when(loses, fn.array(was["leader"])).otherwise(coming["last_known_elr"])
    return _with(coming, last_known_elr=last)


def _with(coming: Column, **changed: Column) -> Column:
    """The registration in the making, with these fields; `coming` is a variable, so that it may be named often."""
    unclean = changed.pop("unclean", coming["unclean"])
    return fn.struct(*_fields(coming, changed), unclean.alias("unclean"))


def _fields(partition: Column, changed: Mapping[str, Column]) -> list[Column]:
    return [changed.get(name, partition[name]).alias(name) for name in _STATE]


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """`use(value)`, with the value worked out once, however often it is used."""
    return fn.transform(fn.array(value), use)[0]


def _first(ids: Column) -> Column:
    return fn.coalesce(fn.get(ids, fn.lit(0)), fn.lit(NO_LEADER))


def _nobody() -> Column:
    return fn.array().cast("array<int>")


def _consequences(rows: DataFrame) -> DataFrame:
    """Each partition before and after, and what that means."""
    after = rows.select(
        "cluster_id",
        "topic",
        "topic_id",
        "partition_id",
        *_STATE,
        *(fn.col(f"after.{name}").alias(f"{name}_after") for name in _STATE),
        fn.least("min_isr", fn.size("replicas")).alias("min_isr"),
    )
    led, led_after = fn.col("leader") != NO_LEADER, fn.col("leader_after") != NO_LEADER
    uncleanly = ~fn.array_contains("isr", fn.col("leader_after")) & ~fn.array_contains("elr", fn.col("leader_after"))
    recovers = (fn.col("leader_recovery_state_after") == RECOVERING) & (fn.col("leader_recovery_state") != RECOVERING)
    moved = fn.col("leader_after") != fn.col("leader")
    return after.withColumns(
        {
            "offline": ~led,
            "offline_after": ~led_after,
            "under_min_isr": fn.size("isr") < fn.col("min_isr"),
            "under_min_isr_after": fn.size("isr_after") < fn.col("min_isr"),
            "leader_moves": moved & led & led_after,
            "unclean_election": led_after & (recovers | (moved & uncleanly)),
        }
    )


def _loads(partitions: DataFrame, now: Present, lost: Sequence[NodeId]) -> DataFrame:
    """What each broker has before and after. `replicas_to_move`: what it would take to do without it for good."""
    named = fn.concat("replicas", "isr", "isr_after", fn.array("leader", "leader_after"))
    spread = partitions.withColumn("broker_id", fn.explode(fn.array_distinct(named)))
    led, led_after = (fn.col(name) == fn.col("broker_id") for name in ("leader", "leader_after"))
    counts = {
        "leaders": led,
        "leaders_after": led_after,
        "leaders_gained": led_after & ~led,
        "leaders_lost": led & ~led_after,
        "isr_members": fn.array_contains("isr", fn.col("broker_id")),
        "isr_members_after": fn.array_contains("isr_after", fn.col("broker_id")),
        "replicas": fn.array_contains("replicas", fn.col("broker_id")),
    }
    held = spread.groupBy("cluster_id", "broker_id")
    counted = held.agg(*(fn.sum(flag.cast("int")).alias(name) for name, flag in counts.items()))
    known = now.brokers.select("cluster_id", "broker_id", "rack", "fenced")
    rows = known.join(counted, ["cluster_id", "broker_id"], "left").fillna(0, list(counts))
    rows = rows.withColumn("lost", fn.col("broker_id").isin(list(lost)))
    return rows.withColumn("replicas_to_move", fn.when(fn.col("lost"), fn.col("replicas")).otherwise(0))


def _summary(partitions: DataFrame, now: Present, lost: Sequence[NodeId]) -> DataFrame:
    """Counts, and how many partitions have more replicas than there are brokers left to hold them."""
    left = now.brokers.where(~fn.col("broker_id").isin(list(lost)) & ~fn.col("fenced")).groupBy("cluster_id")
    rows = partitions.join(now.at, "cluster_id")
    rows = rows.join(left.agg(fn.count("*").alias("brokers_left")), "cluster_id", "left").fillna(0, ["brokers_left"])
    hit = fn.arrays_overlap("replicas", fn.array(*(fn.lit(each) for each in lost)))
    counts = {
        "partitions": fn.lit(True),
        "offline": fn.col("offline"),
        "offline_after": fn.col("offline_after"),
        "under_min_isr": fn.col("under_min_isr"),
        "under_min_isr_after": fn.col("under_min_isr_after"),
        "leader_moves": fn.col("leader_moves"),
        "unclean_elections": fn.col("unclean_election"),
        "without_enough_brokers": hit & (fn.size("replicas") > fn.col("brokers_left")),
    }
    found = rows.groupBy("cluster_id", "as_of_offset", "as_of_time", "brokers_left")
    return found.agg(*(fn.sum(each.cast("int")).alias(name) for name, each in counts.items())).withColumn(
        "lost_brokers", fn.array(*(fn.lit(each) for each in lost))
    )
