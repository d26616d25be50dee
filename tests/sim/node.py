"""One process: the driver's loop around the real core, step by step, so that it can die between any two."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, ClassVar

from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import BatchInfo, Raft, RaftSettings, Ready
from quorate.raft.messages import FetchResponse, FetchSnapshotResponse, Message, Request, Response
from quorate.raft.ready import Leadership
from quorate.raft.roles import Leader
from quorate.raft.voters import SUPPORTED, ListenerEndpoint, VersionRange
from tests.sim.clock import Clock
from tests.sim.content import Damaged, Snapshot
from tests.sim.disk import Disk, DiskFull, FsyncFailed
from tests.sim.driver import Driver

if TYPE_CHECKING:
    from tests.sim.oracle import Call
    from tests.sim.world import World

CLUSTER_ID = "simulated"

Deed = Callable[[Raft], None]
"""What happens to a node: one call of its core."""


@dataclass
class Pending:
    """An append of a client that is not known to be committed."""

    call: Call
    end_offset: Offset
    epoch: Epoch


@dataclass(eq=False)
class Node:
    """One machine with its disk. `raft` is None while its process is down."""

    world: World
    id: NodeId
    disk: Disk
    clock: Clock
    settings: RaftSettings
    bootstrap: frozenset[NodeId] = frozenset()
    port: int = 9093
    levels: VersionRange = SUPPORTED
    raft: Raft | None = None
    life: int = 0
    is_machine_up: bool = True
    refusal: str = ""
    """Why the disk was refused at the last start; empty if it was not."""
    pending: list[Pending] = field(default_factory=list)
    heard: list[Message] = field(default_factory=list)
    """What this turn has taken in."""
    turn_ms: int = 0
    """The core's time in this turn."""
    is_kafka: ClassVar[bool] = False
    """Does its core do as Kafka's does, where that differs?"""

    def __post_init__(self) -> None:
        self._key = ReplicaKey(self.id, self.disk.directory_id)
        self._inbox: deque[Deed] = deque()
        self._work: Iterator[str] | None = None
        self._tick_at: int | None = None
        self._paused_until = 0
        self.leadership = Leadership(epoch=0, leader_id=None)
        self.listener = self.world.new_listener(self)
        self._random = self.world.stream(f"node {self.id}")
        self._driver = self.new_driver(self._random)

    @property
    def key(self) -> ReplicaKey:
        """Who we are with this disk."""
        if self._key.directory_id is not self.disk.directory_id:
            self._key = ReplicaKey(self.id, self.disk.directory_id)
        return self._key

    @property
    def is_up(self) -> bool:
        return self.raft is not None

    @property
    def is_leader(self) -> bool:
        return self.raft is not None and isinstance(self.raft.role, Leader)

    @property
    def endpoints(self) -> tuple[ListenerEndpoint, ...]:
        return (ListenerEndpoint("CONTROLLER", f"host{self.id}", self.port),)

    def new_driver(self, random: Random) -> Driver:
        """The driver of one life."""
        return Driver(self, random)

    def knows(self, request: Request) -> bool:
        """Has it an API for this request?"""
        return True

    # Life and death.

    def start(self) -> None:
        """Boots, unless the disk is refused: then it stays down until somebody sees to it."""
        if self.raft is not None:
            return
        self.is_machine_up = True
        try:
            view, election = self.disk.boot()
        except Damaged as damage:
            self.refusal = str(damage)
            self.world.note(self.id, "refuses its disk", self.refusal)
            return
        self.life += 1
        self.refusal = ""
        self._inbox.clear()
        self._work, self._tick_at, self._paused_until = None, None, 0
        self._driver = self.new_driver(self._random)
        self.pending, self.heard = [], []
        self.turn_ms = self.clock.now_ms
        self.raft = Raft(
            node=self.key,
            cluster_id=CLUSTER_ID,
            log=view,
            election=election,
            random=self.world.stream(f"core {self.id}.{self.life}"),
            now_ms=self.turn_ms,
            settings=self.settings,
            bootstrap=self.bootstrap,
            endpoints=self.endpoints if self.world.has_endpoints else (),
            kraft_versions=self.levels,
        )
        self.leadership = Leadership(epoch=0, leader_id=None)
        self.listener = self.world.new_listener(self)
        self.world.note(self.id, "starts", self.life, type(self.raft.role).__name__, self.raft.role.epoch, view.leo)
        self.world.checker.after_boot(self)
        self._begin_turn()
        self._run()
        self.world.absences.started(self)

    def crash(self, why: str, *, power: bool) -> None:
        """The process is gone at this very step; with `power` its machine and page cache as well."""
        if self.raft is None:
            return
        self.raft = None
        self._work = None
        self._inbox.clear()
        self.is_machine_up = not power
        how = self.world.lose_power(self) if power else "kept"
        self.world.note(self.id, "crashes", why, how)
        self.world.after_crash(self)

    def pause(self, ms: int) -> None:
        """SIGSTOP for `ms`; its timers are stale when it goes on."""
        self._paused_until = self.world.timeline.now_ms + ms
        self.world.at(ms, self._run)

    def wake(self) -> None:
        """SIGCONT, and timers by the clock as it now runs."""
        self._paused_until, self._tick_at = 0, None
        self._set_timer()
        self._run()

    # What happens to it.

    def hear(self, deed: Deed) -> None:
        """`deed` is done as soon as the process gets to it; never if it dies first."""
        if self.raft is not None:
            self._inbox.append(deed)
            self._run()

    def take_request(self, request: Request) -> None:
        """A request that has come off the wire."""

        def deed(raft: Raft) -> None:
            self.heard.append(request)
            self.world.checker.before_request(self, request)
            raft.step(request, self.turn_ms)
            self.world.checker.after_request(self, request)

        self.hear(deed)

    def take_response(self, source: ReplicaKey, request: Request, response: Response) -> None:
        """An answer that has come off the wire."""

        def deed(raft: Raft) -> None:
            if not self._can_keep(response):
                raft.request_failed(response.reply_to, self.turn_ms)
                return
            self.heard.append(response)
            self.world.checker.before_response(self, source, request, response)
            raft.step(response, self.turn_ms)

        self.hear(deed)

    def fail_request(self, token: object) -> None:
        """A request will not be answered."""
        self.hear(lambda raft: raft.request_failed(token, self.turn_ms))

    def lose_peer(self, peer: NodeId) -> None:
        """The streams to and from `peer` were reset."""
        self.hear(lambda raft: raft.peer_lost(peer, self.turn_ms))

    def submit(self, call: Call) -> None:
        """A client's append: refused at once, or pending until it is committed or we lead no more."""

        def deed(raft: Raft) -> None:
            if self.disk.is_full or len(self.pending) >= self.world.plan.append_room:
                self.world.fired("S-18" if self.disk.is_full else "S-27")
                call.end("refused", "no room")
                return
            if self.id in self.world.absences.away:
                call.end("refused", "no controller")
                return
            role, base = raft.role, raft.log.leo
            wall_ms = self.clock.wall_ms
            texts = tuple([f"{text}@{wall_ms}" for text in call.texts])
            batch = BatchInfo(
                base_offset=base, last_offset=base + len(texts) - 1, epoch=role.epoch, size=80 * len(texts), data=texts
            )
            refusal = raft.append((batch,), self.turn_ms)
            if refusal is not None:
                call.end("refused", refusal.error.name)
            else:
                self.pending.append(Pending(call, batch.end_offset, role.epoch))

        self.hear(deed)

    def _can_keep(self, response: Response) -> bool:
        """A response that has no room on the disk counts as failed, and is asked for again."""
        is_bulky = isinstance(response, FetchSnapshotResponse) or (
            isinstance(response, FetchResponse) and bool(response.batches)
        )
        if not (is_bulky and self.disk.is_full):
            return True
        self.world.fired("S-18")
        return False

    # Its turns.

    def _run(self) -> None:
        while self.raft is not None and self._work is None and self._inbox and not self._is_paused():
            self.turn_ms = self.clock.now_ms
            self._inbox.popleft()(self.raft)
            while self._inbox and self.world.happens(self.world.plan.group_turns, "S-26"):
                self._inbox.popleft()(self.raft)
            self._begin_turn()

    def _is_paused(self) -> bool:
        return self.world.timeline.now_ms < self._paused_until

    def _begin_turn(self) -> None:
        """Carries out what the core asks for; nothing can come between where it asks for nothing."""
        raft = self.raft
        assert raft is not None
        ready = raft.ready()
        if ready:
            self._work = self._turn(raft, ready)
            self._advance()
        else:
            self.world.checker.after_idle_turn(self)
            self._end_turn(raft)

    def _advance(self) -> None:
        """Goes on with the turn to its next wait, its end, or the death of the process."""
        life, work = self.life, self._work
        assert work is not None
        try:
            for step in work:
                if self.raft is None or self.life != life:
                    return
                if self.world.dies_after(self, step):
                    self.crash(step, power=self._random.random() < 0.5)
                    return
                delay_ms = self.world.stall_ms(step)
                if delay_ms:
                    self.world.at(delay_ms, lambda: self._resume(life))
                    return
        except DiskFull:
            self.world.fired("S-18")
            self.crash("disk full", power=False)
            return
        except FsyncFailed:
            self.world.lose_cache(self)
            self.crash("fsync failed", power=False)
            return
        self._work = None

    def _resume(self, life: int) -> None:
        if self.raft is not None and self.life == life and self._work is not None:
            self._advance()
            self._run()

    def _turn(self, raft: Raft, ready: Ready) -> Iterator[str]:
        while ready:
            yield from self._driver.carry_out(raft, ready)
            self._tell(ready)
            ready = raft.ready()
        self.world.checker.after_turn(self)
        self._end_turn(raft)

    def _end_turn(self, raft: Raft) -> None:
        self._note_turn(raft)
        self.heard = []
        self._set_timer()
        self.listener.poke()

    def _note_turn(self, raft: Raft) -> None:
        log, now_ms = raft.log, self.world.timeline.now_ms
        words = [type(message).__name__ for message in self.heard]
        self.world.trace.turn(
            now_ms, self.id, words, raft.role.epoch, log.start, log.leo, log.flushed, log.high_watermark
        )

    def _tell(self, ready: Ready) -> None:
        for change in ready.transitions:
            self.world.note(self.id, change.before, "→", change.after, change.epoch, change.reason)
        if ready.leadership is not None:
            self.leadership = ready.leadership
        if ready.high_watermark is not None or ready.leadership is not None:
            self._end_calls()

    def _end_calls(self) -> None:
        raft = self.raft
        assert raft is not None
        role, end = raft.role, raft.log.high_watermark
        for waiting in self.pending:
            if not isinstance(role, Leader) or role.epoch != waiting.epoch:
                waiting.call.end("unknown", "leads no more")
            elif waiting.end_offset <= end:
                waiting.call.end("ok", waiting.end_offset)
        self.pending = [waiting for waiting in self.pending if not waiting.call.is_ended]

    def _set_timer(self) -> None:
        deadline = None if self.raft is None else self.raft.deadline
        if deadline is None or deadline == self._tick_at:
            return
        self._tick_at, life = deadline, self.life
        early = self.world.happens(self.world.plan.early_tick, "S-26")
        delay_ms = self.clock.delay_until(deadline)

        def tick() -> None:
            if self.life == life and self._tick_at == deadline and self.raft is not None:
                self._tick_at = None
                self.hear(lambda raft: raft.tick(self.turn_ms))

        self.world.at(self._random.randrange(delay_ms + 1) if early else delay_ms, tick)

    # Its controller.

    def take_snapshot(self, *, then_cut: bool) -> None:
        """The controller's state as a checkpoint; then, perhaps, the log before it is removed."""

        def deed(raft: Raft) -> None:
            log, offset = raft.log, self.listener.next
            if offset <= log.start or offset > log.high_watermark:
                return
            snapshot = self.listener.snapshot(log)
            if snapshot is None or snapshot.id in log.snapshots:
                return
            self.world.checker.before_snapshot(self, snapshot)
            self._work = self._snapshot(raft, snapshot, then_cut=then_cut)

        if self.raft is not None and self._work is None and not self._inbox and not self._is_paused():
            self.turn_ms = self.clock.now_ms
            deed(self.raft)
            if self._work is not None:
                self._advance()
                self._run()

    def _snapshot(self, raft: Raft, snapshot: Snapshot, *, then_cut: bool) -> Iterator[str]:
        yield from self._driver.synced(self.disk.write_snapshot(snapshot))
        self.world.fired("S-24")
        raft.snapshot_taken(snapshot.id, len(snapshot.encode()))
        self.world.note(self.id, "snapshot", snapshot.id.epoch, snapshot.id.offset)
        if then_cut and raft.log.flushed >= snapshot.id.offset:
            self.disk.cut_prefix(snapshot.id)
            raft.log_started(snapshot.id)
            yield "log.cut"
        yield from self._turn(raft, raft.ready())
