"""`quorate image diff`: the rows that differ between two states, as text or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from quorate.cli.documents import is_document, print_document
from quorate.cli.failures import Failed
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.doubles import Double
from quorate.nouns import Offset
from quorate.sql.difference import Change, Difference, differences
from quorate.sql.nouns import Image, Value

__all__ = ["CHANGE_WIDTH", "in_json", "print_differences", "row_in_json", "show", "words"]

NULL = "-"
CHANGE_WIDTH = max(map(len, Change))
SHOWN_MAX = 80
"""Characters of one value in the text; JSON has all of it."""


def show(before: Offline, after: Offline, *, output: str) -> None:
    """Prints the rows that differ between two states, and notes. Raises Failed if the second state is the older one."""
    if after.as_of_offset < before.as_of_offset:
        raise Failed(f"{before.as_of_offset}..{after.as_of_offset}: the second offset is below the first")
    found = differences(*(Image(state=each.state, voters=each.voters) for each in (before, after)))
    notes = list(dict.fromkeys([*before.notes, *after.notes]))
    print_differences(found, begins=before.as_of_offset, ends=after.as_of_offset, notes=notes, output=output)


def print_differences(
    found: Iterable[Difference], *, begins: Offset, ends: Offset, notes: Sequence[str], output: str
) -> None:
    """Prints the rows that differ between the states at two offsets: as text each once it is found, else one document.

    Of a document nothing is printed if an error comes meanwhile.
    """
    if is_document(output):
        rows = list(map(row_in_json, found))
        print_document({"fromOffset": begins, "toOffset": ends, "notes": notes, "rows": rows}, output)
        return
    count = 0
    for each in found:
        count += 1
        sys.stdout.write(f"{each.change.value:{CHANGE_WIDTH}}  {each.noun.name} {' '.join(words(each))}\n")
    sys.stdout.write(f"{count} row{'s' * (count != 1)} between offset {begins} and offset {ends}\n")
    for note in notes:
        sys.stdout.write(f"note: {printable(note)}\n")


def row_in_json(found: Difference) -> dict[str, object]:
    """Returns a difference as JSON values: its table, the row's key, how it changed, the columns before and after."""
    return {
        "table": found.noun.name,
        "key": in_json(found.key),
        "change": found.change.value,
        "before": in_json(found.before),
        "after": in_json(found.after),
    }


def in_json(values: Mapping[str, Value]) -> dict[str, object]:
    """Returns a row's columns as values for `doubles.dumps`: a float as Kafka writes it."""
    return {name: Double(value) if isinstance(value, float) else value for name, value in values.items()}


def words(found: Difference) -> Iterator[str]:
    """Yields a difference in words for a terminal: the row's key, and in brackets the columns that have changed."""
    if found.key:
        yield " ".join(map(_text, found.key.values()))
    if changes := ", ".join(_changes(found)):
        yield f"({changes})"


def _changes(found: Difference) -> Iterator[str]:
    """Yields what is shown of the columns: of a row that has come, or gone, all that it has."""
    if found.change is Change.CHANGED:
        if not found.after:
            yield "another secret, which is not shown"
        for name, value in found.before.items():
            yield f"{name} {_text(value)} → {_text(found.after[name])}"
        return
    for name, value in (found.after or found.before).items():
        if value is not None:
            yield f"{name}={_text(value)}"


def _text(value: Value) -> str:
    if value is None:
        return NULL
    shown = printable(str(value)) or '""'
    return shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}…"
