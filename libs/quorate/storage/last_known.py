"""A node's last log end, epoch and vote, in a file beside its partition directory, and a file that names the node.

`__cluster_metadata-0` may be put back from an older copy, taken from another node, or be emptied, and then it is sound
in itself. So a file beside it has the end that the log was last flushed to, and the last epoch and vote; and a file in
it names the node. A copy of the whole log directory is consistent: only the other voters can know that it is old.

The first file is written in place and not synced, after what it tells of is on the disk. An old or torn one is safe: it
tells of less. Before a truncation it is lowered and synced, as the durable mark is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c

from quorate.nouns import NOBODY, ZERO_UUID, OffsetAndEpoch, ReplicaKey, parse_uuid, uuid_text
from quorate.storage.election_file import StoredElection
from quorate.storage.files import FILE_MODE, naming, replace_whole, write_all
from quorate.storage.names import LAST_KNOWN, OWNER, PARTITION_DIRECTORY

__all__ = ["LastKnown", "LastKnownFile", "write_owner"]

_SIZE: Final = 192
"""Bytes of the file, padded with spaces: it is overwritten in place, and nothing of an earlier line is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnown:
    """How far a node's log was flushed, and its last epoch, leader and vote."""

    end: OffsetAndEpoch
    election: StoredElection


class LastKnownFile:
    """The file in a node's log directory with its last flushed end, epoch, leader and vote; `owner` is the node."""

    def __init__(self, directory: Path, owner: ReplicaKey) -> None:
        self.path = directory / LAST_KNOWN
        self._owner = owner
        self._begins = f"{owner.id} {uuid_text(owner.directory_id)}"
        self._descriptor: int | None = None
        self._written: LastKnown | None = None

    def read(self) -> LastKnown | None:
        """Returns the content; None if the file is missing, torn, or of another node or directory id."""
        try:
            line, _, crc = self.path.read_text("ascii").rstrip().rpartition(" ")
            node_id, directory_id, offset, epoch, election_epoch, leader_id, voted_id, voted_directory = line.split()
            if _crc(line) != int(crc, 16) or ReplicaKey(int(node_id), parse_uuid(directory_id)) != self._owner:
                return None
            voted = ReplicaKey(int(voted_id), parse_uuid(voted_directory))
            return LastKnown(
                end=OffsetAndEpoch(offset=int(offset), epoch=int(epoch)),
                election=StoredElection(
                    epoch=int(election_epoch),
                    leader_id=None if int(leader_id) == NOBODY else int(leader_id),
                    voted=None if voted.id == NOBODY else voted,
                ),
            )
        except (OSError, ValueError):
            return None

    def write(self, known: LastKnown) -> None:
        """Replaces the content, without a sync. The log and the vote that it tells of must be on the disk already."""
        if known == self._written:
            return
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        line = self._line(known)
        content = f"{line} {_crc(line):08x}".ljust(_SIZE - 1) + "\n"
        assert len(content) == _SIZE, content
        with naming(self.path):
            write_all(self._descriptor, content.encode("ascii"), 0)
        self._written = known

    def lower(self, known: LastKnown) -> None:
        """Replaces the content by that of a shorter log, and syncs it, before the log is truncated."""
        self.write(known)
        self.sync()

    def sync(self) -> None:
        """Waits until the content is on the disk."""
        if self._descriptor is not None:
            with naming(self.path):
                os.fsync(self._descriptor)

    def abandon(self) -> None:
        """Closes the file without a sync."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _line(self, known: LastKnown) -> str:
        election = known.election
        voted = election.voted or ReplicaKey(NOBODY, ZERO_UUID)
        leader_id = NOBODY if election.leader_id is None else election.leader_id
        vote = f"{election.epoch} {leader_id} {voted.id} {uuid_text(voted.directory_id)}"
        return f"{self._begins} {known.end.offset} {known.end.epoch} {vote}"


def write_owner(directory: Path, owner: ReplicaKey) -> str | None:
    """Writes node id and directory id into a file of the partition directory, durably.

    Returns what was there before if it was those of another node or directory, else None.
    """
    path = directory / PARTITION_DIRECTORY / OWNER
    own = f"node.id={owner.id} directory.id={uuid_text(owner.directory_id)}"
    try:
        found = path.read_text("ascii", errors="backslashreplace").strip()
    except FileNotFoundError:
        found = ""
    if found != own:
        replace_whole(path, f"{own}\n".encode("ascii"))
    return found if found not in ("", own) else None


def _crc(line: str) -> int:
    return crc32c(line.encode("ascii"))
