"""Filter pushdown of the source `kraft`: what a query says limits which files are read and which records are decoded.

Conditions on cluster_id and kind select files; those on offset, type and timestamp select records.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from quorate.pipeline.rows import RowFilter
from services.pipeline.source.options import FOREVER

__all__ = ["narrowed"]


def narrowed(wanted: RowFilter, one: Filter) -> RowFilter:
    """Returns `wanted` narrowed by one condition of the query; a condition that cannot narrow it is ignored."""
    match one:
        case EqualTo(attribute=("offset",), value=int(value)):
            return _offsets(wanted, value, value + 1)
        case GreaterThan(attribute=("offset",), value=int(value)):
            return _offsets(wanted, value + 1, FOREVER)
        case GreaterThanOrEqual(attribute=("offset",), value=int(value)):
            return _offsets(wanted, value, FOREVER)
        case LessThan(attribute=("offset",), value=int(value)):
            return _offsets(wanted, 0, value)
        case LessThanOrEqual(attribute=("offset",), value=int(value)):
            return _offsets(wanted, 0, value + 1)
        case In(attribute=("offset",), value=values) if offsets := [each for each in values if each is not None]:
            return _offsets(wanted, min(offsets), max(offsets) + 1)
        case EqualTo(attribute=("type",), value=str(value)):
            return wanted._replace(types=_both(wanted.types, (value,)))
        case In(attribute=("type",), value=values):
            return wanted._replace(types=_both(wanted.types, values))
        case EqualTo(attribute=("kind",), value=str(value)):
            return wanted._replace(kinds=_both(wanted.kinds, (value,)))
        case In(attribute=("kind",), value=values):
            return wanted._replace(kinds=_both(wanted.kinds, values))
        case EqualTo(attribute=("cluster_id",), value=str(value)):
            return wanted._replace(cluster_ids=_both(wanted.cluster_ids, (value,)))
        case In(attribute=("cluster_id",), value=values):
            return wanted._replace(cluster_ids=_both(wanted.cluster_ids, values))
        case (
            GreaterThan(attribute=("timestamp",), value=datetime() as value)
            | GreaterThanOrEqual(attribute=("timestamp",), value=datetime() as value)
        ):
            return wanted._replace(start_ms=max(wanted.start_ms, _ms(value)))
        case (
            LessThan(attribute=("timestamp",), value=datetime() as value)
            | LessThanOrEqual(attribute=("timestamp",), value=datetime() as value)
        ):
            return wanted._replace(end_ms=min(wanted.end_ms, _ms(value) + 1))
    return wanted


def _offsets(wanted: RowFilter, start: int, end: int) -> RowFilter:
    return wanted._replace(start_offset=max(wanted.start_offset, start), end_offset=min(wanted.end_offset, end))


def _both(before: frozenset[str] | None, values: Sequence[str]) -> frozenset[str]:
    return frozenset(values) if before is None else before & frozenset(values)


def _ms(moment: datetime) -> int:
    """Converts to ms since 1970, rounded down. A datetime without a zone, as Spark may pass it, is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000 // 1)
