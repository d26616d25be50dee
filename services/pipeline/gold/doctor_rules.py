"""How a finding is made: rules over the rows of a frame, each of which says when it holds and what it says then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

__all__ = ["ERROR", "FINDING", "INFO", "WARN", "Limits", "Rule", "days_between", "findings", "listed", "text"]

ERROR: Final = "error"
WARN: Final = "warn"
INFO: Final = "info"
FINDING: Final = ("cluster_id", "severity", "code", "subject", "sentence", "advice", "since_offset", "since_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is taken for long, and for much."""

    stale_days: float = 7.0
    """A broker that has been fenced for longer is not coming back by itself."""
    reassignment_hours: float = 24.0
    """A reassignment that takes longer may never end."""
    imbalance: float = 0.1
    """The share of a broker's preferred partitions led by others: Kafka's `leader.imbalance.per.broker.percentage`."""
    flaps: int = 3
    """A broker that was fenced as often within a day comes and goes."""


class Rule(NamedTuple):
    """One kind of finding. Where `holds` is null, it does not."""

    severity: str
    code: str
    holds: Column
    sentence: Column
    advice: str


def findings(rows: DataFrame, subject: Column, rules: Sequence[Rule]) -> DataFrame:
    """A row for each rule that holds of each row. `rows` have `cluster_id`, `since_offset` and `since_time`."""
    told = fn.array(*(fn.when(rule.holds, _told(rule)) for rule in rules))
    spread = rows.withColumns({"subject": subject, "told": told})
    spread = spread.withColumn("told", fn.explode("told")).where("told is not null")
    parts = {name: fn.col(f"told.{name}") for name in ("severity", "code", "sentence", "advice")}
    return spread.withColumns(parts).select(*FINDING)


def text(*parts: Column | str | int | float) -> Column:
    """A sentence of columns and words; a part that is null is `none`."""
    return fn.concat(
        *(
            fn.coalesce(part.cast("string"), fn.lit("none")) if isinstance(part, Column) else fn.lit(str(part))
            for part in parts
        )
    )


def listed(ids: str | Column) -> Column:
    """Ids, by commas; `none` if there are none."""
    items = fn.col(ids) if isinstance(ids, str) else ids
    joined = fn.array_join(fn.transform(items, lambda each: each.cast("string")), ",")
    return fn.when(fn.coalesce(fn.size(items), fn.lit(0)) == 0, "none").otherwise(joined)


def days_between(begin: str, end: str) -> Column:
    """Days from one time to the other."""
    return (fn.unix_millis(fn.col(end)) - fn.unix_millis(fn.col(begin))) / 86_400_000


def _told(rule: Rule) -> Column:
    return fn.struct(
        fn.lit(rule.severity).alias("severity"),
        fn.lit(rule.code).alias("code"),
        rule.sentence.alias("sentence"),
        fn.lit(rule.advice).alias("advice"),
    )
