"""What is done to controllers, brokers and the heartbeat service; the quorum's own faults are those of `sim_driver`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.sim_driver.clock import TRUE_RATE
from tests.sim_services.tracker import TRACKER_HOST

if TYPE_CHECKING:
    from tests.sim_services.world import ServicesWorld

STEPS_MAX: Final = 25
PAUSES_MS: Final = (50, 500, 1_500, 3_000)
CLOSED_MS: Final = (500, 1_000, 4_000)
RATES: Final = (700, TRUE_RATE, TRUE_RATE, 1_400)


class Mischief:
    """Draws what, and when."""

    def __init__(self, world: ServicesWorld) -> None:
        self._world = world
        self._random = world.stream("mischief")

    def begin(self) -> None:
        plan = self._world.cluster
        for every_ms, deed in (
            (plan.broker_every_ms, self._stop_broker),
            (plan.tracker_every_ms, self._restart_tracker),
            (plan.controller_every_ms, self._kill_controller),
            (plan.fuse_every_ms, self._light_fuse),
            (plan.part_every_ms, self._part),
            (plan.cut_every_ms, self._cut),
            (plan.twin_every_ms, self._double),
            (plan.absence_every_ms, self._absence),
        ):
            if every_ms:
                self._again(every_ms, deed)
        self._world.tracker.host_clock.run_at(self._random.choice(RATES))

    def heal(self) -> None:
        for twin in self._world.twins:
            twin.leave()
        for each in self._world.controllers:
            each.fuse = 0
        self._world.tracker.host_clock.run_at(TRUE_RATE)

    def _again(self, every_ms: int, deed: Callable[[], None]) -> None:
        def do() -> None:
            if not self._world.is_healed:
                deed()
                self._again(every_ms, deed)

        self._world.network.after_ms(self._random.randrange(2 * every_ms) + 1, do)

    def _stop_broker(self) -> None:
        self._random.choice(self._world.brokers).stop()

    def _double(self) -> None:
        """Somebody starts another broker with the same id."""
        self._random.choice(self._world.twins).appear()

    def _restart_tracker(self) -> None:
        self._world.tracker.start()

    def _absence(self) -> None:
        """The heartbeat service's process stands still, or no broker reaches it, nor is answered."""
        if self._random.randrange(2):
            self._world.tracker.pause(self._random.choice(PAUSES_MS))
            return
        network = self._world.network
        hosts = [each.host for each in (*self._world.brokers, *self._world.twins)]
        cut = {way for host in hosts for way in ((host, TRACKER_HOST), (TRACKER_HOST, host))}
        self._world.fired("C-15")
        network.cut |= cut
        network.after_ms(self._random.choice(CLOSED_MS), network.cut.difference_update, cut)

    def _kill_controller(self) -> None:
        self._random.choice(self._world.controllers).die()

    def _light_fuse(self) -> None:
        """It will die at one of its next messages."""
        self._random.choice(self._world.controllers).fuse = 1 + self._random.randrange(STEPS_MAX)

    def _part(self) -> None:
        """Its streams to the quorum node break, and nothing else."""
        self._world.fired("C-08")
        self._random.choice(self._world.controllers).start(from_nothing=False)

    def _cut(self) -> None:
        """An operator, a broker or the heartbeat service does not reach one of the nodes, or is not reached."""
        network = self._world.network
        others = [TRACKER_HOST, *(each.host for each in (*self._world.brokers, *self._world.admins))]
        one, other = self._random.choice(self._world.ids), self._random.choice(others)
        cut = {(one, other)} if self._random.randrange(2) else {(one, other), (other, one)}
        self._world.fired("C-13")
        network.cut |= cut
        network.after_ms(self._random.choice((100, 1_000, 3_000)), network.cut.difference_update, cut)
