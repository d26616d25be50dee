"""Detects two clusters under one cluster id: replicas of a log never differ within an epoch, two logs do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.pipeline.files import opened
from quorate.pipeline.log_files import LOG_KIND, LogFile
from quorate.wire.batch import BatchHeader, check_batch, peek_header

__all__ = ["TwoClusters", "twins"]


class TwoClusters(Exception):
    """Two logs under one cluster id contradict each other, and records of both were returned."""


class _Found(NamedTuple):
    """The batch of a directory's log that holds an offset, and its file."""

    place: LogFile
    header: BatchHeader


def twins(places: Iterable[LogFile], agreed: set[tuple[str, str]] | None = None) -> Iterator[LogFile]:
    """Yields, with a `problem`, a segment of each directory whose log contradicts the cluster's first directory.

    Pairs of first segments in `agreed` are not compared; pairs that agree are added to it.

    The leader of an epoch writes each offset once, and followers copy its batches byte for byte (KIP-595). This
    compares the batches at the first offset that both logs have. A damaged batch contradicts nothing, and neither does
    another epoch: one of the two is then a tail that was, or will be, truncated.
    """
    of_cluster: dict[str, dict[Path, list[LogFile]]] = defaultdict(lambda: defaultdict(list))
    for place in places:
        if place.kind == LOG_KIND and place.problem is None:
            of_cluster[place.cluster_id][Path(place.path).parent].append(place)
    for cluster_id, directories in of_cluster.items():
        first, *others = directories.values()
        for other in others:
            pair = (first[0].path, other[0].path)
            if agreed is not None and pair in agreed:
                continue
            found = _same_offset(first, other)
            if found is None:
                continue
            mine, theirs = found
            if mine.header == theirs.header:
                if agreed is not None:
                    agreed.add(pair)
            else:
                where = f"offset {mine.header.base_offset} of epoch {mine.header.epoch}"
                both = f"{mine.place.path} and {theirs.place.path}"
                yield theirs.place._replace(problem=f"two clusters under the id {cluster_id}: {both} differ at {where}")


def _same_offset(first: Sequence[LogFile], other: Sequence[LogFile]) -> tuple[_Found, _Found] | None:
    """Returns the batches of both logs at the first offset that both have; None if they say nothing of each other."""
    start = max(min(place.base_offset for place in each) for each in (first, other))
    mine, theirs = _batch_at(first, start), _batch_at(other, start)
    if mine is None or theirs is None or mine.header.epoch != theirs.header.epoch:
        return None
    return mine, theirs


def _batch_at(segments: Sequence[LogFile], offset: Offset) -> _Found | None:
    """Returns the undamaged batch that holds the offset; None if there is none."""
    for place in segments:
        if place.base_offset <= offset and (place.following is None or offset < place.following):
            header = _header_at(place, offset)
            return None if header is None else _Found(place, header)
    return None


def _header_at(place: LogFile, offset: Offset) -> BatchHeader | None:
    """Returns the header of the batch that holds the offset; only that batch's checksum is verified."""
    try:
        with opened(place.path, place.access) as data:
            position = 0
            while (header := peek_header(data, position)).next_offset <= offset:
                position += header.size
            return check_batch(data, position)
    except (Corrupt, OSError):
        return None  # the log's reader reports damage
