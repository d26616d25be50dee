"""I-37, I-38, I-90: every controller's state is what the records make of it, whichever way it has come by them.

Beside each engine goes a model of the checker's. After each batch the partitions that it touches are compared; the
whole state by its canonical hash every few batches, and whenever one loads, makes a checkpoint or goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kraft import Message
from quorate.controller.engine.decision import Decision
from quorate.controller.engine.engine import Append, Engine
from quorate.metadata.canonical import canonical
from quorate.metadata.partitions import Partition
from quorate.metadata.versions import LATEST
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch
from quorate.raft import BatchInfo
from quorate.records import AbortTransactionRecord, FeatureLevelRecord
from tests.sim.invariants.base import require
from tests.sim_controller.cells import unpacked
from tests.sim_controller.invariants import cluster, decisions
from tests.sim_controller.invariants.decisions import Decided
from tests.sim_controller.model import METADATA_FEATURE, Model, Part, Step

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim_controller.world import ControllerWorld

HASH_EVERY = 16
"""A whole state is hashed where a batch crosses a multiple of this."""


class Hashes:
    """The first hash that was seen after each (offset, epoch): logs that agree there agree below it."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Offset, Epoch], tuple[str, str]] = {}
        self.compared = 0

    def note(self, who: str, offset: Offset, epoch: Epoch, found: str, number: str) -> None:
        """Raises Violation if another state was there."""
        known, first = self._seen.setdefault((offset, epoch), (found, who))
        self.compared += first != who
        require(found == known, number, "one state at one offset", who, first, offset, epoch)


