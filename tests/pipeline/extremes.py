"""Records with one field at an end of its type: everything that a log can hold and no sound cluster does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kraft import Message, Uuid
from quorate.records import RECORDS, KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from quorate.wire.schema import STRING_MAX, Field, FieldType, Layout, layout_of, struct_class

SIGNED: Final = {FieldType.INT8: 7, FieldType.INT16: 15, FieldType.INT32: 31, FieldType.INT64: 63}
UNSIGNED: Final = {FieldType.UINT16: 16, FieldType.UINT32: 32}
ENDS: Final[dict[FieldType, tuple[Any, ...]]] = {
    FieldType.BOOL: (False, True),
    FieldType.FLOAT64: (
        *(0.0, -0.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308),
        *(float("nan"), float("inf"), float("-inf"), 2.0**63, -(2.0**63) * 2, 1e15, 0.1),
    ),
    FieldType.STRING: ("", "x" * STRING_MAX, "\x00\t\n\"'\\<&>` ${}", "ü\U0001f600\u202e\u2028", "-1", "NaN"),
    FieldType.BYTES: (b"", bytes(range(256)) * 512),
    FieldType.RECORDS: (b"", bytes(range(256)) * 512),
    FieldType.UUID: (Uuid(bytes(16)), Uuid(b"\xff" * 16)),
    **{kind: (-(1 << bits), -1, 0, (1 << bits) - 1) for kind, bits in SIGNED.items()},
    **{kind: (0, (1 << bits) - 1) for kind, bits in UNSIGNED.items()},
}
ORDINARY: Final[dict[FieldType, Any]] = {
    FieldType.STRING: "orders",
    FieldType.UUID: Uuid(bytes(range(16))),
    FieldType.FLOAT64: 1.5,
    FieldType.BYTES: b"abc",
    FieldType.RECORDS: b"abc",
    FieldType.BOOL: False,
}
LIST_LENGTHS: Final = (0, 2, 1000)


def extreme_records(record: type[Message]) -> tuple[Message, ...]:
    """The record with each of its fields, and of their structs' fields, at each end of its type; else ordinary.

    Control records are in version 0, as released leaders write them.
    """
    layout = layout_of(record)
    return tuple(_extreme(layout, 0 if layout.key is None else layout.last_version))


def _extreme(layout: Layout, version: int) -> Iterator[Message]:
    usual = _usual(layout, version)
    for field in layout.fields:
        # The version of a control record is in it; a wrong one is damage.
        if field.in_version(version) and (layout.key is not None or field.name != "version"):
            for value in _values(field, version):
                yield struct_class(layout)(**{**usual, field.name: value})


def _usual(layout: Layout, version: int) -> dict[str, Any]:
    known = {field.name: _ordinary(field, version) for field in layout.fields if field.in_version(version)}
    return known | {"version": 0} if "version" in known and layout.key is None else known


def _ordinary(field: Field, version: int) -> Any:
    if field.struct is None:
        one = ORDINARY.get(field.kind, 1)
    else:
        one = struct_class(field.struct)(**_usual(field.struct, version))
    return (one,) if field.array else one


def _values(field: Field, version: int) -> Iterator[Any]:
    if field.nullable_in(version):
        yield None
    each = list(ENDS[field.kind] if field.struct is None else _extreme(field.struct, version))
    if field.array:
        yield from ((one,) for one in each)
        yield from ((each[-1],) * count for count in LIST_LENGTHS)
    else:
        yield from each


EXTREMES: Final = {
    record.__name__: extreme_records(record)
    for record in (*RECORDS.values(), KRaftVersionRecord, LeaderChangeMessage, VotersRecord)
}
