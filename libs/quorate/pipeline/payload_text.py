"""Converts a record's bytes to its JSON text without building a record object: the fast path of decoding.

A function is generated for each record class and version, like the codec's decoders. It handles the common case:
fields of numbers, ids, strings and flat arrays, and tags that the schema knows. For anything else it returns None,
and the caller uses `decode_record` and `writer`; where it returns text, the text is the same as theirs. The texts of
tagged fields are cached by their bytes, because ISRs and leaders repeat.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from json.encoder import encode_basestring
from typing import Any, Final

from kraft import Message
from quorate.doubles import double_json
from quorate.errors import Corrupt
from quorate.nouns import uuid_text
from quorate.pipeline.json_text import KEPT_MAX, base64_text, writer
from quorate.wire.codec import decode, encode
from quorate.wire.codec_source import FIXED, TOO_LONG, Short
from quorate.wire.json_names import json_name
from quorate.wire.primitives import read_uvarint, uvarint
from quorate.wire.schema import Field, FieldType, layout_of

__all__ = ["HEAD_BYTES", "MISFITS", "field_texts", "parted", "rest_texts", "text_of"]

MISFITS: Final = (Short, IndexError, struct.error, UnicodeError, Corrupt)
"""Errors that a generated function raises for malformed bytes; `decode_record` then says what is wrong with them."""
HEAD_BYTES: Final = 3
"""Length of a value's head in bytes: frame version, record key and record version, one byte each."""
_NUMBERS: Final = frozenset(kind for kind in FIXED if kind not in (FieldType.BOOL, FieldType.FLOAT64, FieldType.UUID))

Text = Callable[[bytes], str | None]


@cache
def text_of(record: type[Message], version: int) -> Text:
    """Returns a generated function from a record's bytes to JSON text; it returns None where it needs the slow path.

    The value must have a head of HEAD_BYTES. The function raises one of MISFITS for bytes that are no such record.
    """
    present = [field for field in layout_of(record).fields if field.in_version(version)]
    plain = [field for field in present if field.tag is None]
    if not all(_is_known(field) for field in plain):
        return _nothing
    source = _TextSource(version)
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
    source.names["rests"] = rest_texts(record, version)
    exec(compile("\n".join(lines), f"<text of {record.__name__} v{version}>", "exec"), source.names)
    made: Text = source.names["text"]
    return made


@cache
def rest_texts(record: type[Message], version: int) -> Mapping[bytes, str | None]:
    """Returns the texts of the tagged fields, ",name:value" for each, by the bytes behind the last plain field.

    Raises one of MISFITS for bytes that are no tags; None if there are tags that the schema does not know.
    """
    return _Texts(_rest(record, version))


def field_texts(field: Field) -> Mapping[bytes, str]:
    """Returns the texts of a plain uuid, string, bytes, or array of fixed width, by its bytes without their length."""
    if field.array:
        return _arrays(field.kind)
    if field.kind is FieldType.UUID:
        return _IDS
    return _STRINGS if field.kind is FieldType.STRING else _BYTES


