"""The story's events about nodes: brokers, their log directories, controllers, voters, and the active controller."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from quorate.records import RegisterControllerRecord, VotersRecord
from services.pipeline.frames import struct_type
from services.pipeline.gold.audit_rows import with_before
from services.pipeline.gold.clocks import epochs
from services.pipeline.gold.doctor_rules import listed, text
from services.pipeline.gold.silence import by_two_clocks, silences
from services.pipeline.gold.story_partitions import BAD, GOOD, PLAIN
from services.pipeline.silver.validity import at_begin, at_end

__all__ = [
    "active_controllers",
    "broker_events",
    "controller_events",
    "directory_events",
    "silence_events",
    "voter_events",
]

_RESTARTS: Final = "restarts, with a new incarnation"


def broker_events(history: DataFrame, partitions: DataFrame) -> DataFrame:
    """Returns the events of brokers: registrations and their ends, restarts, shutdowns, and fencings with their reason.

    `partitions` is the history of partitions: by it is known who led one until it was fenced.
    """
    columns = ("fenced", "in_controlled_shutdown", "broker_epoch", "incarnation_id", "valid_from_offset")
    rows = _with_lost_leadership(with_before(history, ("broker_id",), columns), partitions)
    fenced, shut = fn.col("fenced"), fn.col("in_controlled_shutdown")
    was_shut = fn.col("was_in_controlled_shutdown")
    newly_fenced = fenced & ~fn.col("was_fenced")
    same = fn.col("incarnation_id").eqNullSafe(fn.col("was_incarnation_id"))
    # A broker that restarts within its session timeout is fenced by its new registration, and by no record before.
    unasked = fn.when(was_shut, "restarts during its controlled shutdown").otherwise(
        "restarts without a controlled shutdown"
    )
    again = fn.when(same, "registers again, in the same incarnation").when(
        newly_fenced, fn.concat(unasked, fn.lit(", with a new incarnation"))
    )
    again = again.otherwise(_RESTARTS)
    # A controlled shutdown of a broker that leads no partition is no record: it is fenced at once. KIP-631.
    expired = fn.when(fn.col("lost_leadership"), "is fenced: its session expired").otherwise(
        "is fenced: its session expired, or it shut down while it led no partition"
    )
    what = (
        fn.when(fn.col("is_first") & ~fenced, "registers, unfenced")
        .when(fn.col("is_first"), "registers")
        .when(
            fn.col("broker_epoch") != fn.col("was_broker_epoch"),
            fn.concat(again, fn.when(newly_fenced, ", and is fenced by that").otherwise("")),
        )
        .when(shut & ~was_shut, "begins a controlled shutdown")
        .when(newly_fenced & shut, "is fenced, which ends its controlled shutdown")
        .when(newly_fenced, expired)
        .when(~fenced & fn.col("was_fenced"), "is unfenced")
    )
    grave = (shut & ~was_shut) | newly_fenced
    look = fn.when(fn.col("is_first"), PLAIN).when(grave, BAD).when(what == "is unfenced", GOOD).otherwise(PLAIN)
    named = text("broker ", fn.col("broker_id"))
    begun = at_begin(rows.where(what.isNotNull()), *_told(look, fn.concat_ws(" ", named, what)))
    gone = history.where("end_type = 'UNREGISTER_BROKER_RECORD'")
    return begun.unionByName(at_end(gone, *_told(PLAIN, text(named, " is unregistered"))))


def controller_events(kept: DataFrame) -> DataFrame:
    """Returns the events of controllers: registrations, restarts, unregistrations. KIP-919."""
    record = fn.from_json("payload", struct_type(RegisterControllerRecord))
    rows = kept.where("kind = 'controller'").withColumn("r", record)
    rows = rows.withColumns({"controller_id": fn.col("r.controllerId"), "incarnation_id": fn.col("r.incarnationId")})
    named = text("controller ", fn.col("controller_id"))
    same = fn.col("incarnation_id").eqNullSafe(fn.col("was_incarnation_id"))
    what = fn.when(fn.col("is_first"), "registers").when(same, "registers again").otherwise(_RESTARTS)
    changes = with_before(rows, ("controller_id",), ("incarnation_id",))
    gone = rows.where("end_type = 'UNREGISTER_CONTROLLER_RECORD'")
    begun = at_begin(changes, *_told(PLAIN, fn.concat_ws(" ", named, what)))
    return begun.unionByName(at_end(gone, *_told(PLAIN, text(named, " is unregistered"))))


def voter_events(kept: DataFrame) -> DataFrame:
    """Returns the events of voters that were added, removed, replaced or updated; KIP-853.

    The first set is an event, too; the same set written again is none.

    A voter is replaced if its id comes with another directory, and updated if only its endpoints or versions change.
    """
    voters = fn.from_json("payload", struct_type(VotersRecord))["voters"]
    rows = kept.where("kind = 'voters'").withColumn("voters", fn.array_sort(voters))
    rows = with_before(rows, ("kind", "key"), ("voters",))
    ids, was_ids = (fn.transform(name, lambda voter: voter["voterId"]) for name in ("voters", "was_voters"))
    changed = fn.filter("voters", lambda voter: ~fn.array_contains("was_voters", voter))

    def known(place: Column) -> Column:
        return fn.transform(place, lambda voter: fn.concat_ws("/", voter["voterId"], voter["voterDirectoryId"]))

    def is_same_directory(voter: Column) -> Column:
        key = fn.concat_ws("/", voter["voterId"], voter["voterDirectoryId"])
        return fn.array_contains(known(fn.col("was_voters")), key)

    stayed = fn.filter(changed, lambda voter: fn.array_contains(was_ids, voter["voterId"]))
    happened = {
        "removed": fn.array_except(was_ids, ids),
        "added": fn.array_except(ids, was_ids),
        "replaced": fn.transform(
            fn.filter(stayed, lambda voter: ~is_same_directory(voter)), lambda voter: voter["voterId"]
        ),
        "updated": fn.transform(fn.filter(stayed, is_same_directory), lambda voter: voter["voterId"]),
    }
    told = rows.withColumns(happened)
    parts = fn.concat_ws(", ", *(_named_voters(name) for name in happened))
    sets = text("; the voters are ", listed(ids))
    first = text("the voters are ", listed(ids))
    sentence = fn.when(fn.col("is_first"), first).when(parts != "", fn.concat(parts, sets))
    return at_begin(told.where(sentence.isNotNull()), *_told(PLAIN, sentence))


def active_controllers(events: DataFrame) -> DataFrame:
    """Returns an event for each election of the active controller, which says if the times go back with it."""
    rows = epochs(events).where("leader_id is not null")
    leads = text("controller ", fn.col("leader_id"), " becomes the active controller, in epoch ", fn.col("epoch"))
    seconds = fn.round(fn.col("back_ms") / 1000, 1)
    back = text("; times go back by ", seconds, " s here: its clock is behind, or the previous one was ahead")
    sentence = fn.concat(leads, fn.when(fn.col("back_ms") > 0, back).otherwise(""))
    at = (fn.col("begin_offset").alias("offset"), fn.col("begin").alias("time"))
    return rows.select("cluster_id", *at, *_told(PLAIN, sentence))


def silence_events(events: DataFrame) -> DataFrame:
    """Returns an event for each period in which no controller wrote, at its begin."""
    seconds, clocks = fn.round(fn.col("silent_ms") / 1000, 1), by_two_clocks("before", "after")
    sentence = text("no controller writes for ", seconds, " s from here on", clocks)
    at = (fn.col("before.offset"), fn.col("before.timestamp").alias("time"))
    return silences(events).select("cluster_id", *at, *_told(BAD, sentence))


def directory_events(history: DataFrame) -> DataFrame:
    """Returns the events of log directories: offline or back (KIP-858), cordoned or uncordoned (KIP-1066).

    A registration does not say which directories are cordoned until the broker does, so a value is compared with the
    last one that is known.
    """
    before = Window.partitionBy("cluster_id", "broker_id").orderBy("valid_from_offset")
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    is_known = fn.size("log_dirs") > 0
    last = {
        "was_dirs": fn.last(fn.when(is_known, fn.col("log_dirs")), ignorenulls=True).over(before),
        "was_cordoned": fn.last("cordoned_log_dirs", ignorenulls=True).over(before),
    }
    nothing = fn.array().cast("array<string>")
    rows = history.withColumns(last).withColumns(
        {
            "offline": fn.when(is_known, fn.array_except("was_dirs", "log_dirs")),
            "online": fn.when(is_known, fn.array_except("log_dirs", "was_dirs")),
            "cordoned": fn.array_except("cordoned_log_dirs", fn.coalesce("was_cordoned", nothing)),
            "uncordoned": fn.array_except("was_cordoned", "cordoned_log_dirs"),
        }
    )
    looks = {"offline": BAD, "online": GOOD, "cordoned": PLAIN, "uncordoned": PLAIN}

    def events_of(name: str, look: str) -> DataFrame:
        named = text(_counted("log directory", "log directories", name), " of broker ", fn.col("broker_id"))
        return at_begin(rows.where(fn.size(name) > 0), *_told(look, fn.concat(named, _be(name), fn.lit(name))))

    return reduce(DataFrame.unionByName, (events_of(*each) for each in looks.items()))


def _with_lost_leadership(rows: DataFrame, partitions: DataFrame) -> DataFrame:
    """Adds `lost_leadership` to states of brokers: when the state began, a partition lost the broker as its leader.

    Changes that the controller decides at once are one batch, of one time; a time may come again, by another clock.
    """
    key = ["cluster_id", "broker_id", "valid_from_offset"]
    fencings = rows.where("fenced and not was_fenced").select(
        *key, "was_valid_from_offset", "valid_to_offset", fn.col("valid_from_time").alias("time")
    )
    lost = partitions.where("was_leader >= 0 and not is_first").select(
        "cluster_id",
        fn.col("was_leader").alias("broker_id"),
        fn.col("valid_from_time").alias("time"),
        fn.col("valid_from_offset").alias("lost_at"),
    )
    found = lost.join(fn.broadcast(fencings), ["cluster_id", "broker_id", "time"]).where(
        "lost_at > was_valid_from_offset and (valid_to_offset is null or lost_at < valid_to_offset)"
    )
    marks = found.select(*key, fn.lit(True).alias("lost_leadership")).distinct()
    return rows.join(fn.broadcast(marks), key, "left").fillna(False, ["lost_leadership"])


def _named_voters(name: str) -> Column:
    """Names the voters of an array column and says that they are that; null if there are none."""
    return fn.when(fn.size(name) > 0, text(_counted("voter", "voters", name), _be(name), name))


def _counted(one: str, several: str, ids: str) -> Column:
    return fn.concat(fn.when(fn.size(ids) == 1, f"{one} ").otherwise(f"{several} "), listed(ids))


def _be(ids: str) -> Column:
    return fn.when(fn.size(ids) == 1, " is ").otherwise(" are ")


def _told(look: Column | str, sentence: Column) -> tuple[Column, Column]:
    return (fn.lit(look) if isinstance(look, str) else look).alias("look"), sentence.alias("sentence")
