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

    def _find(self) -> T:
        engine = self._engine
        offset = engine.first_uncommitted()
        there = None if offset == engine.next_offset else offset
        transaction = self._seen(engine.state.transactions, there).open
        return self._seen(self._table, there if transaction is None else transaction.start)

    def _seen(self, table: P, offset: Offset | None) -> P:
        return as_of(table, offset) if offset is not None and self._has_changed(table, offset) else table

    def _has_changed(self, table: object, offset: Offset) -> bool:
        """Since `offset`? Mostly not, and the present is the cheaper one to read."""
        registry = self._engine.state.registry
        parts = [part for part in vars(table).values() if isinstance(part, TimelineDict | TimelineValue)]
        return any(True for part in parts for _ in registry.kept_since(offset, part))
