"""Voters and voter sets: who may vote, from which offset of the log on (KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from quorate.nouns import ZERO_UUID, NodeId, ReplicaKey
from quorate.raft.history import History


def is_same(known: ReplicaKey, claimed: ReplicaKey) -> bool:
    """Returns whether `claimed` is the replica `known`: the same id and, if known, the same directory (I-34)."""
    return known.id == claimed.id and known.directory_id in (ZERO_UUID, claimed.directory_id)


class ListenerEndpoint(msgspec.Struct, frozen=True):
    """The name, host and port of one listener of a node."""

    name: str
    host: str
    port: int


class VersionRange(msgspec.Struct, frozen=True):
    """The levels of kraft.version that a node supports, both ends inclusive.

    >>> 1 in VersionRange(0, 1), 2 in VersionRange(0, 1)
    (True, False)
    """

    lowest: int
    highest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __str__(self) -> str:
        return f"{self.lowest}-{self.highest}"


SUPPORTED = VersionRange(0, 1)
"""The levels that this code supports: 0, configured voters, and 1, voters in the log."""


class Voter(msgspec.Struct, frozen=True, kw_only=True):
    """One voter, as a KRaftVoters record has it, with its listeners in the order of their names."""

    key: ReplicaKey
    endpoints: tuple[ListenerEndpoint, ...] = ()
    kraft_versions: VersionRange = SUPPORTED

    @property
    def listener_name(self) -> str | None:
        """The name of the first listener; None if no listener is known."""
        return self.endpoints[0].name if self.endpoints else None

    def listens_on(self, name: str | None) -> bool:
        """Returns whether the voter has a listener of this name; with None, whether it has any."""
        return any(name in (None, endpoint.name) for endpoint in self.endpoints)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters that are in force together, in the order of their ids. No two share an id (I-34).

    It is empty only on a node that knows no voters yet.
    """

    voters: tuple[Voter, ...]
    target: VoterSet | None = None
    """The target voter set of AlterQuorum, None if there is none or it is reached. The log carries it along (I-87)."""
    ids: frozenset[NodeId] = field(init=False, compare=False, repr=False)
    keys: tuple[ReplicaKey, ...] = field(init=False, compare=False, repr=False)
    """The replica keys, in the order of ids."""
    _by_id: dict[NodeId, Voter] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        ids = frozenset(voter.key.id for voter in self.voters)
        assert len(ids) == len(self.voters), self.voters  # I-34
        assert self.target is None or self.target.target is None, self.target
        object.__setattr__(self, "voters", tuple(sorted(self.voters, key=lambda voter: voter.key.id)))
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "keys", tuple(voter.key for voter in self.voters))
        object.__setattr__(self, "_by_id", {voter.key.id: voter for voter in self.voters})

    @classmethod
    def of(cls, *keys: ReplicaKey | NodeId) -> VoterSet:
        """Returns a voter set without endpoints; a bare id is a voter without a directory id (kraft.version 0)."""
        replicas = (key if isinstance(key, ReplicaKey) else ReplicaKey(key) for key in keys)
        return cls(tuple(Voter(key=key) for key in replicas))

    def by_id(self, node_id: NodeId) -> Voter | None:
        """Returns the voter with this id, whatever its directory; None if there is none."""
        return self._by_id.get(node_id)

    def voter_of(self, replica: ReplicaKey) -> Voter | None:
        """Returns the voter that `replica` is; None if it does not vote. Another directory is another replica."""
        voter = self._by_id.get(replica.id)
        return voter if voter is not None and is_same(voter.key, replica) else None

    def key_of(self, replica: ReplicaKey) -> ReplicaKey | None:
        """Returns the key under which `replica` votes; None if it does not vote."""
        voter = self.voter_of(replica)
        return None if voter is None else voter.key

    def has(self, replica: ReplicaKey) -> bool:
        """Returns whether `replica` is a voter."""
        voter = self._by_id.get(replica.id)
        return voter is not None and is_same(voter.key, replica)

    def is_sole(self, replica: ReplicaKey) -> bool:
        """Returns whether `replica` is the only voter."""
        return len(self.voters) == 1 and self.has(replica)

    def with_voter(self, voter: Voter) -> VoterSet:
        """Returns this set with one more voter, and with its target unless that is reached then."""
        assert voter.key.id not in self.ids, (voter, self.ids)
        return self._changed(*self.voters, voter)

    def without(self, key: ReplicaKey) -> VoterSet:
        """Returns this set without the voter of exactly this key, and with its target unless that is reached then."""
        assert key in self.keys, (key, self.keys)
        return self._changed(*(voter for voter in self.voters if voter.key != key))

    def updated(self, voter: Voter) -> VoterSet:
        """Returns this set with `voter` in place of the voter with its id."""
        assert voter.key.id in self.ids, (voter, self.keys)
        return self._changed(*(voter if known.key.id == voter.key.id else known for known in self.voters))

    def walking_to(self, target: VoterSet | None) -> VoterSet:
        """Returns these voters with `target`; without one if it is None or reached."""
        return VoterSet(self.voters, target if target is not None and target.keys != self.keys else None)

    def _changed(self, *voters: Voter) -> VoterSet:
        """Returns other voters with the same target, or without it once they are the target."""
        changed = VoterSet(voters).walking_to(self.target)
        assert self.overlaps(changed), (self.keys, changed.keys)  # I-30
        return changed

    def overlaps(self, other: VoterSet) -> bool:
        """Returns whether at most one voter is in `other` alone, and at most one in this set alone: Kafka's check."""
        added = [key for key in other.keys if not self.has(key)]
        removed = [key for key in self.keys if not any(is_same(key, kept) for kept in other.keys)]
        return len(added) <= 1 and len(removed) <= 1


VoterHistory: TypeAlias = History[VoterSet]
"""Voter sets by the offset of the KRaftVoters record that set them, over the set known before the log.

A set is in force as soon as its record is in the log, committed or not, and no longer once it is truncated (I-32)."""
