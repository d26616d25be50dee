"""`quorate log dump`: prints batches and records, one per line, as Kafka's DumpLogSegments does.

A damaged file is printed as far as it can be read; the damage is reported at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.failures import Failed, Misused, error_document
from quorate.cli.index_entries import entries_of
from quorate.cli.printable import printable
from quorate.cli.reading import (
    FileBatch,
    FileKind,
    OffsetRange,
    batches_of,
    files_below,
    first_offset_of,
    kind_of,
    map_file,
)
from quorate.cli.record_json import RecordDocument, shown_records
from quorate.doubles import dumps
from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.storage.names import BOOTSTRAP, checkpoint_id

__all__ = ["dump"]

Json = dict[str, Any]  # Any: JSON values


@dataclass(slots=True)
class Order:
    """Finds offsets of a file that do not follow one another, as its records are noted: missing, repeated, unordered.

    `pairs` maps an offset to the wrong one that follows it, as DumpLogSegments collects them.
    """

    pairs: dict[Offset, Offset] = field(default_factory=dict)
    _last: Offset | None = None

    def note(self, offset: Offset) -> None:
        """Adds the next record's offset, and notes it if it does not follow the last one."""
        if self._last is not None and offset != self._last + 1:
            self.pairs[self._last] = offset
        self._last = offset

    def lose(self) -> None:
        """Forgets the last offset after an unreadable batch, so that the next record starts a new sequence."""
        self._last = None

    def lines(self) -> list[str]:
        """Returns the non-consecutive offsets as lines in Kafka's wording."""
        return [f"{last} is followed by {offset}" for last, offset in sorted(self.pairs.items())]


class Line(NamedTuple):
    """One output line of `log dump`, as text and as a JSON document."""

    text: str
    document: Json


def dump(
    path: Path, *, output: str, explain: bool, with_secrets: bool, from_offset: Offset, to_offset: Offset | None
) -> None:
    """Prints batches and records of one metadata file, or of all of a directory, from `from_offset` to `to_offset`.

    The end is exclusive, None for no end. With `explain` it prints every byte. Passwords are redacted, except with
    `explain` or `with_secrets`. Raises Failed after all is printed if a file is damaged or its offsets have gaps;
    Misused for an empty range; Failed and OSError for what is no such file.
    """
    if to_offset is not None and to_offset <= from_offset:
        raise Misused(f"--from {from_offset} --to {to_offset}: nothing lies between; --to must be above --from")
    wanted = OffsetRange(start=from_offset, end=to_offset)
    problems: list[Corrupt] = []
    breaks: list[str] = []
    for file in files_below(path):
        if explain:
            from quorate.cli.explain import explain_file

            problems += explain_file(file, wanted, output=output)
            continue
        order = Order()
        for line in _lines(file, wanted, order, problems.append, with_secrets=with_secrets):
            if is_document(output):
                print_document(line.document, output)
            else:
                print_lines(map(printable, line.text.split("\n")))
        if order.pairs:
            problems.append(Corrupt(f"non-consecutive offsets: {'; '.join(order.lines())}", path=file))
            breaks += [f"Non-consecutive offsets in {file}", *(f"  {each}" for each in order.lines())]
    for problem in problems:
        if is_document(output):
            print_document(error_document(problem), output)
    if problems:
        sys.stdout.flush()
        for line_of_kafka in breaks:  # Kafka's wording, for scripts that look for it
            print(printable(line_of_kafka), file=sys.stderr)
        for problem in problems[:-1]:
            print(printable(f"quorate: {problem}"), file=sys.stderr)
        raise Failed(str(problems[-1]), printed=True)


def _lines(
    path: Path, wanted: OffsetRange, order: Order, damaged: Callable[[Corrupt], None], *, with_secrets: bool
) -> Iterator[Line]:
    kind = kind_of(path)
    yield Line(f"Dumping {path}", {"kind": "file", "file": str(path)})
    match kind:
        case FileKind.LOG | FileKind.CHECKPOINT:
            yield _title(path)
            yield from _batch_lines(path, wanted, order, damaged, with_secrets=with_secrets)
        case FileKind.INDEX | FileKind.TIME_INDEX:
            yield from _entry_lines(path, kind, wanted)
        case _:
            text = path.read_text("utf-8", errors="replace")
            yield Line(text.rstrip("\n"), {"kind": "text", "file": str(path), "text": text})


