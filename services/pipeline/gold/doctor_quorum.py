"""Doctor findings about the quorum: voter sets that tolerate few failures, periods without an active controller, and
records of deposed leaders.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.nouns import ZERO_UUID, uuid_text
from quorate.records import VotersRecord
from services.pipeline.frames import struct_type
from services.pipeline.gold.began import began
from services.pipeline.gold.doctor_rules import INFO, WARN, DoctorLimits, DoctorRule, findings, listed, text
from services.pipeline.gold.silence import by_two_clocks, silences
from services.pipeline.silver.present import Present

__all__ = ["deposed_findings", "silence_findings", "voter_findings"]


def voter_findings(now: Present, kept: DataFrame) -> DataFrame:
    """Returns the findings about the voter set; `kept` is the history of it and others. KIP-853.

    Every active controller writes the set again, so a finding began when the number of voters became what it is.
    """
    payload = fn.from_json("payload", struct_type(VotersRecord))
    count = fn.size(payload["voters"])
    conditions = {"even_since": count % 2 == 0, "single_since": count == 1}
    since = began(kept.where("kind = 'voters'"), ["cluster_id"], conditions)
    level = fn.get_json_object("payload", "$.kRaftVersion").cast("int")
    versions = now.kept.where("kind = 'kraft_version'").select("cluster_id", level.alias("kraft_version"))
    rows = now.kept.where("kind = 'voters'").withColumn("voters", payload["voters"])
    rows = (
        rows.join(since, "cluster_id")
        .join(fn.broadcast(versions), "cluster_id", "left")
        .withColumns(
            {
                "ids": fn.array_sort(fn.transform("voters", lambda voter: voter["voterId"])),
                "nameless": fn.transform(
                    fn.filter("voters", lambda voter: voter["voterDirectoryId"] == uuid_text(ZERO_UUID)),
                    lambda voter: voter["voterId"],
                ),
            }
        )
    )
    return findings(rows, fn.lit("quorum"), _voter_rules())


def silence_findings(events: DataFrame, limits: DoctorLimits) -> DataFrame:
    """Returns one finding for each cluster with periods in which no controller wrote: the longest, and how many."""
    found = silences(events, silence_s=limits.silence_s)
    longest = fn.max_by(fn.struct("before", "after", "silent_ms"), "silent_ms").alias("longest")
    rows = found.groupBy("cluster_id").agg(longest, fn.count("*").alias("count")).select("*", "longest.*")
    rows = rows.withColumns({"since_offset": fn.col("before.offset"), "since_time": fn.col("before.timestamp")})
    clocks = by_two_clocks("before", "after")
    more = fn.when(fn.col("count") > 1, text("; the longest of ", fn.col("count"), " such times")).otherwise("")
    wrote = text("no controller wrote for ", fn.round(fn.col("silent_ms") / 1000, 1), " s", clocks, ": from offset ")
    between = text(fn.col("before.offset"), " in epoch ", fn.col("before.epoch"), " until ", _end())
    rule = DoctorRule(
        WARN,
        "CONTROLLER_SILENT",
        fn.lit(True),
        fn.concat(wrote, between, more),
        "see the controllers' logs of that time: was a majority of the voters away, a disk stuck, all stopped?",
    )
    return findings(rows, fn.lit("quorum"), [rule])


def deposed_findings(deposed: DataFrame) -> DataFrame:
    """Returns one finding for each epoch with records that are known to be uncommitted."""
    rows = deposed.groupBy("cluster_id", "epoch").agg(
        fn.count_distinct("offset", "digest").alias("count"),
        fn.min("offset").alias("since_offset"),
        fn.max("offset").alias("last_offset"),
        fn.min_by("timestamp", "offset").alias("since_time"),
        fn.array_join(fn.array_sort(fn.collect_set("source")), ", ").alias("sources"),
    )
    where = text("offsets ", fn.col("since_offset"), " to ", fn.col("last_offset"), " of ", fn.col("sources"))
    rule = DoctorRule(
        INFO,
        "DEPOSED_RECORDS",
        fn.lit(True),
        text(fn.col("count"), " records of epoch ", fn.col("epoch"), " were never committed: ", where),
        "nothing that was acknowledged is lost: their leader was deposed, and its clients had an error or no answer; "
        "let them ask again for what they miss",
    )
    return findings(rows, text("epoch ", fn.col("epoch")), [rule])


def _end() -> Column:
    """Describes what ended the silence: a new leader, or a record of the same epoch."""
    led = text(
        "controller ", fn.col("after.leader_id"), " became the active controller, in epoch ", fn.col("after.epoch")
    )
    wrote = text("offset ", fn.col("after.offset"), " in epoch ", fn.col("after.epoch"))
    return fn.when(fn.col("after.leader_id").isNotNull(), led).otherwise(wrote)


def _voter_rules() -> Sequence[DoctorRule]:
    count = fn.size("ids")
    who = listed("ids")
    return [
        DoctorRule(
            WARN,
            "EVEN_VOTERS",
            count % 2 == 0,
            text(count, " voters (", who, "): they tolerate no more failures than one voter less"),
            "add a voter or remove one",
            "even_since",
        ),
        DoctorRule(
            WARN,
            "SINGLE_VOTER",
            count == 1,
            text("one voter (", who, "): no failure is tolerated"),
            "add two voters",
            "single_since",
        ),
        DoctorRule(
            WARN,
            "VOTER_WITHOUT_DIRECTORY",
            (fn.size("nameless") > 0) & (fn.col("kraft_version") >= 1),
            text("voters ", listed("nameless"), " have no directory id at kraft.version ", fn.col("kraft_version")),
            "remove and add them again: without it, a voter with an empty disk counts as the one that voted (KIP-853)",
        ),
    ]
