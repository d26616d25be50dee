"""The records that rebuild a state from the rows of its tables, as `rows_of` makes rows of records.

Values that are in no table have their default: secret bytes, tags that no release knows, fields that are of a change
alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from kraft import Message
from quorate.nouns import parse_uuid
from quorate.sql.nouns import NOUNS, Noun, Row
from quorate.wire.schema import Field, FieldType, struct_class

__all__ = ["IN_IMAGE", "records_of"]

FIRST: Final = "features"
"""The first records of a checkpoint: the level of the rest."""
IN_IMAGE: Final = (FIRST, *(name for name, noun in NOUNS.items() if name != FIRST and noun.within is None))
"""The tables of which each row is a record of its own, in an order in which a state takes them."""


def records_of(noun: Noun, rows: Iterable[Row]) -> Iterator[Message]:
    """Yields the metadata record that each row was made of. Fields that are no columns have their default."""
    skipped, fields = len(noun.first), _fields(noun.name)
    for row in rows:
        values = zip(fields, row[skipped:], strict=True)
        yield noun.record(**{name: value if convert is None else convert(value) for (name, convert), value in values})


@cache
def _fields(table: str) -> list[tuple[str, Callable[[Any], Any] | None]]:
    """Returns what makes the value of each field of a column's; None if that is it."""
    noun = NOUNS[table]
    return [(each.name, _converter(each, noun.words.get(each.name))) for each in noun.fields]


def _converter(of: Field, words: Mapping[int, str] | None) -> Callable[[Any], Any] | None:
    # Any: a value of the column, and of the field's own type.
    if words is not None:
        numbers = {word: number for number, word in words.items()}
        return lambda word: numbers[word] if word in numbers else int(word)
    if of.array or of.kind is FieldType.STRUCT:
        return lambda text: None if text is None else _of_json(of, json.loads(text))
    if of.kind is FieldType.FLOAT64:
        return lambda number: math.nan if number is None else number  # SQLite has null for it
    if of.kind is FieldType.BOOL:
        return bool
    return parse_uuid if of.kind is FieldType.UUID else None


def _of_json(of: Field, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_of_json(of, each) for each in value)
    if isinstance(value, dict):
        assert of.struct is not None, of
        fields = {each.name: each for each in of.struct.fields}
        return struct_class(of.struct)(**{name: _of_json(fields[name], each) for name, each in value.items()})
    return parse_uuid(value) if of.kind is FieldType.UUID else value
