"""What ails partitions and topics: leaders, ISRs, replicas, reassignments, racks."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.partitions import NO_LEADER, RECOVERING
from services.pipeline.gold.doctor_rules import ERROR, INFO, WARN, Limits, Rule, days_between, findings, listed, text
from services.pipeline.gold.skew import crowded
from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.present import Present, replicas_of, topic_settings

__all__ = ["leader_findings", "partition_findings", "topic_findings"]

_ID = ("cluster_id", *KEY)


def partition_findings(now: Present, history: DataFrame, limits: Limits) -> DataFrame:
    """Findings about one partition each."""
    rows = now.partitions.join(topic_settings(now), ["cluster_id", "topic_id"])
    rows = rows.join(_absent(now), list(_ID), "left").join(_reassigned_since(now, history), list(_ID), "left")
    rows = rows.join(fn.broadcast(now.at), "cluster_id")
    rows = rows.withColumns(
        {
            "least": fn.least("min_isr", fn.size("replicas")),
            # A replica that is only to come is not missed yet (KIP-455).
            "wanted": fn.size(fn.array_except("replicas", "adding_replicas")),
            "hours": days_between("moving_since", "as_of_time") * 24,
            "stuck": fn.array_intersect("adding_replicas", fn.coalesce("absent", fn.array().cast("array<int>"))),
        }
    )
    subject = text("partition ", fn.col("topic"), "-", fn.col("partition_id"))
    return findings(rows, subject, [*_state_rules(), *_move_rules(limits)])


def topic_findings(now: Present) -> DataFrame:
    """Findings about one topic each: how it is laid out and configured."""
    grouped = now.partitions.groupBy("cluster_id", "topic_id", "topic").agg(
        fn.count("*").alias("partitions"),
        fn.min(fn.size("replicas")).alias("replica_count"),
        fn.sum((fn.size("replicas") == 1).cast("int")).alias("single"),
        fn.min("since_offset").alias("since_offset"),
        fn.min("since_time").alias("since_time"),
    )
    on_one = fn.sum((fn.size("racks") == 1).cast("int")).alias("on_one_rack")
    bad = crowded(now).groupBy("cluster_id", "topic_id").agg(fn.count("*").alias("crowded"), on_one)
    rows = grouped.join(topic_settings(now), ["cluster_id", "topic_id"]).join(bad, ["cluster_id", "topic_id"], "left")
    return findings(rows, text("topic ", fn.col("topic")), _topic_rules())


def leader_findings(now: Present, limits: Limits) -> DataFrame:
    """Brokers that are there and lead too few of the partitions for which they are preferred."""
    preferred = replicas_of(now).where("place = 0 and is_there").groupBy("cluster_id", "broker_id")
    rows = preferred.agg(
        fn.count("*").alias("preferred"),
        fn.sum((~fn.col("is_leader")).cast("int")).alias("elsewhere"),
        fn.max("since_offset").alias("since_offset"),
        fn.max("since_time").alias("since_time"),
    )
    rule = Rule(
        WARN,
        "PREFERRED_LEADER_IMBALANCE",
        fn.col("elsewhere") > fn.col("preferred") * limits.imbalance,
        text(fn.col("elsewhere"), " of ", fn.col("preferred"), " partitions that it should lead are led by others"),
        "let auto.leader.rebalance.enable see to it, or run kafka-leader-election --election-type preferred",
    )
    return findings(rows, text("broker ", fn.col("broker_id")), [rule])


def _state_rules() -> Sequence[Rule]:
    leader, isr_count = fn.col("leader"), fn.size("isr")
    here = text("ISR ", listed("isr"), " of replicas ", listed("replicas"))
    return [
        Rule(
            ERROR,
            "NO_LEADER",
            leader == NO_LEADER,
            text("has no leader: ", here, ", ELR ", listed("elr"), ", last leader ", listed("last_known_elr")),
            "bring back a broker of its ISR or ELR; without one, an unclean election loses what the others lack",
        ),
        Rule(
            ERROR,
            "UNDER_MIN_ISR",
            isr_count < fn.col("least"),
            text("takes no writes with acks=all: ", here, ", min.insync.replicas ", fn.col("min_isr")),
            "bring back the brokers that left the ISR",
        ),
        Rule(
            WARN,
            "UNDER_REPLICATED",
            isr_count < fn.col("wanted"),
            text(here),
            "see whether the replicas that are missing are down, slow or offline",
        ),
        Rule(
            INFO,
            "ELR_NOT_EMPTY",
            fn.size("elr") > 0,
            text("brokers ", listed("elr"), " are eligible to lead without being in the ISR (KIP-966)"),
            "do not wipe their logs: they have every committed record",
        ),
        Rule(
            WARN,
            "RECOVERING",
            fn.col("leader_recovery_state") == RECOVERING,
            text("has not recovered from an unclean election (KIP-704); leader ", fn.nullif(leader, fn.lit(NO_LEADER))),
            "expect lost records, and see why the leader does not finish",
        ),
    ]


def _move_rules(limits: Limits) -> Sequence[Rule]:
    moving = (fn.size("adding_replicas") + fn.size("removing_replicas")) > 0
    what = text("adding ", listed("adding_replicas"), ", removing ", listed("removing_replicas"))
    return [
        Rule(
            WARN,
            "REASSIGNMENT_SLOW",
            moving & (fn.col("hours") > limits.reassignment_hours),
            text("has been reassigned for ", fn.round("hours", 1), " hours: ", what),
            "see whether the new replicas catch up (a throttle?), or cancel: kafka-reassign-partitions --cancel",
        ),
        Rule(
            ERROR,
            "REASSIGNMENT_STUCK",
            fn.size("stuck") > 0,
            text("cannot be reassigned, as brokers ", listed("stuck"), " are not there: ", what),
            "bring those brokers up, or cancel: kafka-reassign-partitions --cancel",
        ),
    ]


def _topic_rules() -> Sequence[Rule]:
    min_isr, replicas = fn.col("min_isr"), fn.col("replica_count")
    return [
        Rule(
            WARN,
            "ONE_REPLICA",
            fn.col("single") > 0,
            text(fn.col("single"), " of ", fn.col("partitions"), " partitions have one replica"),
            "add replicas: the loss of one broker takes them offline, of one disk loses them",
        ),
        Rule(
            WARN,
            "MIN_ISR_ABOVE_REPLICAS",
            min_isr > replicas,
            text("min.insync.replicas is ", min_isr, ", and there are ", replicas, " replicas"),
            "lower min.insync.replicas or add replicas: as it is, every replica must be in sync",
        ),
        Rule(
            WARN,
            "MIN_ISR_EQUALS_REPLICAS",
            (min_isr == replicas) & (replicas > 1),
            text("min.insync.replicas is ", min_isr, ", and so is the number of replicas"),
            "lower min.insync.replicas or add a replica: as it is, any one broker's restart stops writes",
        ),
        Rule(
            WARN,
            "UNCLEAN_ELECTION_ENABLED",
            fn.col("elects_uncleanly"),
            text("unclean.leader.election.enable is true"),
            "set it to false, unless being there matters more than what was written",
        ),
        Rule(
            WARN,
            "RACK_VIOLATION",
            fn.col("crowded") > 0,
            _racks(),
            "reassign the replicas: the loss of one rack takes more of them than it must",
        ),
    ]


def _racks() -> Column:
    counts = text(fn.col("crowded"), " of ", fn.col("partitions"), " partitions are on fewer racks than there are")
    return fn.concat(counts, text(", ", fn.col("on_one_rack"), " of them on a single one"))


def _absent(now: Present) -> DataFrame:
    """Of each partition, the replicas that cannot be written to."""
    return replicas_of(now).where("not is_there").groupBy(*_ID).agg(fn.collect_set("broker_id").alias("absent"))


def _reassigned_since(now: Present, history: DataFrame) -> DataFrame:
    """Since when each partition that is being reassigned has been so without a pause."""
    is_moving = (fn.size("adding_replicas") + fn.size("removing_replicas")) > 0
    moving = now.partitions.where(is_moving).select(*_ID)
    past = history.join(fn.broadcast(moving), list(_ID), "left_semi")
    paused = fn.max(fn.when(~is_moving, fn.col("valid_to_offset")))
    rest = past.groupBy(*_ID).agg(paused.alias("paused")).alias("rest")
    began = past.where(is_moving).join(rest, list(_ID)).where("paused is null or valid_from_offset >= paused")
    return began.groupBy(*_ID).agg(fn.min("valid_from_time").alias("moving_since"))
