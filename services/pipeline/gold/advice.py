"""What an operator can do about missing replicas: advice names brokers, and only what is possible now.

A broker can take a replica if it is unfenced, not in controlled shutdown, and has a log directory that is not cordoned
(KIP-858, KIP-1066). A replica can be added to a partition, or moved, only while it has a leader to copy from.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from services.pipeline.gold.conditions import is_offline, wanted_replicas
from services.pipeline.gold.doctor_rules import listed, text
from services.pipeline.silver.present import Present, replicas_of

__all__ = [
    "brokers_named",
    "first_make_room",
    "gone_replicas",
    "leader_advice",
    "replica_advice",
    "rooms",
    "then_replicas",
    "with_room",
]

_BROKERS_MAX: Final = 10
"""Most brokers that an advice names."""
_NOBODY: Final = "no broker with all committed records is known: an unclean election loses what its new leader lacks"


def with_room(rows: DataFrame, now: Present) -> DataFrame:
    """Adds what a cluster's brokers can take: `takers`, `away` and `full`, arrays of broker ids, for each row.

    Takers can take a replica; brokers that are away are fenced or in controlled shutdown; of full ones, there or not,
    all log directories are cordoned.
    """
    away = fn.col("fenced") | fn.coalesce("in_controlled_shutdown", fn.lit(False))
    cordoned = fn.coalesce("cordoned_log_dirs", fn.array().cast("array<string>"))
    full = (fn.size("log_dirs") > 0) & (fn.size(fn.array_except("log_dirs", cordoned)) == 0)
    ids = {"takers": ~away & ~full, "away": away, "full": full}
    groups = now.brokers.groupBy("cluster_id").agg(
        *(fn.array_sort(fn.collect_list(fn.when(of, fn.col("broker_id")))).alias(name) for name, of in ids.items())
    )
    joined = rows.join(fn.broadcast(groups), "cluster_id", "left")
    return joined.withColumns({name: fn.coalesce(name, fn.array().cast("array<int>")) for name in ids})


def rooms() -> dict[str, Column]:
    """Returns what there is for another replica of a partition, by name, from the columns of `with_room`.

    `is_led`: it has a leader to copy from. `has_room`: and a broker can take the replica. `has_spare`: one could if all
    brokers were there. `has_full`: one could if a directory were uncordoned, too.
    """
    is_led = ~is_offline(fn.col("leader"))

    def others(brokers: Column) -> Column:
        return fn.size(fn.array_except(brokers, "replicas")) > 0

    every = fn.array_union("takers", "away")
    return {
        "is_led": is_led,
        "has_room": is_led & others(fn.col("takers")),
        "has_spare": others(fn.array_except(every, "full")),
        "has_full": others(fn.array_union(every, "full")),
    }


def first_make_room(of: str = "") -> Column:
    """Says what must happen before a replica can be added or moved, from `rooms`, of one or of all of a topic.

    `of` is what the columns of `rooms` have before their names. Brokers are to be started if there is no leader to copy
    from, or if one of them can take the replica. If none of all brokers can, a directory is to be uncordoned, or a
    broker added.
    """
    helps = ~fn.col(f"{of}is_led") | fn.col(f"{of}has_spare")
    start = fn.when(helps & (fn.size("away") > 0), text("start ", brokers_named(fn.col("away"))))
    uncordon = text("uncordon a log directory of ", brokers_named(fn.col("full")))
    room = fn.when(~fn.col(f"{of}has_spare"), fn.when(fn.col(f"{of}has_full"), uncordon).otherwise("add a broker"))
    steps = fn.concat_ws(" and ", start, room)
    return fn.concat(fn.lit("first "), fn.when(steps == "", "restore its leader").otherwise(steps))


def gone_replicas(now: Present) -> DataFrame:
    """Returns for each partition the replicas that cannot be used now: arrays of broker ids, one row a partition.

    `gone` are on brokers that are fenced, shutting down or not registered; `failed` are on brokers that are there, in
    log directories that are offline (KIP-858). Partitions without such a replica are left out.
    """
    is_up = fn.coalesce(~fn.col("fenced") & ~fn.col("in_controlled_shutdown"), fn.lit(False))
    groups = replicas_of(now).where("not is_there").groupBy("cluster_id", "topic_id", "partition_id")
    return groups.agg(
        fn.collect_set(fn.when(~is_up, fn.col("broker_id"))).alias("gone"),
        fn.collect_set(fn.when(is_up, fn.col("broker_id"))).alias("failed"),
    )


def leader_advice() -> Column:
    """Says which broker to start so that a partition without a leader gets one; needs `gone_replicas`.

    Members of the ISR and ELR may lead. Without any, the last known leader is elected when it is back, though it may
    lack records (KIP-966).
    """
    gone, last = _may_lead(), fn.array_sort(fn.array_intersect("last_known_elr", "gone"))
    clean = fn.array_union("isr", "elr")
    start = fn.when(fn.size(gone) > 1, text("start one of the ", brokers_named(gone), ", which may lead (ISR or ELR)"))
    start = start.when(fn.size(gone) == 1, text("start ", brokers_named(gone), ", which may lead (ISR or ELR)"))
    start = start.when(
        fn.size(clean) > 0, text("see in the active controller's log why ", brokers_named(clean), " cannot lead")
    )
    doubtful = text("start ", brokers_named(last), ", the last known leader: elected uncleanly, it may lack records")
    return start.when(fn.size(last) > 0, doubtful).otherwise(_NOBODY)


def then_replicas() -> Column:
    """Says which brokers to start after `leader_advice`, so that all replicas are in sync; empty if no more."""
    others = fn.array_sort(fn.array_except(fn.array_intersect(wanted_replicas(), fn.col("gone")), _may_lead()))
    start = fn.when(fn.size(others) > 0, text("; then start ", brokers_named(others)))
    return start.when(fn.size(_may_lead()) > 1, "; then start the others").otherwise("")


def replica_advice() -> Column:
    """Says what to do so that all replicas of a partition that has a leader are in sync; needs `gone_replicas`."""
    missing = fn.array_except(wanted_replicas(), fn.col("isr"))
    gone, failed = (fn.array_sort(fn.array_intersect(missing, name)) for name in ("gone", "failed"))
    slow = fn.array_sort(fn.array_except(fn.array_except(missing, "gone"), fn.col("failed")))
    catch_up = text("see why ", brokers_named(slow), " cannot catch up: disk, network, the load of the leader")
    return fn.concat_ws(
        "; ",
        fn.when(fn.size(gone) > 0, text("start ", brokers_named(gone))),
        fn.when(fn.size(failed) > 0, text("mend the log directories of ", brokers_named(failed))),
        fn.when(fn.size(slow) > 0, catch_up),
    )


def brokers_named(ids: Column) -> Column:
    """Names brokers: `broker 4`, `brokers 4,5`, or the first of them and how many more there are."""
    more = fn.size(ids) - _BROKERS_MAX
    named = fn.concat(
        fn.when(fn.size(ids) == 1, "broker ").otherwise("brokers "), listed(fn.slice(ids, 1, _BROKERS_MAX))
    )
    return fn.concat(named, fn.when(more > 0, text(" and ", more, " more")).otherwise(""))


def _may_lead() -> Column:
    return fn.array_sort(fn.array_intersect(fn.array_union("isr", "elr"), fn.col("gone")))
