"""The file `quorum-state`: epoch, leader and vote of a node, replaced atomically (KIP-595, KIP-853).

Kafka's file is one line of JSON. Ours has a second line with the checksum of the first; Kafka reads one line only. A
file that Kafka wrote has no checksum, and is accepted without one. A second file of ours shows that a quorum-state was
written, so that a missing one is detected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from quorate.errors import Corrupt
from quorate.nouns import EPOCHS_END, NOBODY, ZERO_UUID, Epoch, NodeId, ReplicaKey, parse_uuid, uuid_text
from quorate.storage.files import replace_whole, sync_directory
from quorate.storage.names import ELECTION_MARK, LAST_KNOWN, QUORUM_STATE

_SUM: Final = b"crc32c "
_RESET: Final = "no other can follow it. Stop every voter, and go on in another epoch by `quorate storage reset-epoch`"
_AGAIN: Final = (
    "the vote in it cannot be guessed. Join again as another replica: remove the directory and format it anew"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredElection:
    """The content of quorum-state. `leader_id` and `voted` may both be set (KIP-996)."""

    epoch: Epoch
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None


class ElectionFile:
    """The quorum-state file of a node. Version 0 lists static `voters`, version 1 the vote's directory id (KIP-853)."""

    def __init__(self, directory: Path, *, voters: tuple[NodeId, ...] = ()) -> None:
        self.path = directory / QUORUM_STATE
        self._mark = directory / ELECTION_MARK
        self._voters = voters
        self._written: StoredElection | None = None

    def read(self) -> StoredElection | None:
        """Returns the stored epoch, leader and vote; None if none was ever written. Raises Corrupt for a bad file.

        A missing or unreadable file is an error, since a node without its vote could vote twice in one epoch; so is the
        largest epoch, which no other can follow.
        """
        state = self._state()
        stored = None if state is None else _parse(state)
        if stored is not None and stored.epoch >= EPOCHS_END:
            raise Corrupt(f"leaderEpoch is {stored.epoch}; {_RESET}", path=self.path)
        return stored

    def stored(self) -> StoredElection | None:
        """Returns the same as `read`, but also the largest epoch, which no other can follow. Raises Corrupt."""
        state = self._state()
        return None if state is None else _parse(state)

    def reset(self, epoch: Epoch) -> None:
        """Replaces epoch, leader and vote in the file, which must exist, by `epoch` without leader and vote, durably.

        A vote is forgotten, so only an operator may request it. The file of `last_known.LastKnownFile` is removed, too.
        """
        assert 0 <= epoch < EPOCHS_END, epoch
        state = self._state()
        assert state is not None, self.path
        changed: dict[str, Any] = {"leaderId": NOBODY, "leaderEpoch": epoch, "votedId": NOBODY}
        if "votedDirectoryId" in state:
            changed["votedDirectoryId"] = uuid_text(ZERO_UUID)
        directory = self.path.parent.parent
        (directory / LAST_KNOWN).unlink(missing_ok=True)  # the later epoch in it would count at the next start
        sync_directory(directory)
        self._write({**state, **changed})

    def _state(self) -> dict[str, Any] | None:
        """Returns the JSON, with all values checked; None if no quorum-state was ever written. Raises Corrupt."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            if self._mark.exists():
                raise Corrupt(f"it was written and is missing; {_AGAIN}", path=self.path) from None
            return None
        except OSError as problem:
            raise Corrupt(f"it cannot be read from the disk ({problem}); {_AGAIN}", path=self.path) from None
        try:
            state: dict[str, Any] = json.loads(_checked(data))
            _parse(state)
            return state
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            why = f"not a quorum-state ({type(problem).__name__}: {problem}); {_AGAIN}"
            raise Corrupt(why, path=self.path) from None

    def write(self, election: StoredElection, *, version: int) -> None:
        """Writes epoch, leader and vote durably, before any answer contains them. An OSError must end the process.

        `version` is that of the file's format, 0 or 1: that of kraft.version.
        """
        assert version in (0, 1), version
        assert 0 <= election.epoch < EPOCHS_END, election.epoch
        # A negative id would be read back as nobody: a vote that is forgotten could be given twice (I-04).
        assert election.voted is None or election.voted.has_id, election.voted
        assert election.leader_id is None or election.leader_id >= 0, election.leader_id
        if (before := self._written) is not None:
            assert election.epoch >= before.epoch, (election, before)  # I-03
            is_later = election.epoch > before.epoch or before.voted is None
            # I-04; at kraft.version 0 a vote has no directory id.
            assert is_later or _id(election.voted) == _id(before.voted), (election, before)
        leader_id = NOBODY if election.leader_id is None else election.leader_id
        voted = election.voted or ReplicaKey(NOBODY)
        state: dict[str, Any]
        if version == 0:
            state = {
                "clusterId": "",
                "leaderId": leader_id,
                "leaderEpoch": election.epoch,
                "votedId": voted.id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self._voters],
                "data_version": 0,
            }
        else:
            state = {
                "leaderId": leader_id,
                "leaderEpoch": election.epoch,
                "votedId": voted.id,
                "votedDirectoryId": uuid_text(voted.directory_id),
                "data_version": 1,
            }
        self._write(state)
        self._written = election

    def _write(self, state: dict[str, Any]) -> None:
        line = json.dumps(state, separators=(",", ":")).encode("ascii")
        replace_whole(self.path, b"%b\n%b%08x\n" % (line, _SUM, crc32c(line)), failpoints="state")
        if not self._mark.exists():
            replace_whole(self._mark, b"quorum-state was written here; if it is gone, so is a vote.\n")


def _checked(data: bytes) -> bytes:
    """Returns the line of JSON. Raises ValueError if its checksum is there and does not match."""
    line, _, rest = data.partition(b"\n")
    if rest and rest != b"%b%08x\n" % (_SUM, crc32c(line)):
        raise ValueError(f"the line has checksum {crc32c(line):08x}, {rest!r} is written under it")
    return line


def _parse(state: Any) -> StoredElection:
    version = state["data_version"]
    if version not in (0, 1):
        raise ValueError(f"data_version {version}; 0 and 1 are known")
    epoch, leader, voted = _number(state, "leaderEpoch"), _number(state, "leaderId"), _number(state, "votedId")
    if not 0 <= epoch <= EPOCHS_END or leader < NOBODY or voted < NOBODY:
        raise ValueError(f"leaderEpoch {epoch}, leaderId {leader}, votedId {voted}: beyond what they can be")
    directory = parse_uuid(state["votedDirectoryId"] if version == 1 else "")
    return StoredElection(
        epoch=epoch,
        leader_id=None if leader == NOBODY else leader,
        voted=None if voted == NOBODY else ReplicaKey(voted, directory),
    )


def _id(replica: ReplicaKey | None) -> NodeId | None:
    return None if replica is None else replica.id


def _number(state: Any, key: str) -> int:
    value = state[key]
    if type(value) is not int:
        raise ValueError(f"{key} is {value!r}, not a number")
    return value
