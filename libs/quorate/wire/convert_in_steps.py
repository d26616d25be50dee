"""Generates the converters of large messages between struct and protobuf: generators that yield after so many items.

They do what those of `convert` do, which convert the structs without lists inside of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from quorate.nouns import uuid_text
from quorate.wire.convert import (
    Make,
    built,
    copied,
    named,
    read_field,
    read_one,
    reader,
    reader_names,
    write_field,
    writer,
)
from quorate.wire.items import Items, Steps, has_lists, item_done
from quorate.wire.schema import Field, FieldType, Layout, struct_class
from quorate.wire.shared import ITEMS_MAX, Shared, SharedReads

__all__ = ["stepped_reader", "stepped_writer"]

SteppedWrite = Callable[[Message, Make, Items], Steps[ProtobufMessage]]
SteppedRead = Callable[[ProtobufMessage, Items], Steps[Any]]

_HEAD = ["    if False:", "        yield"]


@cache
def stepped_writer(layout: Layout) -> SteppedWrite:
    """Returns the generator function that converts a struct of this layout to protobuf, in steps."""
    names: dict[str, Any] = {"uuid_text": uuid_text, "Shared": Shared, "copied": copied}
    members = ", ".join(f"{field.name}={_member(field, names)}" for field in layout.fields if not _is_stepped(field))
    lines = ["def write(m, new, t):", *_HEAD, f"    made = new({members})"]
    for field in filter(_is_stepped, layout.fields):
        lines += _written_list(field, names)
    write: SteppedWrite = built(names, "write", [*lines, "    return made"])
    return write


def _is_stepped(field: Field) -> bool:
    """Whether a field needs a loop of its own: protobuf takes lists of plain values at once."""
    return field.array and (field.struct is not None or field.box or field.kind is FieldType.UUID)


def _member(field: Field, names: dict[str, Any]) -> str:
    value = f"m.{field.name}"
    if field.struct is None or not has_lists(field.struct):
        return write_field(field, value, names)
    write, new = named(names, stepped_writer(field.struct)), named(names, field.struct.protobuf)
    return f"None if {value} is None else (yield from {write}({value}, {new}, t))"


def _written_list(field: Field, names: dict[str, Any]) -> list[str]:
    value, indent = f"m.{field.name}", "    "
    if not field.box:
        return [*_written_items(field, f"made.{field.name}", names, indent)]
    lines = [f"    if {value} is not None:", f"        box = made.{field.name}", "        box.SetInParent()"]
    lines += [f"        if type({value}) is Shared and {value}.box is not None:"]
    lines += [f"            box.CopyFrom({value}.box)", "        else:"]
    lines += _written_items(field, "box.items", names, "            ")
    return [*lines, f"            if type({value}) is Shared:", f"                {value}.box = copied(box)"]


def _written_items(field: Field, into: str, names: dict[str, Any], indent: str) -> list[str]:
    if field.struct is None and field.kind is not FieldType.UUID:
        return [f"{indent}{into}.extend(m.{field.name})"]
    if field.struct is None:
        add, body = "append", "add(uuid_text(item))"
    elif has_lists(field.struct):
        add, body = "add", f"yield from {named(names, stepped_writer(field.struct))}(item, add, t)"
    else:
        add, body = "add", f"{named(names, writer(field.struct))}(item, add)"
    lines = [f"add = {into}.{add}", f"for item in m.{field.name}:", f"    {body}"]
    return [*(f"{indent}{line}" for line in lines), *item_done(f"{indent}    ")]


@cache
def stepped_reader(layout: Layout) -> SteppedRead:
    """Returns the generator function that converts protobuf to a struct, in steps. ValueError for an unfit value."""
    names = reader_names()
    make = named(names, struct_class(layout))
    lines, values = ["def read(m, t):", *_HEAD], []
    for field in layout.fields:
        if field.array and (field.struct is not None or field.kind in (FieldType.UUID, FieldType.STRING)):
            lines += _read_list(field, names)
            values.append(f"_{field.name}")
        elif field.struct is not None and has_lists(field.struct):
            values.append(_read_struct(field, names))
        else:
            values.append(read_field(field, names))
    read: SteppedRead = built(names, "read", [*lines, f"    return {make}({', '.join(values)})"])
    return read


def _read_list(field: Field, names: dict[str, Any]) -> list[str]:
    if field.struct is not None and has_lists(field.struct):
        one = f"(yield from {named(names, stepped_reader(field.struct))}(item, t))"
    else:
        one = read_one(field, "item", names)
    source = f"m.{field.name}.items" if field.box else f"m.{field.name}"
    absent = f' if m.HasField("{field.name}") else None' if field.box else ""
    lines = [
        "    items = []",
        f"    for item in {source}:",
        f"        items.append({one})",
        *item_done("        "),
        f"    _{field.name} = tuple(items){absent}",
    ]
    if not field.box or field.struct is None or has_lists(field.struct):
        return lines
    shared = named(names, SharedReads(reader(field.struct)))
    return [
        f'    if not m.HasField("{field.name}"):',
        f"        _{field.name} = None",
        f"    elif len({source}) <= {ITEMS_MAX}:",
        f"        _{field.name} = {shared}(m.{field.name})",
        f"        yield from t.many({shared}.cost)",
        "    else:",
        *(f"    {line}" for line in lines),
    ]


def _read_struct(field: Field, names: dict[str, Any]) -> str:
    """Returns the expression for a struct that is not in a list, and has lists."""
    assert field.struct is not None
    absent = "None" if field.nullable_since is not None else named(names, struct_class(field.struct)())
    read = f"(yield from {named(names, stepped_reader(field.struct))}(m.{field.name}, t))"
    return f'{read} if m.HasField("{field.name}") else {absent}'