class Watched:
    """One controller's engine, and what it should be."""

    def __init__(self, world: ControllerWorld, node: Node, engine: Engine) -> None:
        self._world = world
        self._node = node
        self._engine = engine
        self.view = Model()
        self._stack: list[tuple[Offset, Model]] = []
        self._decided: dict[Offset, tuple[str, Any, Decision[Any]]] = {}
        self._must_abort = False
        self._hashed: list[tuple[Offset, Epoch, str]] = []
        """Of states that are not known to be committed: of what the quorum refuses, nothing is compared."""
        self._before_failing: tuple[Offset, str] | None = None

    @property
    def _who(self) -> str:
        return f"{self._node.id}.{self._node.life}"

    # On standby.

    def after_replay(self, records: Sequence[Message], batch: BatchInfo) -> None:
        """One committed batch was applied."""
        steps = cluster.run(self.view, records, batch.base_offset)
        self._compare(steps, "I-37")
        if _is_sampled(batch.base_offset, batch.end_offset):
            found = canonical(self._engine.state)
            self._world.hashes.note(self._who, batch.end_offset, batch.epoch, found, "I-37")

    def after_load(self, records: Sequence[Message], id: OffsetAndEpoch) -> None:
        """The state is a checkpoint's."""
        self._stack.clear()
        self.view = self._world.history.judge_checkpoint(records, id.offset)
        self._judge_hash(id.offset, "I-37", "a state from a checkpoint is that of the log")

    # Active.

    def before_claim(self) -> None:
        """It hears that it leads."""
        self._stack.clear()
        self._hashed.clear()
        self._decided.clear()
        self._must_abort = self.view.opened is not None

    def before_writing(self, what: str, request: Any, decision: Decision[Any], base: Offset) -> None:
        """A command has decided; its records may yet be refused."""
        self._decided[base] = (what, request, decision)

    def after_append(self, records: Sequence[Message], append: Append) -> None:
        """Applied here, and on its way."""
        base, end = append.base_offset, append.base_offset + len(records)
        if self._must_abort:
            is_abort = isinstance(records[0], AbortTransactionRecord)
            require(is_abort, "I-43", "a new active controller aborts what was left open, first", base, records[0])
            self._must_abort = False
            self._world.tally["transactions aborted"] += 1
        what, request, decision = self._decided.pop(base)
        is_begun = METADATA_FEATURE in self.view.levels or what == "activation"
        require(is_begun, "I-45", "nothing is written before there is a metadata.version", what, base, records)
        before = self.view.fork()
        self._stack.append((base, before))
        steps = cluster.run(self.view, records, base)
        decided = Decided(
            what=what,
            request=request,
            base_offset=base,
            records=decision.records,
            steps=steps,
            before=before,
            after=self.view,
        )
        decisions.judge(decided)
        if end == self._engine.next_offset:  # else more was decided anew at once
            self._compare(steps, "I-38")
            if _is_sampled(base, end):
                self._hashed.append((end, append.epoch, canonical(self._engine.state)))

    def after_commit(self) -> None:
        """What this controller made of its own records is what others make of them."""
        while self._hashed and self._hashed[0][0] <= self._engine.committed:
            self._world.hashes.note(self._who, *self._hashed.pop(0), "I-38")

    def before_failing(self) -> None:
        """A write is about to fail."""
        self._before_failing = self._engine.next_offset, canonical(self._engine.state)

    @property
    def is_to_fail(self) -> bool:
        """Is a write about to fail because the fault plan wants it?"""
        return self._before_failing is not None

    def after_failing(self) -> None:
        """I-90: nothing of it is left, be it half a batch."""
        offset, found = self._engine.next_offset, canonical(self._engine.state)
        if self._before_failing is not None:
            rule = "a write that failed leaves the state as it was"
            require((offset, found) == self._before_failing, "I-90", rule, self._who, offset, self._before_failing)
        self._before_failing = None
        self._decided.pop(offset, None)

    def before_going_back(self) -> None:
        """The quorum has refused what it was sent: back to what it has taken."""
        self._back_to(self._engine.appended)

    def after_refuse(self) -> None:
        """It stands where the quorum has taken all."""
        self._judge_facts("I-38", "what was refused never was")

    def before_renounce(self) -> None:
        """It leads no more."""
        if self._engine.next_offset > self._engine.committed:
            self._world.tally["failovers with writes in flight"] += 1
        self._decided.clear()

    def after_renounce(self) -> None:
        """I-38: back to what is committed, and that as the log has it."""
        offset = self._engine.next_offset
        self._back_to(offset)
        if offset == 0:
            self.view = Model()
        self._world.history.image_at(offset)  # judges that it is committed
        self._judge_facts("I-38", "what was not committed never was")
        self._judge_hash(offset, "I-38", "gone back, it is what is committed")

    def judge_placed(self, chosen: Sequence[Sequence[NodeId]], factor: int) -> None:
        """The placer has answered."""
        decisions.judge_placement(self.view, chosen, factor)

    def judge_checkpoint(self, offset: Offset, state: str) -> None:
        """I-25: a checkpoint is the state at its offset."""
        if offset <= self._world.checker.ledger.end:
            self._world.history.judge_checkpoint(unpacked(state), offset)

    def judge_end(self, offset: Offset, epoch: Epoch) -> None:
        """At the end of all things."""
        self._world.hashes.note(self._who, offset, epoch, canonical(self._engine.state), "I-37")
        self._judge_facts("I-37", "the state is what its records say")

    # How.

    def _back_to(self, offset: Offset) -> None:
        while self._stack and self._stack[-1][0] >= offset:
            _, self.view = self._stack.pop()
        while self._hashed and self._hashed[-1][0] > offset:
            self._hashed.pop()

    def _compare(self, steps: Sequence[Step], number: str) -> None:
        for step in steps:
            topic_id, partition_id = step.key
            found, known = self._engine.state.topics.partition(topic_id, partition_id), self.view.parts.get(step.key)
            if found is None or known is None:
                require(found is None and known is None, number, "a partition is there or not", step.key, found, known)
                continue
            _judge_same(found, known, number, step)

    def _judge_facts(self, number: str, rule: str) -> None:
        if self._engine.state.transactions.open is not None:
            return  # no checkpoint holds a part of a transaction
        model = Model()
        for record, _ in self._engine.state.all_records(LATEST):
            if isinstance(record, FeatureLevelRecord) and record.name == METADATA_FEATURE:
                continue
            model.apply(record, self._engine.next_offset)
        model.levels |= self._engine.state.features.finalized()
        for found, known in zip(model.facts(), self.view.facts(), strict=True):
            require(found == known, number, rule, self._who, self._engine.next_offset, found, known)

    def _judge_hash(self, offset: Offset, number: str, rule: str) -> None:
        found, known = canonical(self._engine.state), self._world.history.hash_at(offset)
        require(found == known, number, rule, self._who, offset)


def _is_sampled(base: Offset, end: Offset) -> bool:
    return base // HASH_EVERY != end // HASH_EVERY


def _judge_same(found: Partition, known: Part, number: str, step: Step) -> None:
    require(found.leader_epoch == known.leader_epoch, "I-51", "an epoch begins with a leader", found, known, step)
    require(found.partition_epoch == known.partition_epoch, "I-50", "each change counts", found, known, step)
    same = (
        found.replicas == known.replicas
        and found.adding_replicas == known.adding
        and found.removing_replicas == known.removing
        and found.isr == known.isr
        and found.elr == known.elr
        and found.last_known_elr == known.last_known
        and found.leader == known.leader
        and found.leader_recovery_state == known.recovery
        and found.directories == known.directories
    )
    require(same, number, "a partition is what its records say", found, known, step)
