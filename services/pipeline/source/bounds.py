"""From where to where the source `kraft` reads, under the names that Spark's own source for Kafka has for this.

A cluster's metadata log is one partition, so the JSON of Kafka's source has a cluster where that has a topic and its
partitions: `{"q9Zs1fW3RzmXb0mKpL4vAg": 71}`. -2 is the earliest offset, -1 the latest, as there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from quorate.nouns import Offset
from quorate.pipeline.rows import RowFilter

__all__ = ["BOUNDS", "Bounds", "parse_bounds"]

BOUNDS: Final = ("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp")
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_EARLIEST: Final = -2
_LATEST: Final = -1
_FOREVER: Final = (1 << 63) - 1


class Bounds(NamedTuple):
    """Log offsets by cluster id (ends exclusive), timestamps in ms since 1970; a cluster without one is read whole.

    `from_latest` has the clusters that a stream reads from their present end on; None stands for all clusters.
    `endings` are the names of the options that set an end.
    """

    starts: tuple[tuple[str, Offset], ...] = ()
    ends: tuple[tuple[str, Offset], ...] = ()
    start_ms: int | None = None
    end_ms: int | None = None
    from_latest: frozenset[str] | None = frozenset()
    endings: tuple[str, ...] = ()

    def limited(self, wanted: RowFilter, cluster_id: str) -> RowFilter:
        """Returns `wanted` limited to this cluster's bounds."""
        start, end = dict(self.starts).get(cluster_id, 0), dict(self.ends).get(cluster_id, _FOREVER)
        return wanted._replace(
            start_offset=max(wanted.start_offset, start),
            end_offset=min(wanted.end_offset, end),
            start_ms=wanted.start_ms if self.start_ms is None else max(wanted.start_ms, self.start_ms),
            end_ms=wanted.end_ms if self.end_ms is None else min(wanted.end_ms, self.end_ms),
        )

    def begins_at_end(self, cluster_id: str) -> bool:
        """Returns whether a stream skips what a cluster's log has when the stream starts."""
        return self.from_latest is None or cluster_id in self.from_latest

    def check_for_batch(self) -> None:
        """Raises ValueError if a batch would begin at the end."""
        if self.from_latest != frozenset():
            raise ValueError(f"startingOffsets is {LATEST}; a batch would have no rows: this is for streams")

    def check_clusters(self, found: Collection[str]) -> None:
        """Raises ValueError, naming the option, if it names a cluster that is not there."""
        for name, offsets in (("startingOffsets", self.starts), ("endingOffsets", self.ends)):
            for cluster, offset in offsets:
                if cluster not in found:
                    there = ", ".join(sorted(found))
                    raise ValueError(f"{name} has {offset} for cluster {cluster}; the clusters there are {there}")

    def check_for_stream(self) -> None:
        """Raises ValueError, naming the option, if a stream would have an end."""
        if self.endings:
            raise ValueError(f"{self.endings[0]} is set; a stream has no end: this is for batches")


def parse_bounds(option: Callable[[str], str | None]) -> Bounds:
    """Parses the options, each of which `option` returns by its name. Raises ValueError."""
    _only_one(option, "startingOffsets", "startingTimestamp", "startOffset")
    _only_one(option, "endingOffsets", "endingTimestamp", "endOffset")
    starts = _offsets("startingOffsets", option("startingOffsets"), (EARLIEST, LATEST), (_EARLIEST, _LATEST))
    ends = _offsets("endingOffsets", option("endingOffsets"), (LATEST,), (_LATEST,))
    bounds = Bounds(
        starts=_exact(starts),
        ends=_exact(ends),
        start_ms=_timestamp("startingTimestamp", option("startingTimestamp")),
        end_ms=_timestamp("endingTimestamp", option("endingTimestamp")),
        from_latest=None
        if option("startingOffsets") == LATEST
        else frozenset(cluster for cluster, offset in starts.items() if offset == _LATEST),
        endings=tuple(name for name in ("endingOffsets", "endingTimestamp") if option(name) is not None),
    )
    for cluster, end in bounds.ends:
        start = dict(bounds.starts).get(cluster, 0)
        if end < start:
            raise ValueError(f"endingOffsets has {end} for cluster {cluster}, below its startingOffsets {start}")
    return bounds


def _only_one(option: Callable[[str], str | None], *names: str) -> None:
    given = [name for name in names if option(name) is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are set; they say the same thing: set one of them")


def _offsets(name: str, given: str | None, words: tuple[str, ...], special: tuple[int, ...]) -> Mapping[str, Offset]:
    if given is None or given in words:
        return {}
    rule = f'{" or ".join(words)}, or JSON such as {{"cluster id": 71}}, with offsets of 0 or more, or {special}'
    try:
        found = json.loads(given)
    except ValueError:
        raise ValueError(f"{name} is {given!r}; it is {rule}") from None
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{name} is {given!r}; it is {rule}")
    for cluster, offset in found.items():
        if type(offset) is not int or not (offset in special or 0 <= offset <= _FOREVER):
            raise ValueError(f"{name} has {offset!r} for cluster {cluster}; it is {rule}")
    return found


def _exact(offsets: Mapping[str, Offset]) -> tuple[tuple[str, Offset], ...]:
    return tuple((cluster, offset) for cluster, offset in sorted(offsets.items()) if offset >= 0)


def _timestamp(name: str, given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isascii() or not given.isdigit():
        raise ValueError(f"{name} is {given!r}; it is a whole number of ms since 1970")
    return int(given)
