"""Who may vote, and since which offset: voter sets are part of the log (KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from quorate.nouns import ZERO_UUID, NodeId, ReplicaKey
from quorate.raft.history import History


def is_same(known: ReplicaKey, claimed: ReplicaKey) -> bool:
    """Is `claimed` the replica we know as `known`? One known without a directory id goes by its id alone."""
    return known.id == claimed.id and known.directory_id in (ZERO_UUID, claimed.directory_id)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one listener of a node is reached."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The levels of kraft.version with which a node can work, both ends included.

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
"""What this code can work with: static voters, and voters in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter, as its KRaftVoters record tells: the first of `endpoints` is the one by which peers reach it."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    kraft_versions: VersionRange = SUPPORTED

    @property
    def listener_name(self) -> str | None:
        """The listener by which peers reach it; None if it has told of none."""
        return self.endpoints[0].name if self.endpoints else None

    def listens_on(self, name: str | None) -> bool:
        """Has it a listener of this name, or any if there is no name?"""
        return any(name in (None, endpoint.name) for endpoint in self.endpoints)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of one moment, by id; no two share an id. Empty only where no voter is known yet."""

    voters: tuple[Voter, ...]
    ids: frozenset[NodeId] = field(init=False, compare=False, repr=False)
    keys: tuple[ReplicaKey, ...] = field(init=False, compare=False, repr=False)
    """The replica keys, by id."""
    _by_id: dict[NodeId, Voter] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        ids = frozenset(voter.key.id for voter in self.voters)
        assert len(ids) == len(self.voters), self.voters
        object.__setattr__(self, "voters", tuple(sorted(self.voters, key=lambda voter: voter.key.id)))
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "keys", tuple(voter.key for voter in self.voters))
        object.__setattr__(self, "_by_id", {voter.key.id: voter for voter in self.voters})

    @classmethod
    def of(cls, *keys: ReplicaKey | NodeId) -> VoterSet:
        """Voters without endpoints; a bare id is a voter without a directory id (kraft.version 0)."""
        replicas = (key if isinstance(key, ReplicaKey) else ReplicaKey(key) for key in keys)
        return cls(tuple(Voter(key=key) for key in replicas))

    def by_id(self, node_id: NodeId) -> Voter | None:
        """The voter with this id, whatever its disk."""
        return self._by_id.get(node_id)

    def voter_of(self, replica: ReplicaKey) -> Voter | None:
        """What is known of `replica` as a voter; None if it does not vote: another disk is another replica."""
        voter = self._by_id.get(replica.id)
        return voter if voter is not None and is_same(voter.key, replica) else None

    def key_of(self, replica: ReplicaKey) -> ReplicaKey | None:
        """The key under which `replica` votes; None if it does not."""
        voter = self.voter_of(replica)
        return None if voter is None else voter.key

    def has(self, replica: ReplicaKey) -> bool:
        """Does `replica` vote?"""
        voter = self._by_id.get(replica.id)
        return voter is not None and is_same(voter.key, replica)

    def is_sole(self, replica: ReplicaKey) -> bool:
        """Is `replica` the only voter?"""
        return len(self.voters) == 1 and self.has(replica)

    def with_voter(self, voter: Voter) -> VoterSet:
        """This set and one voter more."""
        assert voter.key.id not in self.ids, (voter, self.ids)
        return VoterSet((*self.voters, voter))

    def without(self, key: ReplicaKey) -> VoterSet:
        """This set but for the voter with exactly this key."""
        assert key in self.keys, (key, self.keys)
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))

    def updated(self, voter: Voter) -> VoterSet:
        """This set with `voter` in the place of the one with its id."""
        assert voter.key.id in self.ids, (voter, self.keys)
        return VoterSet(tuple(voter if known.key.id == voter.key.id else known for known in self.voters))

    def overlaps(self, other: VoterSet) -> bool:
        """Do any two majorities of the two sets meet? Then at most one voter came and one went. KIP-853."""
        added = [key for key in other.keys if not self.has(key)]
        removed = [key for key in self.keys if not any(is_same(key, kept) for kept in other.keys)]
        return len(added) <= 1 and len(removed) <= 1


VoterHistory: TypeAlias = History[VoterSet]
"""Voter sets by the offset of the KRaftVoters record that brought them, over those known before the log.

A set is in force as soon as its record is in the log, committed or not, and no longer once it is truncated.
"""
