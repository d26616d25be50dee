"""Reads of the committed state on an active controller whose own state is ahead of it; the authorizer uses them."""

from __future__ import annotations

from operator import attrgetter
from typing import Final, Generic, TypeVar

from quorate.controller.engine.engine import Engine
from quorate.metadata.past_view import as_of
from quorate.nouns import Offset
from quorate.timeline import TimelineDict, TimelineValue
from quorate.timeline.registry import UNCHANGED, Snapshot

__all__ = ["Committed"]

T = TypeVar("T")
P = TypeVar("P")

_CHANGED_AT: Final = attrgetter("changed_at")


class Committed(Generic[T]):
    """A view of one table of the engine's state without uncommitted records and open metadata transactions.

    Kafka's authorizer, too, sees an ACL only when it is committed and its transaction has ended (KIP-801, KIP-868).
    """

    def __init__(self, engine: Engine, table: T) -> None:
        self._engine = engine
        self._table = _Watched(table)
        self._transactions = _Watched(engine.state.transactions)
        self._found = table
        self._moment: tuple[Offset, Offset, Snapshot | None] | None = None

    def now(self) -> T:
        """Returns the committed version of the table. Read it at once: it may be a view of a short-lived snapshot."""
        engine = self._engine
        stable = engine.first_uncommitted()
        is_settled = engine.state.transactions.open is None and self._transactions.is_older_than(stable)
        if is_settled and self._table.is_older_than(stable):
            return self._table.present  # most writes, and so most moments, change nothing of it
        # Every write creates a timeline snapshot, so a revert followed by another write gives another key here.
        moment = (engine.next_offset, stable, engine.state.registry.newest)
        if moment != self._moment:
            self._found = self._find()
            self._moment = moment
        return self._found

    @property
    def offset(self) -> Offset:
        """The last stable offset, exclusive: the view has the effect of all records below it and of no others."""
        offset = self._engine.first_uncommitted()
        assert offset <= self._engine.next_offset, (offset, self._engine.next_offset)
        transaction = self._transactions.seen(self._past(offset)).open
        assert transaction is None or transaction.start < offset, (transaction, offset)  # I-39
        return offset if transaction is None else transaction.start

    def _find(self) -> T:
        return self._table.seen(self._past(self.offset))

    def _past(self, offset: Offset) -> Offset | None:
        return None if offset == self._engine.next_offset else offset


class _Watched(Generic[P]):
    """A table, and the collections of which it consists."""

    def __init__(self, table: P) -> None:
        self.present = table
        self._parts = tuple(part for part in vars(table).values() if isinstance(part, TimelineDict | TimelineValue))
        assert self._parts, f"{type(table).__name__} has no collections: what is not committed would be seen"

    def is_older_than(self, offset: Offset) -> bool:
        """Returns whether nothing of it has changed since `offset`."""
        return max(map(_CHANGED_AT, self._parts), default=UNCHANGED) < offset

    def seen(self, offset: Offset | None) -> P:
        """Returns the table as it was at `offset`; the present one, which costs less, if that is the same."""
        return self.present if offset is None or self.is_older_than(offset) else as_of(self.present, offset)
