"""Conditions of a query that spare reading: on offset, type and timestamp, from files and from a quorum alike."""

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

from quorate.pipeline.rows import Wanted
from services.pipeline.source.options import FOREVER

__all__ = ["narrowed"]


def narrowed(wanted: Wanted, one: Filter) -> Wanted:
    """`wanted` with a condition that it can make use of; what it cannot changes nothing."""
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
        case EqualTo(attribute=("type",), value=str(value)):
            return _of_types(wanted, (value,))
        case In(attribute=("type",), value=values):
            return _of_types(wanted, values)
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


def _offsets(wanted: Wanted, start: int, end: int) -> Wanted:
    return wanted._replace(start_offset=max(wanted.start_offset, start), end_offset=min(wanted.end_offset, end))


def _of_types(wanted: Wanted, types: Sequence[str]) -> Wanted:
    return wanted._replace(types=frozenset(types) if wanted.types is None else wanted.types & frozenset(types))


def _ms(moment: datetime) -> int:
    """ms since 1970, rounded down. Spark gives times without a zone, in UTC, or with one."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000 // 1)
