"""Reads from a cluster's files which replica has which epochs of the log, and so what is committed.

Only batch headers are read. Segments below the directory's latest checkpoint that lie within one epoch are not opened
further than their first header, so that a long history costs little.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import ZERO_UUID, Epoch, Offset, ReplicaKey
from quorate.pipeline.commitment import Commitment, EpochRange, LogReplica, VoterSet, commitment
from quorate.pipeline.files import Buffer, is_url, modified_ms, opened, size_of, written
from quorate.pipeline.log_files import CHECKPOINT_KIND, LOG_KIND, LogFile, meta_properties
from quorate.records import VotersRecord
from quorate.storage.names import QUORUM_STATE
from quorate.wire.batch import HEADER_BYTES, BatchHeader, ControlType, peek_header, read_header, records
from quorate.wire.codec import decode
from quorate.wire.schema import layout_of

__all__ = ["commitments", "contradicted", "log_replicas"]

AnyPath = Path | PurePosixPath
VOTERS_BYTES: Final = 1 << 16
"""How much of a checkpoint is read, in bytes: its voters are at its beginning."""
SEGMENTS_CACHED: Final = 10_000
"""For how many segments the ranges are cached: a stream asks for them again in every micro-batch."""


_UNREADABLE: Final = frozenset({ReplicaKey(-1)})
"""Stands for a voter set of a version that is not known: nobody is its majority, so nothing is counted under it."""


class _Election(NamedTuple):
    """The content of a quorum-state: the epoch, and static voters, if it has any (kraft.version 0)."""

    epoch: Epoch | None = None
    voters: frozenset[ReplicaKey] = frozenset()


class _Walked(NamedTuple):
    """The epochs and voter sets in one segment."""

    epochs: tuple[EpochRange, ...]
    voter_sets: tuple[VoterSet, ...]


def commitments(places: Iterable[LogFile]) -> dict[str, Commitment]:
    """Returns what is known to be committed, by cluster id. Files with a `problem` count for nothing."""
    by_cluster: dict[str, list[LogFile]] = defaultdict(list)
    for place in places:
        if place.problem is None:
            by_cluster[place.cluster_id].append(place)
    found = {}
    for cluster_id, each in by_cluster.items():
        checkpoints = [(place.base_offset, place.epoch or 0) for place in each if place.kind == CHECKPOINT_KIND]
        known = commitment(log_replicas(each), checkpoints)
        if known.problem is not None:
            known = known._replace(problem=f"two clusters under the id {cluster_id}: {known.problem}")
        found[cluster_id] = known
    return found


def contradicted(places: Sequence[LogFile], known: Mapping[str, Commitment]) -> Iterator[LogFile]:
    """Yields, with its `problem`, the first file of each cluster of which `known` says that it is two clusters."""
    first = {place.cluster_id: place for place in reversed(places) if place.problem is None}
    for cluster_id, place in first.items():
        if cluster_id in known and known[cluster_id].problem is not None:
            yield place._replace(problem=known[cluster_id].problem)


def log_replicas(places: Iterable[LogFile]) -> list[LogReplica]:
    """Returns the replicas of one cluster, one for each directory with segments.

    A single log without a checkpoint and without a quorum-state proves nothing, and is not read.
    """
    directories: dict[AnyPath, list[LogFile]] = defaultdict(list)
    for place in places:
        directories[_directory(place)].append(place)
    logs = {path: each for path, each in directories.items() if any(place.kind == LOG_KIND for place in each)}
    if len(logs) == 1 and _election(*logs.popitem()).epoch is None and not _ends(directories):
        return []
    return [_replica(path, each) for path, each in directories.items() if any(_logs(each))]


def _ends(directories: dict[AnyPath, list[LogFile]]) -> bool:
    return any(place.kind == CHECKPOINT_KIND and place.base_offset for each in directories.values() for place in each)


def _logs(places: Iterable[LogFile]) -> list[LogFile]:
    return [place for place in places if place.kind == LOG_KIND]


def _replica(directory: AnyPath, places: Sequence[LogFile]) -> LogReplica:
    segments = _logs(places)
    checkpoints = [place for place in places if place.kind == CHECKPOINT_KIND]
    latest = max(checkpoints, key=lambda each: each.base_offset, default=None)
    walked = list(_walk(segments, 0 if latest is None else latest.base_offset))
    # Read after the log: an epoch that was not left by then was not left while the log was read.
    election = _election(directory, places)
    before = [VoterSet(-1, election.voters)] if election.voters else []
    if latest is not None and (voters := _checkpoint_voters(latest)):
        before.append(VoterSet(latest.base_offset - 1, voters))
    return LogReplica(
        key=_key(directory, places[0]),
        epochs=_merged(each for one in walked for each in one.epochs),
        voter_sets=(*before, *(each for one in walked for each in one.voter_sets)),
        epoch=election.epoch,
    )


def _walk(segments: Sequence[LogFile], checkpoint: Offset) -> Iterator[_Walked]:
    """Yields what each segment has; below the checkpoint's offset voter sets may be left out."""
    for place, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.base_offset <= checkpoint:
            epoch = _first_epoch(place)
            if epoch is not None and epoch == _first_epoch(following):
                yield _Walked((EpochRange(epoch, place.base_offset, following.base_offset),), ())
                continue
        try:
            yield _walked(place, size_of(place.path, place.access), modified_ms(place.path, place.access))
        except OSError:
            return  # it was removed since it was listed; the reader of its records says so


