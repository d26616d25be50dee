"""Changes and differences of the state as messages, in parts that any gRPC client takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kraft.service.observer_pb2 import HistoryGap, LoggedChange, QueryResponse, RowChange
from quorate.sql.difference import Change, Difference
from quorate.sql.following import Changed
from quorate.sql.nouns import Value
from quorate.sql.sentences import sentence, sentence_of_gap
from quorate.sql.state_past import Gap

__all__ = ["PART_BYTES", "gap_message", "in_parts", "logged", "row_message"]

PART_BYTES: Final = 1 << 20
"""The bytes after which a part is full: with one more row it is less than the 4 MiB that a gRPC client takes, unless
that row alone is larger."""
PART_ROWS: Final = 1_000
"""The rows after which a part is full."""
KINDS: Final = {
    Change.CREATED: RowChange.KIND_CREATED,
    Change.CHANGED: RowChange.KIND_CHANGED,
    Change.DELETED: RowChange.KIND_DELETED,
}


def row_message(found: Difference) -> RowChange:
    """Returns the message of a row that differs: its table and key, how, and its columns before and after."""
    return RowChange(
        table=found.noun.name,
        key=_columns(found.key),
        kind=KINDS[found.change],
        before=_columns(found.before),
        after=_columns(found.after),
    )


def logged(changes: Iterable[Changed], gaps: Iterable[Gap]) -> list[LoggedChange]:
    """Returns the messages of the first changes: as many as one part takes, and at least one, if there is one.

    Each has its batch and a sentence. Of one at a gap's end that says only what differs: it may have changed several
    times.
    """
    ends = {gap.until_offset for gap in gaps}
    found, size = list[LoggedChange](), 0
    for (offset, epoch, timestamp_ms, trace_id), row in changes:
        message = LoggedChange(
            offset=offset,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            trace_id=trace_id or "",
            row=row_message(row),
            sentence=str(sentence_of_gap(row) if offset in ends else sentence(row)),
        )
        size += message.ByteSize()
        if found and size > PART_BYTES:
            break
        found.append(message)
    return found


def in_parts(rows: Iterable[Difference]) -> Iterator[list[RowChange]]:
    """Yields the messages of the rows, in parts of `PART_BYTES` and `PART_ROWS` at most; an empty part for no rows."""
    part, size = list[RowChange](), 0
    for row in rows:
        message = row_message(row)
        size += message.ByteSize()
        if part and (size > PART_BYTES or len(part) == PART_ROWS):
            yield part
            part, size = [], message.ByteSize()
        part.append(message)
    yield part


def gap_message(gap: Gap) -> HistoryGap:
    """Returns the message of a gap: a part of the log whose changes are not known, as a snapshot has replaced it."""
    return HistoryGap(after_offset=gap.after_offset, until_offset=gap.until_offset)


def _columns(values: Mapping[str, Value]) -> Iterator[RowChange.Column]:
    return (RowChange.Column(name=name, value=_value(value)) for name, value in values.items())


def _value(value: Value) -> QueryResponse.Value:
    match value:
        case bool():
            return QueryResponse.Value(boolean=value)
        case int():
            return QueryResponse.Value(integer=value)
        case float():
            return QueryResponse.Value(real=value)
        case str():
            return QueryResponse.Value(text=value)
        case None:
            return QueryResponse.Value()
