"""A table as it was at a snapshot: the same reads over what the timeline kept, and no writes."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from quorate.nouns import Offset
from quorate.timeline import TimelineDict, TimelineValue

__all__ = ["as_of"]

T = TypeVar("T")


class _Was(Generic[T]):
    """A TimelineValue as it was."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


def as_of(table: T, offset: Offset) -> T:
    """`table` as it was at the snapshot at `offset`.

    Its dicts are views, which have no writing methods: applying a record to the past is a TypeError.
    """
    past: T = object.__new__(type(table))
    for name, kept in vars(table).items():
        setattr(past, name, _seen_at(kept, offset))
    if hasattr(table, "_offset"):
        past._offset = offset  # type: ignore[attr-defined]  # a table of nested collections looks further itself
    return past


def _seen_at(kept: Any, offset: Offset) -> Any:
    # Any: an attribute of a table is either a timeline, of its own types, or shared by past and present.
    if isinstance(kept, TimelineDict):
        return kept.at(offset)
    if isinstance(kept, TimelineValue):
        return _Was(kept.at(offset))
    return kept
