"""Scripts of the protocol: commands above the line, what came of them below.

Each file in `scenarios/` is a list of blocks: commands, a line of dashes, the expected output, an empty line. The
wire is instant and in order, every node has a clock of its own, and nothing happens but what is commanded. To
write the outputs anew after a change that was meant: `python -m tests.raft.scenario`; the diff is the review.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from msgspec.structs import replace

from quorate.nouns import NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft import BatchInfo, LeaderChange, RaftSettings, Ready, Send, VoterSet
from quorate.raft.invariants import check
from quorate.raft.messages import Message, Response
from quorate.raft.roles import Leader
from tests.raft import leader_verbs
from tests.raft.cluster import Node, as_batch, decode_header
from tests.raft.telling import describe, ends, names, with_short_names
from tests.raft.voter_verbs import ADMIN, VERBS

SCENARIOS = Path(__file__).parent / "scenarios"
LINE = "----"
ALL_VERBS = {**VERBS, **leader_verbs.VERBS}
DELIVERIES_MAX = 2_000
"""More in one command would be two nodes that answer each other for ever."""


@dataclass(frozen=True)
class Block:
    """Commands, comments included, and the output that they are to have."""

    commands: tuple[str, ...]
    output: tuple[str, ...]


def parse(text: str) -> Iterator[Block]:
    for chunk in re.split(r"\n\n+", text.strip()):
        above, _, below = f"{chunk}\n".partition(f"\n{LINE}\n")
        yield Block(tuple(above.splitlines()), tuple(below.splitlines()))


def play(text: str) -> str:
    """The script with the outputs that it has now."""
    script = Script()
    blocks = []
    for block in parse(text):
        for command in block.commands:
            script.run(command)
        lines = [*block.commands, LINE, *script.take_output()] if script.has_run(block.commands) else block.commands
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


@dataclass
class Script:
    """A cluster that follows commands."""

    nodes: dict[NodeId, Node] = field(default_factory=dict)
    clocks: dict[NodeId, int] = field(default_factory=dict)
    wire: list[tuple[NodeId, NodeId, Message]] = field(default_factory=list)
    cut: set[NodeId] = field(default_factory=set)
    held: set[NodeId] = field(default_factory=set)
    doomed: str | None = None
    latency_ms: int = 0
    """How long a message takes; then it arrives only while time goes by."""
    elapsed_ms: int = 0
    air: list[tuple[int, NodeId, NodeId, Message]] = field(default_factory=list)
    """Messages on their way, by when they arrive."""
    killed: set[NodeId] = field(default_factory=set)
    """Nodes that are down and say so: a connection to them is refused."""
    old: set[NodeId] = field(default_factory=set)
    """Nodes that know no pre-vote."""
    output: list[str] = field(default_factory=list)
    shows: bool = False
    judge: Callable[[Node, Ready], None] | None = None
    """Is shown what a node has just written, before anything is sent."""

    def has_run(self, commands: tuple[str, ...]) -> bool:
        return any(command and not command.startswith("#") for command in commands)

    def take_output(self) -> list[str]:
        lines, self.output = self.output, []
        return [with_short_names(line) for line in lines] or ["ok"]

    def run(self, command: str) -> None:
        if not command or command.startswith("#"):
            return
        verb, *words = command.split()
        verbs: dict[str, Callable[..., None]] = {
            "start": self.start,
            "restart": self.restart,
            "crash": self.crash,
            "timeout": self.timeout,
            "advance": self.advance,
            "append": self.append,
            "resign": self.resign,
            "lost": self.lost,
            "cut": self.cut_off,
            "lose": self.lose,
            "heal": self.heal,
            "hold": self.hold,
            "flush": self.flush,
            "snapshot": self.snapshot,
            "state": self.state,
            "log": self.log,
            "describe": self.describe,
            "show": self.show,
        }
        if verb in ALL_VERBS:
            ALL_VERBS[verb](self, *words)
        else:
            verbs[verb](*words)
        self.settle()

    # Verbs.

    def start(self, *words: str) -> None:
        """start voters=1,2,3 [observers=4] [chunk=30] [commit_wait=5] [observer_wait=20]: fresh nodes at time 0."""
        options = dict(word.split("=") for word in words)
        ids = [int(id) for id in options["voters"].split(",")]
        observers = [int(id) for id in options.get("observers", "").split(",") if id]
        settings = RaftSettings(
            snapshot_max_bytes=int(options.get("chunk", 1_000)),
            fetch_max_bytes=100,
            commit_wait_ms=int(options.get("commit_wait", 0)),
            observer_wait_ms=int(options.get("observer_wait", 0)),
        )
        for id in ids + observers:
            self.nodes[id] = Node(ReplicaKey(id), VoterSet.of(*ids), settings, Random(id))
            self.clocks[id] = 0
        for id in self.nodes:
            self.restart(str(id))

    def restart(self, id: str) -> None:
        node = self.nodes[int(id)]
        self.killed.discard(node.id)
        node.start(self.clocks[node.id])
        self.after(node)

    def crash(self, id: str) -> None:
        """All that was not flushed is lost."""
        node = self.nodes[int(id)]
        node.raft = None
        lost = node.disk.leo - node.disk.flushed
        while node.disk.leo > node.disk.flushed:
            node.disk.batches.pop()
        self.held.discard(node.id)
        self.output.append(f"{id}: down" + (f", {lost} unflushed lost" if lost else ""))

    def timeout(self, id: str) -> None:
        """The node's clock runs until it has changed its role."""
        node = self.nodes[int(id)]
        role = node.core.role
        while node.core.role is role:
            self.tick_to_deadline(node)

    def advance(self, ms: str) -> None:
        """All clocks run on, in step."""
        left_ms = int(ms)
        while True:
            due = [
                (max(0, node.raft.deadline - self.clocks[id]), id)
                for id, node in self.nodes.items()
                if node.raft is not None and node.raft.deadline is not None
            ]
            due += [(arrives_ms - self.elapsed_ms, ADMIN) for arrives_ms, *_ in self.air]
            step_ms, id = min(due, default=(left_ms + 1, ADMIN))
            if step_ms > left_ms:
                break
            left_ms -= step_ms
            self.pass_time(step_ms)
            if id != ADMIN:
                self.tick_to_deadline(self.nodes[id])
            self.settle()
        self.pass_time(left_ms)

    def pass_time(self, ms: int) -> None:
        self.elapsed_ms += ms
        self.clocks = {id: clock + ms for id, clock in self.clocks.items()}

    def tick_to_deadline(self, node: Node) -> None:
        deadline = node.core.deadline
        assert deadline is not None
        self.clocks[node.id] = max(self.clocks[node.id], deadline)
        node.core.tick(self.clocks[node.id])
        self.after(node)

    def append(self, id: str, data: str, count: str = "1") -> None:
        node = self.nodes[int(id)]
        base_offset = node.core.log.leo
        last_offset = base_offset + int(count) - 1
        batch = BatchInfo(base_offset=base_offset, last_offset=last_offset, epoch=node.core.role.epoch, data=data)
        refusal = node.core.append([batch], self.clocks[node.id])
        if refusal is not None:
            self.output.append(
                f"{id}: refused {data}: {refusal.error.name}, leader={refusal.leader_id} epoch={refusal.epoch}"
            )
        self.after(node)

    def resign(self, id: str) -> None:
        node = self.nodes[int(id)]
        node.core.resign(self.clocks[node.id])
        self.after(node)

    def lost(self, id: str, peer: str) -> None:
        """The node's stream to `peer` is reset."""
        node = self.nodes[int(id)]
        node.core.peer_lost(int(peer), self.clocks[node.id])
        self.after(node)

    def cut_off(self, *ids: str) -> None:
        """Nothing reaches or leaves these nodes."""
        self.cut |= {int(id) for id in ids}

    def lose(self, *words: str) -> None:
        """Messages that are described by these words are lost."""
        self.doomed = " ".join(words)

    def heal(self) -> None:
        self.cut.clear()
        self.doomed = None

    def hold(self, id: str) -> None:
        """The node's disk stops flushing."""
        self.held.add(int(id))

    def flush(self, id: str) -> None:
        self.held.discard(int(id))
        self.after(self.nodes[int(id)])

    def snapshot(self, id: str, offset: str) -> None:
        """The node writes a snapshot that ends at `offset`, and forgets the log below."""
        node = self.nodes[int(id)]
        end = int(offset)
        snapshot_id = OffsetAndEpoch(epoch=node.core.log.epochs.epoch_at(end - 1), offset=end)
        node.disk.snapshots[snapshot_id] = node.snapshot(end)
        node.core.snapshot_taken(snapshot_id, len(node.disk.snapshots[snapshot_id]))
        node.disk.cut_prefix(snapshot_id)
        node.core.log_started(snapshot_id)
        self.after(node)

    def show(self, what: str) -> None:
        """show messages | show nothing"""
        self.shows = what == "messages"

    def state(self) -> None:
        for id, node in self.nodes.items():
            if node.raft is None:
                self.output.append(f"{id} down")
                continue
            role, log = node.raft.role, node.raft.log
            unflushed = "" if log.flushed == log.leo else f" flushed={log.flushed}"
            start = f" start={log.start}" if log.start else ""
            voted = "" if role.voted is None else f" voted={role.voted}"
            self.output.append(
                f"{id} {type(role).__name__} epoch={role.epoch} leader={role.leader_id}{voted}"
                f"{start} leo={log.leo}{unflushed} hw={log.high_watermark}"
            )

    def log(self, id: str) -> None:
        rows = self.nodes[int(id)].disk.records()
        self.output.append("   ".join(f"{offset} e{epoch} {data}" for offset, epoch, data in rows))

    def describe(self, id: str) -> None:
        node = self.nodes[int(id)]
        quorum = node.core.describe(self.clocks[node.id])
        self.output.append(f"leader={quorum.leader_id} epoch={quorum.epoch} hw={quorum.high_watermark}")
        for kind, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
            self.output += [
                f"{kind} {state.key} leo={state.leo} "
                f"fetched={state.last_fetch_at_ms} caught-up={state.last_caught_up_at_ms}"
                for state in replicas
            ]

    # How it goes.

    def after(self, node: Node) -> None:
        """The driver's loop, with an instant disk unless it is held."""
        while node.raft is not None:
            ready = node.raft.ready()
            if not ready and (node.disk.flushed == node.disk.leo or node.id in self.held):
                break
            self.tell(node, ready)
            for _ in node.carry_out(ready):
                pass
            if self.judge is not None:
                self.judge(node, ready)
            self.wire += [(node.id, *self.addressed(node, answer)) for answer in ready.answers]
            self.wire += [(node.id, sent.to, self.asked(node, sent)) for sent in ready.requests]
            if ready.chunk is not None and ready.chunk.is_last:
                header = decode_header(node.disk.snapshots[ready.chunk.snapshot_id])
                version = header.kraft_version
                node.raft.snapshot_complete(
                    ready.chunk.snapshot_id, header.voters, self.clocks[node.id], kraft_version=version
                )
            if node.id not in self.held and node.disk.flushed < node.disk.leo:
                node.disk.flushed = node.disk.leo
                node.raft.flushed(node.disk.leo, self.clocks[node.id])
        check(node.core)

    def asked(self, node: Node, sent: Send) -> Message:
        return replace(sent.request, reply_to=(node.id, node.life, sent.request.reply_to))

    def addressed(self, node: Node, answer: Response) -> tuple[NodeId, Message]:
        assert isinstance(answer.reply_to, tuple)
        return answer.reply_to[0], node.fill(answer)

    def settle(self) -> None:
        """Delivers what is on the wire until nothing is, or everything is still on its way."""
        for _ in range(DELIVERIES_MAX):
            self.air += [(self.elapsed_ms + self.latency_ms, *sent) for sent in self.wire]
            self.wire.clear()
            if not self.air or self.air[0][0] > self.elapsed_ms:
                return
            _, source, target, message = self.air.pop(0)
            if target == ADMIN:
                self.output.append(f"{source} → admin {describe(message)}")
                continue
            node = self.nodes[target]
            is_doomed = self.doomed is not None and self.doomed in describe(message)
            if source in self.cut or target in self.cut or node.raft is None or is_doomed:
                if self.shows:
                    self.output.append(f"{source} → {target} {describe(message)}: lost")
                leader_verbs.refuse_connection(self, source, target, message)
                continue
            if isinstance(message, Response):
                assert isinstance(message.reply_to, tuple)
                _, life, token = message.reply_to
                if life != node.life:
                    continue
                message = replace(message, reply_to=token)
            if self.shows:
                self.output.append(f"{source} → {target} {describe(message)}")
            refusal = leader_verbs.answer_as_old(self, target, message)
            if refusal is not None:
                self.wire.append((target, source, refusal))
                continue
            node.core.step(message, self.clocks[target])
            self.after(node)
        raise AssertionError(f"more than {DELIVERIES_MAX} messages: {self.air[:5]}")

    def tell(self, node: Node, ready: Ready) -> None:
        for transition in ready.transitions:
            before = "" if transition.before == "Start" else f"{transition.before} → "
            self.output.append(f"{node.id}: {before}{transition.after} epoch={transition.epoch} ({transition.reason})")
        if ready.truncate_to is not None:
            self.output.append(f"{node.id}: truncated {node.disk.leo} → {ready.truncate_to}")
        if ready.install is not None:
            self.output.append(f"{node.id}: installed snapshot {ends(ready.install)}")
        for entry in map(as_batch, ready.append):
            if entry.voters is not None:
                self.output.append(f"{node.id}: voters {names(entry.voters)} from offset {entry.base_offset}")
        if self.shows and ready.append and not isinstance(node.core.role, Leader):
            first, last = ready.append[0], ready.append[-1]
            kind = " leader-change" if isinstance(first, LeaderChange) else ""
            self.output.append(f"{node.id}: appended {first.base_offset}..{last.end_offset}{kind}")
        if self.shows and ready.high_watermark is not None:
            self.output.append(f"{node.id}: high watermark {ready.high_watermark}")


def rewrite(paths: list[Path]) -> None:
    for path in paths or sorted(SCENARIOS.glob("*.txt")):
        path.write_text(play(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    rewrite([Path(name) for name in sys.argv[1:]])
