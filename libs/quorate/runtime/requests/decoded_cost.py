"""The memory of a decoded request, found on the wire before it is decoded.

An empty item of a list takes two bytes there and some 40 to 100 in memory, so 4 MiB could become 120 MiB. A request of
a few hundred KiB cannot cost too much, whatever it has. Of a larger one the bytes that could begin an item are counted,
which takes no time to speak of, and only if there are too many of them each field is visited. Both go in steps, between
which other tasks run, and end as soon as it costs too much.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from quorate.errors import ApiError, ErrorCode

__all__ = ["COST_BYTES_MAX", "COST_BYTES_MAX_OF", "FIELDS_MAX", "CostLimit", "check_cost", "cost_limit", "decoded_cost"]

COST_BYTES_MAX: Final = 16 << 20
"""The most memory that a request may take beside its bytes on the wire. The largest honest one has 100,000 items, as
many as a gateway lets through, and takes 10 MiB."""
COST_BYTES_MAX_OF: Final[Mapping[str, int]] = {
    "opentelemetry.proto.collector.trace.v1.TraceService/Export": 32 << 20,
}
"""Larger requests: 8,192 spans with twenty attributes each, which are 4 MiB, take 20 MiB."""
FIELDS_MAX: Final = 1_000_000
"""The most fields that are visited: half a second of CPU in steps."""
FIELDS_PER_STEP: Final = 2_000
"""About a millisecond."""
DEPTH_MAX: Final = 100
"""Protobuf decodes no deeper message."""

MESSAGE_BYTES: Final = 32
FIELD_BYTES: Final = 8
STRING_BYTES: Final = 16
"""Bytes that protobuf's decoder (upb) takes for a message that is an item of a list, for each field that its type has,
and for a string beside its bytes; measured."""

_FIXED_BYTES: Final = {1: 8, 5: 4}
"""The bytes of a fixed number by its wire type."""


class _Field(NamedTuple):
    """The cost of one occurrence of a field on the wire."""

    bytes: int
    per_byte: int
    """For each byte of a packed list, since a number of one byte takes four or eight in memory."""
    inside: _Fields | None
    """The costs of the fields inside it if it is a message."""


_Fields = dict[int, _Field]
"""The costs of a message type's fields, by their keys on the wire."""


