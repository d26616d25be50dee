"""What the past tells the doctor of partitions and topics: since when conditions have held, and what was before."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.doctor import Condition
from services.pipeline.gold.began import began
from services.pipeline.gold.conditions import is_offline
from services.pipeline.gold.doctor_rules import text
from services.pipeline.gold.doctor_since import crowded_since, never, unclean_since
from services.pipeline.gold.past import Past
from services.pipeline.gold.skew import crowded
from services.pipeline.gold.told import PARTITION_PAST, documents, moments
from services.pipeline.memory import shortened
from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.present import UNCLEAN, Present

__all__ = ["partitions_told", "topics_told"]

_ID = ("cluster_id", *KEY)


def partitions_told(now: Present, past: Past, since: DataFrame) -> list[DataFrame]:
    """Tells of single partitions; `since` is from `config_conditions`."""
    rows = now.partitions.select(*_ID, "topic", "leader", "isr", "replicas")
    for known in (_past(past.states), _unclean(past.spans), since):
        rows = rows.join(known, list(_ID), "left")
    rows = shortened(rows)
    begins = {
        Condition.NO_LEADER: "no_leader_since",
        Condition.UNDER_MIN_ISR: "under_min_isr_since",
        Condition.UNDER_REPLICATED: "under_replicated_since",
        Condition.ELR: "elr_since",
        Condition.RECOVERING: "recovering_since",
        Condition.MOVING: "moving_since",
        Condition.LED_BY_ANOTHER: "moved_since",
    }
    subject = text("partition ", fn.col("topic"), "-", fn.col("partition_id"))
    # Of a partition that has a leader and all replicas in the ISR, nothing is said of those before.
    is_ill = is_offline(fn.col("leader")) | (fn.size("isr") < fn.size("replicas"))
    unclean = fn.struct("unclean.leader", "unclean.offset", fn.unix_millis("unclean.time").alias("ms"), "unclean.count")
    told = fn.struct(
        "topic_id",
        "partition_id",
        "last_leader",
        fn.unix_millis("isr_change.time").alias("isr_changed_ms"),
        fn.col("isr_change.was").alias("isr_was"),
        fn.when(fn.col("unclean.count") > 0, unclean).alias("unclean"),
    )
    of_past = rows.where(is_ill | (fn.col("unclean.count") > 0))
    return [moments(rows, subject, begins), documents(of_past, PARTITION_PAST, fn.to_json(told))]


def topics_told(now: Present, history: Mapping[str, DataFrame], since: DataFrame) -> DataFrame:
    """Tells of topics: since when their partitions have been as they are; `since` is from `config_conditions`.

    `history` has the histories of partitions, configs and brokers.
    """
    begins = ("single_since", "above_since", "equal_since")
    key = ["cluster_id", "topic_id", "topic"]
    firsts = (fn.min(fn.when(fn.col(f"{name}.offset").isNotNull(), fn.col(name))).alias(name) for name in begins)
    rows = now.partitions.select(*_ID, "topic").join(since, list(_ID)).groupBy(*key).agg(*firsts)
    bad = _crowded(now, history).groupBy("cluster_id", "topic_id").agg(fn.min("crowded_since").alias("crowded_since"))
    rows = rows.join(bad, ["cluster_id", "topic_id"], "left")
    rows = _with_unclean_since(rows, now, history["config_history"])
    conditions = {
        Condition.ONE_REPLICA: "single_since",
        Condition.MIN_ISR_ABOVE: "above_since",
        Condition.MIN_ISR_EQUALS: "equal_since",
        Condition.ELECTS_UNCLEANLY: "unclean_since",
        Condition.CROWDED: "crowded_since",
    }
    return moments(rows, text("topic ", fn.col("topic")), conditions)


def _crowded(now: Present, history: Mapping[str, DataFrame]) -> DataFrame:
    """Returns the partitions on too few racks, with `crowded_since`; most clusters have none, and then it is cheap."""
    places = shortened(crowded(now))
    if places.isEmpty():
        return places.withColumn("crowded_since", never())
    return places.join(crowded_since(now, places, history), list(_ID), "left")


def _with_unclean_since(rows: DataFrame, now: Present, configs: DataFrame) -> DataFrame:
    """Adds `unclean_since` to topics; most clusters have no such config, and then it is cheap."""
    if now.configs.where((fn.col("name") == UNCLEAN) & (fn.lower("value") == "true")).isEmpty():
        return rows.withColumn("unclean_since", never())
    return rows.join(unclean_since(now, configs), ["cluster_id", "topic_id"], "left")


def _past(states: DataFrame) -> DataFrame:
    """Computes each partition's last leader, the last change of its ISR, and since when it has had no leader and so on.

    `states` has these conditions for each state (`past`). `isr_change` has the `time` of the last change of the ISR's
    members and the ISR that `was` before; null without one.
    """
    conditions = {
        "no_leader_since": fn.col("offline"),
        "under_replicated_since": fn.col("short"),
        "elr_since": fn.col("has_elr"),
        "recovering_since": fn.col("recovering"),
        "moving_since": fn.col("moving"),
        "moved_since": fn.col("led_by_another"),
    }
    led = states.where("not offline").groupBy(*_ID)
    last = led.agg(fn.max_by("leader", "valid_from_offset").alias("last_leader"))
    change = fn.struct(fn.col("valid_from_time").alias("time"), fn.col("was_isr").alias("was"))
    moved = states.where("isr_changed").groupBy(*_ID)
    changes = moved.agg(fn.max_by(change, "valid_from_offset").alias("isr_change"))
    found = began(states, _ID, conditions)
    return found.join(last, list(_ID), "left").join(changes, list(_ID), "left")


def _unclean(spans: DataFrame) -> DataFrame:
    """Computes for each partition that was led by an unclean election `unclean`: the last such one, and how many."""
    rows = spans.where("unclean").groupBy(*_ID)
    last = fn.max_by(fn.struct("offset", fn.col("timestamp").alias("time"), "leader"), "offset").alias("last")
    found = rows.agg(last, fn.count("*").alias("count"))
    return found.select(*_ID, fn.struct("last.*", "count").alias("unclean"))
