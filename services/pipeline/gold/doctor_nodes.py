"""Doctor findings about brokers and controllers: stale registrations, offline directories, features that they block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from quorate.metadata.features import KRAFT_VERSION
from quorate.metadata.versions import METADATA_VERSION, RELEASES
from quorate.records import RegisterControllerRecord
from services.pipeline.frames import struct_type
from services.pipeline.gold.advice import with_room
from services.pipeline.gold.began import began, last_lives
from services.pipeline.gold.conditions import is_offline
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
from services.pipeline.silver.present import Present, is_online, replicas_of
from services.pipeline.silver.validity import by_key

__all__ = ["feature_findings", "node_findings"]

_KEY = ("cluster_id", "broker_id")


def node_findings(now: Present, history: DataFrame, limits: DoctorLimits) -> DataFrame:
    """Returns the findings about single brokers, registered or not."""
    movable = with_room(now.partitions, now).select(
        "cluster_id", "topic_id", "partition_id", (~is_offline(fn.col("leader"))).alias("is_led"), _has_taker()
    )
    held = replicas_of(now).join(movable, ["cluster_id", "topic_id", "partition_id"])
    is_offline_there = ~is_online("directory", "log_dirs")
    replicas = held.groupBy(*_KEY).agg(
        fn.count("*").alias("replicas"),
        fn.bool_and("is_led").alias("are_led"),
        fn.bool_and("has_taker").alias("have_takers"),
        fn.sum(is_offline_there.cast("int")).alias("offline"),
        fn.array_sort(fn.collect_set(fn.when(is_offline_there, fn.col("directory")))).alias("failed"),
    )
    racked = now.brokers.groupBy("cluster_id").agg(fn.count("rack").alias("with_rack"))
    rows = now.brokers.withColumn("registered", fn.lit(True)).join(replicas, list(_KEY), "full")
    for known in (_fencings(now, history), _past(history)):
        rows = rows.join(known, list(_KEY), "left")
    rows = rows.join(fn.broadcast(racked), "cluster_id", "left")
    rows = rows.join(fn.broadcast(now.at), "cluster_id")
    rows = rows.withColumns(
        {
            "replicas": fn.coalesce("replicas", fn.lit(0)),
            "since_offset": fn.coalesce("fenced_offset", "since_offset"),
            "since_time": fn.coalesce("fenced_time", "since_time"),
            "days": days_between("fenced_time", "as_of_time"),
        }
    )
    return findings(rows, text("broker ", fn.col("broker_id")), _broker_rules(limits))


def feature_findings(now: Present) -> DataFrame:
    """Returns the findings about feature levels that could be higher, and the nodes that prevent it."""
    declared, finalized = _declared(now), _finalized(now)
    spans = declared.groupBy("cluster_id", "feature").agg(
        fn.min("highest").alias("common"), fn.max("highest").alias("newest")
    )
    levels = spans.join(finalized, ["cluster_id", "feature"], "left").withColumn(
        "level", fn.coalesce("level", fn.lit(0))
    )
    levels = levels.drop("since_offset", "since_time").join(
        finalized.select("cluster_id", "feature", "since_offset", "since_time"), ["cluster_id", "feature"], "left"
    )
    nodes = declared.join(levels, ["cluster_id", "feature"])
    return findings(levels, text("feature ", fn.col("feature")), _level_rules()).unionByName(
        findings(nodes, fn.col("node"), _range_rules())
    )


def _broker_rules(limits: DoctorLimits) -> Sequence[DoctorRule]:
    fenced = fn.col("fenced")
    return [
        DoctorRule(
            WARN,
            "STALE_REGISTRATION",
            fenced & (fn.col("days") > limits.stale_days),
            text("has been fenced for ", fn.round("days", 1), " days"),
            _retire(),
        ),
        DoctorRule(
            WARN,
            "FENCED_WITH_REPLICAS",
            fenced & (fn.col("replicas") > 0),
            text("is fenced and holds ", fn.col("replicas"), " replicas"),
            _start_or_move("start it"),
        ),
        DoctorRule(
            ERROR,
            "UNREGISTERED_WITH_REPLICAS",
            fn.col("registered").isNull(),
            text("is not registered and holds ", fn.col("replicas"), " replicas"),
            _start_or_move("start it again under its id"),
            "unregistered_since",
        ),
        DoctorRule(
            ERROR,
            "OFFLINE_DIRECTORY",
            fn.col("registered") & (fn.col("offline") > 0),
            text("has ", fn.col("offline"), " replicas in directories that are offline: ", listed("failed")),
            _start_or_move("mend or replace the disk and restart the broker"),
            "directories_since",
        ),
        DoctorRule(
            WARN,
            "FLAPPING",
            fn.col("fencings") >= limits.flaps,
            text("was fenced ", fn.col("fencings"), " times within a day"),
            "see its garbage collections, its network and broker.session.timeout.ms",
            "flapping_since",
        ),
        DoctorRule(
            WARN,
            "NO_RACK",
            fn.col("registered") & fn.col("rack").isNull() & (fn.col("with_rack") > 0),
            text("has no rack, though others have"),
            "set broker.rack: replicas are not spread over racks that are not known",
            "no_rack_since",
        ),
        DoctorRule(
            INFO,
            "CORDONED_DIRECTORIES",
            fn.size("cordoned_log_dirs") > 0,
            text("gets no new replicas in ", listed("cordoned_log_dirs")),
            "when they are to be used again, delete cordoned.log.dirs, or leave their paths out of it (KIP-1066)",
            "cordoned_since",
        ),
    ]


def _level_rules() -> Sequence[DoctorRule]:
    level, common = fn.col("level"), fn.col("common")
    is_quorums = fn.col("feature") == KRAFT_VERSION
    behind = level < common
    return [
        DoctorRule(
            INFO,
            "FEATURE_BEHIND",
            behind & ~is_quorums,
            text("is at ", _named(level), "; all nodes support ", _named(common)),
            "when nobody wants to go back: kafka-features upgrade",
        ),
        DoctorRule(
            WARN,
            "KRAFT_VERSION_BEHIND",
            behind & is_quorums,
            text("is at ", level, "; all nodes support ", common),
            "kafka-features upgrade --feature kraft.version=1: without it no voter can be added or removed (KIP-853)",
        ),
    ]


def _range_rules() -> Sequence[DoctorRule]:
    lowest, highest, level = fn.col("lowest"), fn.col("highest"), fn.col("level")
    supports = text("supports ", fn.col("feature"), " from ", _named(lowest), " to ", _named(highest))
    return [
        DoctorRule(
            WARN,
            "BLOCKS_FEATURE",
            highest < fn.col("newest"),
            text(supports, ", others up to ", _named(fn.col("newest"))),
            "upgrade its software, or unregister it if it is gone: until then the feature cannot go higher",
        ),
        DoctorRule(
            ERROR,
            "FEATURE_NOT_SUPPORTED",
            (level > 0) & ((level < lowest) | (level > highest)),
            text(supports, ", and it is at ", _named(level)),
            "run it with software that supports the level: it cannot take part as it is",
        ),
    ]


def _fencings(now: Present, history: DataFrame) -> DataFrame:
    """Computes since when each broker has been fenced without interruption, and its fencings within the last day."""
    order = by_key(("broker_id",), "valid_from_offset")
    rows = history.join(fn.broadcast(now.at), "cluster_id").withColumns(
        {
            "follows": fn.lag("valid_to_offset").over(order) == fn.col("valid_from_offset"),
            "was_fenced": fn.lag("fenced").over(order),
        }
    )
    again = fn.coalesce(fn.col("follows") & fn.col("was_fenced"), fn.lit(False))
    began = rows.withColumn("began", fn.col("fenced") & ~again)
    is_late = days_between("valid_from_time", "as_of_time") < 1
    # A broker in controlled shutdown is being restarted and has not failed.
    sudden = fn.col("follows") & ~fn.col("was_fenced") & ~fn.col("in_controlled_shutdown")
    failed = fn.col("began") & fn.coalesce(sudden, fn.lit(False)) & is_late
    starts = fn.struct(fn.col("valid_from_offset").alias("offset"), fn.col("valid_from_time").alias("time"))
    return (
        began.groupBy(*_KEY)
        .agg(
            fn.max(fn.when(fn.col("began"), starts)).alias("last_began"),
            fn.max_by("fenced", "valid_from_offset").alias("is_fenced"),
            fn.sum(failed.cast("int")).alias("fencings"),
            fn.min(fn.when(failed, starts)).alias("flapping_since"),
        )
        .select(
            *_KEY,
            fn.when(fn.col("is_fenced"), fn.col("last_began.offset")).alias("fenced_offset"),
            fn.when(fn.col("is_fenced"), fn.col("last_began.time")).alias("fenced_time"),
            "fencings",
            "flapping_since",
        )
    )


def _past(history: DataFrame) -> DataFrame:
    """Computes since when each broker has had no rack, cordoned directories, and these directories; when it went.

    A registration does not say which directories are cordoned until the broker does; the value before counts.
    """
    order = by_key(("broker_id",), "valid_from_offset")
    dirs = fn.last(fn.when(fn.size("log_dirs") > 0, fn.col("log_dirs")), ignorenulls=True)
    known = history.withColumns(
        {
            "cordoned": fn.last("cordoned_log_dirs", ignorenulls=True).over(order),
            "was_dirs": dirs.over(order.rowsBetween(Window.unboundedPreceding, -1)),
        }
    )
    conditions = {"no_rack_since": fn.col("rack").isNull(), "cordoned_since": fn.size("cordoned") > 0}
    starts = fn.struct(fn.col("valid_from_offset").alias("offset"), fn.col("valid_from_time").alias("time"))
    ends = fn.struct(fn.col("valid_to_offset").alias("offset"), fn.col("valid_to_time").alias("time"))
    moved = fn.col("was_dirs").isNull() | (fn.col("was_dirs") != fn.col("log_dirs"))
    last = known.groupBy(*_KEY).agg(
        fn.max(fn.when(moved, starts)).alias("directories_since"),
        fn.max(fn.when(fn.col("end_type") == "UNREGISTER_BROKER_RECORD", ends)).alias("unregistered_since"),
    )
    return began(last_lives(known, "broker_id"), _KEY, conditions).join(last, list(_KEY))


def _has_taker() -> Column:
    return (fn.size(fn.array_except("takers", "replicas")) > 0).alias("has_taker")


def _retire() -> Column:
    """Advises on a broker that may never come back: its replicas must be elsewhere before it is unregistered."""
    leave = fn.when(fn.col("replicas") == 0, "unregister it").when(
        fn.col("are_led") & fn.col("have_takers"), "move its replicas and unregister it"
    )
    retire = fn.concat(fn.lit("if it is not to come back, "), leave, fn.lit(": it still counts for features"))
    return fn.coalesce(retire, text("start it: ", _why_not_moved(), ", so it cannot be unregistered now"))


def _start_or_move(start: str) -> Column:
    """Advises to start a broker, or to move its replicas if each can be copied and another broker can take it."""
    can_move = fn.col("are_led") & fn.col("have_takers")
    return fn.when(can_move, f"{start}, or move its replicas to others").otherwise(
        text(f"{start}: ", _why_not_moved(), ", so they cannot be moved now")
    )


def _why_not_moved() -> Column:
    return fn.when(fn.col("are_led"), "no other broker can take all its replicas").otherwise(
        "some of its replicas are of partitions that have no leader to copy them from"
    )


def _declared(now: Present) -> DataFrame:
    """Returns the feature versions that each broker and controller supports: `node`, `feature`, `lowest`, `highest`."""
    of_brokers = now.brokers.select("cluster_id", text("broker ", fn.col("broker_id")).alias("node"), "features")
    payload = fn.from_json("payload", struct_type(RegisterControllerRecord))
    controllers = now.kept.where("kind = 'controller'").withColumn("r", payload)
    named = text("controller ", fn.col("r.controllerId")).alias("node")
    nodes = of_brokers.unionByName(controllers.select("cluster_id", named, fn.col("r.features").alias("features")))
    ranges = nodes.select("cluster_id", "node", fn.explode("features").alias("f")).select(
        "cluster_id",
        "node",
        fn.col("f.name").alias("feature"),
        fn.col("f.minSupportedVersion").alias("lowest"),
        fn.col("f.maxSupportedVersion").alias("highest"),
    )
    every = nodes.select("cluster_id", "node").join(ranges.select("cluster_id", "feature").distinct(), "cluster_id")
    # A node that does not name a feature has it at 0 (KIP-584).
    return every.join(ranges, ["cluster_id", "node", "feature"], "left").fillna(0, ["lowest", "highest"])


def _finalized(now: Present) -> DataFrame:
    def value(name: str) -> Column:
        return fn.get_json_object("payload", f"$.{name}")

    at = ("since_offset", "since_time")
    levels = now.kept.where("kind = 'feature'").select(
        "cluster_id", value("name").alias("feature"), value("featureLevel").cast("int").alias("level"), *at
    )
    version = value("kRaftVersion").cast("int").alias("level")
    quorums = now.kept.where("kind = 'kraft_version'").select(
        "cluster_id", fn.lit(KRAFT_VERSION).alias("feature"), version, *at
    )
    return levels.unionByName(quorums)


def _named(level: Column) -> Column:
    """Formats a level; a metadata.version with its release."""
    names = fn.create_map(*(fn.lit(each) for each in chain.from_iterable(RELEASES.items())))
    release = fn.when(fn.col("feature") == METADATA_VERSION, names[level])
    return fn.concat(level.cast("string"), fn.coalesce(fn.concat(fn.lit(" ("), release, fn.lit(")")), fn.lit("")))
