"""Metadata transactions: the records between Begin and End take effect together, or after Abort not at all. KIP-868.

Begin creates a snapshot of the state at its offset, and Abort reverts to it. As in Kafka, records inside a transaction
are applied at once; readers that must not see them yet read the state at the start (`ClusterState.at`). An abort also
drops the snapshots that were made inside the transaction.
"""

from __future__ import annotations

from typing import NamedTuple

from quorate.metadata.faults import ReplayFault
from quorate.nouns import Offset
from quorate.records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from quorate.timeline import SnapshotRegistry, TimelineValue

__all__ = ["Transaction", "Transactions"]


class Transaction(NamedTuple):
    """An open metadata transaction: the records from offset `start` on do not count before its end."""

    start: Offset
    name: str | None


class Transactions:
    """Tracks the open metadata transaction; at most one is open at a time."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._registry = registry
        self._open: TimelineValue[Transaction | None] = TimelineValue(registry, None)

    @property
    def open(self) -> Transaction | None:
        """The open metadata transaction, or None."""
        return self._open.value

    def begin(self, record: BeginTransactionRecord, offset: Offset) -> None:
        """Opens a transaction at `offset`, and creates a snapshot there for an abort.

        Raises ReplayFault if one is open: transactions do not nest.
        """
        if self._open.value is not None:
            raise ReplayFault(f"a transaction is open since offset {self._open.value.start}; transactions do not nest")
        if offset not in self._registry:
            self._registry.create(offset)
        assert self._registry.latest == offset, (offset, self._registry.latest)
        self._open.value = Transaction(offset, record.name)

    def end(self, _record: EndTransactionRecord, _: Offset) -> None:
        """Ends the open transaction; its records count now. Raises ReplayFault if none is open."""
        if self._open.value is None:
            raise ReplayFault("no transaction is open that could end")
        assert self._open.value.start in self._registry, self._open.value  # it was kept for an abort
        self._open.value = None

    def abort(self, _record: AbortTransactionRecord, _: Offset) -> None:
        """Aborts the open transaction: reverts the whole state to its start. Raises ReplayFault if none is open.

        Snapshots that were made since the start are removed.
        """
        if self._open.value is None:
            raise ReplayFault("no transaction is open that could be aborted")
        assert self._open.value.start in self._registry, self._open.value
        self._registry.revert_to(self._open.value.start)
        assert self._open.value is None, self._open.value
