"""Which disks are destroyed, and whether one more may be: never so many that committed records are lost for good."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quorate.nouns import ReplicaKey
from quorate.raft import VoterSet

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

NO_DISK = bytes(16)


def is_voter(voters: VoterSet, key: ReplicaKey) -> bool:
    """Does `key` vote? Written anew here: the core's own answer is under test."""
    for known in voters.keys:  # noqa: SIM110 - asked at every turn; `any` takes twice as long
        if is_same(known, key):
            return True
    return False


def is_same(known: ReplicaKey, key: ReplicaKey) -> bool:
    """Is `key` the replica known as `known`: of that id, and on its disk if that is known?"""
    return known.id == key.id and (known.directory_id in (key.directory_id, NO_DISK))


def majority(voters: VoterSet) -> int:
    """The fewest that are more than half."""
    return len(voters.keys) // 2 + 1


class Atlas:
    """The replicas whose disks hold no longer what they had promised to keep."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.destroyed: set[ReplicaKey] = set()

    def may_destroy(self, node: Node) -> bool:
        """Would every voter set that may come into force still have a majority of sound disks?"""
        if self._world.is_healed or self._world.admin.is_busy or node.key in self.destroyed:
            return False
        return all(self._spares(voters, {*self.destroyed, node.key}) for voters in self._sets())

    def may_remove(self, key: ReplicaKey) -> bool:
        """Would the voters without `key` still have a majority of sound disks?"""
        return all(
            self._spares(VoterSet(tuple(voter for voter in voters.voters if voter.key != key)), self.destroyed)
            for voters in self._sets()
            if len(voters.voters) > 1
        )

    def destroy(self, node: Node) -> None:
        """The disk of `node` counts no more."""
        self.destroyed.add(node.key)

    def is_sound(self, key: ReplicaKey) -> bool:
        """Is there a node with this key, whose disk was not destroyed?"""
        node = self._world.nodes.get(key.id)
        return (
            node is not None
            and node.key not in self.destroyed
            and (not any(key.directory_id) or key.directory_id == node.key.directory_id)
        )

    def has_majority(self) -> bool:
        """Can every voter set that is in force somewhere still elect a leader?"""
        return all(
            sum(self.is_sound(key) for key in voters.keys) >= majority(voters) for voters in self._sets() if voters.keys
        )

    def destroyed_voters(self, voters: VoterSet) -> int:
        """How many of `voters` are destroyed, or have another disk by now."""
        return sum(not self.is_sound(key) for key in voters.keys)

    def _spares(self, voters: VoterSet, destroyed: set[ReplicaKey]) -> bool:
        gone = sum(is_voter(voters, key) for key in destroyed)
        return gone <= (len(voters.keys) - 1) // 2

    def _sets(self) -> Iterator[VoterSet]:
        ledger = self._world.checker.ledger
        yield ledger.voters_at_end
        if ledger.in_force is not None:
            yield ledger.in_force
        for node in self._world.nodes.values():
            voters = node.disk.log.voters
            if voters:
                yield voters[-1][1]
