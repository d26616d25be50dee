"""Doctor findings about partitions and topics: leaders, ISRs, replicas, reassignments, racks."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.partitions import NO_LEADER, RECOVERING
from services.pipeline.gold.availability import partition_spans
from services.pipeline.gold.began import began
from services.pipeline.gold.doctor_rules import (
    ERROR,
    INFO,
    WARN,
    DoctorLimits,
    DoctorRule,
    days_between,
    findings,
    listed,
    text,
)
from services.pipeline.gold.skew import crowded
from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.present import Present, replicas_of, topic_settings
from services.pipeline.silver.validity import by_key

__all__ = ["leader_findings", "partition_findings", "topic_findings"]

_ID = ("cluster_id", *KEY)


def partition_findings(now: Present, history: DataFrame, configs: DataFrame, limits: DoctorLimits) -> DataFrame:
    """Returns the findings about single partitions, from the histories of partitions and configs."""
    rows = now.partitions.join(topic_settings(now, limits.min_isr), ["cluster_id", "topic_id"])
    for known in (_absent(now), _past(history), _under_min_isr_since(now, history, configs, limits)):
        rows = rows.join(known, list(_ID), "left")
    rows = rows.join(fn.broadcast(now.at), "cluster_id")
    rows = rows.withColumns(
        {
            "least": fn.least("min_isr", fn.size("replicas")),
            "hours": days_between("moving_since.time", "as_of_time") * 24,
            "stuck": fn.array_intersect("adding_replicas", fn.coalesce("absent", fn.array().cast("array<int>"))),
        }
    )
    subject = text("partition ", fn.col("topic"), "-", fn.col("partition_id"))
    return findings(rows, subject, [*_state_rules(), *_move_rules(limits)])


def topic_findings(now: Present, limits: DoctorLimits) -> DataFrame:
    """Returns the findings about single topics: their placement and configs."""
    grouped = now.partitions.groupBy("cluster_id", "topic_id", "topic").agg(
        fn.count("*").alias("partitions"),
        fn.min(fn.size("replicas")).alias("replica_count"),
        fn.sum((fn.size("replicas") == 1).cast("int")).alias("single"),
        fn.min("since_offset").alias("since_offset"),
        fn.min("since_time").alias("since_time"),
    )
    on_one = fn.sum((fn.size("racks") == 1).cast("int")).alias("on_one_rack")
    bad = crowded(now).groupBy("cluster_id", "topic_id").agg(fn.count("*").alias("crowded"), on_one)
    rows = grouped.join(topic_settings(now, limits.min_isr), ["cluster_id", "topic_id"]).join(
        bad, ["cluster_id", "topic_id"], "left"
    )
    return findings(rows, text("topic ", fn.col("topic")), _topic_rules())


def leader_findings(now: Present, limits: DoctorLimits) -> DataFrame:
    """Returns the findings about live brokers that lead too few of the partitions for which they are preferred."""
    preferred = replicas_of(now).where("place = 0 and is_there").groupBy("cluster_id", "broker_id")
    rows = preferred.agg(
        fn.count("*").alias("preferred"),
        fn.sum((~fn.col("is_leader")).cast("int")).alias("elsewhere"),
        fn.max("since_offset").alias("since_offset"),
        fn.max("since_time").alias("since_time"),
    )
    rule = DoctorRule(
        WARN,
        "PREFERRED_LEADER_IMBALANCE",
        fn.col("elsewhere") > fn.col("preferred") * limits.imbalance,
        text(fn.col("elsewhere"), " of ", fn.col("preferred"), " partitions that it should lead are led by others"),
        "let auto.leader.rebalance.enable see to it, or run kafka-leader-election --election-type preferred",
    )
    return findings(rows, text("broker ", fn.col("broker_id")), [rule])


def _state_rules() -> Sequence[DoctorRule]:
    leader, isr_count = fn.col("leader"), fn.size("isr")
    here = text("ISR ", listed("isr"), " of replicas ", listed("replicas"))
    return [
        DoctorRule(
            ERROR,
            "NO_LEADER",
            leader == NO_LEADER,
            text("has no leader: ", here, ", ELR ", listed("elr"), ", last leader ", _last_leader()),
            "start a broker of its ISR or ELR; an unclean election would lose the records that its new leader lacks",
            "no_leader_since",
        ),
        DoctorRule(
            ERROR,
            "UNDER_MIN_ISR",
            isr_count < fn.col("least"),
            text("takes no writes with acks=all: ", here, ", ", _least_isr()),
            "start the brokers that left the ISR",
            "under_min_isr_since",
        ),
        DoctorRule(
            WARN,
            "UNDER_REPLICATED",
            _is_under_replicated(),
            text(here),
            "see whether the replicas that are missing are down, slow or offline",
            "under_replicated_since",
        ),
        DoctorRule(
            INFO,
            "ELR_NOT_EMPTY",
            fn.size("elr") > 0,
            text("brokers ", listed("elr"), " are eligible to lead without being in the ISR (KIP-966)"),
            "do not wipe their logs: they have every committed record",
            "elr_since",
        ),
        DoctorRule(
            WARN,
            "RECOVERING",
            fn.col("leader_recovery_state") == RECOVERING,
            text("has not recovered from an unclean election (KIP-704); leader ", fn.nullif(leader, fn.lit(NO_LEADER))),
            "expect lost records, and see why the leader does not finish",
            "recovering_since",
        ),
    ]


def _move_rules(limits: DoctorLimits) -> Sequence[DoctorRule]:
    moving = _is_moving()
    what = text("adding ", listed("adding_replicas"), ", removing ", listed("removing_replicas"))
    return [
        DoctorRule(
            WARN,
            "REASSIGNMENT_SLOW",
            moving & (fn.col("hours") > limits.reassignment_hours),
            text("has been reassigned for ", fn.round("hours", 1), " hours: ", what),
            "see whether the new replicas catch up (a throttle?), or cancel: kafka-reassign-partitions --cancel",
            "moving_since",
        ),
        DoctorRule(
            ERROR,
            "REASSIGNMENT_STUCK",
            fn.size("stuck") > 0,
            text("cannot be reassigned, as brokers ", listed("stuck"), " are not there: ", what),
            "bring those brokers up, or cancel: kafka-reassign-partitions --cancel",
        ),
    ]


def _topic_rules() -> Sequence[DoctorRule]:
    min_isr, replicas = fn.col("min_isr"), fn.col("replica_count")
    return [
        DoctorRule(
            WARN,
            "ONE_REPLICA",
            fn.col("single") > 0,
            text(fn.col("single"), " of ", fn.col("partitions"), " partitions have one replica"),
            "add replicas: the loss of one broker takes them offline, of one disk loses them",
        ),
        DoctorRule(
            WARN,
            "MIN_ISR_ABOVE_REPLICAS",
            min_isr > replicas,
            text("min.insync.replicas is ", min_isr, ", and there are ", replicas, " replicas"),
            "lower min.insync.replicas or add replicas: as it is, every replica must be in sync",
        ),
        DoctorRule(
            WARN,
            "MIN_ISR_EQUALS_REPLICAS",
            (min_isr == replicas) & (replicas > 1),
            text("min.insync.replicas is ", min_isr, ", and so is the number of replicas"),
            "lower min.insync.replicas or add a replica: as it is, any one broker's restart stops writes",
        ),
        DoctorRule(
            WARN,
            "UNCLEAN_ELECTION_ENABLED",
            fn.col("elects_uncleanly"),
            text("unclean.leader.election.enable is true"),
            "set it to false, unless being there matters more than what was written",
        ),
        DoctorRule(
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
    """Returns each partition's replicas on brokers or directories that are offline, fenced or shutting down."""
    return replicas_of(now).where("not is_there").groupBy(*_ID).agg(fn.collect_set("broker_id").alias("absent"))


