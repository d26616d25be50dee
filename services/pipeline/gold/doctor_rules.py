"""Doctor rules: each has a condition, a sentence and advice, and makes a finding of every row that meets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from services.pipeline.gold.silence import SILENCE_S
from services.pipeline.silver.present import MIN_ISR_DEFAULT

__all__ = [
    "DAY_MS",
    "ERROR",
    "FINDING",
    "INFO",
    "WARN",
    "DoctorLimits",
    "DoctorRule",
    "days_between",
    "findings",
    "listed",
    "moment",
    "text",
]

DAY_MS: Final = 86_400_000
ERROR: Final = "error"
WARN: Final = "warn"
INFO: Final = "info"
FINDING: Final = ("cluster_id", "severity", "code", "subject", "sentence", "advice", "since_offset", "since_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorLimits:
    """The thresholds of the findings."""

    stale_days: float = 7.0
    """Days that a broker may be fenced; one that is fenced for longer will not return by itself."""
    reassignment_hours: float = 24.0
    """Hours that a reassignment may take; one that takes longer may never end."""
    imbalance: float = 0.1
    """Share of a broker's preferred partitions that others lead: Kafka's `leader.imbalance.per.broker.percentage`."""
    flaps: int = 3
    """Fencings within a day from which on a broker is reported as flapping."""
    silence_s: float = SILENCE_S
    """Seconds without a record from which on no controller was active, if the log has an idle controller's records."""
    min_isr: int = MIN_ISR_DEFAULT
    """The assumed `min.insync.replicas` if no record sets it; the brokers' own files are not in the log."""


class DoctorRule(NamedTuple):
    """A kind of finding: severity, code, condition, sentence and advice. A null condition does not hold.

    `since` names a struct column of `offset` and `time` at which it began; by default it is the row's `since_offset`
    and `since_time`.
    """

    severity: str
    code: str
    holds: Column
    sentence: Column
    advice: str | Column
    since: str | None = None


def findings(rows: DataFrame, subject: Column, rules: Sequence[DoctorRule]) -> DataFrame:
    """Returns one finding for each row and rule that holds; `rows` need `cluster_id` and the `since_…` columns."""
    found = fn.array_compact(fn.array(*(fn.when(rule.holds, _finding(rule)) for rule in rules)))
    return rows.select("cluster_id", subject.alias("subject"), fn.inline(found)).select(*FINDING)


def text(*parts: Column | str | int | float) -> Column:
    """Concatenates columns and texts to a sentence; a null column is printed as `none`."""
    return fn.concat(
        *(
            fn.coalesce(part.cast("string"), fn.lit("none")) if isinstance(part, Column) else fn.lit(str(part))
            for part in parts
        )
    )


def listed(ids: str | Column) -> Column:
    """Joins ids with commas; `none` if there are none."""
    items = fn.col(ids) if isinstance(ids, str) else ids
    joined = fn.array_join(fn.transform(items, lambda each: each.cast("string")), ",")
    return fn.when(fn.coalesce(fn.size(items), fn.lit(0)) == 0, "none").otherwise(joined)


def moment(time: Column) -> Column:
    """Formats a timestamp with milliseconds: two records of one second are told apart."""
    return fn.date_format(time, "yyyy-MM-dd HH:mm:ss.SSS")


def days_between(begin: str, end: str) -> Column:
    """Computes the days between two timestamp columns, with fractions."""
    return (fn.unix_millis(fn.col(end)) - fn.unix_millis(fn.col(begin))) / DAY_MS


def _finding(rule: DoctorRule) -> Column:
    return fn.struct(
        fn.lit(rule.severity).alias("severity"),
        fn.lit(rule.code).alias("code"),
        rule.sentence.alias("sentence"),
        (rule.advice if isinstance(rule.advice, Column) else fn.lit(rule.advice)).alias("advice"),
        fn.col(f"{rule.since}.offset" if rule.since else "since_offset").alias("since_offset"),
        fn.col(f"{rule.since}.time" if rule.since else "since_time").alias("since_time"),
    )
