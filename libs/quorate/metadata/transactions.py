"""Records that count together or not at all: Begin, End, Abort. KIP-868.

Begin marks the state by a snapshot at its offset; Abort goes back to it, so that nothing is left of what lay
between. Records inside are applied at once, as in Kafka: who must not see them yet reads `ClusterState.at` the
start. Snapshots that were made inside a transaction are gone when it is aborted.
"""

from __future__ import annotations

from typing import NamedTuple

from quorate.metadata.faults import ReplayFault
from quorate.nouns import Offset
from quorate.records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from quorate.timeline import SnapshotRegistry, TimelineValue

__all__ = ["Transaction", "Transactions"]


class Transaction(NamedTuple):
    """The transaction that is open: nothing from `start` on counts before its end."""

    start: Offset
    name: str | None


class Transactions:
    """At most one is open at a time."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._registry = registry
        self._open: TimelineValue[Transaction | None] = TimelineValue(registry, None)

    @property
    def open(self) -> Transaction | None:
        """The transaction that has begun and not ended."""
        return self._open.value

    def begin(self, record: BeginTransactionRecord, offset: Offset) -> None:
        """Raises ReplayFault if one is open: they do not nest."""
        if self._open.value is not None:
            raise ReplayFault(f"a transaction is open since offset {self._open.value.start}; transactions do not nest")
        if offset not in self._registry:
            self._registry.create(offset)
        self._open.value = Transaction(offset, record.name)

    def end(self, _record: EndTransactionRecord, _: Offset) -> None:
        """What lay between counts now. Raises ReplayFault if none is open."""
        if self._open.value is None:
            raise ReplayFault("no transaction is open that could end")
        self._open.value = None

    def abort(self, _record: AbortTransactionRecord, _: Offset) -> None:
        """What lay between never was. Raises ReplayFault if none is open."""
        if self._open.value is None:
            raise ReplayFault("no transaction is open that could be aborted")
        self._registry.revert_to(self._open.value.start)
        assert self._open.value is None, self._open.value
