"""Doctor findings about partitions and topics: leaders, ISRs, replicas, reassignments, racks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.partitions import NO_LEADER
from services.pipeline.gold.advice import (
    brokers_named,
    first_make_room,
    gone_replicas,
    leader_advice,
    replica_advice,
    rooms,
    then_replicas,
    with_room,
)
from services.pipeline.gold.began import began
from services.pipeline.gold.conditions import (
    is_moving,
    is_offline,
    is_recovering,
    is_under_min_isr,
    is_under_replicated,
    wanted_replicas,
)
from services.pipeline.gold.doctor_rules import (
    ERROR,
    INFO,
    WARN,
    DoctorLimits,
    DoctorRule,
    days_between,
    findings,
    listed,
    moment,
    text,
)
from services.pipeline.gold.doctor_since import crowded_since, never, unclean_since
from services.pipeline.gold.past import Past
from services.pipeline.gold.skew import crowded
from services.pipeline.memory import shortened
from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.present import UNCLEAN, Present, partition_settings, replicas_of, topic_settings

__all__ = ["leader_findings", "partition_findings", "topic_findings"]

_ID = ("cluster_id", *KEY)
_OF_SINGLE = "single_"
"""Before the names of `rooms`: of a topic's partitions with one replica."""


def partition_findings(now: Present, past: Past, since: DataFrame, limits: DoctorLimits) -> DataFrame:
    """Returns the findings about single partitions, from their past; `since` is from `config_conditions`."""
    rows = partition_settings(now, limits.min_isr)
    for known in (gone_replicas(now), _past(past.states), _unclean(past.spans), since):
        rows = rows.join(known, list(_ID), "left")
    rows = rows.join(fn.broadcast(now.at), "cluster_id")
    nobody = fn.array().cast("array<int>")
    rows = rows.withColumns({name: fn.coalesce(name, nobody) for name in ("gone", "failed")}).withColumns(
        {
            "is_small": is_under_min_isr(fn.col("leader"), fn.size("isr"), fn.size("replicas"), fn.col("min_isr")),
            "hours": days_between("moving_since.time", "as_of_time") * 24,
            "stuck": fn.array_intersect("adding_replicas", fn.array_union("gone", "failed")),
        }
    )
    subject = text("partition ", fn.col("topic"), "-", fn.col("partition_id"))
    return findings(rows, subject, [*_state_rules(), *_unclean_rules(), *_move_rules(limits)])


def topic_findings(now: Present, history: Mapping[str, DataFrame], since: DataFrame, limits: DoctorLimits) -> DataFrame:
    """Returns the findings about single topics: their placement and configs; `since` is from `config_conditions`.

    `history` has the histories of partitions, configs and brokers.
    """
    known = with_room(now.partitions.join(since, list(_ID), "left"), now)
    is_single = fn.size("replicas") == 1
    grouped = known.groupBy("cluster_id", "topic_id", "topic").agg(
        fn.count("*").alias("partitions"),
        fn.min(fn.size("replicas")).alias("replica_count"),
        fn.sum(is_single.cast("int")).alias("single"),
        *(fn.bool_and(holds).alias(name) for name, holds in rooms().items()),
        *(fn.bool_and(fn.when(is_single, holds)).alias(f"{_OF_SINGLE}{name}") for name, holds in rooms().items()),
        *(fn.first(name).alias(name) for name in ("takers", "away", "full")),
        *(
            fn.min(fn.when(fn.col(f"{name}.offset").isNotNull(), fn.col(name))).alias(name)
            for name in ("single_since", "above_since", "equal_since")
        ),
    )
    on_one = fn.sum((fn.size("racks") == 1).cast("int")).alias("on_one_rack")
    bad = (
        _crowded(now, history)
        .groupBy("cluster_id", "topic_id")
        .agg(fn.count("*").alias("crowded"), on_one, fn.min("crowded_since").alias("crowded_since"))
    )
    rows = grouped.join(topic_settings(now, limits.min_isr), ["cluster_id", "topic_id"])
    rows = rows.join(bad, ["cluster_id", "topic_id"], "left")
    rows = _with_unclean_since(rows, now, history["config_history"])
    return findings(rows, text("topic ", fn.col("topic")), _topic_rules())