def parted(rest: bytes, known: Collection[int]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Splits the tags in `rest`: returns those with a number in `known` as a rest of their own, and the others.

    Raises one of MISFITS for bytes that are no tags.
    """
    count, at = read_uvarint(rest, 0)
    kept: list[bytes] = []
    others: list[tuple[int, bytes]] = []
    for _ in range(count):
        begin = at
        tag, size = rest[at], rest[at + 1]
        at += 2
        if tag > 127 or size > 127:
            tag, at = read_uvarint(rest, begin)
            size, at = read_uvarint(rest, at)
        end = at + size
        if tag in known:
            kept.append(rest[begin:end])
        else:
            others.append((tag, rest[at:end]))
        at = end
    if at != len(rest):
        raise Short
    return uvarint(len(kept)) + b"".join(kept), others


def _rest(record: type[Message], version: int) -> Text:
    """Generates the function for the tagged fields, the bytes behind the last plain field: ",name:value" for each."""
    present = [field for field in layout_of(record).fields if field.in_version(version)]
    tagged = [field for field in present if field.tag is not None]
    source = _TextSource(version)
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
        return field.kind in _NUMBERS or field.kind in (FieldType.UUID, FieldType.STRING)
    return field.kind is not FieldType.STRUCT


class _Texts(dict[bytes, str]):
    """A cache of texts by the bytes that they are made from; None is not cached."""

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
_STRINGS: Final = _Texts(lambda raw: encode_basestring(raw.decode()))
_BYTES: Final = _Texts(base64_text)


@cache
def _arrays(kind: FieldType) -> _Texts:
    """Returns the cache for arrays of one fixed-width type; its keys are the arrays' bytes without the length."""
    code = FIXED[kind]
    width = struct.calcsize(f">{code}")
    show: Callable[[Any], str] = _IDS.__getitem__ if kind is FieldType.UUID else str

    def text(raw: bytes) -> str:
        return f"[{','.join(map(show, struct.unpack('>' + code * (len(raw) // width), raw)))}]"

    return _Texts(text)


@cache
def _tags(record: type[Message], version: int, tag: int) -> _Texts:
    """Returns the cache of one tag's JSON member, comma included, by the tag's bytes; "" for the field's default."""
    body, write = encode(record(), version), writer(record, version)
    nothing = write(record())
    assert body.endswith(b"\0"), (record, version, body)

    def text(raw: bytes) -> str:
        found = decode(record, body[:-1] + b"\1" + uvarint(tag) + uvarint(len(raw)) + raw, version)
        member = write(found)[len(nothing) - 1 : -1]
        return f",{member}" if member and not member.startswith(",") else member

    return _Texts(text)


class _TextSource:
    """Generates source lines that read fields at position `p` of the bytes `b`, and keeps the names that they use."""

    def __init__(self, version: int) -> None:
        self.names: dict[str, Any] = {
            "Short": Short,
            "read_uvarint": read_uvarint,
            "quoted": encode_basestring,
            "base64_text": base64_text,
            "double": double_json,
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
        """Generates one struct.unpack call for neighbouring fields of fixed width."""
        layout = struct.Struct(">" + "".join(FIXED[field.kind] for field in fields))
        targets = "".join(f"_{field.name}, " for field in fields)
        return [f"    {targets}= {self._name(layout.unpack_from)}(b, p)", f"    p += {layout.size}"]

    def read(self, field: Field) -> Iterator[str]:
        """Generates the lines that read a string, bytes or array as text.

        No field needs a bounds check: truncated bytes lack the tag count, and reading that raises IndexError.
        """
        into = f"_{field.name}"
        yield from ("    n = b[p]", "    p += 1", "    if n > 127:", "        n, p = read_uvarint(b, p - 1)")
        if field.kind is FieldType.STRING and not field.array:
            yield from (f"        {line}" for line in TOO_LONG)
        yield "    if n == 0:"
        yield f"        {into} = 'null'" if field.nullable_in(self._version) else "        raise Short"
        yield "    else:"
        if field.array and field.kind is FieldType.STRING:
            yield from self._strings(into)
            return
        width = struct.calcsize(f">{FIXED[field.kind]}") if field.array else 1
        yield f"        q = p + {width} * (n - 1)"
        if field.array:
            yield f"        {into} = {self._name(_arrays(field.kind))}[b[p:q]]"
        elif field.kind is FieldType.STRING:
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
            *(f"            {line}" for line in TOO_LONG),
            "            if n == 0:",
            "                raise Short",
            "            q = p + n - 1",
            "            items.append(quoted(b[p:q].decode()))",
            "            p = q",
            f"        {into} = '[' + ','.join(items) + ']'",
        ]

    def tags(self, record: type[Message], tagged: Sequence[Field]) -> Iterator[str]:
        """Generates the loop over the tags; each known tag becomes its JSON member, an unknown one returns None."""
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
        """Generates a field's value as it stands inside the f-string."""
        name = f"_{field.name}"
        if (
            field.array
            or field.kind in (FieldType.STRING, FieldType.BYTES, FieldType.RECORDS)
            or field.kind in _NUMBERS
        ):
            return f"{{{name}}}"
        if field.kind is FieldType.BOOL:
            return f"{{TRUE if {name} else FALSE}}"
        return f"{{ids[{name}]}}" if field.kind is FieldType.UUID else f"{{double({name})}}"
