"""Who may vote, and since which offset: voter sets are part of the log (KIP-853)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from quorate.nouns import ZERO_UUID, NodeId, Offset, ReplicaKey


def is_same(known: ReplicaKey, claimed: ReplicaKey) -> bool:
    """Is `claimed` the replica we know as `known`? One known without a directory id goes by its id alone."""
    return known.id == claimed.id and known.directory_id in (ZERO_UUID, claimed.directory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter. `endpoints` is carried for the driver and never read here."""

    key: ReplicaKey
    endpoints: Hashable = ()


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of one moment, by id; no two share an id. Empty only where no voter is known yet."""

    voters: tuple[Voter, ...]
    ids: frozenset[NodeId] = field(init=False, compare=False, repr=False)
    keys: tuple[ReplicaKey, ...] = field(init=False, compare=False, repr=False)
    """The replica keys, by id."""

    def __post_init__(self) -> None:
        ids = frozenset(voter.key.id for voter in self.voters)
        assert len(ids) == len(self.voters), self.voters
        object.__setattr__(self, "voters", tuple(sorted(self.voters, key=lambda voter: voter.key.id)))
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "keys", tuple(voter.key for voter in self.voters))

    @classmethod
    def of(cls, *keys: ReplicaKey | NodeId) -> VoterSet:
        """Voters without endpoints; a bare id is a voter without a directory id (kraft.version 0)."""
        replicas = (key if isinstance(key, ReplicaKey) else ReplicaKey(key) for key in keys)
        return cls(tuple(Voter(key=key) for key in replicas))

    def key_of(self, replica: ReplicaKey) -> ReplicaKey | None:
        """The key under which `replica` votes; None if it does not: another disk is another replica."""
        for voter in self.voters:
            if is_same(voter.key, replica):
                return voter.key
        return None

    def has(self, replica: ReplicaKey) -> bool:
        """Does `replica` vote?"""
        return replica.id in self.ids and self.key_of(replica) is not None

    def is_sole(self, replica: ReplicaKey) -> bool:
        """Is `replica` the only voter?"""
        return len(self.voters) == 1 and self.has(replica)

    def overlaps(self, other: VoterSet) -> bool:
        """Do any two majorities of the two sets meet? Then at most one voter came and one went. KIP-853."""
        added = [key for key in other.keys if not self.has(key)]
        removed = [key for key in self.keys if not any(is_same(key, kept) for kept in other.keys)]
        return len(added) <= 1 and len(removed) <= 1


class VoterHistory:
    """Voter sets by the offset of the KRaftVoters record that brought them, over those known before the log.

    A set is in force as soon as its record is in the log, committed or not, and no longer once it is truncated.
    """

    __slots__ = ("_base", "_offsets", "_sets")

    def __init__(self, base: VoterSet, changes: Iterable[tuple[Offset, VoterSet]] = ()) -> None:
        self._base = base
        self._offsets: list[Offset] = []
        self._sets: list[VoterSet] = []
        for offset, voters in changes:
            self.append(offset, voters)

    @property
    def latest(self) -> VoterSet:
        """The set in force."""
        return self._sets[-1] if self._sets else self._base

    @property
    def latest_offset(self) -> Offset | None:
        """Offset of the record that brought the set in force; None if it comes from before the log."""
        return self._offsets[-1] if self._offsets else None

    def before(self, offset: Offset) -> VoterSet:
        """The set in force for a log that ends at `offset`."""
        at = bisect_left(self._offsets, offset)
        return self._sets[at - 1] if at else self._base

    def append(self, offset: Offset, voters: VoterSet) -> None:
        """A KRaftVoters record at `offset` was written."""
        assert voters.voters, offset  # the set is never empty
        assert not self._offsets or offset > self._offsets[-1], (offset, self._offsets[-1])
        assert not self._offsets or self.latest.overlaps(voters), (self.latest, voters)
        self._offsets.append(offset)
        self._sets.append(voters)

    def truncate(self, *, to: Offset) -> None:
        """Records at `to` and after are gone, and their sets with them."""
        at = bisect_left(self._offsets, to)
        del self._offsets[at:], self._sets[at:]

    def start_at(self, offset: Offset) -> None:
        """Records below `offset` were removed; the set they left in force stays."""
        self._base = self.before(offset)
        at = bisect_left(self._offsets, offset)
        del self._offsets[:at], self._sets[:at]

    def restart_with(self, voters: VoterSet | None) -> None:
        """The log was replaced by a snapshot whose header names `voters`; None if it names none (kraft.version 0)."""
        # Without a KRaftVoters record anywhere the configured set stands.
        self._base = self._base if voters is None else voters
        self._offsets.clear()
        self._sets.clear()
