"""The story's events about partitions, one for each moment and kind, and those about min.insync.replicas.

A controller's decision about many partitions has one timestamp, so a moment is a time, between two at which the times
go back (`clocks`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.configs import BROKER, TOPIC
from services.pipeline.gold.audit_rows import not_followed, with_before
from services.pipeline.gold.clocks import back_count
from services.pipeline.gold.conditions import CONDITIONS
from services.pipeline.gold.doctor_rules import text
from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.present import MIN_ISR
from services.pipeline.silver.validity import at_begin, at_end, by_key

__all__ = ["BAD", "GOOD", "PLAIN", "changes_of_counts", "min_isr_events", "partition_events", "turned"]

BAD, GOOD, PLAIN = "bad", "good", "plain"
_TOPICS_MAX: Final = 3
"""Most topics that one sentence names."""


class _Turn(NamedTuple):
    """A kind of event of partitions: how it looks, and the words about one of them and about several."""

    look: str
    one: str
    several: str


_TURNS: Final = {
    "offline": _Turn(BAD, "loses its leader", "lose their leaders"),
    "led": _Turn(GOOD, "has a leader again", "have a leader again"),
    "uncleanly": _Turn(
        BAD,
        "is led by an unclean election: its leader may lack records",
        "are led by unclean elections: their leaders may lack records",
    ),
    "under": _Turn(BAD, "comes under min.insync.replicas", "come under min.insync.replicas"),
    "enough": _Turn(GOOD, "is no longer under min.insync.replicas", "are no longer under min.insync.replicas"),
    "withdrawn": _Turn(
        BAD,
        "withdraws a member of its ELR, which can no longer lead",
        "withdraw members of their ELRs, which can no longer lead",
    ),
    "moves": _Turn(PLAIN, "begins to be reassigned", "begin to be reassigned"),
    "moved": _Turn(PLAIN, "has been reassigned", "have been reassigned"),
    "cancelled": _Turn(PLAIN, "has its reassignment cancelled", "have their reassignments cancelled"),
    "removed": _Turn(PLAIN, "that was under min.insync.replicas is removed", "under min.insync.replicas are removed"),
}
"""In the order in which the events of one offset are shown."""
_FLAGS: Final = ("withdrawn", "moves", "moved", "cancelled")
"""Turns that are columns of a span."""


def turned(spans: DataFrame) -> DataFrame:
    """Returns a row for each thing that happens to a partition at the begin or end of one of its spans.

    Columns: `cluster_id`, `offset`, `time`, `back_count`, `topic`, `by_config` (a config change did it), and `turn`.
    """
    order = by_key(KEY)
    was = {f"was_{name}": fn.coalesce(fn.lag(name).over(order), fn.lit(False)) for name in ("offline", "under_min_isr")}
    offline, under = fn.col("offline"), fn.col("under_min_isr")
    happened = {
        "offline": offline & ~fn.col("was_offline"),
        "led": ~offline & fn.col("was_offline"),
        "under": under & ~fn.col("was_under_min_isr"),
        "enough": ~under & fn.col("was_under_min_isr"),
        "uncleanly": fn.col("unclean"),
        **{name: fn.col(name) for name in _FLAGS},
    }
    turns = fn.array_compact(fn.array(*(fn.when(holds, fn.lit(name)) for name, holds in happened.items())))
    at = ("cluster_id", "offset", fn.col("timestamp").alias("time"), back_count("offset").alias("back_count"))
    begun = spans.withColumns(was).select(*at, "topic", "by_config", fn.explode(turns).alias("turn"))
    gone = spans.where("is_removed and under_min_isr").select(
        "cluster_id",
        fn.col("removed_offset").alias("offset"),
        fn.col("removed_time").alias("time"),
        back_count("removed_offset").alias("back_count"),
        "topic",
        fn.lit(False).alias("by_config"),
        fn.lit("removed").alias("turn"),
    )
    return begun.unionByName(gone)


def partition_events(turns: DataFrame) -> DataFrame:
    """Returns an event for each moment and each kind of turn (`turned`), with the number of its partitions.

    Turns that a config change has brought about are in `min_isr_events` instead.
    `place` is the kind's, in the order in which the events of one offset are shown.
    """
    moments = (
        turns.where("not by_config")
        .groupBy("cluster_id", "back_count", "time", "turn")
        .agg(
            fn.min("offset").alias("offset"),
            fn.count("*").alias("count"),
            fn.array_sort(fn.collect_set("topic")).alias("topics"),
        )
    )
    more = fn.size("topics") - _TOPICS_MAX
    named = fn.concat(
        fn.array_join(fn.slice("topics", 1, _TOPICS_MAX), ", "),
        fn.when(more == 1, " and 1 more topic").when(more > 1, text(" and ", more, " more topics")).otherwise(""),
    )
    one = fn.col("count") == 1
    what = fn.when(one, "1 partition of ").otherwise(text(fn.col("count"), " partitions of "))
    words = fn.when(one, _of_turn("one")).otherwise(_of_turn("several"))
    return moments.select(
        "cluster_id",
        "offset",
        "time",
        _of_turn("look").alias("look"),
        fn.concat(what, named, fn.lit(" "), words).alias("sentence"),
        fn.array_position(fn.array(*map(fn.lit, _TURNS)), fn.col("turn")).cast("int").alias("place"),
    )


def min_isr_events(configs: DataFrame, topics: DataFrame, turns: DataFrame) -> DataFrame:
    """Returns an event for each change of min.insync.replicas, of a topic or of all brokers' default, and its effect.

    A value with which a topic is created is no change, and neither is one that is written again.
    """
    key = ("resource_type", "resource_name", "name")
    of_topic = fn.col("resource_type") == TOPIC
    every = configs.where((fn.col("name") == MIN_ISR) & (of_topic | ((fn.col("resource_type") == BROKER) & _default())))
    begun = with_before(every, key, ("value",)).withColumn("was", fn.when(~fn.col("is_first"), fn.col("was_value")))
    of = ("resource_name", of_topic.alias("of_topic"))
    begun = at_begin(begun.where(~fn.col("value").eqNullSafe(fn.col("was"))), *of, "was", fn.col("value").alias("now"))
    over = not_followed(every, key).where("end_type = 'CONFIG_RECORD'")
    over = at_end(over, *of, fn.col("value").alias("was"), fn.lit(None).cast("string").alias("now"))
    born = topics.select("cluster_id", fn.col("name").alias("resource_name"), fn.col("valid_from_time").alias("time"))
    created = begun.where("of_topic and was is null").join(
        born.distinct(), ["cluster_id", "resource_name", "time"], "left_semi"
    )
    changes = begun.unionByName(over).join(
        created.select("cluster_id", "resource_name", "offset", "of_topic"),
        ["cluster_id", "resource_name", "offset", "of_topic"],
        "left_anti",
    )
    effects = turns.where("by_config").groupBy("cluster_id", "offset")
    rows = changes.join(
        effects.agg(*(fn.count_if(fn.col("turn") == turn).alias(turn) for turn in ("under", "enough"))),
        ["cluster_id", "offset"],
        "left",
    ).fillna(0, ["under", "enough"])
    whose = fn.when(fn.col("of_topic"), text("topic ", fn.col("resource_name"))).otherwise("all brokers' default")
    values = [fn.coalesce(name, fn.lit("not set")) for name in ("was", "now")]
    changed = fn.concat(whose, fn.lit(f": {MIN_ISR} "), values[0], fn.lit(" → "), values[1])
    did = [
        fn.when(fn.col(turn) == 1, text("; 1 partition ", _TURNS[turn].one)).when(
            fn.col(turn) > 1, text("; ", fn.col(turn), " partitions ", _TURNS[turn].several)
        )
        for turn in ("under", "enough")
    ]
    look = fn.when(fn.col("under") > 0, BAD).when(fn.col("enough") > 0, GOOD).otherwise(PLAIN)
    sentence = fn.concat(changed, *(fn.coalesce(each, fn.lit("")) for each in did))
    return rows.select("cluster_id", "offset", "time", look.alias("look"), sentence.alias("sentence"))


def changes_of_counts(spans: DataFrame) -> DataFrame:
    """Returns by how much the number of partitions of each of CONDITIONS changes at each moment, with its `offset`."""
    order = by_key(KEY)
    flags = {name: fn.col(name).cast("int") for name in CONDITIONS}
    begun = spans.select(
        "cluster_id",
        "offset",
        back_count("offset").alias("back_count"),
        fn.col("timestamp").alias("time"),
        *((flag - fn.coalesce(fn.lag(flag).over(order), fn.lit(0))).alias(name) for name, flag in flags.items()),
    )
    gone = spans.where("is_removed").select(
        "cluster_id",
        fn.col("removed_offset").alias("offset"),
        back_count("removed_offset").alias("back_count"),
        fn.col("removed_time").alias("time"),
        *((-flag).alias(name) for name, flag in flags.items()),
    )
    both = begun.unionByName(gone).where(" or ".join(f"{name} <> 0" for name in CONDITIONS))
    sums = (fn.sum(name).alias(name) for name in CONDITIONS)
    return both.groupBy("cluster_id", "back_count", "time").agg(fn.min("offset").alias("offset"), *sums)


def _default() -> Column:
    return fn.col("resource_name") == ""


def _of_turn(field: str) -> Column:
    pairs = [fn.lit(each) for name, turn in _TURNS.items() for each in (name, getattr(turn, field))]
    return fn.element_at(fn.create_map(*pairs), fn.col("turn"))