def _title(path: Path) -> Line:
    snapshot = checkpoint_id(path)
    if snapshot is not None:
        document: Json = {"kind": "checkpoint", "endOffset": snapshot.offset, "epoch": snapshot.epoch}
        return Line(f"Snapshot end offset: {snapshot.offset}, epoch: {snapshot.epoch}", document)
    if path.name == BOOTSTRAP:
        return Line("KRaft bootstrap snapshot", {"kind": "bootstrap"})
    base = first_offset_of(path)
    return Line(f"Log starting offset: {base}", {"kind": "log", "baseOffset": base})


def _batch_lines(
    path: Path, wanted: OffsetRange, order: Order, damaged: Callable[[Corrupt], None], *, with_secrets: bool
) -> Iterator[Line]:
    data = map_file(path)
    try:
        for batch in batches_of(data):
            if not wanted.meets(batch):
                continue
            if batch.problem is not None:
                damaged(batch.problem.at(path))
            yield _batch_line(batch)
            try:
                for record in shown_records(data, batch.position, batch.header, with_secrets=with_secrets):
                    order.note(record.offset)
                    if wanted.holds(record.offset):
                        yield _record_line(record)
            except Corrupt as problem:
                order.lose()
                damaged(problem.at(path))
    except Corrupt as problem:
        damaged(problem.at(path))


def _batch_line(batch: FileBatch) -> Line:
    header = batch.header
    document: Json = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.count,
        "baseSequence": header.base_sequence,
        "lastSequence": -1 if header.base_sequence < 0 else header.base_sequence + header.last_offset_delta,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.epoch,
        "isTransactional": bool(header.attributes & 0x10),
        "isControl": header.is_control,
        "deleteHorizonMs": header.base_timestamp if header.attributes & 0x40 else None,
        "position": batch.position,
        "CreateTime": header.max_timestamp,
        "size": header.size,
        "magic": 2,
        "compresscodec": header.compression,
        "crc": header.crc,
        "isvalid": batch.problem is None,
    }
    text = " ".join(f"{name}: {_java(name, value)}" for name, value in document.items())
    return Line(text, {"kind": "batch", **document})


def _java(name: str, value: object) -> str:
    if name == "deleteHorizonMs":
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _record_line(record: RecordDocument) -> Line:
    head = (
        f"| offset: {record.offset} CreateTime: {record.timestamp} keySize: {record.key_bytes} "
        f"valueSize: {record.value_bytes} sequence: -1 headerKeys: [{','.join(map(printable, record.header_keys))}]"
    )
    value = dumps(record.document, separators=(",", ":"), ensure_ascii=False)
    document: Json = {"kind": "record", "offset": record.offset, "CreateTime": record.timestamp}
    if record.control is None:
        return Line(f"{head} payload: {value}", {**document, "payload": record.document})
    colon = ":" if record.control == "LeaderChange" else ""
    return Line(
        f"{head} {record.control}{colon} {value}", {**document, "control": record.control, "value": record.document}
    )


def _entry_lines(path: Path, kind: FileKind, wanted: OffsetRange) -> Iterator[Line]:
    data = map_file(path)
    if not len(data):
        yield Line(f"{path} is empty.", {"kind": "empty", "file": str(path)})
    for entry in entries_of(data, kind, first_offset_of(path)):
        if not wanted.holds(entry.offset):
            continue
        if entry.position is not None:
            place: Json = {"offset": entry.offset, "position": entry.position}
        else:
            place = {"timestamp": entry.timestamp, "offset": entry.offset}
        yield Line(" ".join(f"{name}: {value}" for name, value in place.items()), {"kind": "entry", **place})
