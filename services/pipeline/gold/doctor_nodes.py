"""What the past tells the doctor of brokers, features, voters, and of configs, ACLs and tokens."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from quorate.doctor import Condition
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.features import KRAFT_VERSION
from quorate.records import VotersRecord
from services.pipeline.frames import struct_type
from services.pipeline.gold.began import began, last_lives
from services.pipeline.gold.doctor_rules import days_between, moment, text
from services.pipeline.gold.told import BROKER_PAST, ELECTED, documents, moments, since_row
from services.pipeline.silver.present import Present
from services.pipeline.silver.validity import by_key

__all__ = ["brokers_told", "quorum_told", "things_told"]

_KEY = ("cluster_id", "broker_id")
_UNREGISTERED = "UNREGISTER_BROKER_RECORD"


def brokers_told(now: Present, history: DataFrame) -> list[DataFrame]:
    """Tells of single brokers, registered or not."""
    rows = _fencings(now, history).join(_past(history), list(_KEY), "full")
    begins = {
        Condition.FENCED: "fenced_since",
        Condition.UNREGISTERED: "unregistered_since",
        Condition.DIRECTORIES: "directories_since",
        Condition.FLAPPING: "flapping_since",
        Condition.NO_RACK: "no_rack_since",
        Condition.CORDONED: "cordoned_since",
    }
    told = rows.join(_gone(history), list(_KEY), "full")
    fields = (
        "broker_id",
        "fencings",
        fn.col("gone.offset").alias("gone_offset"),
        fn.unix_millis("gone.time").alias("gone_ms"),
        "words",
    )
    documents_ = documents(told, BROKER_PAST, fn.to_json(fn.struct(*fields)))
    return [moments(rows, text("broker ", fn.col("broker_id")), begins), documents_]


def quorum_told(now: Present, kept: DataFrame, events: DataFrame) -> list[DataFrame]:
    """Tells of the voter set, and who voted in the last election; `kept` is the history of the set and others. KIP-853.

    Every active controller writes the set again, so a finding began when the number of voters became what it is.
    """
    count = fn.size(fn.from_json("payload", struct_type(VotersRecord))["voters"])
    conditions = {"even_since": count % 2 == 0, "single_since": count == 1}
    since = began(kept.where("kind = 'voters'"), ["cluster_id"], conditions)
    begins = {Condition.EVEN_VOTERS: "even_since", Condition.SINGLE_VOTER: "single_since"}
    elected = events.where("type = 'LEADER_CHANGE'").groupBy("cluster_id")
    last = elected.agg(fn.max_by("payload", "offset").alias("payload"))
    voters = now.kept.where("kind = 'voters'")
    return [
        moments(since, fn.lit("quorum"), begins),
        since_row(voters, fn.lit("quorum")),
        documents(last, ELECTED, fn.col("payload")),
    ]


def things_told(now: Present) -> list[DataFrame]:
    """Tells since when features have their level, and resources their first config, and of ACLs and tokens."""

    def field(name: str) -> Column:
        return fn.get_json_object("payload", f"$.{name}")

    configs = now.configs.groupBy("cluster_id", "resource_type", "resource_name").agg(
        fn.min("since_offset").alias("since_offset"), fn.min("since_time").alias("since_time")
    )
    kind = fn.when(fn.col("resource_type") == TOPIC, "topic ").otherwise("broker ")
    named = configs.where(fn.col("resource_type").isin(TOPIC, BROKER) & (fn.col("resource_name") != ""))

    def of(kind: str) -> DataFrame:
        return now.kept.where(fn.col("kind") == kind)

    return [
        since_row(of("feature"), text("feature ", field("name")), Condition.LEVEL),
        since_row(of("kraft_version"), fn.lit(f"feature {KRAFT_VERSION}"), Condition.LEVEL),
        since_row(of("acl"), text("acl ", field("id"))),
        since_row(of("delegation_token"), text("delegation token ", field("tokenId"))),
        since_row(named, text(kind, fn.col("resource_name"))),
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
            fn.when(fn.col("is_fenced"), fn.col("last_began")).alias("fenced_since"),
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
        fn.max(fn.when(fn.col("end_type") == _UNREGISTERED, ends)).alias("unregistered_since"),
    )
    return began(last_lives(known, "broker_id"), _KEY, conditions).join(last, list(_KEY))


def _gone(history: DataFrame) -> DataFrame:
    """Computes, for each broker that is fenced, shutting down or unregistered, since when and how it went away."""
    key = list(_KEY)
    conditions = {"fenced": fn.col("fenced"), "shut": fn.coalesce("in_controlled_shutdown", fn.lit(False))}
    lives = last_lives(history, "broker_id")
    since = began(lives, key, {f"{name}_since": of for name, of in conditions.items()})
    names = ("fenced", "in_controlled_shutdown", "end_type", "valid_to_time")
    last = lives.groupBy(*key).agg(*(fn.max_by(name, "valid_from_offset").alias(name) for name in names))
    left = fn.coalesce(fn.col("end_type") == _UNREGISTERED, fn.lit(False))
    was_there = ~fn.col("fenced") & ~fn.coalesce("in_controlled_shutdown", fn.lit(False))
    # A controlled shutdown ends with fencing, so the shutdown is the beginning.
    was_shut = fn.coalesce("in_controlled_shutdown", fn.lit(False))
    at = fn.when(was_shut, fn.col("shut_since")).otherwise(fn.col("fenced_since"))
    how = fn.when(was_shut, " began a controlled shutdown at ").otherwise(" was fenced at ")
    end = fn.when(left, text(" and unregistered at ", moment(fn.col("valid_to_time")))).otherwise("")
    went = fn.concat(how, moment(at["time"]), end)
    words = fn.when(was_there, text(" was unregistered at ", moment(fn.col("valid_to_time")))).otherwise(went)
    rows = last.where(left | ~was_there).join(since, key)
    return rows.select(*key, at.alias("gone"), fn.concat(text("broker ", fn.col("broker_id")), words).alias("words"))
