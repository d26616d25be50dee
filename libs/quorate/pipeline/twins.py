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

__all__ = ["twins"]


class _Found(NamedTuple):
    """The batch of a directory's log that holds an offset, and its file."""

    place: LogFile
    header: BatchHeader


def twins(places: Iterable[LogFile]) -> Iterator[LogFile]:
    """Yields, with a `problem`, a segment of each directory whose log contradicts the cluster's first directory.

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
            if (found := _contradiction(first, other)) is not None:
                mine, theirs = found
                where = f"offset {mine.header.base_offset} of epoch {mine.header.epoch}"
                both = f"{mine.place.path} and {theirs.place.path}"
                yield theirs.place._replace(problem=f"two clusters under the id {cluster_id}: {both} differ at {where}")


def _contradiction(first: Sequence[LogFile], other: Sequence[LogFile]) -> tuple[_Found, _Found] | None:
    start = max(min(place.base_offset for place in each) for each in (first, other))
    mine, theirs = _batch_at(first, start), _batch_at(other, start)
    if mine is None or theirs is None or mine.header.epoch != theirs.header.epoch:
        return None
    return None if mine.header == theirs.header else (mine, theirs)


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
