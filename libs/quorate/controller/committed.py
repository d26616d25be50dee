"""What of the state is committed, for what is decided without waiting for a commit: who may ask, above all."""

from __future__ import annotations

from typing import Generic, TypeVar

from quorate.controller.engine import Engine
from quorate.metadata.past import as_of
from quorate.nouns import Offset
from quorate.timeline import TimelineDict, TimelineValue
from quorate.timeline.registry import Snapshot

__all__ = ["Committed"]

T = TypeVar("T")
P = TypeVar("P")


class Committed(Generic[T]):
    """A table of the engine's state as it is committed: without what is in flight or in an open transaction.

    Kafka's authorizer hears of entries when they are committed, and a transaction is at its end (KIP-801, KIP-868).
    """

    def __init__(self, engine: Engine, table: T) -> None:
        self._engine = engine
        self._table = table
        self._found = table
        self._moment: tuple[Offset, Offset, Snapshot | None] | None = None

    def now(self) -> T:
        """To be read at once: the present where that is the same, and else a snapshot that will be forgotten."""
        engine = self._engine
        # Every write has a snapshot of its own, so that a state which went back and on again is another moment.
        moment = (engine.next_offset, engine.first_uncommitted(), engine.state.registry.newest)
        if moment != self._moment:
            self._found = self._find()
            self._moment = moment
        return self._found

    @property
    def offset(self) -> Offset:
        """Where it stands: all records below count, and no others."""
        offset = self._engine.first_uncommitted()
        transaction = self._seen(self._engine.state.transactions, self._past(offset)).open
        return offset if transaction is None else transaction.start

    def _find(self) -> T:
        return self._seen(self._table, self._past(self.offset))

    def _past(self, offset: Offset) -> Offset | None:
        return None if offset == self._engine.next_offset else offset

    def _seen(self, table: P, offset: Offset | None) -> P:
        return as_of(table, offset) if offset is not None and _changed_at(table) >= offset else table


def _changed_at(table: object) -> Offset:
    """The newest snapshot since which it has changed. Mostly that is long ago, and the present the cheaper to read."""
    parts = [part for part in vars(table).values() if isinstance(part, TimelineDict | TimelineValue)]
    return max(part.changed_at for part in parts)
