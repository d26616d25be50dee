"""`quorate log dump --explain`: prints every byte of a metadata file beside its field name, type and value."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from quorate.cli.anatomy import BytesPart, anatomy
from quorate.cli.documents import is_document, print_document
from quorate.cli.index_entries import INDEX_ENTRY, TIME_INDEX_ENTRY, entries_of
from quorate.cli.reading import FileKind, OffsetRange, batches_of, first_offset_of, kind_of, map_file
from quorate.errors import Corrupt

__all__ = ["explain_file", "explained"]

ROW_BYTES: Final = 8
NAME_WIDTH: Final = 44
TYPE_WIDTH: Final = 8

_COLOURS: Final = {"position": "dim", "bytes": "cyan", "name": "", "type": "dim", "value": "green", "note": "yellow"}


def explain_file(path: Path, wanted: OffsetRange, *, output: str) -> list[Corrupt]:
    """Prints every byte, secrets too, of a file's batches that overlap `wanted`; returns the damage found."""
    problems: list[Corrupt] = []
    data = map_file(path)
    console = Console(soft_wrap=True, highlight=False)
    if not is_document(output):
        console.print(Text(f"Explaining {path}", "bold"))
    in_colours = console.is_terminal
    try:
        for parts in _explained_parts(path, data, wanted, problems):
            for part in parts:
                if is_document(output):
                    print_document(_document(path, part, data), output)
                elif in_colours:
                    console.print(_coloured(part, data))
                else:
                    sys.stdout.write("".join(line + "\n" for line in _lines(part, data)))
    except Corrupt as problem:
        problems.append(problem.at(path))
    return problems


def explained(parts: list[BytesPart], data: memoryview) -> str:
    """Returns the named bytes of a batch as text without colours; `data` is the whole file."""
    return "".join(line + "\n" for part in parts for line in _lines(part, data))


def _explained_parts(
    path: Path, data: memoryview, wanted: OffsetRange, problems: list[Corrupt]
) -> Iterator[list[BytesPart]]:
    kind = kind_of(path)
    if kind in (FileKind.INDEX, FileKind.TIME_INDEX):
        yield from _entries(path, data, kind, wanted)
    elif kind in (FileKind.LOG, FileKind.CHECKPOINT):
        for batch in batches_of(data):
            if wanted.meets(batch):
                if batch.problem is not None:
                    problems.append(batch.problem.at(path))
                parts, damage = anatomy(data, batch.position, batch.header, sound=batch.problem is None)
                if damage is not None:
                    problems.append(damage.at(path))
                yield parts
    else:
        yield [BytesPart(0, len(data), 0, path.name, "text", "")] if len(data) else []


def _entries(path: Path, data: memoryview, kind: FileKind, wanted: OffsetRange) -> Iterator[list[BytesPart]]:
    base = first_offset_of(path)
    for entry in entries_of(data, kind, base):
        if not wanted.holds(entry.offset):
            continue
        parts = [BytesPart(entry.at, 0, 0, f"entry {entry.at // _entry_bytes(kind)}", "", "")]
        at = entry.at
        if entry.timestamp is not None:
            parts.append(BytesPart(at, 8, 1, "timestamp", "int64", str(entry.timestamp)))
            at += 8
        parts.append(BytesPart(at, 4, 1, "relativeOffset", "int32", str(entry.offset - base), f"offset {entry.offset}"))
        if entry.position is not None:
            parts.append(BytesPart(at + 4, 4, 1, "position", "int32", str(entry.position), "of the batch in the .log"))
        yield parts


def _entry_bytes(kind: FileKind) -> int:
    return INDEX_ENTRY.size if kind is FileKind.INDEX else TIME_INDEX_ENTRY.size


def _lines(part: BytesPart, data: memoryview) -> Iterator[str]:
    """Yields one line per eight bytes; the first one has the part's name, type and value."""
    return ("".join(text for text, _ in row).rstrip() for row in _rows(part, data))


def _coloured(part: BytesPart, data: memoryview) -> Text:
    return Text("\n").join(Text.assemble(*row) for row in _rows(part, data))


def _rows(part: BytesPart, data: memoryview) -> Iterator[list[tuple[str, str]]]:
    """Yields the rows of one part, each a list of (text, colour)."""
    name = "  " * part.depth + part.name
    if part.size == 0:
        yield [(" " * (11 + 3 * ROW_BYTES), ""), (name, "bold"), (f"  {part.note}", "dim")]
        return
    end = part.position + part.size
    for at in range(part.position, end, ROW_BYTES):
        raw = bytes(data[at : min(at + ROW_BYTES, end)]).hex(" ")
        row = [(f"{at:08x}  ", _COLOURS["position"]), (raw.ljust(3 * ROW_BYTES), _COLOURS["bytes"])]
        if at == part.position:
            row += [
                (f" {name.ljust(NAME_WIDTH)}", _COLOURS["name"]),
                (f"{part.type.ljust(TYPE_WIDTH)} ", _COLOURS["type"]),
                (part.value + ("  " if part.value and part.note else ""), _COLOURS["value"]),
                (part.note, _COLOURS["note"]),
            ]
        yield row


def _document(path: Path, part: BytesPart, data: memoryview) -> dict[str, object]:
    return {
        "kind": "part" if part.size else "heading",
        "file": str(path),
        "position": part.position,
        "size": part.size,
        "depth": part.depth,
        "name": part.name,
        "type": part.type,
        "value": part.value,
        "note": part.note,
        "bytes": data[part.position : part.position + part.size].hex(),
    }
