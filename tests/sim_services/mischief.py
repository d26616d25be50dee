"""What is done to controllers, brokers and the heartbeat service; the quorum's own faults are those of `sim_driver`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from tests.sim_driver.clock import TRUE_RATE
from tests.sim_services.broker import FIRST_HOST, Broker

if TYPE_CHECKING:
    from tests.sim_services.tracker import Tracker
    from tests.sim_services.world import ServicesWorld

STEPS_MAX: Final = 25
PAUSES_MS: Final = (50, 500, 1_500, 3_000)
CLOSED_MS: Final = (500, 1_000, 4_000)
DOWN_MS: Final = (0, 500, 2_000)
BESIDE_MS: Final = 1_000
"""How often something is done to one of two heartbeat services, on an average."""
RATES: Final = (700, TRUE_RATE, TRUE_RATE, 1_400)


class Mischief:
    """Draws what, and when."""

    def __init__(self, world: ServicesWorld) -> None:
        self._world = world
        self._random = world.stream("mischief")
        self._of_two = world.stream("mischief of two")

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
        rate = self._random.choice(RATES)
        if self._world.has_second:
            self._world.network.after_ms(self._of_two.randrange(3_000), self._begin_second)
            self._again(BESIDE_MS, self._strike_one_of_two)
        else:
            self._world.trackers[0].host_clock.run_at(rate)

    def heal(self) -> None:
        """All are there from now on, on clocks that run alike."""
        for twin in self._world.twins:
            twin.leave()
        for each in self._world.controllers:
            each.fuse = 0
        for tracker in self._world.trackers:
            tracker.host_clock.run_at(TRUE_RATE)
            if tracker.life is None:
                tracker.start()

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
        self._world.trackers[0].start()

    def _absence(self) -> None:
        """The heartbeat service's process stands still, or no broker reaches it, nor is answered."""
        if self._random.randrange(2):
            self._world.trackers[0].pause(self._random.choice(PAUSES_MS))
            return
        self._world.fired("C-15")
        self._cut_off(self._world.trackers[0], [each.host for each in self._at_brokers], self._random)

    def _begin_second(self) -> None:
        """It begins beside the one that counts."""
        if self._world.trackers[1].life is None:
            self._world.fired("C-16")
            self._world.trackers[1].start()

    def _strike_one_of_two(self) -> None:
        """One of two heartbeat services is gone for a while, stands still, or reaches no node, or not all brokers."""
        counting = [each for each in self._world.trackers if each.counts]
        is_hit = counting and self._of_two.randrange(4)
        tracker = self._of_two.choice(counting if is_hit else self._world.trackers)
        match self._of_two.randrange(4):
            case 0 if tracker.life is not None:
                self._world.fired("C-16 killed")
                tracker.stop()
                self._world.network.after_ms(self._of_two.choice(DOWN_MS), self._comes_back, tracker)
            case 1:
                tracker.pause(self._of_two.choice(PAUSES_MS))
            case 2:
                self._world.fired("C-16 without brokers")
                self._cut_off(tracker, self._some_brokers(), self._of_two)
            case _:
                self._world.fired("C-16 without nodes")
                others = self._some_brokers() if self._of_two.randrange(2) else []
                self._cut_off(tracker, [*self._world.ids, *others], self._of_two)

    def _some_brokers(self) -> list[int]:
        """The hosts of one broker, or of all."""
        numbers = range(self._world.cluster.brokers)
        some = set(self._of_two.sample(numbers, 1) if self._of_two.randrange(3) else numbers)
        return [each.host for each in self._at_brokers if each.id - FIRST_HOST in some]

    def _comes_back(self, tracker: Tracker) -> None:
        if tracker.life is None:
            tracker.start()

    @property
    def _at_brokers(self) -> list[Broker]:
        return [*self._world.brokers, *self._world.twins]

    def _cut_off(self, tracker: Tracker, hosts: Sequence[int], random: Random) -> None:
        network = self._world.network
        cut = {way for host in hosts for way in ((host, tracker.host), (tracker.host, host))}
        network.cut |= cut
        network.after_ms(random.choice(CLOSED_MS), network.cut.difference_update, cut)

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
        others = [self._world.trackers[0].host, *(each.host for each in (*self._world.brokers, *self._world.admins))]
        one, other = self._random.choice(self._world.ids), self._random.choice(others)
        cut = {(one, other)} if self._random.randrange(2) else {(one, other), (other, one)}
        self._world.fired("C-13")
        network.cut |= cut
        network.after_ms(self._random.choice((100, 1_000, 3_000)), network.cut.difference_update, cut)
