"""Majority arithmetic: how many are enough, and how far that many have come."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from quorate.nouns import NodeId, Offset

UNKNOWN = -1
"""How Kafka writes an offset that nobody has reported."""


def majority(count: int) -> int:
    """The fewest of `count` voters of which any two choices share a member.

    >>> [majority(count) for count in (1, 2, 3, 4, 5)]
    [1, 2, 2, 3, 3]
    """
    assert count >= 1, count
    return count // 2 + 1


def is_won(*, granted: AbstractSet[NodeId], voters: AbstractSet[NodeId]) -> bool:
    """Have a majority of `voters` said yes? Others' votes do not count."""
    return bool(voters) and len(granted & voters) >= majority(len(voters))


def is_lost(*, rejected: AbstractSet[NodeId], voters: AbstractSet[NodeId]) -> bool:
    """Have so many of `voters` said no that the rest is no majority?"""
    return bool(voters) and len(voters - rejected) < majority(len(voters))


def agreed_end(ends: Sequence[Offset | None]) -> Offset | None:
    """The largest offset that a majority of `ends` has reached; None if too few are known.

    >>> agreed_end([7, 5, 3])
    5
    >>> agreed_end([7, 5, 3, None])
    3
    >>> agreed_end([7, None, None]) is None
    True
    """
    descending = sorted([UNKNOWN if end is None else end for end in ends], reverse=True)
    end = descending[majority(len(descending)) - 1]
    return None if end == UNKNOWN else end