def leader_findings(now: Present, states: DataFrame, limits: DoctorLimits) -> DataFrame:
    """Returns the findings about live brokers that lead too few of the partitions for which they are preferred."""
    moved = began(states, _ID, {"moved_since": fn.col("led_by_another")})
    placed = replicas_of(now).where("place = 0 and is_there").join(moved, list(_ID))
    of_others = fn.collect_list(fn.when(fn.col("moved_since.time").isNotNull(), fn.col("moved_since")))
    rows = placed.groupBy("cluster_id", "broker_id").agg(
        fn.count("*").alias("preferred"), fn.array_sort(of_others).alias("elsewhere")
    )
    # The limit was passed with the first partition that is too many, of those that others lead now.
    allowed = fn.floor(fn.col("preferred") * limits.imbalance).cast("int")
    rows = rows.withColumn("imbalanced_since", fn.try_element_at("elsewhere", allowed + 1))
    elsewhere = fn.size("elsewhere")
    rule = DoctorRule(
        WARN,
        "PREFERRED_LEADER_IMBALANCE",
        elsewhere > fn.col("preferred") * limits.imbalance,
        text(elsewhere, " of ", fn.col("preferred"), " partitions that it should lead are led by others"),
        "let auto.leader.rebalance.enable see to it, or run kafka-leader-election --election-type preferred",
        "imbalanced_since",
    )
    return findings(rows, text("broker ", fn.col("broker_id")), [rule])


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


def _state_rules() -> Sequence[DoctorRule]:
    leader = fn.col("leader")
    changed = text(", until ", moment(fn.col("isr_change.time")), " it was ", listed("isr_change.was"))
    since = fn.when(fn.col("isr_change").isNotNull(), changed).otherwise("")
    here = text("replicas ", listed("replicas"), "; ISR ", listed("isr"), since)
    led_first = fn.concat(leader_advice(), then_replicas())
    advice = fn.when(is_offline(leader), led_first).otherwise(replica_advice())
    one_in_elr = fn.size("elr") == 1
    may_lead = fn.when(one_in_elr, " is eligible to lead").otherwise(" are eligible to lead")
    return [
        DoctorRule(
            ERROR,
            "NO_LEADER",
            is_offline(leader),
            text("has no leader, the last was broker ", _last_leader(), "; ", here, "; ELR ", listed("elr")),
            leader_advice(),
            "no_leader_since",
        ),
        DoctorRule(
            ERROR,
            "UNDER_MIN_ISR",
            fn.col("is_small"),
            text("takes no writes with acks=all: ", _without_leader(), here, "; ", _least_isr()),
            advice,
            "under_min_isr_since",
        ),
        DoctorRule(
            WARN,
            "UNDER_REPLICATED",
            is_under_replicated(fn.size("isr"), fn.size(wanted_replicas())),
            text("has a replica that is not in the ISR: ", here),
            advice,
            "under_replicated_since",
        ),
        DoctorRule(
            INFO,
            "ELR_NOT_EMPTY",
            fn.size("elr") > 0,
            text(brokers_named(fn.col("elr")), may_lead, " without being in the ISR (KIP-966)"),
            "do not wipe the logs of the ELR's members: each has every committed record that was not lost before",
            "elr_since",
        ),
    ]


def _unclean_rules() -> Sequence[DoctorRule]:
    leader = fn.col("leader")
    return [
        DoctorRule(
            WARN,
            "RECOVERING",
            is_recovering(fn.col("leader_recovery_state")),
            text("has not recovered from an unclean election (KIP-704); leader ", fn.nullif(leader, fn.lit(NO_LEADER))),
            fn.when(
                is_offline(leader), "records may be lost; it recovers when it has a leader that changes the ISR"
            ).otherwise("records may be lost; it recovers when its leader changes the ISR: see why none joins it"),
            "recovering_since",
        ),
        DoctorRule(
            WARN,
            "UNCLEAN_ELECTION",
            (fn.col("unclean.count") > 0) & ~is_recovering(fn.col("leader_recovery_state")),
            _was_unclean(),
            "what that leader lacked is in no replica now: compare what producers wrote before that time with what"
            " consumers read, and let them write again what is missing",
            "unclean",
        ),
    ]


