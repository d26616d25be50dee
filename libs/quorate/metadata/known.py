"""Records as the state keeps them: without what this schema cannot name, so that equal states are equal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from kraft import Message

__all__ = ["by_name", "known"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


M = TypeVar("M", bound=Message)
N = TypeVar("N", bound=_Named)


def known(record: M) -> M:
    """`record` without unknown tagged fields: a trace belongs to the log, and Kafka's own checkpoints drop them too."""
    return msgspec.structs.replace(record, unknown_tags=()) if getattr(record, "unknown_tags", ()) else record


def by_name(things: Iterable[N]) -> tuple[N, ...]:
    """Sorted by name, the last of each name: to Kafka these lists are maps, in an order of their own."""
    named = {thing.name: known(thing) for thing in things}  # type: ignore[type-var]  # all that are named are messages
    return tuple(named[name] for name in sorted(named))
