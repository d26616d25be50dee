"""Generates the converters between struct and protobuf: Python source for one function in each direction.

As in `compile`, a general converter would cost more than the fields. The generated code has no error texts: an unfit
value raises ValueError, and `protobuf` then finds the field and the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from quorate.nouns import parse_uuid, uuid_text
from quorate.wire.items import has_lists
from quorate.wire.schema import STRING_MAX, Field, FieldType, Layout, struct_class
from quorate.wire.shared import Shared, SharedReads

__all__ = [
    "RANGES",
    "Make",
    "built",
    "copied",
    "named",
    "read_field",
    "read_one",
    "reader",
    "reader_names",
    "write_field",
    "writer",
]

RANGES: Final = {
    FieldType.INT8: (-(1 << 7), (1 << 7) - 1),
    FieldType.INT16: (-(1 << 15), (1 << 15) - 1),
    FieldType.UINT16: (0, (1 << 16) - 1),
}
"""The range of Kafka's integer types that are narrower than protobuf's."""

UTF8_BYTES_MAX: Final = 4
"""The most bytes of a character in UTF-8: a shorter string need not be encoded to know that it fits."""

Make = Callable[..., ProtobufMessage]
"""A protobuf message class, or the `add` of a repeated field: takes scalars by name, None for an absent one."""


@cache
def writer(layout: Layout) -> Callable[[Message, Make], ProtobufMessage]:
    """Returns the function that converts a struct of this layout to protobuf: it makes the message by its `Make`."""
    names: dict[str, Any] = {"uuid_text": uuid_text, "Shared": Shared, "copied": copied}
    lines = ["def write(m, new):", f"    made = new({_write_members(layout, 'm', names)})"]
    for field in layout.fields:
        if field.box:
            lines += _write_box(field, names)
        elif field.array and field.struct:
            lines += [f"    add = made.{field.name}.add", *_write_each(field, names, indent=4)]
    write: Callable[[Message, Make], ProtobufMessage] = built(names, "write", [*lines, "    return made"])
    return write


def _write_members(layout: Layout, value: str, names: dict[str, Any]) -> str:
    """Returns the keyword arguments for the fields that need no loop of their own."""
    return ", ".join(
        f"{field.name}={write_field(field, f'{value}.{field.name}', names)}"
        for field in layout.fields
        if not (field.box or (field.array and field.struct))
    )


def write_field(field: Field, value: str, names: dict[str, Any]) -> str:
    """Returns the Python expression that converts a field to protobuf, for one that needs no loop of its own."""
    if field.struct is None:
        return _to_text(field, value)
    write, new = named(names, writer(field.struct)), named(names, field.struct.protobuf)
    return f"None if {value} is None else {write}({value}, {new})"


def _write_each(field: Field, names: dict[str, Any], *, indent: int) -> list[str]:
    """Returns a loop that adds each struct of an array by `add`: in one call if it has no arrays of structs itself."""
    assert field.struct is not None
    if any(each.box or (each.array and each.struct) for each in field.struct.fields):
        body = f"{named(names, writer(field.struct))}(item, add)"
    else:
        body = f"add({_write_members(field.struct, 'item', names)})"
    return [f"{' ' * indent}for item in m.{field.name}: {body}"]


def _write_box(field: Field, names: dict[str, Any]) -> list[str]:
    value = f"m.{field.name}"
    lines = [f"    if {value} is not None:", f"        box = made.{field.name}", "        box.SetInParent()"]
    if field.struct is None:
        return [*lines, f"        box.items.extend({_to_text(field, value)})"]
    return [
        *lines,
        f"        if type({value}) is Shared and {value}.box is not None:",
        f"            box.CopyFrom({value}.box)",
        "        else:",
        "            add = box.items.add",
        *_write_each(field, names, indent=12),
        f"            if type({value}) is Shared:",
        f"                {value}.box = copied(box)",
    ]


def copied(box: ProtobufMessage) -> ProtobufMessage:
    """Returns a copy of the message, which does not change with `box`."""
    kept = type(box)()
    kept.CopyFrom(box)
    return kept


def _to_text(field: Field, value: str) -> str:
    if field.kind is not FieldType.UUID:
        return value
    if field.array:
        return f"[uuid_text(item) for item in {value}]"
    return f"None if {value} is None else uuid_text({value})"


@cache
def reader(layout: Layout) -> Callable[[ProtobufMessage], Any]:
    """Returns the function that converts a protobuf message to a struct.

    It raises ValueError, which names no field, for a value outside Kafka's type.
    """
    names = reader_names()
    make = named(names, struct_class(layout))
    values = ", ".join(read_field(field, names) for field in layout.fields)
    read: Callable[[ProtobufMessage], Any] = built(names, "read", ["def read(m):", f"    return {make}({values})"])
    return read


def reader_names() -> dict[str, Any]:
    """Returns the globals that every generated reader uses, in a dict of its own."""
    return {"parse_uuid": parse_uuid, "within": _within, "fitting": _fitting}


def read_field(field: Field, names: dict[str, Any]) -> str:
    """Returns the Python expression that reads a field of the protobuf message `m`; it may add to `names`."""
    value, is_there = f"m.{field.name}", f'm.HasField("{field.name}")'
    if field.box and field.struct and not has_lists(field.struct):
        return f"{named(names, SharedReads(reader(field.struct)))}({value}) if {is_there} else None"
    if field.array:
        one = read_one(field, "item", names)
        items = f"{value}.items" if field.box else value
        read = f"tuple({items})" if one == "item" else f"tuple([{one} for item in {items}])"
        return f"{read} if {is_there} else None" if field.box else read
    one = read_one(field, value, names)
    if field.nullable_since is not None:
        return f"{one} if {is_there} else None"
    if field.kind in (FieldType.STRUCT, FieldType.UUID):
        absent = struct_class(field.struct)() if field.struct else field.default
        return f"{one} if {is_there} else {named(names, absent)}"
    return one


def read_one(field: Field, value: str, names: dict[str, Any]) -> str:
    """Returns the Python expression that reads one value, `value` in the code: a field that is there, or an item."""
    if field.struct:
        return f"{named(names, reader(field.struct))}({value})"
    if field.kind is FieldType.UUID:
        return f"parse_uuid({value})"
    if field.kind in RANGES:
        low, high = RANGES[field.kind]
        return f"within({value}, {low}, {high})"
    if field.kind is FieldType.STRING:
        return f"(v if len(v := {value}) <= {STRING_MAX // UTF8_BYTES_MAX} else fitting(v))"
    return value


def _within(value: int, low: int, high: int) -> int:
    if low <= value <= high:
        return value
    raise ValueError(value)


def _fitting(text: str) -> str:
    if len(text.encode()) <= STRING_MAX:
        return text
    raise ValueError(f"{len(text)} characters")


def named(names: dict[str, Any], value: Any) -> str:
    """Adds `value` to `names`, the globals of the generated code, under a new name, which it returns."""
    found = f"_{len(names)}"
    names[found] = value
    return found


def built(names: dict[str, Any], name: str, lines: list[str]) -> Any:
    """Runs the lines of generated code with `names` as globals, and returns the function `name` that they define."""
    exec(compile("\n".join(lines), f"<{name}>", "exec"), names)
    return names[name]
