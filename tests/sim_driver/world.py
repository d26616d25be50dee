"""One seed's world: real nodes, the controllers beside them, and what must have come of what is done to them."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final, Protocol

import pytest

from quorate.nouns import NodeId, Offset
from quorate.raft.voters import VoterSet
from quorate.runtime.settings.setting_types import ConfiguredVoter, Endpoint
from quorate.storage.failpoints import NAMES, set_failpoint
from services.quorum import alter_quorum, peer_wire
from services.quorum.cleaner import RetentionLimits
from tests.sim.invariants.base import Violation
from tests.sim.trace import Trace
from tests.sim_driver.admin import Admin
from tests.sim_driver.checker import Checker
from tests.sim_driver.clerk import Clerk
from tests.sim_driver.clock import HostClock
from tests.sim_driver.disk import Injected
from tests.sim_driver.garbling import Garbler
from tests.sim_driver.loop import LIFE, Life, Loop
from tests.sim_driver.nemesis import Nemesis
from tests.sim_driver.node import PORT, Node, is_of_the_disk
from tests.sim_driver.presence import Absence
from tests.sim_driver.reader import Reader
from tests.sim_driver.walks import Arrival
from tests.sim_driver.wire import Call, Network

FAULTY_MS: Final = 7_000
EXTENSION_MS: Final = 2_500
EXTENSIONS_MAX: Final = 5
"""It goes on so much longer where too little has happened."""
HEALED_MS: Final = 20_000
"""Simulated; the last election of a storm may take a few seconds, a wait for a dead stream some more."""
FLOORS: Final = {"claims": 2, "commits": 30, "told bytes": 3_000, "crashes": 2, "acknowledged": 10}
"""A seed in which less has happened shows nothing."""
KIB: Final = 1024
CLERK_EVERY_MS: Final = 2_000
STATIC, IN_LOG, UPGRADED = "static", "in the log", "upgraded"
"""Who votes: as configured; as the log says, from its beginning; as configured until kraft.version is raised."""
FIRST: Final = (1, 2, 3)
SPARE: Final = (4, 5)
"""Nodes that do not vote at first, where voters may change."""


@dataclass(frozen=True)
class Plan:
    """How this seed's world is; about half of what may be done to it is off."""

    disorder: int
    delay_ms_max: int
    half_open_ms: int
    flush_ms: int
    stall_permille: int
    flush_fails_permille: int
    read_fails_of_10_000: int
    commit_wait_ms: int
    linger_ms: int
    fetch_bytes: int
    chunk_bytes: int
    write_every_ms: int
    slow_ms: int
    hangs_up_permille: int
    snapshot_permille: int
    kill_every_ms: int
    cut_every_ms: int
    pause_every_ms: int
    full_every_ms: int
    damages: bool
    readers: int
    cleaning: RetentionLimits
    drift_every_ms: int
    voters: str
    admin_every_ms: int
    joins: bool
    """Do spare nodes ask for a vote by themselves? KIP-1186."""
    garble_permille: int
    leave_every_ms: int
    moves: bool
    """Do nodes mostly come back with other ports, rather than be added and removed?"""
    clerk_every_ms: int = CLERK_EVERY_MS
    """Where this is 0, controllers stay, and so do their streams."""
    walks: bool = False
    """Are most of the changes walks to a target?"""
    wipe_every_ms: int = 0
    """How often a voter's disk is looked for that may be lost."""

    @classmethod
    def drawn(cls, random: Random) -> Plan:
        """By chance."""

        def half(*values: int) -> int:
            return random.choice(values) if random.randrange(2) else 0

        return cls(
            disorder=random.choice((0, 20, 60, 100, 100)),
            delay_ms_max=random.choice((1, 3, 10, 30)),
            half_open_ms=half(500, 5_000),
            flush_ms=random.choice((0, 1, 4, 15)),
            stall_permille=half(2, 20),
            flush_fails_permille=half(1, 3),
            read_fails_of_10_000=half(3, 10),
            commit_wait_ms=random.choice((0, 5)),
            linger_ms=half(1, 5),
            fetch_bytes=random.choice((1, 600, 8 * KIB, 8 * KIB * KIB)),
            chunk_bytes=random.choice((100, 1_000, 8 * KIB * KIB)),
            write_every_ms=random.choice((25, 50, 100)),
            slow_ms=half(50, 1_000, 3_000),
            hangs_up_permille=half(1, 4, 10),
            snapshot_permille=half(20, 100, 300),
            kill_every_ms=random.choice((1_000, 1_500, 2_500)),
            cut_every_ms=half(1_500, 4_000),
            pause_every_ms=half(2_000, 4_000),
            full_every_ms=half(4_000),
            damages=random.randrange(2) == 0,
            readers=random.randrange(4),
            cleaning=RetentionLimits(
                retention_bytes=random.choice((5_000, 15_000, 40_000)),
                retention_ms=-1,
                interval_ms=random.choice((5, 50, 1_000)),
                delete_delay_ms=random.choice((0, 500)),
            ),
            drift_every_ms=half(1_500, 4_000),
            voters=random.choice((STATIC, STATIC, IN_LOG, UPGRADED)),
            admin_every_ms=random.choice((300, 1_000)),
            joins=random.randrange(3) == 0,
            garble_permille=half(2, 10),
            moves=random.randrange(3) == 0,
            leave_every_ms=random.choice((0, 0, 1_500)),
        )


