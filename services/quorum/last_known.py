"""Whether a directory is as its node left it: what the node last knew against what its partition directory has.

Kafka does not look. Here a node whose log is shorter than it was, or whose quorum-state is older, says so, keeps the
later epoch and vote, and, where there are other voters, does not vote before its log is back, as after damage.
"""

from __future__ import annotations

from pathlib import Path

from quorate.nouns import ZERO_UUID, OffsetAndEpoch, ReplicaKey
from quorate.raft.voters import is_same
from quorate.storage.election_file import StoredElection
from quorate.storage.last_known import LastKnown, LastKnownFile, write_owner
from quorate.storage.meta_properties import read_meta_properties
from quorate.storage.names import META_PROPERTIES, OWNER, PARTITION_DIRECTORY, PROMISE, QUORUM_STATE


class Memory:
    """Keeps a node's last log end, epoch and vote in a file, and compares the directory with them at start.

    `doubts` are the signs that the directory is not as the node left it, each a sentence for the log. Without
    meta.properties in the directory no file is written or read.
    """

    def __init__(self, directory: Path, *, end: OffsetAndEpoch, stored: StoredElection | None) -> None:
        """Compares the directory, whose log goes to `end` and whose quorum-state has `stored`, and writes its owner."""
        self.doubts: list[str] = []
        self.lost: OffsetAndEpoch | None = None
        """Where the log had been flushed to, if that is not there any more."""
        self.election = stored
        """The election of quorum-state, or a later epoch or vote that the node knew; None before the first epoch."""
        meta = read_meta_properties(directory)
        owner = None if meta is None else ReplicaKey(meta.node_id, meta.directory_id or ZERO_UUID)
        self._file = None if owner is None else LastKnownFile(directory, owner)
        if owner is not None and self._file is not None:
            self._look_at_owner(directory, owner)
            self._look_at_epochs(end, stored)
            if (known := self._file.read()) is not None:
                self._compare(known, owner, end=end, stored=stored)
        self._now = LastKnown(end=end, election=self.election or StoredElection(epoch=0))

    def begin(self) -> None:
        """Writes and syncs what the directory has now as last known, even if it is less than before."""
        if self._file is not None:
            self._file.lower(self._now)

    def note_end(self, end: OffsetAndEpoch) -> None:
        """Notes up to where the log is flushed, without a sync; `end` must not be less than before."""
        assert self._file is None or end >= self._now.end, (end, self._now.end)  # `shorten` alone takes back
        self._note(LastKnown(end=end, election=self._now.election))

    def note_election(self, election: StoredElection) -> None:
        """Notes the epoch and vote that were written to quorum-state, without a sync; the epoch never falls."""
        assert election.epoch >= self._now.election.epoch, (election, self._now.election)  # I-03
        self._note(LastKnown(end=self._now.end, election=election))

    def shorten(self, end: OffsetAndEpoch) -> None:
        """Notes, with a sync, that the log will end at `end`, before it is truncated; no effect if that is no less."""
        if self._file is not None and end < self._now.end:
            self._now = LastKnown(end=end, election=self._now.election)
            self._file.lower(self._now)

    def close(self) -> None:
        """Syncs and closes the file, at a clean stop."""
        if self._file is not None:
            self._file.sync()
        self.abandon()

    def abandon(self) -> None:
        """Closes the file without a sync."""
        if self._file is not None:
            self._file.abandon()

    def _note(self, known: LastKnown) -> None:
        self._now = known
        if self._file is not None:
            self._file.write(known)

    def _look_at_owner(self, directory: Path, owner: ReplicaKey) -> None:
        other = write_owner(directory, owner)
        if other is not None:
            self.doubts.append(
                f"{directory / PARTITION_DIRECTORY / OWNER} has {other}, and {META_PROPERTIES} is of {owner}:"
                f" {PARTITION_DIRECTORY} is another node's, or of an earlier format; it is taken over"
            )

    def _look_at_epochs(self, end: OffsetAndEpoch, stored: StoredElection | None) -> None:
        # A node writes an epoch to quorum-state before it appends a record of it (I-03). Kafka warns of this, too.
        epoch = 0 if stored is None else stored.epoch
        if epoch < end.epoch:
            self.doubts.append(
                f"{QUORUM_STATE} is of epoch {epoch}, and the log ends in epoch {end.epoch}:"
                " they are of different times or nodes; what this node has voted in between is not known"
            )

    def _compare(
        self, known: LastKnown, owner: ReplicaKey, *, end: OffsetAndEpoch, stored: StoredElection | None
    ) -> None:
        assert self._file is not None
        if known.end > end:
            self.lost = known.end
            self.doubts.append(
                f"the log ends at offset {end.offset} in epoch {end.epoch}, and this node had flushed it up to offset"
                f" {known.end.offset} in epoch {known.end.epoch} ({self._file.path}): it was emptied or damaged, or is"
                " an older copy or another node's. Where there are other voters it does not vote before that is back;"
                f" if no voter has it, stop the node, delete {PROMISE}, and what is missing is lost"
            )
        if _is_later(known.election, stored, owner):
            self.election = known.election
            was = "missing" if stored is None else f"of epoch {stored.epoch}, vote {stored.voted}"
            self.doubts.append(
                f"{QUORUM_STATE} is {was}, and this node was in epoch {known.election.epoch}, vote"
                f" {known.election.voted} ({self._file.path}): it is an older copy or another node's; the later"
                " epoch and vote count"
            )


def _is_later(known: StoredElection, stored: StoredElection | None, owner: ReplicaKey) -> bool:
    """Whether quorum-state lacks an epoch, a vote or a leadership of this node.

    A vote stays for its epoch (I-04), and a node that led an epoch must know it, as it may not lead that again (I-07).
    """
    if stored is None or known.epoch != stored.epoch:
        return known.epoch > (0 if stored is None else stored.epoch)
    has_led = known.leader_id == owner.id != stored.leader_id
    if known.voted is None or has_led:
        return has_led
    # Below kraft.version 1 quorum-state has no directory ids: a vote is then for a node, as in Kafka (KIP-853).
    return stored.voted is None or not is_same(stored.voted, known.voted)
