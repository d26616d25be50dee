"""One seed's world: `tests/sim_driver`'s, with the real controller service beside each node, and who calls upon it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.service.controller_pb2 import ClaimSessionsResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.runtime.access.passing_on import FORWARDED
from quorate.runtime.clients import client
from quorate.runtime.requests.statuses import UNTOUCHED, error_from_call
from services.controller import forwarding
from tests.sim_controller.invariants.states import Hashes
from tests.sim_driver.checker import require
from tests.sim_driver.context import SERVED
from tests.sim_driver.loop import Life
from tests.sim_driver.node import Node
from tests.sim_driver.wire import Call
from tests.sim_driver.world import STATIC, Plan, World
from tests.sim_services.admin import Admin
from tests.sim_services.broker import Broker
from tests.sim_services.chance import rule, shorten_claims
from tests.sim_services.controller import Controller
from tests.sim_services.ledger import Ledger
from tests.sim_services.mischief import Mischief
from tests.sim_services.plan import ClusterPlan
from tests.sim_services.tracker import EXPIRED, Placer, Tracker
from tests.sim_services.watched import SESSIONS

MARGIN_S: Final = 0.005
"""What a deadline may be longer by when a call is passed on: clocks are rounded."""
HARMLESS: Final = ("/ClaimSessions", "/DescribeTopicPartitions", "/ListPartitionReassignments", "/Submit")
"""Calls that may be handed over twice: reads, claims, and those of operators with a request id."""


class ServicesWorld(World):
    """Everything of one seed."""

    floors: ClassVar[Mapping[str, int]] = {"claims": 2, "commits": 30, "crashes": 2, "answers": 8, "reads": 1}
    has_second: ClassVar[bool] = False
    """Whether there are two heartbeat services."""
    callers = (*World.callers, forwarding, client)

    def __init__(self, seed: int, directory: Path, *, keeps_all: bool = False) -> None:
        self.controllers: list[Controller] = []
        super().__init__(seed, directory, keeps_all=keeps_all)
        self.cluster = self.drawn_beside()
        self.network.slow_beside_ms = self.cluster.slow_beside_ms
        self.settings = ControllerSettings()
        self.hashes = Hashes()
        self.ledger = Ledger(self)
        self.trackers = [Tracker(self, number) for number in range(1 + self.has_second)]
        self._holder = ""
        """The heartbeat service that a controller has granted the claim last, by its address."""
        self.brokers = [Broker(self, number) for number in range(self.cluster.brokers)]
        self.twins = [Broker(self, number, is_twin=True) for number in range(self.cluster.brokers)]
        self.admins = [Admin(self, number) for number in range(self.cluster.admins)]
        self.mischief = Mischief(self)

    def drawn(self) -> Plan:
        """Voters stay, and the quorum has half its faults: how they change, and odd snapshots, are `sim_driver`'s."""
        plan = super().drawn()
        return replace(
            plan,
            voters=STATIC,
            readers=0,
            snapshot_permille=0,
            kill_every_ms=2 * plan.kill_every_ms,
            cut_every_ms=2 * plan.cut_every_ms,
            pause_every_ms=2 * plan.pause_every_ms,
            fetch_bytes=max(600, plan.fetch_bytes),
        )

    def drawn_beside(self) -> ClusterPlan:
        """How it is beside the quorum."""
        return ClusterPlan.drawn(self.stream("cluster"))

    def beside(self, node: Node) -> Controller:
        controller = Controller(self, node)
        self.controllers.append(controller)
        return controller

    def run(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            rule(patch, self.stream, self.loop.time)
            if self.has_second:
                shorten_claims(patch, session_ms=self.cluster.session_ms)
            super().run()

    def _begin(self) -> None:
        super()._begin()
        Placer(self)
        self.trackers[0].start()
        for each in (*self.brokers, *self.admins):
            each.start()
        self.mischief.begin()

    def _is_well(self) -> bool:
        """Every broker is in as well, and every controller has come to the end of what was committed."""
        if self.is_healed:
            self.mischief.heal()
        if not super()._is_well():
            return False
        self.ledger.catch_up()
        known = {broker.id: broker for broker in self.ledger.state.brokers}
        return all(each.id in known and not known[each.id].fenced for each in self.brokers)

    def _how_it_is(self) -> list[object]:
        self.ledger.catch_up()
        brokers = [(each.id, each.epoch, each.fenced) for each in self.ledger.state.brokers]
        return [*super()._how_it_is(), brokers]

    def _judge_absence(self) -> None:
        """Not here: it asks for more of a controller's stand-in than a real one has."""

    def _agree(self) -> None:
        super()._agree()
        self.ledger.agree()

    # What passes.

    def sent(self, life: Life | None, method: str, request: Any, answer: Any | None) -> None:
        super().sent(life, method, request, answer)
        owner, rpc = None if life is None else life.owner, method.rpartition("/")[2]
        if isinstance(owner, Controller) and life is owner.life:
            owner.step()
            if rpc == "Append" and answer is None and owner.driver is not None:
                owner.driver.note_sent(request)
            elif rpc == "DescribeSessions" and answer is None:
                SESSIONS.set({})
            elif rpc == "ClaimSessions" and answer is not None:
                self._claimed(answer)
            elif rpc == "ChangeBrokerState" and answer is not None and request.reason == EXPIRED:
                for tracker in self.trackers:
                    tracker.obeyed(request)
        elif isinstance(owner, Tracker):
            served = SERVED.get()
            if rpc == "BrokerHeartbeat" and answer is not None and served is not None:
                owner.answered(request.broker_id, request.broker_epoch, came_s=served.came_s)
                self._granted(owner, request, came_s=served.came_s)
            elif rpc == "ChangeBrokerState" and answer is None:
                owner.asked(request)
            elif rpc == "DescribeSessions" and answer is not None:
                owner.described(answer)

    def _claimed(self, answer: ClaimSessionsResponse) -> None:
        if answer.counts and answer.holder != self._holder:
            if self._holder:
                self.fired("another one counts")
            self._holder = answer.holder

    def _granted(self, by: Tracker, heartbeat: BrokerHeartbeatRequest, *, came_s: float) -> None:
        for tracker in self.trackers:
            tracker.heard_anywhere(heartbeat.broker_id, heartbeat.broker_epoch, age_s=by.age_s(came_s))
            if tracker is not by and tracker.counts:
                self.fired("both count" if by.counts else "heard at the one that does not count")

    def received(self, life: Life, method: str, answer: Any) -> None:
        owner = life.owner
        if isinstance(owner, Controller) and method.endswith("/Append") and owner.driver is not None:
            owner.driver.note_heard(answer)
        elif isinstance(owner, Controller) and method.endswith("/DescribeSessions"):
            SESSIONS.set({each.broker_id: each.broker_epoch for each in answer.sessions if each.valid})

    def called(self, call: Call) -> None:
        """A call that was passed on is not passed on again; it is handed over once, and within its deadline."""
        served = SERVED.get()
        if not any(key == FORWARDED for key, _ in call.metadata) or served is None or served.path != call.path:
            return
        self.fired("passed on")
        was_passed_on = any(key == FORWARDED for key, _ in served.invocation_metadata())
        require("I-42", not was_passed_on, "a call that was passed on is passed on again", call.path)
        for before in served.passed_on:
            is_untouched = before.ended is not None and UNTOUCHED in error_from_call(before.ended).metadata
            may_be = is_untouched or call.path.endswith(HARMLESS)
            require("I-42", may_be, "handed over twice, though the first may have begun", call.path)
            self.fired("handed over again" if is_untouched else "asked of the next leader")
        served.passed_on.append(call)
        left_s, given_s = served.time_remaining(), call.left_s()
        is_within = left_s is None or (given_s is not None and given_s <= left_s + MARGIN_S)
        require("I-70", is_within, "passed on with a longer deadline than its own", call.path, left_s, given_s)

    def counts(self) -> dict[str, int]:
        return {
            **super().counts(),
            "answers": sum(each.answer_count for each in self.admins),
            "reads": sum(each.read_count for each in self.admins),
            "refused untouched": sum(each.untouched_count for each in self.admins),
            "states compared": self.hashes.compared,
            "no-ops": self.ledger.no_op_count,
        }


class LeadingWorld(ServicesWorld):
    """Leaders are left and do not notice, and nothing else is done: who has led goes on as it is, and leads again."""

    floors: ClassVar[Mapping[str, int]] = {"claims": 4, "commits": 20, "answers": 10, "reads": 3}

    def drawn(self) -> Plan:
        return replace(_quiet(super().drawn()), leave_every_ms=1_500, hangs_up_permille=0)

    def drawn_beside(self) -> ClusterPlan:
        return ClusterPlan.undisturbed(self.stream("cluster"))


class TwoWorld(ServicesWorld):
    """Two heartbeat services, to which everything is done; little is done to the rest, so that they have something to
    claim. Sessions are longer, and so are claims. Those are leases, which rest on clocks that run alike."""

    floors: ClassVar[Mapping[str, int]] = {"claims": 1, "commits": 30, "answers": 8, "reads": 1}
    has_second = True

    def drawn(self) -> Plan:
        leave_every_ms = self.stream("two").choice((0, 2_000, 4_000))
        return replace(_quiet(super().drawn()), leave_every_ms=leave_every_ms)

    def drawn_beside(self) -> ClusterPlan:
        return ClusterPlan.doubled(self.stream("cluster"))


def _quiet(plan: Plan) -> Plan:
    """No process of the quorum ends, and its hosts and links are well."""
    quiet = {"kill_every_ms": 0, "cut_every_ms": 0, "pause_every_ms": 0, "full_every_ms": 0, "clerk_every_ms": 0}
    well = {"damages": False, "drift_every_ms": 0, "flush_fails_permille": 0, "read_fails_of_10_000": 0}
    return replace(plan, **quiet, **well)  # type: ignore[arg-type]