@lru_cache(maxsize=SEGMENTS_CACHED)
def _walked(place: LogFile, size: int, at_ms: int) -> _Walked:
    """Walks over a segment's headers, up to the first that is damaged or does not follow. Raises OSError."""
    epochs: list[EpochRange] = []
    voter_sets: list[VoterSet] = []
    with opened(place.path, place.access, size_max=size) as data:
        position = 0
        while position < len(data):
            try:
                header = read_header(data, position)
                if header.is_control:
                    voter_sets += _voters(data, position, header)
            except Corrupt:
                break
            last = epochs[-1] if epochs else EpochRange(header.epoch, header.base_offset, header.base_offset)
            if header.base_offset < last.end or header.epoch < last.epoch:
                break
            if epochs and header.epoch == last.epoch:
                epochs[-1] = last._replace(end=header.next_offset)
            else:
                epochs.append(EpochRange(header.epoch, header.base_offset, header.next_offset))
            position += header.size
    return _Walked(tuple(epochs), tuple(voter_sets))


def _first_epoch(place: LogFile) -> Epoch | None:
    try:
        with opened(place.path, place.access, end=HEADER_BYTES) as data:
            return peek_header(data).epoch
    except (Corrupt, OSError):
        return None


def _checkpoint_voters(place: LogFile) -> frozenset[ReplicaKey]:
    """Returns the voters that a checkpoint begins with; empty if it has none."""
    found: list[VoterSet] = []
    try:
        with opened(place.path, place.access, end=VOTERS_BYTES) as data:
            position = 0
            while position < len(data) and (header := read_header(data, position)).is_control:
                found += _voters(data, position, header)
                position += header.size
    except (Corrupt, OSError):
        pass  # the reader of its records reports damage
    return found[-1].voters if found else frozenset()


def _voters(data: Buffer, position: int, header: BatchHeader) -> Iterator[VoterSet]:
    """Yields the voter sets in a control batch. Raises Corrupt."""
    for record in records(data, position, header):
        key, value = record.key or b"", record.value or b""
        if int.from_bytes(key[2:4]) == ControlType.KRAFT_VOTERS:
            version = int.from_bytes(value[:2])
            if version not in layout_of(VotersRecord).versions:
                yield VoterSet(record.offset, _UNREADABLE)
                continue
            message = decode(VotersRecord, value, version)
            voters = (ReplicaKey(each.voter_id, each.voter_directory_id) for each in message.voters)
            yield VoterSet(record.offset, frozenset(voters))


def _key(directory: AnyPath, place: LogFile) -> ReplicaKey | None:
    try:
        for each in (directory, directory.parent):
            meta = meta_properties(each, place.access)
            if meta is not None:
                return ReplicaKey(meta.node_id, ZERO_UUID if meta.directory_id is None else meta.directory_id)
    except Corrupt:
        return None
    return None


def _election(directory: AnyPath, places: Sequence[LogFile]) -> _Election:
    """Reads a directory's quorum-state; one that is missing or not readable says nothing."""
    try:
        with opened(written(directory / QUORUM_STATE), places[0].access) as data:
            state = json.loads(data[:].partition(b"\n")[0])
        epoch, voters = state["leaderEpoch"], state.get("currentVoters") or ()
        return _Election(int(epoch), frozenset(ReplicaKey(int(each["voterId"])) for each in voters))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return _Election()


def _merged(every: Iterable[EpochRange]) -> tuple[EpochRange, ...]:
    """Joins the ranges of one log that are of one epoch; a range that does not follow ends the log."""
    found: list[EpochRange] = []
    for each in every:
        if found and (each.epoch < found[-1].epoch or each.start < found[-1].end):
            break
        if found and each.epoch == found[-1].epoch:
            found[-1] = found[-1]._replace(end=each.end)
        else:
            found.append(each)
    return tuple(found)


def _directory(place: LogFile) -> AnyPath:
    return PurePosixPath(place.path).parent if is_url(place.path) else Path(place.path).parent