class Beside(Protocol):
    """The controller beside a node."""

    host: int
    next: Offset
    """Where its state stands."""
    is_active: bool

    def start(self, *, from_nothing: bool) -> None:
        """A process begins, or where not `from_nothing` its connection; one before has ended."""

    def counts(self) -> dict[str, int]:
        """What has come about."""


class World:
    """Everything of one seed. `directory` is for the nodes' files."""

    floors: ClassVar[Mapping[str, int]] = FLOORS
    callers: tuple[Any, ...] = (peer_wire, alter_quorum)
    """Modules that open channels by themselves."""

    def __init__(self, seed: int, directory: Path, *, keeps_all: bool = False) -> None:
        self.seed = seed
        self.directory = directory
        self.plan = self.drawn()
        self.loop = Loop(self.stream("loop"), disorder=self.plan.disorder)  # type: ignore[abstract]  # enough of it
        self.trace = Trace(keeps_all=keeps_all)
        self.tally: Counter[str] = Counter()
        self.crash_count = 0
        self.clean_count = 0
        self.is_healed = False
        self.is_over = False
        self.ids: tuple[NodeId, ...] = FIRST if self.is_static else (*FIRST, *SPARE)
        self.loop.clocks = {each: HostClock(lambda: self.loop.now_us) for each in self.ids}
        self.checker = Checker(self)
        self.network = Network(self.loop, self.stream("wire"), self, delay_ms_max=self.plan.delay_ms_max)
        self.network.half_open_ms = self.plan.half_open_ms
        self.network.garbler = Garbler(self.stream("garbling"), permille=self.plan.garble_permille)
        self._disk_chance = self.stream("disk")
        self._broken: BaseException | None = None
        self.nodes = {each: Node(self, each, directory / f"{each}-0") for each in self.ids}
        self.clerks: dict[NodeId, Beside] = {each: self.beside(node) for each, node in self.nodes.items()}
        self.readers = [Reader(self, number) for number in range(self.plan.readers)]
        self.admin = Admin(self)
        self.nemesis = Nemesis(self)

    def drawn(self) -> Plan:
        """How this seed's world is."""
        return Plan.drawn(self.stream("plan"))

    def beside(self, node: Node) -> Beside:
        """What stands for the controller of a node."""
        return Clerk(self, node)

    def stream(self, purpose: str) -> Random:
        """Chance of its own, so that a draw more in one place moves nothing in another."""
        return Random(f"{self.seed}/{purpose}")

    @property
    def now_ms(self) -> int:
        return self.loop.now_us // 1000

    @property
    def is_static(self) -> bool:
        """Are the voters those of the configuration, for good?"""
        return self.plan.voters == STATIC

    def is_spare(self, node_id: NodeId) -> bool:
        return node_id in SPARE

    def joins(self, node_id: NodeId) -> bool:
        """Does this node ask for a vote by itself? KIP-1186."""
        return self.plan.joins and self.is_spare(node_id)

    def configured(self, node_id: NodeId) -> tuple[tuple[ConfiguredVoter, ...], tuple[Endpoint, ...]]:
        """`controller.quorum.voters` and `controller.quorum.bootstrap.servers` of this node: one of the two."""
        if self.plan.voters != IN_LOG and not self.is_spare(node_id):
            return tuple(ConfiguredVoter(each, Endpoint(f"node{each}", PORT)) for each in FIRST), ()
        return (), tuple(Endpoint(node.endpoint.host, node.port) for node in self.nodes.values())

    def note(self, who: int, *what: object) -> None:
        self.trace.note(self.now_ms, who, *what)

    def fired(self, row: str) -> None:
        self.tally[row] += 1

    def failed(self, life: Life, error: BaseException) -> None:
        """Something has raised what nobody expects. A disk's fault ends a node; whatever else, this world."""
        if isinstance(life.owner, Node) and is_of_the_disk(error):
            life.owner.fail(life, error)
        elif not life.is_over and self._broken is None:
            self._broken = error

    # How long things take.

    def flush_ms(self) -> int:
        if not self.is_healed and self._disk_chance.randrange(1_000) < self.plan.stall_permille:
            self.fired("S-22")
            return self._disk_chance.randrange(1_500)
        return self._disk_chance.randrange(self.plan.flush_ms + 1)

    def _read_fails(self) -> bool:
        return not self.is_healed and self._disk_chance.randrange(10_000) < self.plan.read_fails_of_10_000

    def down_ms(self) -> int:
        return self._disk_chance.choice((1, 100, 800, 2_000))

    # What passes.

    def sent(self, life: Life | None, method: str, request: Any, answer: Any | None) -> None:
        node = None if life is None else life.owner
        if isinstance(node, Node) and node.life is life and node.disk is not None:
            if answer is not None and method.endswith("FetchSnapshot"):
                self.fired("S-24 in chunks")
            node.step(method)
            self.checker.sent(node, method, request, answer)

    def called(self, call: Call) -> None:
        """It leaves: looked at where controllers pass calls on, too."""
        self.checker.called(call)

    def received(self, life: Life, method: str, answer: Any) -> None:
        """It is taken: looked at where a controller hears answers that are void."""

    def _reach(self, name: str) -> None:
        life = LIFE.get()
        if self.checker.is_looking or life is None or not isinstance(life.owner, Node) or life.is_over:
            return
        node = life.owner
        if name == "log.after_fsync" and node.disk is not None and not (node.flusher and node.flusher.is_flushing):
            node.disk.durable = node.disk.log.leo  # a segment is full: it is flushed before the next one begins
        if name in node.full_at and node.disk is not None:
            self.fired("S-18")
            raise Injected(errno.ENOSPC, "no room")
        if name == "file.before_read" and node.disk is not None and self._read_fails():
            self.fired("S-18")
            raise Injected(errno.EIO, "the disk does not give it back")
        node.step(name)

    # A seed.

    def run(self) -> None:
        """From its first event to its last. Raises Violation, and whatever the code under test raises."""
        try:
            with pytest.MonkeyPatch.context() as patch:
                for module in self.callers:
                    patch.setattr(module, "open_channel", self.network.open_channel)
                for name in NAMES:
                    set_failpoint(name, partial(self._reach, name))
                self._run()
        finally:
            self.is_over = True
            self.tally["S-26"] += self.loop.disorder_count
            for name in NAMES:
                set_failpoint(name, None)
            for node in self.nodes.values():
                node.abandon()
            self.loop.end()

    def _run(self) -> None:
        self.network.context.run(self._begin)
        self.pass_ms(FAULTY_MS)
        for _ in range(EXTENSIONS_MAX):
            if self.missing():
                self.pass_ms(EXTENSION_MS)
        self.note(0, "healed")
        self.is_healed = True
        self.network.context.run(self.nemesis.heal)
        self.pass_ms(HEALED_MS, self._is_well)
        if not self._is_well():
            raise Violation("I-69", "healed, and not well", self._how_it_is())
        self._judge_walk()
        self._agree()
        self._judge_absence()

    def _begin(self) -> None:
        if self.plan.voters == IN_LOG:
            first = VoterSet(tuple(self.nodes[each].voter for each in FIRST))
            for each in FIRST:
                self.nodes[each].format(first)
        for node in self.nodes.values():
            node.boot()
        for clerk in self.clerks.values():
            clerk.start(from_nothing=True)
        for reader in self.readers:
            reader.start()
        self.nemesis.begin()
        if not self.is_static:
            self.admin.start()

    def pass_ms(self, ms: int, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Let so much time go by, or until it is enough."""
        self.loop.run_until_us(self.loop.now_us + 1000 * ms, lambda: self._broken is not None or is_enough())
        if self._broken is not None:
            raise self._broken

    def _is_well(self) -> bool:
        """Somebody is active, and has written since; everybody has heard of everything, whatever is on its way."""
        end = self.checker.end
        active = [clerk for clerk in self.clerks.values() if clerk.is_active]
        return (
            len(active) == 1
            and self.nemesis.healed_end is not None
            and end > self.nemesis.healed_end
            and all(clerk.next >= self.nemesis.healed_end for clerk in self.clerks.values())
            and self._are_up()
        )

    def _are_up(self) -> bool:
        return all(node.is_up and not node.is_damaged for node in self.nodes.values())

    def _how_it_is(self) -> list[object]:
        nodes = [
            (node.id, node.is_up and type(node.driver.core.role).__name__, node.disk and node.disk.last, node.promised)  # type: ignore[union-attr]
            for node in self.nodes.values()
        ]
        return [
            self.checker.end,
            self.nemesis.healed_end,
            nodes,
            [(each.next, each.is_active) for each in self.clerks.values()],
        ]

    def _judge_walk(self) -> None:
        """A target that is still in the log is reached."""
        Arrival(self).judge()

    def _judge_absence(self) -> None:
        """Some controllers are away, and another writes."""
        Absence(self).judge()

    def _agree(self) -> None:
        """Each committed record is on every disk, as far as the node knows that it is."""
        if not self._are_up():  # the leader that was ended in the middle of the last walk
            self.pass_ms(HEALED_MS, self._are_up)
        for node in self.nodes.values():
            self.checker.agree(node)

    # What became of it.

    def counts(self) -> dict[str, int]:
        beside = Counter[str]()
        for each in self.clerks.values():
            beside.update(each.counts())
        return {
            "claims": self.checker.epochs_claimed,
            "commits": self.checker.end,
            "told bytes": self.checker.told_bytes,
            "crashes": self.crash_count,
            "installs": self.checker.install_count,
            "truncations": self.checker.truncation_count,
            "cleanings": self.clean_count,
            "read bytes": sum(reader.byte_count for reader in self.readers),
            "voter changes": len(self.checker.voter_sets) - 1,
            "first batches": sum(reader.stay_count for reader in self.readers),
            "pieces": sum(reader.piece_count for reader in self.readers),
            **beside,
        }

    def missing(self) -> list[str]:
        """What of the floors was not reached."""
        counts = self.counts()
        return [f"{name} {counts[name]} of {floor}" for name, floor in self.floors.items() if counts[name] < floor]
