"""What-if analysis: simulates the loss of brokers or racks and finds new leaders, offline partitions, small ISRs.

The controller fences one broker after another; this does the same as a fold over the lost brokers in Spark, by the
rules of `partition_change` and `elections` in `quorate.controller.partitions`. A test lets the controller fence the
same brokers and compares. A controlled shutdown of a broker has the same result.
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
from services.pipeline.gold.conditions import is_under_min_isr
from services.pipeline.silver.image import HISTORIES, SILVER
from services.pipeline.silver.present import MIN_ISR_DEFAULT, Present, present, replicas_of, topic_settings
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
"""The fields of a partition that an election reads and writes; their values afterwards are `…_after`."""


class WhatIf(NamedTuple):
    """The consequences of a loss, as three tables.

    `partitions` has each partition before and after (`…_after`), with `min_isr` and flags such as `offline_after` and
    `unclean_election`. `brokers` has each broker before and after: the partitions that it leads, the ISRs with it, and
    the replicas that it holds. `summary` is one row of counts.
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
    min_isr: int = MIN_ISR_DEFAULT,
) -> WhatIf:
    """Simulates the loss of brokers, in this order, then of racks' brokers by id, as of an offset or now.

    With `prefer`, preferred leaders are elected afterwards, like `kafka-leader-election --election-type preferred`
    (KIP-460). `min_isr` is assumed if no record sets it. Raises LookupError for a negative offset, without silver, for
    an unknown cluster, broker or rack, and if nothing is lost.
    """
    if at_offset is not None and at_offset < 0:
        raise LookupError(f"offset {at_offset} is negative; offsets begin at 0")
    now = _cluster(tables, cluster_id, at_offset)
    lost, fenced = _lost(now, _name(cluster_id, at_offset), lost_brokers, lost_racks)
    # Fencing a broker that is already fenced changes nothing.
    out = fn.array(*(fn.lit(each) for each in lost if each not in fenced)).cast("array<int>")
    after = fn.aggregate(out, fn.struct(*_STATE), lambda was, broker_id: _without(was, broker_id, out))
    rows = _before(now, min_isr).withColumn("after", after)
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
    """Returns the ids of the brokers to lose, in the order of their loss, and the ids of all brokers fenced already.

    The brokers to lose are `brokers` as given, then those of `racks` by id, each once. Raises LookupError for an
    unknown cluster, broker or rack, and if nothing is lost.
    """
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


def _before(now: Present, min_isr: int) -> DataFrame:
    """Returns the partitions with `there` (replicas that may lead), `min_isr`, `elects_uncleanly`, `elr_enabled`."""
    key = ["cluster_id", "topic_id", "partition_id"]
    named = fn.get_json_object("payload", "$.name") == ELR_VERSION
    enabled = now.kept.where((fn.col("kind") == "feature") & named).select(
        "cluster_id", (fn.get_json_object("payload", "$.featureLevel").cast("int") > 0).alias("elr_enabled")
    )
    there = replicas_of(now).where("is_there").groupBy(*key).agg(fn.collect_set("broker_id").alias("there"))
    rows = now.partitions.select(*key, "topic", *_STATE).join(there, key, "left")
    rows = rows.join(topic_settings(now, min_isr), ["cluster_id", "topic_id"]).join(
        fn.broadcast(enabled), "cluster_id", "left"
    )
    return rows.withColumns(
        {
            "there": fn.coalesce("there", _nobody()),
            "elr_enabled": fn.coalesce("elr_enabled", fn.lit(False)),
        }
    )


def _without(was: Column, broker_id: Column, out: Column) -> Column:
    """Computes a partition after this broker of `out` is fenced; the brokers before it in `out` already are.

    KIP-631.
    """
    left = fn.array_remove(was["isr"], broker_id)
    so_far = fn.slice(out, fn.lit(1), fn.array_position(out, broker_id).cast("int"))
    changed = _changed(was, left, fn.array(was["leader"]), fn.col("elects_uncleanly"), so_far)
    return fn.when(fn.array_contains(was["isr"], broker_id), changed).otherwise(was)


def _preferred(was: Column, out: Column) -> Column:
    """Computes a partition after its preferred leader was elected, if that differs and may lead. KIP-460."""
    first = fn.array(was["replicas"][0], was["leader"])
    changed = _changed(was, was["isr"], first, fn.lit(False), out)
    return fn.when(was["leader"] == was["replicas"][0], was).otherwise(changed)


def _changed(was: Column, isr: Column, first: Column, uncleanly: Column, out: Column) -> Column:
    """Computes the partition change for a new ISR: the controller's steps, each on the result of the one before."""
    least = fn.least("min_isr", fn.size(was["replicas"]))
    there = fn.array_except("there", out)
    steps: tuple[Callable[[Column], Column], ...] = (
        _reassigned,
        lambda coming: _eligible(was, coming, least),
        lambda coming: _with(coming, leader=_elected(coming, first, there)),
        lambda coming: _resorted(was, coming, there, uncleanly),
        lambda coming: _in_sync(was, coming, least),
        lambda coming: _remembered(was, coming),
    )
    made = reduce(_let, steps, fn.struct(*_fields(was, {"isr": isr}), fn.lit(False).alias("unclean")))
    return _let(made, lambda coming: fn.struct(*_fields(coming, {})))


