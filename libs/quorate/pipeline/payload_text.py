"""From a record's bytes straight to its JSON text, where nothing stands between them: no object is made of a record.

For each record and version a function is written out, as the codec's decoders are. It knows the records that logs
consist of as they nearly always are: fields of numbers, ids, strings and plain arrays, and tags that the schema has.
What it does not know it leaves to `decode_record` and `writer`, and it answers as these do, or not at all. A tag's text
is asked of those two once for each content, and all tags together are read once: ISRs and leaders repeat.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from json.encoder import encode_basestring
from typing import Any, Final

from kraft import Message
from quorate.errors import Corrupt
from quorate.nouns import uuid_text
from quorate.pipeline.json_text import KEPT_MAX, base64_text, json_name, writer
from quorate.wire.codec import decode, encode
from quorate.wire.compile import FIXED, Short
from quorate.wire.primitives import read_uvarint, uvarint
from quorate.wire.schema import Field, Kind, layout_of

__all__ = ["HEAD_BYTES", "MISFITS", "text_of"]

MISFITS: Final = (Short, IndexError, struct.error, UnicodeError, Corrupt)
"""What a function raises for bytes that are no such record; `decode_record` then says what is wrong with them."""
HEAD_BYTES: Final = 3
"""Frame version, key and version of the record, a byte each."""
_NUMBERS: Final = frozenset(kind for kind in FIXED if kind not in (Kind.BOOL, Kind.FLOAT64, Kind.UUID))

Text = Callable[[bytes], str | None]


@cache
def text_of(record: type[Message], version: int) -> Text:
    """The function that reads a value of the log with a head of HEAD_BYTES: JSON text, or None for a closer look.

    It raises one of MISFITS for bytes that cannot be such a record.
    """
    present = [field for field in layout_of(record).fields if field.in_version(version)]
    plain = [field for field in present if field.tag is None]
    if not all(_is_known(field) for field in plain):
        return _nothing
    source = _Source(version)
    lines = ["def text(b):", f"    p = {HEAD_BYTES}"]
    for is_fixed, group in groupby(plain, key=lambda field: field.kind in FIXED and not field.array):
        fields = list(group)
        lines += source.fixed(fields) if is_fixed else [line for field in fields for line in source.read(field)]
    members = [f'"{json_name(field.name)}":{source.shown(field)}' for field in plain]
    lines += ["    ends = rests[b[p:]]", "    if ends is None:", "        return None"]
    if members:
        lines += ["    return f'{{" + ",".join(members) + "{ends}}}'"]
    else:
        lines += ["    return '{' + ends[1:] + '}'"]
    source.names["rests"] = _Texts(_rest(record, version))
    exec(compile("\n".join(lines), f"<text of {record.__name__} v{version}>", "exec"), source.names)
    made: Text = source.names["text"]
    return made


def _rest(record: type[Message], version: int) -> Text:
    """What reads all behind the last plain field: the members that the tags are, each with a comma before it."""
    present = [field for field in layout_of(record).fields if field.in_version(version)]
    tagged = [field for field in present if field.tag is not None]
    source = _Source(version)
    lines = ["def rest(b):", "    p = 0", *source.tags(record, tagged)]
    lines += ["    if p != len(b):", "        raise Short"]
    lines += ["    return " + (" + ".join(f"_{field.name}" for field in tagged) or "''")]
    exec(compile("\n".join(lines), f"<tags of {record.__name__} v{version}>", "exec"), source.names)
    made: Text = source.names["rest"]
    return made


def _nothing(_: bytes) -> str | None:
    return None


def _is_known(field: Field) -> bool:
    if field.array:
        return field.kind in _NUMBERS or field.kind in (Kind.UUID, Kind.STRING)
    return field.kind is not Kind.STRUCT


class _Texts(dict[bytes, str]):
    """Texts by the bytes that they are made of, each made once; None is not kept."""

    def __init__(self, make: Text) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, raw: bytes) -> str | None:
        text = self._make(raw)
        if text is None:
            return None
        if len(self) >= KEPT_MAX:
            self.clear()
        self[raw] = text
        return text


_IDS: Final = _Texts(lambda raw: f'"{uuid_text(raw)}"')


@cache
def _arrays(kind: Kind) -> _Texts:
    """Arrays of one fixed kind, without their length."""
    code = FIXED[kind]
    width = struct.calcsize(f">{code}")
    show: Callable[[Any], str] = _IDS.__getitem__ if kind is Kind.UUID else str

    def text(raw: bytes) -> str:
        return f"[{','.join(map(show, struct.unpack('>' + code * (len(raw) // width), raw)))}]"

    return _Texts(text)


@cache
def _tags(record: type[Message], version: int, tag: int) -> _Texts:
    """A tag's member with the comma before it, by its content; nothing for what is the field's default."""
    body, write = encode(record(), version), writer(record, version)
    nothing = write(record())
    assert body.endswith(b"\0"), (record, version, body)

    def text(raw: bytes) -> str:
        found = decode(record, body[:-1] + b"\1" + uvarint(tag) + uvarint(len(raw)) + raw, version)
        member = write(found)[len(nothing) - 1 : -1]
        return f",{member}" if member and not member.startswith(",") else member

    return _Texts(text)


class _Source:
    """Lines that read fields at `p` of the bytes `b`, and the names that they refer to."""

    def __init__(self, version: int) -> None:
        self.names: dict[str, Any] = {
            "Short": Short,
            "read_uvarint": read_uvarint,
            "quoted": encode_basestring,
            "base64_text": base64_text,
            "dumps": json.dumps,
            "ids": _IDS,
            "TRUE": "true",
            "FALSE": "false",
        }
        self._version = version

    def _name(self, value: Any) -> str:
        found = f"_{len(self.names)}"
        self.names[found] = value
        return found

    def fixed(self, fields: Sequence[Field]) -> list[str]:
        """Neighbours of fixed width, in one call."""
        layout = struct.Struct(">" + "".join(FIXED[field.kind] for field in fields))
        targets = "".join(f"_{field.name}, " for field in fields)
        return [f"    {targets}= {self._name(layout.unpack_from)}(b, p)", f"    p += {layout.size}"]

    def read(self, field: Field) -> Iterator[str]:
        """A string, bytes or array, as text. Whatever is cut short ends before the count of tags that must follow."""
        into = f"_{field.name}"
        yield from ("    n = b[p]", "    p += 1", "    if n > 127:", "        n, p = read_uvarint(b, p - 1)")
        yield "    if n == 0:"
        yield f"        {into} = 'null'" if field.nullable_in(self._version) else "        raise Short"
        yield "    else:"
        if field.array and field.kind is Kind.STRING:
            yield from self._strings(into)
            return
        width = struct.calcsize(f">{FIXED[field.kind]}") if field.array else 1
        yield f"        q = p + {width} * (n - 1)"
        if field.array:
            yield f"        {into} = {self._name(_arrays(field.kind))}[b[p:q]]"
        elif field.kind is Kind.STRING:
            yield f"        {into} = quoted(b[p:q].decode())"
        else:
            yield f"        {into} = base64_text(b[p:q])"
        yield "        p = q"

    def _strings(self, into: str) -> list[str]:
        return [
            "        if n - 1 > len(b) - p:",
            "            raise Short",
            "        items = []",
            "        for _ in range(n - 1):",
            "            n, p = read_uvarint(b, p)",
            "            if n == 0:",
            "                raise Short",
            "            q = p + n - 1",
            "            items.append(quoted(b[p:q].decode()))",
            "            p = q",
            f"        {into} = '[' + ','.join(items) + ']'",
        ]

    def tags(self, record: type[Message], tagged: Sequence[Field]) -> Iterator[str]:
        """The tags, of which each becomes its whole member; one that the schema has not needs a closer look."""
        if tagged:
            yield "    " + " = ".join(f"_{field.name}" for field in tagged) + " = ''"
        yield from ("    n = b[p]", "    p += 1", "    if n:", "        if n > 127:")
        yield from ("            n, p = read_uvarint(b, p - 1)", "        for _ in range(n):")
        yield from ("            tag, size = b[p], b[p + 1]", "            p += 2")
        yield from ("            if tag > 127 or size > 127:", "                tag, p = read_uvarint(b, p - 2)")
        yield from ("                size, p = read_uvarint(b, p)", "            q = p + size")
        for word, field in zip(("if", *("elif" for _ in tagged)), tagged, strict=False):
            assert field.tag is not None, field
            texts = self._name(_tags(record, self._version, field.tag))
            yield from (f"            {word} tag == {field.tag}:", f"                _{field.name} = {texts}[b[p:q]]")
        yield from ("            else:", "                return None") if tagged else ("            return None",)
        yield "            p = q"

    def shown(self, field: Field) -> str:
        """A field's value, as it stands inside an f-string."""
        name = f"_{field.name}"
        if field.array or field.kind in (Kind.STRING, Kind.BYTES, Kind.RECORDS) or field.kind in _NUMBERS:
            return f"{{{name}}}"
        if field.kind is Kind.BOOL:
            return f"{{TRUE if {name} else FALSE}}"
        return f"{{ids[{name}]}}" if field.kind is Kind.UUID else f"{{dumps({name})}}"
