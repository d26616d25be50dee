"""Limits of the report: however large the fleet is, the page stays small enough to mail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Generic, TypeVar

__all__ = ["BYTES_MAX", "TEXT_MAX", "ReportLimits", "ShownRows"]

BYTES_MAX: Final = 2_000_000
"""Size limit of the whole page, in bytes; 0.9 million of them are the library that draws the plots."""
TEXT_MAX: Final = 300
"""Most characters of one sentence or name; a config's value may be long."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLimits:
    """How many rows of each kind are shown at most; these are the worst or the latest."""

    fleet: int = 25
    """Most clusters in the table of clusters."""
    clusters: int = 3
    """Most clusters with charts of their own."""
    epochs: int = 100
    """Most epochs of a quorum; the latest are shown."""
    brokers: int = 16
    """Most brokers in a cluster's broker timeline, one lane each."""
    partitions: int = 16
    """Most partitions in a cluster's partition timeline, one lane each."""
    changes: int = 40
    """Most intervals in one lane of a timeline; the latest are shown."""
    rows: int = 50
    """Most rows of every other table."""
    each: int = 20
    """Most findings of one kind."""
    days: int = 62
    """Most days of the availability calendar; the latest are shown."""
    sentences: int = 300
    """Most sentences of the audit timeline; the latest of each kind of change are shown."""

    def halved(self) -> ReportLimits:
        """Returns limits that are half as large, but at least one."""
        return ReportLimits(**{field.name: max(getattr(self, field.name) // 2, 1) for field in fields(self)})


@dataclass(frozen=True, slots=True)
class ShownRows(Generic[T]):
    """The rows that a table shows, and the total number of rows."""

    rows: Sequence[T]
    total: int

    def first(self, most: int) -> ShownRows[T]:
        """Returns the same rows, at most `most` of them, with the same total."""
        return ShownRows(self.rows[:most], self.total)

    def words(self, kind: str, what: str) -> str:
        """Returns a text that says how many of all rows are shown.

        >>> ShownRows((1, 2), 1234).words("the worst", "partitions")
        'the worst 2 of 1,234 partitions'
        >>> ShownRows((1,), 1).words("the worst", "partitions")
        '1 partition'

        """
        if self.total == 1:
            first, _, rest = what.partition(" ")
            return f"1 {first.removesuffix('s')} {rest}".rstrip()
        if len(self.rows) < self.total:
            return f"{kind} {len(self.rows):,} of {self.total:,} {what}"
        return f"{self.total:,} {what}"