def _reassigned(coming: Column) -> Column:
    """Completes a reassignment if all added replicas are in the ISR. KIP-455.

    If it removes more replicas than it adds, all remaining replicas must be in the ISR.
    """
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
    """Computes the ELR: replicas that left the ISR while it was smaller than min ISR. KIP-966."""
    enabled, last = fn.col("elr_enabled"), coming["last_known_elr"]
    among = fn.when(enabled, fn.array_union(was["elr"], was["isr"])).otherwise(was["elr"])
    elr = fn.array_sort(fn.array_except(fn.array_intersect(among, coming["replicas"]), coming["isr"]))
    suffices = enabled & (fn.size(coming["isr"]) >= least)
    return _with(
        coming,
        elr=fn.when(suffices, _nobody()).otherwise(elr),
        last_known_elr=fn.array_intersect(last, coming["replicas"]),
    )


def _elected(coming: Column, first: Column, there: Column) -> Column:
    """Elects the first live member of the ISR, in the order of `first` and then of the replicas; else NO_LEADER.

    If the ISR is empty, it elects a member of the ELR in the same way.
    """
    complete = fn.when(fn.size(coming["isr"]) > 0, coming["isr"]).otherwise(coming["elr"])
    may_lead = fn.array_intersect(complete, there)
    return _first(fn.array_intersect(fn.concat(first, coming["replicas"]), may_lead))


def _resorted(was: Column, coming: Column, there: Column, uncleanly: Column) -> Column:
    """Without a clean candidate, elects the last known leader (KIP-966), or any live replica if unclean is allowed.

    If the partition has a leader, the last known one is from before the ELR was turned off: others have led since.
    """
    known, nobody = coming["last_known_elr"], (fn.size(coming["isr"]) == 0) & (fn.size(coming["elr"]) == 0)
    is_last = fn.col("elr_enabled") & (was["leader"] == NO_LEADER) & (fn.size(known) == 1)
    resort = is_last & nobody & fn.array_contains(there, _first(known))
    anybody = fn.when(uncleanly, _first(fn.array_intersect(coming["replicas"], there))).otherwise(NO_LEADER)
    found = fn.when(resort, _first(known)).otherwise(anybody)
    is_led = coming["leader"] != NO_LEADER
    return _with(
        coming,
        leader=fn.when(is_led, coming["leader"]).otherwise(found),
        unclean=~is_led & (found != NO_LEADER),
    )


def _in_sync(was: Column, coming: Column, least: Column) -> Column:
    """Updates ISR, ELR and recovery state after the election."""
    enabled, leader, elr, unclean = fn.col("elr_enabled"), coming["leader"], coming["elr"], coming["unclean"]
    from_elr = fn.array_contains(elr, leader)
    remains = (fn.size(coming["isr"]) == 0) & ~enabled
    # A leader alone satisfies a min ISR of 1, so the ELR becomes empty.
    others = fn.when(least <= 1, _nobody()).otherwise(fn.array_remove(elr, leader))
    return _with(
        coming,
        isr=fn.when(unclean | from_elr, fn.array(leader)).when(remains, was["isr"]).otherwise(coming["isr"]),
        elr=fn.when(unclean | ~enabled, _nobody()).when(from_elr, others).otherwise(elr),
        leader_recovery_state=fn.when(unclean, RECOVERING).otherwise(coming["leader_recovery_state"]),
    )


def _remembered(was: Column, coming: Column) -> Column:
    """Remembers the leader that is lost until another is elected; while the ELR is off, what is remembered stays."""
    enabled, last = fn.col("elr_enabled"), coming["last_known_elr"]
    is_led, was_led = coming["leader"] != NO_LEADER, was["leader"] != NO_LEADER
    lost = fn.array_intersect(fn.array(was["leader"]), coming["replicas"])
    shrinks = fn.size(fn.array_except(was["replicas"], coming["replicas"])) > 0
    begins_epoch = (coming["leader"] != was["leader"]) | shrinks
    return _with(
        coming,
        last_known_elr=fn.when(~is_led & was_led, fn.when(enabled, lost).otherwise(_nobody()))
        .when(enabled & is_led & begins_epoch, _nobody())
        .otherwise(last),
    )


def _with(coming: Column, **changed: Column) -> Column:
    """Returns the partition with these fields changed; `coming` must be a lambda variable, as it is used often."""
    unclean = changed.pop("unclean", coming["unclean"])
    return fn.struct(*_fields(coming, changed), unclean.alias("unclean"))


def _fields(partition: Column, changed: Mapping[str, Column]) -> list[Column]:
    return [changed.get(name, partition[name]).alias(name) for name in _STATE]


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """Returns `use(value)`; Spark evaluates `value` once, however often `use` refers to it."""
    return fn.transform(fn.array(value), use)[0]


def _first(ids: Column) -> Column:
    return fn.coalesce(fn.get(ids, fn.lit(0)), fn.lit(NO_LEADER))


def _nobody() -> Column:
    return fn.array().cast("array<int>")


def _consequences(rows: DataFrame) -> DataFrame:
    """Adds to each partition its state afterwards, and flags for what has changed."""
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
            **{
                f"under_min_isr{then}": is_under_min_isr(
                    fn.col(f"leader{then}"), fn.size(f"isr{then}"), fn.size("replicas"), fn.col("min_isr")
                )
                for then in ("", "_after")
            },
            "leader_moves": moved & led & led_after,
            "unclean_election": led_after & (recovers | (moved & uncleanly)),
        }
    )


def _loads(partitions: DataFrame, now: Present, lost: Sequence[NodeId]) -> DataFrame:
    """Counts what each broker has before and after; `replicas_to_move` are the replicas of a lost broker."""
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
    """Counts the partitions by consequence, and those with more replicas than there are brokers left."""
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
