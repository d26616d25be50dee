"""What a target has written to its log, record by record: kind, version and content, in the order of the log."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from kraft import Message
from quorate.nouns import NodeId, Offset
from quorate.records import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    decode_record,
    frame_of,
)
from quorate.wire.batch import data_values, read_header
from tests.e2e.offline import stored_log
from tests.interop.operations.comparison import content

Json = Any  # Any: JSON values

FENCED: Final = 1
UNFENCED: Final = -1
"""What a BrokerRegistrationChangeRecord makes of a broker; 0 leaves it as it is."""
IN_NO_ORDER: Final = frozenset(
    {
        "ConfigRecord",
        "PartitionChangeRecord",
        "RemoveAccessControlEntryRecord",
        "RemoveTopicRecord",
        "UserScramCredentialRecord",
    }
)
"""Runs of these are in the order of a hash table in Kafka: they are compared in the order of their content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A record of the log. `fences` and `registers` are the broker that it fences or registers, if it does."""

    offset: Offset
    kind: str
    version: int
    content: Json
    fences: NodeId | None
    registers: NodeId | None
    is_fenced_again: bool
    """It fences a broker that is fenced."""


def written(log_dir: Path, names: Mapping[str, str]) -> list[Row]:
    """All records of a directory's log. How many no-ops there are is time's affair: they are left out."""
    found: list[Row] = []
    fenced: set[NodeId] = set()
    for batch in stored_log(log_dir):
        if read_header(batch.data).is_control:
            continue
        for offset, value in enumerate(data_values(batch.data), batch.base_offset):
            record, (_, version, _) = decode_record(value), frame_of(value)
            if not isinstance(record, NoOpRecord):
                row = _row(record, offset, version, names, fenced)
                found.append(row)
                _note(record, fenced)
    return found


def between(rows: Sequence[Row], start: Offset, end: Offset) -> list[Json]:
    """The records from `start` to below `end`, without their offsets, and without two fencings that are one side's.

    Kafka fences a broker once more whose session ends after it was fenced by its own wish, in whatever step that is. We
    fence a broker before another process may replace it; Kafka looks at its session alone, which may have ended before
    Kafka has fenced it.
    """
    there = [row for row in rows if start <= row.offset < end]
    registered = {row.registers for row in there}
    found = [
        {"record": row.kind, "version": row.version, **row.content}
        for row in there
        if row.fences is None or not (row.is_fenced_again or row.fences in registered)
    ]
    return [row for run in _runs(found) for row in run]


def _row(record: Message, offset: Offset, version: int, names: Mapping[str, str], fenced: Container[NodeId]) -> Row:
    is_change = isinstance(record, BrokerRegistrationChangeRecord)
    fences = record.broker_id if is_change and record.fenced == FENCED else None
    return Row(
        offset=offset,
        kind=type(record).__name__,
        version=version,
        content=content(record, names),
        fences=fences,
        registers=record.broker_id if isinstance(record, RegisterBrokerRecord) else None,
        is_fenced_again=fences in fenced,
    )


def _note(record: Message, fenced: set[NodeId]) -> None:
    """Notes in `fenced` who is fenced after the record."""
    if isinstance(record, RegisterBrokerRecord | BrokerRegistrationChangeRecord):
        if record.fenced > 0:
            fenced.add(record.broker_id)
        elif isinstance(record, RegisterBrokerRecord) or record.fenced == UNFENCED:
            fenced.discard(record.broker_id)


def _runs(rows: Iterable[Json]) -> Iterator[list[Json]]:
    for kind, run in groupby(rows, key=lambda row: row["record"]):
        alike = list(run)
        yield sorted(alike, key=json.dumps) if kind in IN_NO_ORDER else alike