def _move_rules(limits: DoctorLimits) -> Sequence[DoctorRule]:
    moving = is_moving(fn.size("adding_replicas"), fn.size("removing_replicas"))
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
            "start those brokers, or cancel: kafka-reassign-partitions --cancel",
            "moving_since",
        ),
    ]


def _topic_rules() -> Sequence[DoctorRule]:
    min_isr, replicas = fn.col("min_isr"), fn.col("replica_count")
    has = fn.when(fn.col("single") == 1, "has").otherwise("have")
    # KIP-966: a changed min.insync.replicas empties the ELR, from which the partitions without a leader would get one.
    when = fn.when(fn.col("is_led"), "").otherwise(", once every partition has a leader (it empties the ELR)")
    lower = fn.concat(fn.lit("lower min.insync.replicas"), when, fn.lit(", or "))
    single = text(fn.col("single"), " of ", fn.col("partitions"), " partitions ", has, " one replica")
    single = fn.when(fn.col("partitions") == 1, "its only partition has one replica").otherwise(single)
    return [
        DoctorRule(
            WARN,
            "ONE_REPLICA",
            fn.col("single") > 0,
            single,
            _possible(
                fn.lit(""),
                "add replicas",
                ": without its broker a partition is offline, without its disk it is lost",
                _OF_SINGLE,
            ),
            "single_since",
        ),
        DoctorRule(
            WARN,
            "MIN_ISR_ABOVE_REPLICAS",
            min_isr > replicas,
            text("min.insync.replicas is ", min_isr, ", and there are ", replicas, " replicas"),
            _possible(lower, "add replicas", ": as it is, every replica must be in sync"),
            "above_since",
        ),
        DoctorRule(
            WARN,
            "MIN_ISR_EQUALS_REPLICAS",
            (min_isr == replicas) & (replicas > 1),
            text("min.insync.replicas is ", min_isr, ", and so is the number of replicas"),
            _possible(lower, "add a replica", ": as it is, any one broker's restart stops writes with acks=all"),
            "equal_since",
        ),
        DoctorRule(
            WARN,
            "UNCLEAN_ELECTION_ENABLED",
            fn.col("elects_uncleanly"),
            text("unclean.leader.election.enable is true"),
            "set it to false, unless being there matters more than what was written",
            "unclean_since",
        ),
        DoctorRule(
            WARN,
            "RACK_VIOLATION",
            fn.col("crowded") > 0,
            _racks(),
            _possible(fn.lit(""), "reassign the replicas", ": the loss of one rack takes more of them than it must"),
            "crowded_since",
        ),
    ]


def _possible(other: Column, act: str, why: str, of: str = "") -> Column:
    """Advises an act that needs a broker for another replica, behind what there must be first if there is none.

    `of` is what the columns of `rooms` have before their names.
    """
    first = text(first_make_room(of), ", then ")
    return fn.concat(other, fn.when(fn.col(f"{of}has_room"), "").otherwise(first), fn.lit(f"{act}{why}"))


def _racks() -> Column:
    counts = text(fn.col("crowded"), " of ", fn.col("partitions"), " partitions are on fewer racks than there are")
    return fn.concat(counts, text(", ", fn.col("on_one_rack"), " of them on a single one"))


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


def _was_unclean() -> Column:
    """Says when the last unclean election was, which has been recovered from."""
    many = text(" in the last of ", fn.col("unclean.count"), " unclean elections")
    how = fn.when(fn.col("unclean.count") > 1, many).otherwise(" in an unclean election")
    led = text("was led by broker ", fn.col("unclean.leader"), " from ", moment(fn.col("unclean.time")), " on,")
    return fn.concat(led, fn.lit(" elected"), how, fn.lit(", and has recovered since: records may be lost"))


def _last_leader() -> Column:
    """Returns the last leader; if the log begins without a leader, the one that the controller has noted (KIP-966)."""
    return fn.coalesce("last_leader", fn.try_element_at("last_known_elr", fn.lit(1)))


def _without_leader() -> Column:
    return fn.when(is_offline(fn.col("leader")), "no leader, so no writes at all; ").otherwise("")


def _least_isr() -> Column:
    """Formats min.insync.replicas, and says if it is assumed."""
    assumed = fn.when(fn.col("min_isr_is_assumed"), " (assumed: no record says it)").otherwise("")
    return text("min.insync.replicas ", fn.col("min_isr"), assumed)
