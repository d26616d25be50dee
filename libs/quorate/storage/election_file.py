"""`quorum-state`: the epoch, the leader and the vote that a node must not forget, replaced whole (KIP-595, KIP-853).

Kafka's file is one line of JSON. We add a second line, the checksum of the first; Kafka reads one line only, and
what it writes has none, which is believed as it is. A file of ours beside it says that a quorum-state was
written, so that one which has gone is missing and not new.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from quorate.errors import Corrupt
from quorate.nouns import Epoch, NodeId, ReplicaKey, parse_uuid, uuid_text
from quorate.storage.files import replace_whole
from quorate.storage.names import ELECTION_MARK, QUORUM_STATE

NOBODY: Final = -1
EPOCH_MAX: Final = (1 << 31) - 1
_SUM: Final = b"crc32c "
_AGAIN: Final = (
    "the vote in it cannot be guessed. Join again as another replica: remove the directory and format it anew"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredElection:
    """What the file says. `leader_id` and `voted` may both be set (KIP-996)."""

    epoch: Epoch
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None


class ElectionFile:
    """The file of one node. Version 0 names the static `voters`, version 1 the directory voted for (KIP-853)."""

    def __init__(self, directory: Path, *, voters: tuple[NodeId, ...] = ()) -> None:
        self.path = directory / QUORUM_STATE
        self._mark = directory / ELECTION_MARK
        self._voters = voters

    def read(self) -> StoredElection | None:
        """What was written last; None if nothing ever was. Raises Corrupt for what is missing or not understood.

        A node that went on without its vote could give it twice, so there is no way around a broken file.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            if self._mark.exists():
                raise Corrupt(f"it was written and is missing; {_AGAIN}", path=self.path) from None
            return None
        except OSError as problem:
            raise Corrupt(f"the disk does not give it back ({problem}); {_AGAIN}", path=self.path) from None
        try:
            return _parse(json.loads(_checked(data)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            why = f"not a quorum-state ({type(problem).__name__}: {problem}); {_AGAIN}"
            raise Corrupt(why, path=self.path) from None

    def write(self, election: StoredElection, *, version: int) -> None:
        """Make it durable before anybody may learn of it. An OSError must end the process."""
        assert version in (0, 1), version
        assert 0 <= election.epoch <= EPOCH_MAX, election.epoch
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
        line = json.dumps(state, separators=(",", ":")).encode("ascii")
        replace_whole(self.path, b"%b\n%b%08x\n" % (line, _SUM, crc32c(line)), failpoints="state")
        if not self._mark.exists():
            replace_whole(self._mark, b"quorum-state was written here; if it is gone, so is a vote.\n")


def _checked(data: bytes) -> bytes:
    """The line of JSON. Raises ValueError if there is a checksum and it is another's."""
    line, _, rest = data.partition(b"\n")
    if rest and rest != b"%b%08x\n" % (_SUM, crc32c(line)):
        raise ValueError(f"the line has checksum {crc32c(line):08x}, {rest!r} is written under it")
    return line


def _parse(state: Any) -> StoredElection:
    version = state["data_version"]
    if version not in (0, 1):
        raise ValueError(f"data_version {version}; 0 and 1 are known")
    epoch, leader, voted = _number(state, "leaderEpoch"), _number(state, "leaderId"), _number(state, "votedId")
    if not 0 <= epoch <= EPOCH_MAX or leader < NOBODY or voted < NOBODY:
        raise ValueError(f"leaderEpoch {epoch}, leaderId {leader}, votedId {voted}: beyond what they can be")
    directory = parse_uuid(state["votedDirectoryId"] if version == 1 else "")
    return StoredElection(
        epoch=epoch,
        leader_id=None if leader == NOBODY else leader,
        voted=None if voted == NOBODY else ReplicaKey(voted, directory),
    )


def _number(state: Any, key: str) -> int:
    value = state[key]
    if type(value) is not int:
        raise ValueError(f"{key} is {value!r}, not a number")
    return value
