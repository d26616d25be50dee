"""The high watermark of a partition at its leader: below it, each replica that may be elected has every record."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.nouns import Offset


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """Returns `min.insync.replicas`, or the replication factor if that is smaller (R24).

    >>> effective_min_isr(2, 3), effective_min_isr(2, 1)
    (2, 1)
    """
    assert min_insync_replicas >= 1, min_insync_replicas
    return min(min_insync_replicas, replica_count)


def committed_end(leader_leo: Offset, awaited: Iterable[Offset | None]) -> Offset | None:
    """Returns the offset below which the leader and all awaited replicas have the log (R21).

    None if one of them has not fetched in this epoch: it may have nothing.

    >>> committed_end(9, [7, 8]), committed_end(9, []), committed_end(9, [7, None])
    (7, 9, None)
    """
    end = leader_leo
    for leo in awaited:
        if leo is None:
            return None
        end = min(end, leo)
    return end