class CostLimit(NamedTuple):
    """How much memory a decoded request of one method may take beside its bytes, and what each of its fields costs."""

    method: str
    bytes_max: int
    fields: _Fields
    begins: tuple[tuple[bytes, int], ...]
    """The bytes with which a field that costs anything begins, and the most that one costs."""
    per_byte: int
    """The most that a byte of a packed list costs."""
    free_bytes: int
    """A request of so many bytes costs less than the limit whatever it has, so nobody counts."""

    def most(self, size: int) -> int:
        """Returns the most memory that a request of `size` bytes may take, its bytes among them."""
        return size + min(self.bytes_max, size * (self.bytes_max // self.free_bytes))


@cache
def cost_limit(method: str, descriptor: Any) -> CostLimit:
    """Returns the limit of a method (`pkg.Service/Method`); `descriptor` is that of its request's protobuf message."""
    bytes_max = COST_BYTES_MAX_OF.get(method, COST_BYTES_MAX)
    known: dict[str, _Fields] = {}
    fields = _fields_of(descriptor, known)
    begins: dict[bytes, int] = {}
    for key, field in (pair for each in known.values() for pair in each.items()):
        for begin in _begins(key) if field.bytes else ():
            begins[begin] = max(field.bytes, begins.get(begin, 0))
    per_byte = max([0, *(field.per_byte for each in known.values() for field in each.values())])
    # The key and the length of a field take two bytes at least.
    dearest = max([1, per_byte, *(cost // 2 for cost in begins.values())])
    return CostLimit(method, bytes_max, fields, tuple(begins.items()), per_byte, bytes_max // dearest)


def _begins(key: int) -> tuple[bytes, bytes]:
    """Returns the bytes of a key, and with what it begins if it is written in more bytes than it needs.

    >>> _begins(0x0A), _begins(0x82)
    ((b'\\n', b'\\x8a'), (b'\\x82\\x01', b'\\x82\\x81'))
    """
    written = bytearray()
    while key >= 0x80:
        written.append(key & 0x7F | 0x80)
        key >>= 7
    return bytes((*written, key)), bytes((*written, key | 0x80))


def _fields_of(descriptor: Any, known: dict[str, _Fields]) -> _Fields:
    fields = known.get(descriptor.full_name)
    if fields is None:
        fields = known[descriptor.full_name] = {}  # before they are known, as a type may contain itself
        fields.update(pair for field in descriptor.fields for pair in _field_costs(field, known))
    return fields


def _field_costs(field: Any, known: dict[str, _Fields]) -> Iterator[tuple[int, _Field]]:
    """Yields a field's keys on the wire with what it costs there."""
    delimited = field.number << 3 | 2
    if field.message_type is not None:
        strings = sum(each.cpp_type == each.CPPTYPE_STRING for each in field.message_type.fields)
        own = MESSAGE_BYTES + FIELD_BYTES * (len(field.message_type.fields) + strings)
        yield delimited, _Field(own, 0, _fields_of(field.message_type, known))
    elif field.is_repeated and field.cpp_type == field.CPPTYPE_STRING:
        yield delimited, _Field(STRING_BYTES, 0, None)
    elif field.is_repeated:
        is_narrow = field.cpp_type in (field.CPPTYPE_BOOL, field.CPPTYPE_ENUM, field.CPPTYPE_INT32)
        yield delimited, _Field(0, 4 if is_narrow else 8, None)
        for wire_type in (0, 1, 5):
            yield field.number << 3 | wire_type, _Field(FIELD_BYTES, 0, None)


def check_cost(data: bytes, limit: CostLimit) -> Generator[None, None, None]:
    """Estimates in steps, for `in_turns`, the memory that a request takes once it is decoded; nothing is decoded.

    Raises ApiError(MESSAGE_TOO_LARGE) above `limit`. Bytes that are malformed are left to the decoder.
    """
    most = len(data) * limit.per_byte
    for begin, cost in limit.begins:
        most += data.count(begin) * cost
        yield
    if most > limit.bytes_max:
        yield from _check_fields(data, limit)


def decoded_cost(data: bytes, limit: CostLimit) -> int:
    """Returns how many bytes of memory a request takes beside its own bytes, by a visit of each field."""
    return sum(spent for spent, _ in _visited(data, limit.fields))


def _check_fields(data: bytes, limit: CostLimit) -> Generator[None, None, None]:
    cost = count = 0
    for spent, visited in _visited(data, limit.fields):
        cost, count = cost + spent, count + visited
        if cost > limit.bytes_max:
            what, most = f"more than {cost} bytes of memory", f"{limit.bytes_max} beside its own bytes"
        elif count > FIELDS_MAX:
            what, most = f"more than {count} fields", f"{FIELDS_MAX} if it is large"
        else:
            yield
            continue
        why = f"{limit.method}: the request of {len(data)} bytes takes {what} once it is decoded, and may take {most}"
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, why)


def _visited(data: bytes, fields: _Fields) -> Iterator[tuple[int, int]]:
    """Walks the fields of a protobuf message, nested ones too; yields the bytes of memory and the fields of a slice."""
    at, end, spent, visited = 0, len(data), 0, 0
    around: list[tuple[int, _Fields]] = []
    try:
        while True:
            while at >= end:
                if not around:
                    yield spent, visited
                    return
                end, fields = around.pop()
            key, at = (data[at], at + 1) if data[at] < 0x80 else _number(data, at)
            wire_type, field, visited = key & 7, fields.get(key), visited + 1
            if field is not None:
                spent += field.bytes
            if wire_type == 2:
                size, at = (data[at], at + 1) if data[at] < 0x80 else _number(data, at)
                if field is not None and field.inside is not None and len(around) < DEPTH_MAX:
                    around.append((end, fields))
                    end, fields = min(at + size, end), field.inside
                else:
                    spent += 0 if field is None else size * field.per_byte
                    at += size
            elif wire_type == 0:
                at = at + 1 if data[at] < 0x80 else _number(data, at)[1]
            else:
                at += _FIXED_BYTES.get(wire_type, 0)
            if visited == FIELDS_PER_STEP:
                yield spent, visited
                spent = visited = 0
    except IndexError:  # it ends within a field
        yield spent, visited


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Returns the varint at a position, and the position after it. Raises IndexError."""
    value = shift = 0
    while (byte := data[at]) >= 0x80 and shift < 63:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return value | (byte & 0x7F) << shift, at + 1
