"""The clients and what they may believe: an acknowledged append is there for ever, a refused one never was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.sim.invariants.base import require

if TYPE_CHECKING:
    from tests.sim.invariants.base import Ledger
    from tests.sim.node import Node
    from tests.sim.world import World

DEADLINE_MS = 3_000


@dataclass(eq=False)
class Call:
    """One append. `outcome` is ok, refused or unknown once it has ended."""

    oracle: Oracle
    texts: tuple[str, ...]
    deadline_ms: int
    outcome: str = ""
    end_offset: int = -1

    @property
    def is_ended(self) -> bool:
        return bool(self.outcome)

    def end(self, outcome: str, detail: object) -> None:
        """The answer to the client; the first word counts."""
        if self.outcome:
            return
        self.outcome = outcome
        if outcome == "ok":
            assert isinstance(detail, int), detail
            self.end_offset = detail
            self.oracle.after_ok(self)


class Oracle:
    """Every call that was ever made, and its end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.stream("clients")
        self.calls: list[Call] = []
        self.open: list[Call] = []
        self.ok_count = 0

    def append_somewhere(self) -> None:
        """One client's turn: it asks whom it believes to lead, seldom anybody."""
        world, random = self._world, self._random
        leaders = [node for node in world.nodes.values() if node.is_leader]
        nodes = leaders if leaders and random.random() < 0.95 else [node for node in world.nodes.values() if node.is_up]
        if nodes:
            self.append(random.choice(nodes))

    def append(self, node: Node) -> Call:
        """One append at `node`."""
        world, number = self._world, len(self.calls)
        texts = tuple(f"r{number}.{at}" for at in range(1 + self._random.randrange(8)))
        wait_ms = 0 if world.happens(world.plan.no_deadline, "S-27") else DEADLINE_MS
        call = Call(self, texts, world.timeline.now_ms + wait_ms)
        self.calls.append(call)
        self.open.append(call)
        world.at(wait_ms, lambda: call.end("unknown", "deadline"))
        node.submit(call)
        return call

    def read_somewhere(self) -> None:
        """A reader looks at any controller's state: it must be the state after some committed prefix."""
        nodes = [node for node in self._world.nodes.values() if node.is_up]
        if nodes:
            node = self._random.choice(nodes)
            assert node.raft is not None
            offset, image = node.listener.state(node.raft)
            ledger = self._world.checker.ledger
            require(offset <= ledger.end, "I-39", "a read shows what is committed only", node.id, offset, ledger.end)
            require(image == ledger.images[offset], "I-39", "a read shows another state", node.id, offset)

    def after_ok(self, call: Call) -> None:
        """Judges an acknowledgement at the moment it is given."""
        ledger, end = self._world.checker.ledger, call.end_offset
        self.ok_count += 1
        require(end <= ledger.end, "I-41", "acknowledged before it is committed", call.texts, end, ledger.end)
        self._judge_ok(ledger, call)

    def check_polls(self) -> None:
        """I-70: nobody waits beyond the deadline."""
        now_ms = self._world.timeline.now_ms
        late = [call for call in self.open if not call.is_ended and call.deadline_ms < now_ms]
        require(not late, "I-70", "a call outlives its deadline", [(call.texts, call.deadline_ms) for call in late])
        self.open = [call for call in self.open if not call.is_ended]

    def judge(self, ledger: Ledger) -> None:
        """At the end: every acknowledged text where it was said to be, no refused one, no unknown one, none twice."""
        committed = [text.split("@")[0] for _, text in ledger.cells if text[0] == "r"]
        found = set(committed)
        require(len(found) == len(committed), "I-42", "a text is committed twice", len(committed), len(found))
        asked = {text for call in self.calls for text in call.texts}
        require(found <= asked, "I-42", "a text that nobody wrote", sorted(found - asked)[:3])
        for call in self.calls:
            if call.outcome == "ok":
                self._judge_ok(ledger, call)
            elif call.outcome == "refused":
                require(found.isdisjoint(call.texts), "I-41", "a refused append is committed", call.texts)

    @staticmethod
    def _judge_ok(ledger: Ledger, call: Call) -> None:
        start = call.end_offset - len(call.texts)
        held = tuple(text.split("@")[0] for _, text in ledger.cells[start : call.end_offset])
        require(held == call.texts, "I-41", "an acknowledged append is not there", call.texts, held, call.end_offset)
