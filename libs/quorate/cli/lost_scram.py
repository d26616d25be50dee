"""Compares a checkpoint's SCRAM credentials with the log before it, to find those that the checkpoint lost."""

from __future__ import annotations

from pathlib import Path

from quorate.cli.reading import batches_of, map_file
from quorate.errors import Corrupt
from quorate.metadata.scram_lost import Credential, ScramHistory, credentials_in
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from quorate.storage.names import LOG, checkpoint_file, checkpoint_ids, segment_bases, segment_file
from quorate.storage.recovery import where_it_starts
from quorate.storage.snapshots import SnapshotReader

__all__ = ["lost_credentials"]


def lost_credentials(partition: Path, snapshot: OffsetAndEpoch, state: ClusterState) -> list[Credential]:
    """Returns the SCRAM credentials (mechanism, user) that the log has at a checkpoint's end, and it lacks.

    `state` is the checkpoint's state. Empty if the log before the checkpoint is removed or damaged, so that nothing can
    be known. Raises OSError.
    """
    try:
        bases = segment_bases(partition)
        begins = where_it_starts(partition, bases[0], checkpoint_ids(partition)) if bases else snapshot
        history = _history(partition, begins, snapshot) if begins.offset < snapshot.offset else ScramHistory()
        if not history.changes_below(snapshot.offset):
            return []
        first = _credentials(partition, begins) if begins.offset else set()
    except Corrupt:
        return []  # the state needs only the log after the checkpoint; `log verify` reports damage before it
    return history.lost(snapshot.offset, begin=first, checkpoint={(each.mechanism, each.name) for each in state.scram})


def _history(partition: Path, begins: OffsetAndEpoch, snapshot: OffsetAndEpoch) -> ScramHistory:
    """Reads the SCRAM records of the log between two offsets. Raises Corrupt for damage or a gap between them."""
    history, following = ScramHistory(), None
    for base in (each for each in segment_bases(partition) if each < snapshot.offset):
        path = segment_file(partition, base, LOG)
        data = map_file(path)
        for position, header, problem in batches_of(data):
            if header.base_offset >= snapshot.offset:
                return history
            if problem is not None:
                raise problem
            if following not in (None, header.base_offset):
                raise Corrupt(f"offset {following} is missing", path=path, position=position)
            if header.base_offset >= begins.offset:
                history.note(header, bytes(data[position : position + header.size]))
            following = header.next_offset
    return history


def _credentials(partition: Path, snapshot: OffsetAndEpoch) -> set[Credential]:
    reader = SnapshotReader(checkpoint_file(partition, snapshot))
    try:
        return credentials_in(reader.values())
    finally:
        reader.close()
