"""Carries calls to controllers, and judges what is answered: I-39 … I-42, I-70.

The order of the log is the order in which operations count. Each answer names the offset whose state it speaks of; so
a history is linearizable if that state bears out the answer, and if no offset lies below one that was known before
the call was made. Both are judged at each answer, for every operation that has an entry in `judging`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft import Message
from quorate.nouns import Offset
from tests.sim.invariants.base import Ledger, require
from tests.sim_controller.calls import OK, REFUSED, UNKNOWN, Call
from tests.sim_controller.controller import active
from tests.sim_controller.judging import judge_answer, written

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim_controller.world import ControllerWorld

DEADLINE_MS = 3_000


class AdminOracle:
    """Every call that was ever made, and its end."""

    def __init__(self, world: ControllerWorld) -> None:
        self._world = world
        self._random = world.stream("calls")
        self.calls: list[Call] = []
        self._open: list[Call] = []
        self.ok_count = self.read_count = self.lost_leader_count = 0
        self._known_end: Offset = 0
        """The highest offset that anybody was answered with."""

    def ask(self, call: Call, target: Node | None = None) -> None:
        """One request on its way, to whom the asker believes to be active."""
        world = self._world
        call.asked_ms, call.asked_end = world.timeline.now_ms, self._known_end
        self.calls.append(call)
        self._open.append(call)
        world.at(DEADLINE_MS, lambda: call.end(UNKNOWN))
        node = target or self._target()
        world.carry(lambda: self._arrive(node, call))

    def append(self, node: Node) -> Call:
        """One write at `node`, for the judge of liveness."""
        call = self._world.admins.probe()
        self.ask(call, node)
        return call

    def _target(self) -> Node:
        there = active(self._world)
        nodes = [each.node for each in there if each.node.raft is not None]
        if nodes and self._random.random() < 0.95:
            return max(nodes, key=lambda node: node.raft.role.epoch if node.raft else 0)
        return self._random.choice(list(self._world.nodes.values()))

    def _arrive(self, node: Node, call: Call) -> None:
        controller = self._world.controller_of(node)
        if controller is not None and not call.is_ended:
            controller.serve(call)

    # Judging.

    def after_answer(self, call: Call) -> None:
        """At the moment at which it is given."""
        self._world.history.catch_up()
        ledger: Ledger = self._world.checker.ledger
        require(
            call.offset <= ledger.end, "I-41", "answered before it is committed", call.what, call.offset, ledger.end
        )
        if call.is_read or call.records:
            known, offset = call.asked_end, call.offset
            require(offset >= known, "I-40", "who asks later sees no less", call.what, offset, known)
        self._known_end = max(self._known_end, call.offset)
        self.ok_count += 1
        self.read_count += call.is_read
        self._judge_written(call)
        if call.base >= 0:
            judge_answer(self._world.history, call)
        else:
            self._world.tally["answered as before"] += 1

    def _judge_written(self, call: Call) -> None:
        """I-41: what was acknowledged is in the log, where it was said to be."""
        if not call.records:
            return
        start, end = call.base, call.base + len(call.records)
        found = written(self._world.checker.ledger, start, end)
        expected = tuple(map(_plain, call.records))
        require(
            tuple(map(_plain, found)) == expected, "I-41", "what was acknowledged is written", call.what, start, end
        )

    def check_polls(self) -> None:
        """I-70: nobody waits beyond the deadline."""
        now_ms = self._world.timeline.now_ms
        self._open = [call for call in self._open if not call.is_ended]
        late = [call.what for call in self._open if call.asked_ms + DEADLINE_MS < now_ms]
        require(not late, "I-70", "a call outlives its deadline", late)

    def judge(self, ledger: Ledger) -> None:
        """At the end, over everything that is committed."""
        for call in self.calls:
            if call.outcome == OK:
                self._judge_written(call)
        self._world.admins.judge(ledger)

    def counts(self) -> dict[str, int]:
        """How the calls have ended."""
        ends = [call.outcome for call in self.calls]
        return {
            "calls answered": self.ok_count,
            "reads answered": self.read_count,
            "calls refused": ends.count(REFUSED),
            "calls unknown": ends.count(UNKNOWN),
        }


def _plain(record: Message) -> tuple[str, str]:
    """A record without the marks that travel with it."""
    fields = {name: getattr(record, name) for name in record.__struct_fields__ if name != "unknown_tags"}
    return type(record).__name__, repr(fields)
