"""The decoder of each record type and version, found by the first bytes of a value in the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kraft import Message
from quorate.errors import Corrupt
from quorate.pipeline.json_text import writer
from quorate.records import RECORDS, REQUEST_TAG, TARGET_TAG, TRACE_TAG, decode_record, frame_of
from quorate.wire.json_names import type_name
from quorate.wire.schema import layout_of

__all__ = ["HEAD_BYTES", "UNKNOWN", "Shape", "looked_into", "marks_of", "shape_of"]

HEAD_BYTES: Final = 3
"""Length of a value's head in bytes: frame version, record key and record version, one byte each."""
UNKNOWN: Final = "UNKNOWN_RECORD"
_INT16_MAX: Final = (1 << 15) - 1
"""The largest key or version that Kafka takes for one."""
_OURS: Final = frozenset((TRACE_TAG, REQUEST_TAG, TARGET_TAG))


_Class = type[Message]


class Shape(NamedTuple):
    """How records of one type and version are decoded.

    `write` makes JSON of a decoded record. It and `record` are None for a record that this schema does not know, whose
    `type` is UNKNOWN.
    """

    key: int
    type: str
    version: int
    record: _Class | None
    write: Callable[[Message], str] | None


_SHAPES: Final[dict[bytes, Shape]] = {}
"""The shapes that `shape_of` was asked for, by heads of HEAD_BYTES."""


def shape_of(value: bytes) -> Shape:
    """Returns how a record's value is decoded, by its first bytes: frame version, record key, record version.

    It raises nothing: of a value without such a head, key and version are -1.
    """
    return _SHAPES.get(value[:HEAD_BYTES]) or _made(value)


def _made(value: bytes) -> Shape:
    try:
        key, version, body = frame_of(value)
    except Corrupt:
        return Shape(-1, UNKNOWN, -1, None, _refuse)
    if max(key, version) > _INT16_MAX:
        return Shape(-1, UNKNOWN, -1, None, None)
    record = RECORDS.get(key)
    if record is None or version not in layout_of(record).versions:
        return Shape(key, UNKNOWN, version, None, None)
    shape = Shape(key, type_name(record), version, record, writer(record, version))
    if body == HEAD_BYTES:
        _SHAPES[value[:HEAD_BYTES]] = shape
    return shape


def looked_into(value: bytes, write: Callable[[Message], str]) -> tuple[str, str | None, bytes | None]:
    """Decodes a known record; returns its payload, trace id, and raw bytes if it has unknown tags. Raises Corrupt."""
    record = decode_record(value)
    trace, is_strange = marks_of(record.unknown_tags)  # type: ignore[attr-defined]  # known records have them
    return write(record), trace, value if is_strange else None


def marks_of(tags: Sequence[tuple[int, bytes]]) -> tuple[str | None, bool]:
    """Returns the trace id in a record's unknown tags, and whether there are tags that are not Quorate's either."""
    numbers = [tag for tag, _ in tags]
    trace = _trace_id(tags[numbers.index(TRACE_TAG)][1]) if TRACE_TAG in numbers else None
    return trace, not _OURS.issuperset(numbers)


def _refuse(_: Message) -> str:
    raise AssertionError("a value without a frame is not decoded")


def _trace_id(traceparent: bytes) -> str | None:
    """Returns the trace id of a W3C traceparent; None if the text is malformed."""
    version, _, rest = traceparent.decode("ascii", "replace").partition("-")
    trace_id = rest.partition("-")[0]
    return trace_id if len(version) == 2 and len(trace_id) == 32 else None