def _past(history: DataFrame) -> DataFrame:
    """Computes each partition's last leader, and since when it has had no leader, a small ISR, an ELR and so on."""
    conditions = {
        "no_leader_since": fn.col("leader") == NO_LEADER,
        "under_replicated_since": _is_under_replicated(),
        "elr_since": fn.size("elr") > 0,
        "recovering_since": fn.col("leader_recovery_state") == RECOVERING,
        "moving_since": _is_moving(),
    }
    led = history.where(fn.col("leader") != NO_LEADER).groupBy(*_ID)
    last = led.agg(fn.max_by("leader", "valid_from_offset").alias("last_leader"))
    return began(history, _ID, conditions).join(last, list(_ID), "left")


def _last_leader() -> Column:
    """Returns the last leader; if the log begins without a leader, the one that the controller has noted (KIP-966)."""
    return fn.coalesce("last_leader", fn.try_element_at("last_known_elr", fn.lit(1)))


def _under_min_isr_since(now: Present, history: DataFrame, configs: DataFrame, limits: DoctorLimits) -> DataFrame:
    """Computes since when each partition's ISR has been too small: ISR and min.insync.replicas may both change."""
    ends = now.at.select("cluster_id", "as_of_offset", fn.col("as_of_time").alias("log_end_time"))
    spans = (
        partition_spans(history, configs, ends, min_isr=limits.min_isr)
        .where("offset < as_of_offset")
        .withColumns(
            {
                "valid_from_offset": fn.col("offset"),
                "valid_from_time": fn.col("begin"),
                "valid_to_offset": fn.lead("offset").over(by_key(KEY)),
                "valid_to_time": fn.col("end"),
            }
        )
    )
    return began(spans, _ID, {"under_min_isr_since": fn.col("under_min_isr")})


def _least_isr() -> Column:
    """Formats min.insync.replicas, and says if it is assumed."""
    assumed = fn.when(fn.col("min_isr_is_assumed"), " (assumed: no record says it)").otherwise("")
    return text("min.insync.replicas ", fn.col("min_isr"), assumed)


def _is_under_replicated() -> Column:
    """Returns whether the ISR is smaller than the replicas; a replica that is being added does not count (KIP-455)."""
    return fn.size("isr") < fn.size(fn.array_except("replicas", "adding_replicas"))


def _is_moving() -> Column:
    return (fn.size("adding_replicas") + fn.size("removing_replicas")) > 0
