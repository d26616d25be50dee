"""Read-only views of a table at an earlier snapshot, by the values that the timeline has kept."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from quorate.nouns import Offset
from quorate.timeline import TimelineDict, TimelineValue

__all__ = ["as_of"]

T = TypeVar("T")


class _Was(Generic[T]):
    """The value of a TimelineValue at a snapshot."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


def as_of(table: T, offset: Offset) -> T:
    """Returns a read-only view of `table`, a table of `ClusterState`, at the snapshot at `offset`.

    Its dicts have no methods to write: applying a record to a past state raises TypeError.
    """
    past: T = object.__new__(type(table))
    for name, collection in vars(table).items():
        setattr(past, name, _seen_at(collection, offset))
    if hasattr(table, "_offset"):
        past._offset = offset  # type: ignore[attr-defined]  # a table of nested collections looks further itself
    return past


def _seen_at(collection: Any, offset: Offset) -> Any:
    # Any: an attribute of a table is a timeline collection of any type, or a value that past and present share.
    if isinstance(collection, TimelineDict):
        return collection.at(offset)
    if isinstance(collection, TimelineValue):
        return _Was(collection.at(offset))
    return collection
