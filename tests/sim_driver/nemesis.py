"""What is done to the nodes and their controllers: kills at any step, power cuts, cuts, pauses, clocks, damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from quorate.nouns import Offset
from tests.sim_driver.clock import TRUE_RATE

if TYPE_CHECKING:
    from tests.sim_driver.node import Node
    from tests.sim_driver.world import World

STEPS_MAX: Final = 60
"""A kill comes after so many steps at most."""
RESET_EVERY_MS: Final = 2_500
UNAWARE_MS: Final = 3_000
RATES: Final = (500, 700, 950, TRUE_RATE, 1_050, 1_400, 2_000)
"""Of a clock, in thousandths."""
WALL_STEP_MS: Final = 3_600_000


class Nemesis:
    """Draws what, and when."""

    def __init__(self, world: World) -> None:
        self.healed_end: Offset | None = None
        """The end of what was committed when all was well again."""
        self._world = world
        self._random = world.stream("nemesis")

    def begin(self) -> None:
        plan = self._world.plan
        for every_ms, deed in (
            (plan.kill_every_ms, self._kill),
            (3 * plan.kill_every_ms, self._cut_power),
            (2 * plan.kill_every_ms, self._stop),
            (plan.cut_every_ms, self._cut),
            (RESET_EVERY_MS, self._reset),
            (plan.pause_every_ms, self._pause),
            (plan.full_every_ms, self._fill),
            (plan.clerk_every_ms, self._restart_clerk),
            (1_500 if self._world.plan.damages else 0, self._damage),
            (plan.drift_every_ms, self._drift),
            (plan.leave_every_ms, self._leave),
            (plan.wipe_every_ms, self._wipe),
        ):
            if every_ms:
                self._again(every_ms, deed)
        if plan.drift_every_ms:
            for node in self._world.nodes.values():
                self._set_rate(node)

    def _again(self, every_ms: int, deed: Callable[[], None]) -> None:
        def do() -> None:
            if not self._world.is_healed:
                deed()
                self._again(every_ms, deed)

        self._world.network.after_ms(self._random.randrange(2 * every_ms) + 1, do)

    def heal(self) -> None:
        """Nothing is done any more; who is down comes back."""
        self._world.network.cut.clear()
        self._world.network.half_open_ms = 0
        self._world.network.garbler.permille = 0
        for node in self._world.nodes.values():
            node.fuse, node.full_at = 0, ()
            self._world.loop.clocks[node.id].run_at(TRUE_RATE)
        self._restart_clerk()
        self._world.network.after_ms(2_000, self._note_end)

    def _note_end(self) -> None:
        self.healed_end = self._world.checker.end

    def _any(self) -> Node:
        return self._random.choice(list(self._world.nodes.values()))

    def _any_or_leader(self) -> Node:
        """What strikes who leads shows more."""
        node, active = self._any(), self._active()
        return self._random.choice(active) if active and self._random.randrange(2) else node

    def _active(self) -> list[Node]:
        """Those beside which a controller is active."""
        return [each for each in self._world.nodes.values() if self._world.clerks[each.id].is_active]

    def _kill(self) -> None:
        node = self._any()
        if node.is_up:
            node.fuse = 1 + self._random.randrange(STEPS_MAX)

    def _cut_power(self) -> None:
        hit = [self._any()] if self._random.randrange(2) else list(self._world.nodes.values())
        self._world.fired("S-11")
        for node in hit:
            node.crash("power cut", is_power_cut=True)

    def _stop(self) -> None:
        node = self._any()
        if node.is_up:
            self._world.fired("P-03")
            node.stop()

    def _cut(self) -> None:
        """One node is alone, or a link works one way or none."""
        network, one = self._world.network, self._any_or_leader().id
        others = [each for each in self._world.ids if each != one]
        ways = [(one, other) for other in others] + [(other, one) for other in others]
        match self._random.randrange(3):
            case 0:
                row, cut = "S-05", set(ways)
            case 1:
                row, cut = "S-06", {self._random.choice(ways)}
            case _:
                row, cut = "S-07", {(one, others[0]), (others[0], one)}
        self._world.fired(row)
        self._world.note(0, "cut", sorted(cut))
        network.cut |= cut
        network.after_ms(self._random.choice((100, 1_000, 3_000)), network.cut.difference_update, cut)

    def _leave(self) -> None:
        """The others see at once that the leader is gone, it sees nothing: it leads on, as far as it knows."""
        leaders = self._active()
        if not leaders:
            return
        network, one = self._world.network, leaders[0].id
        cut = {way for each in self._world.ids if each != one for way in ((one, each), (each, one))}
        self._world.fired("S-05 unaware")
        self._world.note(one, "is left")
        network.cut |= cut
        network.leave(one, late_ms=UNAWARE_MS)
        network.after_ms(UNAWARE_MS, network.cut.difference_update, cut)

    def _reset(self) -> None:
        one, other = self._any().id, self._any().id
        if self._world.network.reset(one, other):
            self._world.fired("S-08")

    def _pause(self) -> None:
        node = self._any()
        if node.life is not None:
            self._world.fired("S-12")
            ms = self._random.choice((50, 500, 3_000))
            self._world.note(node.id, "paused", ms)
            node.life.paused_until_us = self._world.loop.now_us + 1000 * ms

    def _drift(self) -> None:
        """A clock runs at another rate from now on, or somebody sets the time of day."""
        node = self._any()
        if self._random.randrange(3):
            self._set_rate(node)
        else:
            self._world.fired("S-14")
            node.clock.wall_step_ms = self._random.randrange(-WALL_STEP_MS, WALL_STEP_MS)

    def _set_rate(self, node: Node) -> None:
        rate = self._random.choice(RATES)
        self._world.loop.clocks[node.id].run_at(rate)
        self._world.note(node.id, "clock at", rate)
        if rate != TRUE_RATE:
            self._world.fired("S-13")

    def _fill(self) -> None:
        node = self._any_or_leader()
        self._world.fired("filled")
        node.full_at = self._random.choice((("log.reserve",), ("log.reserve", "append.before_write")))
        self._world.network.after_ms(self._random.choice((100, 1_500)), self._make_room, node)

    def _make_room(self, node: Node) -> None:
        node.full_at = ()

    def _restart_clerk(self) -> None:
        clerk = self._random.choice(list(self._world.clerks.values()))
        self._world.fired("clerk restarts")
        clerk.start(from_nothing=self._random.randrange(2) == 0)

    def _damage(self) -> None:
        """One log at a time, of a node that is down: a majority has what it has."""
        nodes = list(self._world.nodes.values())
        if any(node.is_damaged for node in nodes) or not self._world.admin.is_found:
            return
        node = self._random.choice(nodes)
        if node.is_up:
            node.crash("killed, to be damaged", is_power_cut=False)
        node.damage()

    def _wipe(self) -> None:
        """One voter's disk is lost, where all vote and have everything: the next only when that one votes again."""
        world = self._world
        voters, nodes = world.checker.voter_sets[-1][1], list(world.nodes.values())
        if not all(voters.has(node.key) and self._has_all(node) for node in nodes):
            return
        node = self._random.choice(nodes)
        node.crash("killed, to be wiped", is_power_cut=False)
        node.wipe()
        world.fired("S-21 wiped")

    def _has_all(self, node: Node) -> bool:
        return node.disk is not None and not node.is_damaged and node.disk.last.offset >= self._world.checker.end
