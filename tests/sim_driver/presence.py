"""S-46, S-47: when all is well, controllers are killed or stopped, apart from their nodes. I-86: another one writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.sim.invariants.base import Violation

if TYPE_CHECKING:
    from quorate.raft.voters import VoterSet
    from tests.sim_driver.clerk import Clerk
    from tests.sim_driver.world import World

LIMIT_MS: Final = 12_000
"""`controller.presence.timeout.ms`, an election, a lost vote, and what a slow wire adds; in simulated time."""


class Absence:
    """What is done to the controllers of a world that is well, and what must come of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.stream("absence")

    def judge(self) -> None:
        """One voter that has its controller is enough, whatever the others' controllers do or do not do.

        Voters that were being added may be in force before the limit, and write as well; one that was being removed
        need not. Where no voter that keeps its controller votes all the while, nothing is promised.
        """
        world = self._world
        known = len(world.checker.voter_sets)
        voters = self._of(world.checker.voter_sets[-1][1])
        active = [clerk for clerk in voters if clerk.is_active]
        others = [clerk for clerk in voters if clerk not in active]
        if not others:
            return
        hit = [*active, *self._random.sample(others, self._random.randrange(len(others)))]
        for clerk in hit:
            self._strike(clerk)
        before = {clerk: clerk.acknowledged_count for clerk in world.clerks.values() if clerk not in hit}

        def is_written() -> bool:
            return any(clerk.is_active and clerk.acknowledged_count > count for clerk, count in before.items())

        world.pass_ms(LIMIT_MS, is_written)
        sets = [self._of(each) for each in world.checker.voters_since(known)]
        stay = [clerk for clerk in before if all(clerk in each for each in sets)]
        if stay and not is_written():
            states = [(clerk.host, clerk.is_active, clerk.next) for clerk in world.clerks.values()]
            raise Violation("I-86", "controllers are away, and no other writes", [each.host for each in hit], states)

    def _of(self, voters: VoterSet) -> list[Clerk]:
        """The controllers beside these voters."""
        return [clerk for node_id, clerk in self._world.clerks.items() if voters.has(self._world.nodes[node_id].key)]

    def _strike(self, clerk: Clerk) -> None:
        if self._random.randrange(2):
            self._world.fired("S-46")
            clerk.stop()
        else:
            self._world.fired("S-47")
            clerk.pause(2 * LIMIT_MS)
