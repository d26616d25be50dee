"""The audit timeline: one sentence for every change, with what was before and whose request it was.

Secrets are not in it: of what may be one only the name is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.partitions import NO_LEADER, RECOVERED, RECOVERING
from quorate.metadata.secrets import REDACTED
from quorate.records import LeaderChangeMessage
from services.pipeline.frames import struct_type
from services.pipeline.silver.partitions import KEY as PARTITION_KEY
from services.pipeline.silver.partitions import STATE
from services.pipeline.silver.spans import by_key

__all__ = ["COLUMNS", "audit_timeline"]

COLUMNS: Final = ("cluster_id", "offset", "time", "subject", "sentence", "trace_id")
_SECRET: Final = "(?i)(password|secret|credential|jaas|private|keystore\\.key|token|sasl)"
"""Parts of the names of configs whose values may be secrets; wider than Kafka's own list."""
_QUIET: Final = ("feature", "voters", "kraft_version", "producer_ids", "zk_migration_state", "unknown")
"""Kinds that have sentences of their own, or none."""


def audit_timeline(silver: Mapping[str, DataFrame]) -> DataFrame:
    """Every change by offset: columns COLUMNS. What the first checkpoint brought is no change."""
    events = silver["events"]
    made = [
        _partitions(silver["partition_history"]),
        _topics(silver["topic_history"]),
        _brokers(silver["broker_history"]),
        _configs(silver["config_history"]),
        _features(silver["kept_history"]),
        _kept(silver["kept_history"]),
        _leaders(events),
    ]
    rows = made[0]
    for more in made[1:]:
        rows = rows.unionByName(more)
    bases = events.where("is_base").select("cluster_id", "offset").distinct()
    return rows.join(fn.broadcast(bases), ["cluster_id", "offset"], "left_anti").select(*COLUMNS)


def _partitions(history: DataFrame) -> DataFrame:
    changes = _with_before(history, PARTITION_KEY, STATE)
    created = fn.concat(
        fn.lit("is created: replicas "),
        _ids("replicas"),
        fn.lit(", ISR "),
        _ids("isr"),
        fn.lit(", leader "),
        _leader("leader"),
    )
    state, was = fn.col("leader_recovery_state"), fn.col("was_leader_recovery_state")
    changed = fn.concat_ws(
        "; ",
        _arrow("leader", "leader", _leader),
        _arrow("ISR", "isr", _ids),
        _arrow("replicas", "replicas", _ids),
        _arrow("adding", "adding_replicas", _ids),
        _arrow("removing", "removing_replicas", _ids),
        _arrow("ELR", "elr", _ids),
        _arrow("last known ELR", "last_known_elr", _ids),
        fn.when((state == RECOVERING) & (was == RECOVERED), "unclean election"),
        fn.when((state == RECOVERED) & (was == RECOVERING), "has recovered"),
    )
    told = fn.when(fn.col("is_first"), created).otherwise(changed)
    subject = fn.concat(fn.lit("partition "), "topic", fn.lit("-"), "partition_id")
    return _told(changes, subject, fn.when(told == "", fn.lit("is written again, unchanged")).otherwise(told))


def _brokers(history: DataFrame) -> DataFrame:
    named = fn.concat(fn.lit("broker "), fn.col("broker_id"))
    columns = ("fenced", "in_controlled_shutdown", "broker_epoch", "log_dirs", "cordoned_log_dirs")
    changes = _with_before(history, ("broker_id",), columns)
    state = fn.when(fn.col("fenced"), ", fenced").otherwise("")
    registered = fn.concat(fn.lit("registers in epoch "), "broker_epoch", state)
    changed = fn.concat_ws(
        "; ",
        fn.when(fn.col("fenced") & ~fn.col("was_fenced"), "is fenced"),
        fn.when(~fn.col("fenced") & fn.col("was_fenced"), "is unfenced"),
        fn.when(fn.col("in_controlled_shutdown") & ~fn.col("was_in_controlled_shutdown"), "shuts down"),
        _arrow("directories", "log_dirs", _texts),
        _arrow("cordoned directories", "cordoned_log_dirs", _texts),
    )
    again = fn.col("is_first") | (fn.col("broker_epoch") != fn.col("was_broker_epoch"))
    told = fn.when(again, registered).when(changed == "", "is written again, unchanged").otherwise(changed)
    gone = history.where("end_type = 'UNREGISTER_BROKER_RECORD'")
    return _told(changes, named, told).unionByName(_ended(gone, named, fn.lit("is unregistered")))


