"""How much a report shows: whatever the fleet, the page stays small enough to mail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Generic, TypeVar

__all__ = ["BYTES_MAX", "TEXT_MAX", "Limits", "Shown"]

BYTES_MAX: Final = 1_000_000
"""Of the whole page."""
TEXT_MAX: Final = 300
"""Characters of one sentence or name: a config's value may be long."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most of each thing that is shown; the worst or the latest are."""

    fleet: int = 25
    """Clusters in the table of clusters."""
    clusters: int = 3
    """Clusters that are drawn."""
    epochs: int = 100
    """Latest epochs of a quorum."""
    brokers: int = 16
    """Lanes of brokers."""
    partitions: int = 16
    """Lanes of partitions."""
    changes: int = 40
    """Latest changes in one lane."""
    rows: int = 50
    """Rows of any other table."""
    days: int = 62
    """Latest days of a calendar."""
    sentences: int = 300
    """Latest sentences of the audit timeline."""

    def halved(self) -> Limits:
        """Half of everything, and one at least."""
        return Limits(**{field.name: max(getattr(self, field.name) // 2, 1) for field in fields(self)})


@dataclass(frozen=True, slots=True)
class Shown(Generic[T]):
    """Some of many: the rows that were taken, and how many there are."""

    rows: Sequence[T]
    total: int

    def first(self, most: int) -> Shown[T]:
        """Fewer of them."""
        return Shown(self.rows[:most], self.total)

    def words(self, kind: str, what: str) -> str:
        """How much of it all this is.

        >>> Shown((1, 2), 1234).words("the worst", "partitions"), Shown((1,), 1).words("the worst", "partitions")
        ('the worst 2 of 1,234 partitions', '1 partition')
        """
        if self.total == 1:
            first, _, rest = what.partition(" ")
            return f"1 {first.removesuffix('s')} {rest}".rstrip()
        if len(self.rows) < self.total:
            return f"{kind} {len(self.rows):,} of {self.total:,} {what}"
        return f"{self.total:,} {what}"
