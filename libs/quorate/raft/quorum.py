"""Majority arithmetic: whether votes are a majority, and which offset a majority has reached (Raft 5.2, 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from quorate.nouns import NodeId, Offset

UNKNOWN = -1
"""The offset of a replica that has reported none. It sorts below every offset, as in Kafka."""


def majority(count: int) -> int:
    """Returns the smallest number of voters such that any two choices of that many out of `count` share one.

    >>> [majority(count) for count in (1, 2, 3, 4, 5)]
    [1, 2, 2, 3, 3]
    """
    assert count >= 1, count
    size = count // 2 + 1
    assert 2 * size > count, (size, count)  # two majorities share a voter (Raft 5.2)
    return size


def is_won(*, granted: AbstractSet[NodeId], voters: AbstractSet[NodeId]) -> bool:
    """Returns whether a majority of `voters` is in `granted`, whose other ids do not count; False without voters."""
    return bool(voters) and len(granted & voters) >= majority(len(voters))


def is_lost(*, rejected: AbstractSet[NodeId], voters: AbstractSet[NodeId]) -> bool:
    """Returns whether so many of `voters` are in `rejected` that the rest can no longer be a majority."""
    return bool(voters) and len(voters - rejected) < majority(len(voters))


def agreed_end(ends: Sequence[Offset | None]) -> Offset | None:
    """Returns the largest offset that a majority of `ends` has reached; None if too few ends are known.

    With the ends sorted from the largest to the smallest, it is the one at position majority - 1 (Raft 5.3).

    >>> agreed_end([7, 5, 3])
    5
    >>> agreed_end([7, 5, 3, None])
    3
    >>> agreed_end([7, None, None]) is None
    True
    """
    descending = sorted([UNKNOWN if end is None else end for end in ends], reverse=True)
    end = descending[majority(len(descending)) - 1]
    assert sum(known >= end for known in descending) >= majority(len(descending)), (end, descending)  # I-18
    return None if end == UNKNOWN else end