def _configs(history: DataFrame) -> DataFrame:
    key = ("resource_type", "resource_name", "name")
    kind = fn.when(fn.col("resource_type") == TOPIC, "topic").when(fn.col("resource_type") == BROKER, "broker")
    of = fn.when(fn.col("resource_name") == "", "(default)").otherwise(fn.col("resource_name"))
    subject = fn.concat_ws(" ", fn.coalesce(kind, fn.concat(fn.lit("resource of type "), "resource_type")), of)
    is_secret = fn.col("name").rlike(_SECRET)
    before = fn.when(fn.col("is_first"), "not set").when(is_secret, REDACTED).otherwise(fn.col("was_value"))
    after = fn.when(is_secret, REDACTED).otherwise(fn.col("value"))
    # What was unset in between begins anew.
    changes = _with_before(history, key, ("value", "valid_to_offset"))
    anew = fn.col("is_first") | (fn.col("was_valid_to_offset") < fn.col("valid_from_offset"))
    changes = changes.withColumn("is_first", anew)
    told = fn.concat("name", fn.lit(": "), before, fn.lit(" → "), after)
    gone = _not_followed(history, key).where("end_type = 'CONFIG_RECORD'")
    return _told(changes, subject, told).unionByName(
        _ended(gone, subject, fn.concat("name", fn.lit(": "), after, fn.lit(" → not set")))
    )


def _features(kept: DataFrame) -> DataFrame:
    rows = kept.where("kind = 'feature'").withColumns(
        {
            "name": fn.get_json_object("payload", "$.name"),
            "level": fn.get_json_object("payload", "$.featureLevel").cast("int"),
        }
    )
    changes = _with_before(rows, ("kind", "key"), ("level",))
    told = fn.concat(fn.coalesce(fn.col("was_level"), fn.lit(0)), fn.lit(" → "), fn.col("level"))
    return _told(changes, fn.concat(fn.lit("feature "), "name"), told)


def _kept(kept: DataFrame) -> DataFrame:
    rows = kept.where(~fn.col("kind").isin(*_QUIET))
    named = fn.concat_ws(" ", fn.regexp_replace("kind", "_", " "), "key")
    changes = _with_before(rows, ("kind", "key"), ())
    told = fn.when(fn.col("is_first"), "is set").otherwise("is set again")
    gone = _not_followed(rows, ("kind", "key")).where("valid_to_offset is not null")
    return _told(changes, named, told).unionByName(_ended(gone, named, fn.lit("is removed")))


def _leaders(events: DataFrame) -> DataFrame:
    payload = fn.from_json("payload", struct_type(LeaderChangeMessage))
    rows = events.where("type = 'LEADER_CHANGE'").withColumn("r", payload)
    told = fn.concat(fn.lit("node "), fn.col("r.leaderId"), fn.lit(" leads in epoch "), fn.col("epoch"))
    rows = rows.withColumns({"valid_from_offset": fn.col("offset"), "valid_from_time": fn.col("timestamp")})
    return _told(rows, fn.lit("quorum"), told)


def _topics(history: DataFrame) -> DataFrame:
    named = fn.concat(fn.lit("topic "), fn.col("name"))
    gone = history.where("valid_to_offset is not null")
    begun = _told(history, named, fn.concat(fn.lit("is created with id "), fn.col("topic_id")))
    return begun.unionByName(_ended(gone, named, fn.lit("is removed")))


def _with_before(history: DataFrame, key: tuple[str, ...], columns: tuple[str, ...]) -> DataFrame:
    """Rows with what was before, as `was_…`, and whether they are the first of their thing."""
    order = by_key(key, "valid_from_offset")
    before = {f"was_{name}": fn.lag(name).over(order) for name in columns}
    return history.withColumns({**before, "is_first": fn.row_number().over(order) == 1})


def _not_followed(history: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """The rows after which there was nothing, be it for a while."""
    following = fn.lead("valid_from_offset").over(by_key(key, "valid_from_offset"))
    return history.withColumn("following", following).where(~fn.col("following").eqNullSafe(fn.col("valid_to_offset")))


def _told(rows: DataFrame, subject: Column, sentence: Column) -> DataFrame:
    return _sentence(rows, "valid_from_offset", "valid_from_time", "trace_id", subject, sentence)


def _ended(rows: DataFrame, subject: Column, sentence: Column) -> DataFrame:
    return _sentence(rows, "valid_to_offset", "valid_to_time", "end_trace_id", subject, sentence)


def _sentence(rows: DataFrame, offset: str, time: str, trace: str, subject: Column, sentence: Column) -> DataFrame:
    return rows.select(
        "cluster_id",
        fn.col(offset).alias("offset"),
        fn.col(time).alias("time"),
        subject.alias("subject"),
        fn.concat_ws(" ", subject, sentence).alias("sentence"),
        fn.col(trace).alias("trace_id"),
    )


def _arrow(word: str, name: str, shown: Callable[[str], Column]) -> Column:
    """`word before → after`, or null where nothing changed."""
    differs = ~fn.col(name).eqNullSafe(fn.col(f"was_{name}"))
    return fn.when(differs, fn.concat(fn.lit(f"{word} "), shown(f"was_{name}"), fn.lit(" → "), shown(name)))


def _ids(name: str) -> Column:
    listed = fn.array_join(fn.transform(name, lambda each: each.cast("string")), ",")
    return fn.when(fn.coalesce(fn.size(name), fn.lit(0)) == 0, "none").otherwise(listed)


def _texts(name: str) -> Column:
    return fn.when(fn.coalesce(fn.size(name), fn.lit(0)) == 0, "none").otherwise(fn.array_join(name, ","))


def _leader(name: str) -> Column:
    return fn.when(fn.col(name) == NO_LEADER, "none").otherwise(fn.col(name).cast("string"))
