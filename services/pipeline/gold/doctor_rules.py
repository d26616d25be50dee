"""A finding whose rule Spark has, and words of SQL that several tables have."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.doctor import Severity

__all__ = ["FINDING", "findings", "listed", "text"]

FINDING: Final = ("cluster_id", "severity", "code", "subject", "sentence", "advice", "since_offset", "since_time")


def findings(
    rows: DataFrame, severity: Severity, code: str, subject: Column, sentence: Column, advice: str
) -> DataFrame:
    """Returns a finding of each row; `rows` need `cluster_id`, `since_offset` and `since_time`."""
    said = {
        "severity": fn.lit(severity.value),
        "code": fn.lit(code),
        "subject": subject,
        "sentence": sentence,
        "advice": fn.lit(advice),
    }
    return rows.withColumns(said).select(*FINDING)


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
