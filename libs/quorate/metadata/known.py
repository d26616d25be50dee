"""Normalizes records for the state: removes unknown fields and sorts lists, so that equal states compare equal."""

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
    """Returns `record` without unknown tagged fields, such as a trace context: Kafka's checkpoints drop them, too."""
    return msgspec.structs.replace(record, unknown_tags=()) if getattr(record, "unknown_tags", ()) else record


def by_name(things: Iterable[N]) -> tuple[N, ...]:
    """Returns items sorted by name, without unknown tagged fields; of each name only the last, as in Kafka's maps."""
    named = {thing.name: known(thing) for thing in things}  # type: ignore[type-var]  # all that are named are messages
    return tuple(named[name] for name in sorted(named))
