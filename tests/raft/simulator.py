"""A cluster under faults, all drawn from one seed: clock, wire, disks, crashes, partitions, clients."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from quorate.nouns import NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft import Batch, Ready, Send, Settings, VoterSet
from quorate.raft.messages import Request, Response, VoteRequest, VoteResponse
from quorate.raft.roles import Leader, election_state
from tests.raft.checkers import ClusterChecker, require
from tests.raft.cluster import Node, encode_snapshot

FAULTY_MS = 15_000
HEALED_MS = 12_000
"""Election backoffs, request and fetch timeouts of healthy nodes all fit in here several times."""


@dataclass(frozen=True)
class Faults:
    """How bad it is: chances out of 1000, drawn once a seed so that some classes are off."""

    loss: int
    duplicate: int
    delay_ms: int
    crash_in_write: int
    flush_ms: int
    crash_every_ms: int
    cut_every_ms: int
    snapshot_every_ms: int

    @classmethod
    def drawn(cls, random: Random) -> Faults:
        def perhaps(value: int) -> int:
            return value if random.random() < 0.6 else 0

        return cls(
            loss=perhaps(random.randrange(200)),
            duplicate=perhaps(random.randrange(300)),
            delay_ms=random.choice([2, 20, 150]),
            crash_in_write=perhaps(random.randrange(20)),
            flush_ms=random.choice([0, 5, 80, 400]),
            crash_every_ms=perhaps(random.choice([1_500, 4_000])),
            cut_every_ms=perhaps(random.choice([1_500, 4_000])),
            snapshot_every_ms=perhaps(1_000),
        )


@dataclass(frozen=True)
class Route:
    """Where the answer to a request goes: which life of which node waits for it, under which number."""

    node_id: NodeId
    life: int
    token: object
    request: Request


@dataclass
class Simulation:
    """One seed's run. `run` raises whatever invariant breaks."""

    seed: int
    random: Random = field(init=False)
    faults: Faults = field(init=False)
    nodes: dict[NodeId, Node] = field(init=False)
    checker: ClusterChecker = field(init=False)
    now_ms: int = 0
    is_healed: bool = False
    event_count: int = 0
    crash_count: int = 0
    append_count: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.faults = Faults.drawn(self.random)
        voter_count = self.random.choice([1, 2, 3, 3, 3, 3, 4, 5])
        voters = VoterSet.of(*range(1, voter_count + 1))
        ids = range(1, voter_count + 1 + self.random.randrange(2))
        settings = Settings(
            fetch_max_bytes=self.random.choice([1, 5, 100]),
            snapshot_max_bytes=self.random.choice([50, 1_000]),
            fetch_max_wait_ms=self.random.choice([200, 500]),
            commit_wait_ms=(0, 0, 0, 5)[self.seed % 4],
            observer_wait_ms=(0, 0, 0, 20)[self.seed % 4],
        )
        self.nodes = {id: Node(ReplicaKey(id), voters, settings, Random(self.random.random())) for id in ids}
        self.checker = ClusterChecker(voters)
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.ticks: dict[NodeId, int | None] = {}
        self.flushing: set[tuple[NodeId, int]] = set()

    def run(self) -> None:
        """Faults first; then everything is healed, and the cluster must agree and commit again."""
        for node in self.nodes.values():
            self.start(node)
        self.every(40, self.append)
        self.every(self.faults.crash_every_ms, self.crash_any)
        self.every(self.faults.cut_every_ms, self.change_cuts)
        self.every(self.faults.snapshot_every_ms, self.snapshot_any)
        self.every(7_000, self.resign_any)
        self.until(FAULTY_MS)
        self.heal()
        self.until(FAULTY_MS + HEALED_MS)
        self.judge_liveness()

    # Time.

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.event_count += 1
        heapq.heappush(self.queue, (self.now_ms + delay_ms, self.event_count, action))

    def every(self, mean_ms: int, action: Callable[[], None]) -> None:
        if not mean_ms:
            return

        def again() -> None:
            if not self.is_healed:
                action()
                self.at(1 + self.random.randrange(2 * mean_ms), again)

        self.at(1 + self.random.randrange(2 * mean_ms), again)

    def until(self, end_ms: int) -> None:
        while self.queue and self.queue[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self.queue)
            action()
        self.now_ms = end_ms

    # Processes and disks.

    def start(self, node: Node) -> None:
        if node.raft is None:
            node.start(self.now_ms)
            self.after(node)

    def crash(self, node: Node) -> None:
        if node.raft is None:
            return
        self.crash_count += 1
        node.crash()
        self.ticks.pop(node.id, None)
        self.checker.after_crash(self.nodes)
        for peer in self.nodes.values():  # streams are reset, unless the whole machine is gone
            if self.random.random() < 0.5:
                self.at(self.random.randrange(5), lambda peer=peer: self.lose_peer(peer, node.id))  # type: ignore[misc]
        if not self.is_healed:
            self.at(self.random.randrange(3_000), lambda: self.start(node))

    def lose_peer(self, node: Node, peer_id: NodeId) -> None:
        if node.raft is not None and node.id != peer_id:
            node.raft.peer_lost(peer_id, self.now_ms)
            self.after(node)

    def after(self, node: Node) -> None:
        """The driver's five lines, with a crash between any two of them."""
        while node.raft is not None:
            ready = node.raft.ready()
            if not ready:
                break
            self.checker.before_writing(node, ready)
            for step in node.carry_out(ready):
                if step == "persist":
                    self.checker.after_persisting(node)
                if not self.is_healed and self.random.randrange(1000) < self.faults.crash_in_write:
                    self.crash(node)
                    return
            self.send(node, ready)
            if ready.chunk is not None and ready.chunk.is_last:
                node.raft.snapshot_complete(ready.chunk.snapshot_id, None, self.now_ms)
            self.flush(node)
        self.checker.after_event(self.nodes, node)
        self.schedule_tick(node)

    def schedule_tick(self, node: Node) -> None:
        deadline = None if node.raft is None else node.raft.deadline
        if deadline is None or self.ticks.get(node.id) == deadline:
            return
        self.ticks[node.id] = deadline
        life = node.life

        def tick() -> None:
            if node.raft is not None and node.life == life and self.ticks.get(node.id) == deadline:
                self.ticks[node.id] = None
                node.raft.tick(self.now_ms)
                self.after(node)

        self.at(max(0, deadline - self.now_ms), tick)

    def flush(self, node: Node) -> None:
        """Begins a flush if there is something to be flushed and none is under way."""
        life, end = node.life, node.disk.leo
        if end == node.disk.flushed or (node.id, life) in self.flushing:
            return
        self.flushing.add((node.id, life))

        def done() -> None:
            self.flushing.discard((node.id, life))
            if node.raft is not None and node.life == life:
                node.disk.flushed = end
                node.raft.flushed(end, self.now_ms)
                self.after(node)

        self.at(self.random.randrange(self.faults.flush_ms + 1) if not self.is_healed else 1, done)

    # The wire.

    def send(self, node: Node, ready: Ready) -> None:
        for answer in ready.answers:
            route = answer.reply_to
            assert isinstance(route, Route), answer
            if isinstance(answer, VoteResponse) and isinstance(route.request, VoteRequest):
                self.checker.before_answering(node, route.request, answer)
            self.carry(node.id, route.node_id, self.delivery(route, node.fill(answer)))
        for sent in ready.requests:
            self.carry(node.id, sent.to, self.request(node, sent))

    def request(self, node: Node, sent: Send) -> Callable[[], None]:
        route = Route(node.id, node.life, sent.request.reply_to, sent.request)
        target = self.nodes[sent.to]

        def arrive() -> None:
            if target.raft is None:
                return
            before, is_due = election_state(target.raft.role), (target.raft.deadline or self.now_ms) <= self.now_ms
            target.raft.step(replace(sent.request, reply_to=route), self.now_ms)
            if isinstance(sent.request, VoteRequest) and sent.request.pre_vote and not is_due:
                after = election_state(target.raft.role)
                is_kept = after == before or sent.request.epoch > before.epoch
                require(is_kept, "I-05 a pre-vote changes nothing", target.id, before, after)
            self.after(target)

        return arrive

    def delivery(self, route: Route, answer: Response) -> Callable[[], None]:
        target = self.nodes[route.node_id]

        def arrive() -> None:
            if target.raft is not None and target.life == route.life:
                target.raft.step(replace(answer, reply_to=route.token), self.now_ms)
                self.after(target)

        return arrive

    def carry(self, source: NodeId, target: NodeId, arrive: Callable[[], None]) -> None:
        faults, random = self.faults, self.random
        if self.is_healed:
            self.at(1, arrive)
            return
        if (source, target) in self.cut or random.randrange(1000) < faults.loss:
            return
        for _ in range(2 if random.randrange(1000) < faults.duplicate else 1):
            tail = 20 if random.randrange(100) == 0 else 1
            self.at(1 + random.randrange(faults.delay_ms) * tail, arrive)

    def change_cuts(self) -> None:
        """Heals all, or cuts some links, each way on its own."""
        ids = list(self.nodes)
        self.cut = set()
        match self.random.randrange(4):
            case 0:
                lonely = self.random.choice(ids)
                self.cut = {(a, b) for a in ids for b in ids if lonely in (a, b)}
            case 1:
                half = set(self.random.sample(ids, len(ids) // 2))
                self.cut = {(a, b) for a in ids for b in ids if (a in half) != (b in half)}
            case 2:
                self.cut = {(a, b) for a in ids for b in ids if self.random.random() < 0.3}
            case _:
                pass

    # Work.

    def append(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if node.raft is None or not isinstance(node.raft.role, Leader):
            return
        self.append_at(node)

    def append_at(self, node: Node) -> None:
        self.append_count += 1
        base_offset, epoch = node.core.log.leo, node.core.role.epoch
        last_offset = base_offset + self.random.randrange(3)
        data = f"v{self.append_count}"
        batch = Batch(base_offset=base_offset, last_offset=last_offset, epoch=epoch, data=data)
        assert node.core.append([batch], self.now_ms) is None
        self.after(node)

    def resign_any(self) -> None:
        for node in self.nodes.values():
            if node.raft is not None and node.raft.resign(self.now_ms):
                self.after(node)

    def crash_any(self) -> None:
        if self.random.randrange(8) == 0:
            for node in self.nodes.values():
                self.crash(node)
        else:
            self.crash(self.random.choice(list(self.nodes.values())))

    def snapshot_any(self) -> None:
        """A node writes a snapshot of what is committed; half of the time it forgets the log before."""
        node = self.random.choice(list(self.nodes.values()))
        if node.raft is None:
            return
        log, disk = node.raft.log, node.disk
        ends = [batch.end_offset for batch in disk.batches if batch.end_offset <= min(log.high_watermark, log.flushed)]
        if not ends:
            return
        offset = self.random.choice(ends[-3:])
        snapshot_id = OffsetAndEpoch(epoch=log.epochs.epoch_at(offset - 1), offset=offset)
        disk.snapshots[snapshot_id] = encode_snapshot(disk.records(below=offset))
        node.raft.snapshot_taken(snapshot_id, len(disk.snapshots[snapshot_id]))
        if self.random.randrange(2):
            disk.cut_prefix(snapshot_id)
            node.raft.log_started(snapshot_id)
        self.after(node)

    # The end.

    def heal(self) -> None:
        self.is_healed = True
        self.cut = set()
        for node in self.nodes.values():
            self.start(node)

    def judge_liveness(self) -> None:
        """One leader, everybody has its log, and something new is committed."""
        leaders = [node for node in self.nodes.values() if isinstance(node.core.role, Leader)]
        require(len(leaders) == 1, "I-69 one leader once healed", [node.core.role for node in self.nodes.values()])
        before = len(self.checker.committed)
        self.append_at(leaders[0])
        self.until(self.now_ms + 3_000)
        end = leaders[0].core.log.leo
        require(len(self.checker.committed) == end > before, "I-69 commits go on", before, end)
        states = {node.id: (node.core.log.last, node.core.log.high_watermark) for node in self.nodes.values()}
        expected = (leaders[0].core.log.last, end)
        require(set(states.values()) == {expected}, "I-70 everybody follows", states, expected)
        for node in self.nodes.values():
            require(node.disk.records() == self.checker.committed, "I-21 logs agree once healed", node.id)
