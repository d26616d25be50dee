"""How large a cluster is walked: every number is a bound, and a walk within them is complete."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What may happen how often in one history. Losses, delays and timeouts are not bounded: they always may."""

    voters: int = 3
    epochs: int = 2
    """The highest epoch that a node may enter."""
    appends: int = 1
    crashes: int = 1
    """Each loses any part of what was not flushed; the process is back at once."""
    resigns: int = 1
    """How often a leader may find that it has not heard a majority."""
    adds: int = 0
    removes: int = 0
    duplicates: int = 0
    """How often a request may arrive and yet stay on the wire."""
    stale: int = 99
    """How many requests, whose askers no longer wait, may be on the wire at once; more are lost."""
    is_pre_vote_free: bool = False
    """Does every pre-vote succeed at once? Then any voter may stand at any moment, but pre-votes are not walked."""
    is_prompt: bool = False
    """Do answers without records, and the question for kraft.version ranges, arrive at once?"""
    is_lean: bool = False
    """Is what only repeats or delays left out? `README.md` lists it."""

    def __post_init__(self) -> None:
        if not 1 <= self.voters + self.adds <= 5:
            raise ValueError(f"voters + adds is {self.voters + self.adds}; it must be between 1 and 5")
        for name in ("epochs", "appends", "crashes", "resigns", "adds", "removes", "duplicates", "stale"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
