"""The audit timeline: one sentence for every change, with the state before and after and the request's trace id.

Values that may be secrets are not in it, only their configs' names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.controller.secrets import REDACTED
from quorate.metadata.configs import BROKER, TOPIC
from quorate.records import LeaderChangeMessage, VotersRecord
from services.pipeline.frames import struct_type
from services.pipeline.gold.audit_kept import kept_sentences
from services.pipeline.gold.audit_rows import began, ended, not_followed, with_before
from services.pipeline.gold.partition_sentences import COLUMNS as PARTITION_COLUMNS
from services.pipeline.gold.partition_sentences import SCHEMA, sentences
from services.pipeline.gold.secrets import is_secret
from services.pipeline.gold.states import States
from services.pipeline.memory import united
from services.pipeline.tables import Computed, TableFile

__all__ = ["audit_timeline"]


def audit_timeline(silver: Mapping[str, DataFrame], *, files: Sequence[TableFile] | None = None) -> Computed:
    """Returns a row (SCHEMA) for each thing that a record sets or removes, also if its value stays the same.

    What the base checkpoint holds has no row. Nor do unknown records and those of ZooKeeper's migration; and what is
    removed with its topic has no row of its own. `files` are those of the partition histories, if workers may read
    them.
    """
    events = silver["events"]
    made = [
        _topics(silver["topic_history"]),
        _brokers(silver["broker_history"]),
        _configs(silver["config_history"]),
        _features(silver["kept_history"]),
        kept_sentences(silver["kept_history"]),
        _leaders(events),
        _voters(silver["kept_history"]),
        _kraft_version(silver["kept_history"]),
    ]
    bases = events.where("is_base").select("cluster_id", "offset").distinct()
    others = united(made).join(fn.broadcast(bases), ["cluster_id", "offset"], "left_anti")
    base_offsets = bases.toArrow()
    return States(silver["partition_history"], files).computed(
        PARTITION_COLUMNS, lambda states, _: sentences(states, base_offsets), SCHEMA, beside=others
    )


def _brokers(history: DataFrame) -> DataFrame:
    named = fn.concat(fn.lit("broker "), fn.col("broker_id"))
    columns = ("fenced", "in_controlled_shutdown", "broker_epoch", "log_dirs", "cordoned_log_dirs")
    changes = with_before(history, ("broker_id",), columns)
    state = fn.when(fn.col("fenced"), ", fenced").otherwise("")
    # A broker that restarts within its session timeout is fenced by its new registration, and by no record before.
    unseen = fn.when(~fn.col("was_fenced"), fn.concat(fn.lit("; was unfenced in epoch "), "was_broker_epoch"))
    registered = fn.concat(fn.lit("registers in epoch "), "broker_epoch", state, fn.coalesce(unseen, fn.lit("")))
    changed = fn.concat_ws(
        "; ",
        fn.when(fn.col("fenced") & ~fn.col("was_fenced"), "is fenced"),
        fn.when(~fn.col("fenced") & fn.col("was_fenced"), "is unfenced"),
        fn.when(fn.col("in_controlled_shutdown") & ~fn.col("was_in_controlled_shutdown"), "enters controlled shutdown"),
        _arrow("directories", "log_dirs", _texts),
        _arrow("cordoned directories", "cordoned_log_dirs", _known_texts),
    )
    again = fn.col("is_first") | (fn.col("broker_epoch") != fn.col("was_broker_epoch"))
    sentence = fn.when(again, registered).when(changed == "", "is written again, unchanged").otherwise(changed)
    gone = history.where("end_type = 'UNREGISTER_BROKER_RECORD'")
    return began(changes, named, sentence).unionByName(ended(gone, named, fn.lit("is unregistered")))


def _configs(history: DataFrame) -> DataFrame:
    key = ("resource_type", "resource_name", "name")
    kind = fn.when(fn.col("resource_type") == TOPIC, "topic").when(fn.col("resource_type") == BROKER, "broker")
    of = fn.when(fn.col("resource_name") == "", "(default)").otherwise(fn.col("resource_name"))
    subject = fn.concat_ws(" ", fn.coalesce(kind, fn.concat(fn.lit("resource of type "), "resource_type")), of)
    is_shown = ~is_secret(fn.col("resource_type"), fn.col("name"))
    before = fn.when(fn.col("is_first"), "not set").when(is_shown, fn.col("was_value")).otherwise(REDACTED)
    after = fn.when(is_shown, fn.col("value")).otherwise(REDACTED)
    changes = with_before(history, key, ("value",))
    sentence = fn.concat("name", fn.lit(": "), before, fn.lit(" → "), after)
    gone = not_followed(history, key).where("end_type = 'CONFIG_RECORD'")
    return began(changes, subject, sentence).unionByName(
        ended(gone, subject, fn.concat("name", fn.lit(": "), after, fn.lit(" → not set")))
    )


def _features(kept: DataFrame) -> DataFrame:
    rows = kept.where("kind = 'feature'").withColumns(
        {
            "name": fn.get_json_object("payload", "$.name"),
            "level": fn.get_json_object("payload", "$.featureLevel").cast("int"),
        }
    )
    named = fn.concat(fn.lit("feature "), "name")
    gone = not_followed(rows, ("kind", "key")).where("valid_to_offset is not null")
    off = ended(gone, named, fn.concat(fn.col("level"), fn.lit(" → 0")))
    return _levels(rows, named).unionByName(off)


def _leaders(events: DataFrame) -> DataFrame:
    payload = fn.from_json("payload", struct_type(LeaderChangeMessage))
    rows = events.where("type = 'LEADER_CHANGE'").withColumn("r", payload)
    named = fn.concat(fn.lit("controller "), fn.col("r.leaderId"))
    sentence = fn.concat(fn.lit("becomes the active controller in epoch "), fn.col("epoch"))
    rows = rows.withColumns({"valid_from_offset": fn.col("offset"), "valid_from_time": fn.col("timestamp")})
    return began(rows, named, sentence)


def _voters(kept: DataFrame) -> DataFrame:
    """Returns the changes of the voter set, by voter ids; one record has the whole set (KIP-853)."""
    payload = fn.from_json("payload", struct_type(VotersRecord))
    ids = fn.array_sort(fn.transform(payload["voters"], lambda voter: voter["voterId"]))
    rows = kept.where("kind = 'voters'").withColumn("voters", ids)
    changes = with_before(rows, ("kind", "key"), ("voters",))
    same = fn.concat(fn.lit("voters are written again: "), _ids("voters"))
    return began(changes, fn.lit("quorum"), fn.coalesce(_arrow("voters", "voters", _ids), same))


def _kraft_version(kept: DataFrame) -> DataFrame:
    level = fn.get_json_object("payload", "$.kRaftVersion").cast("int")
    return _levels(kept.where("kind = 'kraft_version'").withColumn("level", level), fn.lit("feature kraft.version"))


def _levels(rows: DataFrame, subject: Column) -> DataFrame:
    changes = with_before(rows, ("kind", "key"), ("level",))
    changed = fn.concat(fn.coalesce("was_level", fn.lit(0)), fn.lit(" → "), fn.col("level"))
    same = fn.concat(fn.lit("is written again: "), fn.col("level"))
    return began(changes, subject, fn.when(fn.col("level").eqNullSafe(fn.col("was_level")), same).otherwise(changed))


def _topics(history: DataFrame) -> DataFrame:
    named = fn.concat(fn.lit("topic "), fn.col("name"))
    gone = history.where("valid_to_offset is not null")
    begun = began(history, named, fn.concat(fn.lit("is created with id "), fn.col("topic_id")))
    return begun.unionByName(ended(gone, named, fn.lit("is removed")))


def _arrow(word: str, name: str, shown: Callable[[str], Column]) -> Column:
    """Formats `word before → after`; null if the value has not changed."""
    before, after = shown(f"was_{name}"), shown(name)
    return fn.when(before != after, fn.concat(fn.lit(f"{word} "), before, fn.lit(" → "), after))


def _ids(name: str) -> Column:
    listed = fn.array_join(fn.col(name).cast("array<string>"), ",")
    return fn.when(fn.coalesce(fn.size(name), fn.lit(0)) == 0, "none").otherwise(listed)


def _texts(name: str) -> Column:
    return fn.when(fn.coalesce(fn.size(name), fn.lit(0)) == 0, "none").otherwise(fn.array_join(name, ","))


def _known_texts(name: str) -> Column:
    return fn.when(fn.col(name).isNull(), "unknown").otherwise(_texts(name))
