"""I-89: a target that the log has is reached, by any leader, though its asker is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.raft.roles import Leader
from tests.sim.invariants.base import Violation

if TYPE_CHECKING:
    from tests.sim_driver.world import World

FETCH_BYTES_LEAST: Final = 8 << 10
SET_OUT_MS: Final = 3_000
LIMIT_MS: Final = 20_000
"""Simulated; a walk of four steps, each at most as long as an addition may take."""


class Arrival:
    """Judges what has become of a target in a world that is well."""

    def __init__(self, world: World) -> None:
        self._world = world

    def judge(self) -> None:
        """Requires that a target is reached though nobody asks any more; one more is set, and its leader killed."""
        if self._world.plan.walks:
            self._world.network.context.run(self._world.admin.set_out)
            self._world.pass_ms(SET_OUT_MS, self._is_awaited)
            self._world.network.context.run(self._world.admin.kill_leader)
        if self._is_awaited():
            self._world.fired("I-89 awaited")
        self._world.pass_ms(LIMIT_MS, lambda: not self._is_awaited())
        if self._is_awaited():
            nodes = self._world.nodes.values()
            roles = [
                (node.id, node.driver.core.role.walk)
                for node in nodes
                if node.driver and isinstance(node.driver.core.role, Leader)
            ]
            raise Violation("I-89", "the target is not reached", self._world.checker.voter_sets[-1], roles)

    def _is_awaited(self) -> bool:
        """Is there a target, and can it be reached?

        Each voter of it must listen where it was said to, and an observer must be able to catch up: with one batch a
        fetch it may be slower than the writes.
        """
        target, nodes = self._world.checker.voter_sets[-1][1].target, self._world.nodes
        is_slow = self._world.plan.fetch_bytes < FETCH_BYTES_LEAST
        return (
            target is not None
            and not is_slow
            and all(voter.endpoints == (nodes[voter.key.id].endpoint,) for voter in target.voters)
        )
