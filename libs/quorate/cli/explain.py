"""`quorate log dump --explain`: the bytes on the left, what they are on the right; for people who study the format."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from quorate.cli.anatomy import Part, anatomy
from quorate.cli.dump import INDEX_ENTRY, TIME_INDEX_ENTRY, Range, entries_of
from quorate.cli.reading import FileKind, batches_of, first_offset_of, kind_of, map_file
from quorate.errors import Corrupt

__all__ = ["explain_file", "explained"]

ROW_BYTES: Final = 8
NAME_WIDTH: Final = 44
TYPE_WIDTH: Final = 8

_COLOURS: Final = {"position": "dim", "bytes": "cyan", "name": "", "type": "dim", "value": "green", "note": "yellow"}


def explain_file(path: Path, wanted: Range, *, as_json: bool) -> list[Corrupt]:
    """Print every byte of one file, of the batches that are wanted. The answer is what is damaged."""
    problems: list[Corrupt] = []
    data = map_file(path)
    console = Console(soft_wrap=True, highlight=False)
    if not as_json:
        console.print(Text(f"Explaining {path}", "bold"))
    in_colours = console.is_terminal
    try:
        for parts in _explained_parts(path, data, wanted, problems):
            for part in parts:
                if as_json:
                    sys.stdout.write(json.dumps(_document(path, part, data)) + "\n")
                elif in_colours:
                    console.print(_coloured(part, data))
                else:
                    sys.stdout.write("".join(line + "\n" for line in _lines(part, data)))
    except Corrupt as problem:
        problems.append(problem.at(path))
    return problems


def explained(parts: list[Part], data: memoryview) -> str:
    """The parts as text without colours."""
    return "".join(line + "\n" for part in parts for line in _lines(part, data))


def _explained_parts(path: Path, data: memoryview, wanted: Range, problems: list[Corrupt]) -> Iterator[list[Part]]:
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
        yield [Part(0, len(data), 0, path.name, "text", "")] if len(data) else []


def _entries(path: Path, data: memoryview, kind: FileKind, wanted: Range) -> Iterator[list[Part]]:
    base = first_offset_of(path)
    for entry in entries_of(data, kind, base):
        if not wanted.holds(entry.offset):
            continue
        parts = [Part(entry.at, 0, 0, f"entry {entry.at // _entry_bytes(kind)}", "", "")]
        at = entry.at
        if entry.timestamp is not None:
            parts.append(Part(at, 8, 1, "timestamp", "int64", str(entry.timestamp)))
            at += 8
        parts.append(Part(at, 4, 1, "relativeOffset", "int32", str(entry.offset - base), f"offset {entry.offset}"))
        if entry.position is not None:
            parts.append(Part(at + 4, 4, 1, "position", "int32", str(entry.position), "of the batch in the .log"))
        yield parts


def _entry_bytes(kind: FileKind) -> int:
    return INDEX_ENTRY.size if kind is FileKind.INDEX else TIME_INDEX_ENTRY.size


def _lines(part: Part, data: memoryview) -> Iterator[str]:
    """One row for each eight bytes; the first one says what they are."""
    return ("".join(text for text, _ in row).rstrip() for row in _rows(part, data))


def _coloured(part: Part, data: memoryview) -> Text:
    return Text("\n").join(Text.assemble(*row) for row in _rows(part, data))


def _rows(part: Part, data: memoryview) -> Iterator[list[tuple[str, str]]]:
    """Pieces of text and their colours."""
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


def _document(path: Path, part: Part, data: memoryview) -> dict[str, object]:
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
