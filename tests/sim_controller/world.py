"""One seed's cluster: the simulated quorum of tests/sim, and beside each node a real controller; brokers, operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from kraft import Message
from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Decision, Moment
from quorate.controller.periodic import CHORES, PeriodicTask
from quorate.metadata.configs import BROKER
from quorate.metadata.features import ELR_VERSION, supported_features
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION, TRANSACTIONS
from quorate.raft import Raft
from quorate.raft.roles import Leader
from quorate.records import BeginTransactionRecord, ConfigRecord, FeatureLevelRecord
from tests.sim.clock import Clock
from tests.sim.invariants.base import require
from tests.sim.listener import Listener
from tests.sim.node import Node
from tests.sim.world import World
from tests.sim_controller import failing
from tests.sim_controller.admins import Admins
from tests.sim_controller.beside import Beside
from tests.sim_controller.brokers import Broker
from tests.sim_controller.controller import Controller, active
from tests.sim_controller.invariants.fencing import Fencing
from tests.sim_controller.invariants.history import History
from tests.sim_controller.invariants.states import Hashes
from tests.sim_controller.model import MIN_ISR, UNCLEAN
from tests.sim_controller.oracle import AdminOracle
from tests.sim_controller.plan import ClusterPlan, milder
from tests.sim_controller.tracker import Tracker

FAULTY_MIN_MS, FAULTY_MAX_MS = 10_000, 50_000
UNFENCED_WITHIN_MS = 30_000
LOOK_EVERY_MS = 250
NO_OP_MS, UNCLEAN_MS = 500, 1_000
REGISTER_MS = 500

FLOORS = (
    ("active controllers", 3),
    ("fencings", 1),
    ("ISR changes", 5),
    ("reassignments completed", 1),
    ("calls answered", 30),
    ("reads answered", 3),
    ("failovers with writes in flight", 1),
    ("whole states compared", 10),
)
"""What has to happen before a seed shows anything."""


class ControllerWorld(World):
    """Everything there is. `run` raises what breaks."""

    supported = supported_features()

    def __init__(self, seed: int, *, profile: str | None = None, keeps_all: bool = False) -> None:
        self.cluster_plan = plan = ClusterPlan.drawn(seed, profile)
        self.controller_settings = ControllerSettings(
            num_partitions=2,
            default_replication_factor=2,
            delegation_tokens=TokenSettings(secret_key="of all controllers alike", expiry_time_ms=1_000),
            static_configs={MIN_ISR: plan.min_isr},
        )
        self.bootstrap = self._bootstrap(plan)
        self.is_quiet = False
        super().__init__(seed, profile=plan.profile, keeps_all=keeps_all)
        self.plan = milder(self.plan)
        self.placing, self.fetching = self.stream("placing"), self.stream("fetching")
        self._own: Random = self.stream("cluster events")
        self._failing = self.stream("failures")
        self.history, self.hashes, self.fencing = History(self), Hashes(), Fencing(self)
        self.oracle: AdminOracle = AdminOracle(self)  # type: ignore[assignment]
        self.admins = Admins(self)
        self.brokers = [Broker(self, 100 + number) for number in range(plan.broker_count)]
        self.tracker = self._new_tracker()

    @staticmethod
    def _bootstrap(plan: ClusterPlan) -> tuple[Message, ...]:
        records: list[Message] = [FeatureLevelRecord(METADATA_VERSION, plan.level)]
        if plan.has_elr:
            records.append(FeatureLevelRecord(ELR_VERSION, 1))
        if plan.unclean:
            records.append(ConfigRecord(BROKER, "", UNCLEAN, "true"))
        return tuple(records)

    def run(self) -> None:
        """Faults first; then all is healed: every broker must come in, and all controllers agree."""
        for node in list(self.nodes.values()):
            node.start()
        self._begin()
        self.nemesis.begin()
        self.admin.begin()
        self.run_for(FAULTY_MIN_MS)
        while self.missing() and self.timeline.now_ms < FAULTY_MAX_MS:
            self.run_for(1_000)
        self.is_well_worn = True
        self.run_for(2_000)
        self._heal()
        if self.atlas.has_majority():
            self._judge_healed()
        else:
            self.tally["no majority left"] += 1
        self.is_quiet = True
        self.checker.check_all()
        self.history.catch_up()
        self.oracle.judge(self.checker.ledger)

    def missing(self) -> list[str]:
        counts = self.counts()
        return [f"{floor} {name}" for name, floor in FLOORS if counts.get(name, 0) < floor]

    def counts(self) -> dict[str, int]:
        """What has happened so far."""
        self.history.catch_up()
        return {
            **self.history.counts,
            **self.oracle.counts(),
            "elections": len(self.checker.election.leaders),
            "crashes": self.crash_count,
            "snapshot installs": self.checker.snapshots.install_count,
            "active controllers": self.tally["active controllers"],
            "failovers with writes in flight": self.tally["failovers with writes in flight"],
            "transactions aborted": self.tally["transactions aborted"],
            "sessions expired": self.fencing.expiry_count,
            "whole states compared": self.hashes.compared,
        }

    # What nodes and others ask of it.

    def new_listener(self, node: Node) -> Listener:
        return Beside(node, self)

    def controller_of(self, node: Node) -> Controller | None:
        """Beside `node`; None while that is down."""
        listener = node.listener
        return listener.controller if node.raft is not None and isinstance(listener, Beside) else None

    def controllers(self) -> Iterator[Controller]:
        """Those of nodes that are up."""
        return filter(None, map(self.controller_of, self.nodes.values()))

    def again(self, mean_ms: int, action: Callable[[], object], until: Callable[[], bool] = lambda: False) -> None:
        """Again and again until all is quiet, healed or not."""

        def act() -> None:
            if not (self.is_quiet or until()):
                action()
                self.at(1 + self._own.randrange(2 * mean_ms), act)

        self.at(1 + self._own.randrange(2 * mean_ms), act)

    def carry(self, arrive: Callable[[], None]) -> None:
        """A message between a client, a broker, a service: lost or late as any."""
        if self.loses_request():
            return
        mean_ms = 1 if self.is_healed else self.plan.delay_mean_ms
        self.at(int(self._own.expovariate(1 / mean_ms)), arrive)

    def loses_request(self) -> bool:
        return not self.is_healed and self._own.random() < self.plan.request_loss

    def stream_ms(self) -> int:
        """How long a piece takes between a controller and its quorum node."""
        return self._own.randrange(self.cluster_plan.stream_ms + 1)

    def sending_ms(self) -> int:
        """How long appends wait for company."""
        return self._own.randrange(3)

    def is_without_room(self) -> bool:
        return self.happens(self.cluster_plan.full, "S-27")

    # What goes on.

    def _begin(self) -> None:
        plan = self.cluster_plan
        for broker in self.brokers:
            self.at(self._own.randrange(500), broker.start)
        self.again(plan.admin_every_ms, self.admins.act)
        self.again(plan.read_every_ms, self.admins.read)
        self.again(REGISTER_MS, self._register_controllers)
        self.again(500, self.oracle.check_polls)
        for chore in CHORES:
            self.again(self._interval_ms(chore), lambda chore=chore: self._do(chore))  # type: ignore[misc]
        for mean_ms, deed in (
            (plan.stop_every_ms, self._stop_broker),
            (plan.shutdown_every_ms, lambda: self._any_broker().begin_shutdown()),
            (plan.directory_every_ms, lambda: self._any_broker().lose_directory()),
            (plan.twin_every_ms, lambda: self._any_broker().begin_twin()),
            (plan.pause_every_ms, self._pause_broker),
            (plan.tracker_every_ms, self._restart_tracker),
            (2_000 if self.plan.wall_step else 0, self._set_tracker_clock),
            (plan.cut_off_every_ms, self._cut_off),
            (plan.restart_every_ms, self._restart_controller),
            (plan.transaction_every_ms, self._leave_transaction),
            (plan.fail_every_ms, self._fail),
        ):
            self.every(mean_ms, deed)

    def _interval_ms(self, chore: PeriodicTask) -> int:
        known = {"write a no-op": NO_OP_MS, "elect leaders uncleanly": UNCLEAN_MS}
        return known.get(chore.name, self.cluster_plan.preferred_every_ms)

    def _do(self, chore: PeriodicTask) -> None:
        for controller in active(self):
            if not controller.is_foreign and chore.is_due(controller.engine.state):
                controller.write(chore.name, chore.command(self.controller_settings))

    def _register_controllers(self) -> None:
        for controller in self.controllers():
            controller.register()

    def _any_broker(self) -> Broker:
        return self._own.choice(self.brokers)

    def _stop_broker(self) -> None:
        self.fired("C-02 unclean stop")
        self._any_broker().stop(clean=False)

    def _pause_broker(self) -> None:
        process = self._any_broker().process
        if process is not None:
            self.fired("C-06 broker paused")
            process.paused_until = self.timeline.now_ms + self._own.randrange(3 * self.cluster_plan.session_ms)

    def _new_tracker(self) -> Tracker:
        clock = Clock(self.timeline, rate=self._own.choice([900, 1000, 1100]), base_ms=self._own.randrange(1_000_000))
        return Tracker(self, clock)

    def _restart_tracker(self) -> None:
        self.fired("C-07 heartbeat service restarts")
        self.tracker.is_gone = True
        self.tracker = self._new_tracker()

    def _set_tracker_clock(self) -> None:
        self.fired("S-14")
        self.tracker.clock.wall_step_ms = self._own.randrange(-3_600_000, 3_600_000)

    def _any_beside(self) -> Beside | None:
        up = [node.listener for node in self.nodes.values() if node.raft is not None]
        found = self._own.choice(up) if up else None
        return found if isinstance(found, Beside) else None

    def _cut_off(self) -> None:
        beside = self._any_beside()
        if beside is not None:
            self.fired("C-08 controller cut off from its quorum node")
            beside.cut_off("its stream broke")

    def _restart_controller(self) -> None:
        beside = self._any_beside()
        if beside is not None:
            self.fired("C-09 controller restarts alone")
            beside.restart_controller()

    def _leave_transaction(self) -> None:
        """What another make of controller may leave behind: a transaction begun, and its leadership lost."""
        for controller in active(self):
            state = controller.engine.state
            level = state.features.metadata_version
            if controller.is_foreign or level is None or level < TRANSACTIONS or state.transactions.open is not None:
                continue
            self.fired("C-10 transaction left open")
            controller.write("a transaction", _left_open)
            controller.is_foreign = True
            node = controller.node
            self.at(self._own.randrange(300), lambda node=node: _resign(node))  # type: ignore[misc]

    def _fail(self) -> None:
        """In a controller's own code, in any way."""
        row = self._failing.choice(failing.ROWS)
        for controller in active(self):
            controller.fail(row)

    # The end.

    def _judge_healed(self) -> None:
        """I-69, I-71: every broker is let in that may be; then all controllers have one state."""
        for controller in active(self):
            if controller.is_foreign:
                _resign(controller.node)
        for broker in self.brokers:
            broker.heal()
        has_leader = self._wait(self._has_active)
        require(has_leader, "I-69", "an active controller once healed", self._states())
        is_in = self._wait(self._are_brokers_in)
        require(is_in, "I-71", "no broker stays fenced that is there", self._fenced())
        self.is_quiet = True
        self.liveness.judge_recovery()
        self.history.catch_up()
        ledger = self.checker.ledger
        for controller in self.controllers():
            if controller.engine.next_offset == ledger.end:
                controller.watched.judge_end(ledger.end, ledger.cells[-1][0])
                self.tally["states compared at the end"] += 1
        self.note(0, "state", self.history.hash_at(ledger.end))

    def _wait(self, holds: Callable[[], bool]) -> bool:
        end_ms = self.timeline.now_ms + UNFENCED_WITHIN_MS
        while not holds():
            if self.timeline.now_ms >= end_ms:
                return False
            self.run_for(LOOK_EVERY_MS)
        return True

    def _has_active(self) -> bool:
        return any(not controller.is_foreign for controller in active(self))

    def _states(self) -> list[str]:
        return [
            f"{node.id}: {node.raft.role.epoch} {type(node.raft.role).__name__} {node.raft.log.last} {node.leadership}"
            if node.raft is not None
            else f"{node.id}: down {node.refusal}"
            for node in self.nodes.values()
        ]

    def _fenced(self) -> list[object]:
        self.history.catch_up()
        members = self.history.model.members
        return [
            (broker.id, broker.process and broker.process.epoch, members.get(broker.id))
            for broker in self.brokers
            if broker.process is None or (broker.process.may_register() and not broker.process.is_in)
        ]

    def _are_brokers_in(self) -> bool:
        return not self._fenced()


def _left_open(state: ClusterState, moment: Moment) -> Decision[None]:
    inside = ConfigRecord(BROKER, "", "log.retention.ms", str(moment.next_offset))
    return Decision(None, (BeginTransactionRecord("of another make"), inside))


def _resign(node: Node) -> None:
    def resign(raft: Raft) -> None:
        if isinstance(raft.role, Leader):
            raft.resign(node.turn_ms)

    node.hear(resign)
