"""What is committed, as a model after each batch, and what has come about in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft import Message
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.records import BrokerRegistrationChangeRecord
from tests.sim.invariants.base import require
from tests.sim_controller.cells import is_data, record_of
from tests.sim_controller.invariants import cluster
from tests.sim_controller.invariants.partitions import is_from_elr, is_unclean
from tests.sim_controller.model import Model, Step

if TYPE_CHECKING:
    from tests.sim_controller.world import ControllerWorld

FORK_EVERY = 32
"""So many batches lie between two models that are kept."""


class History:
    """The committed log so far."""

    def __init__(self, world: ControllerWorld) -> None:
        self._world = world
        self.model = Model()
        self.end: Offset = 0
        self.ever = cluster.Ever()
        self.counts: Counter[str] = Counter()
        self._forks: list[tuple[Offset, Model]] = [(0, Model())]
        self._batches = 0
        self._reference, self._reference_end = ClusterState(), 0
        self._hashes: dict[Offset, str] = {0: canonical(ClusterState())}

    def catch_up(self) -> None:
        """Judges what has been committed since it was last asked."""
        ledger = self._world.checker.ledger
        while self.end < ledger.end:
            end = next(offset for offset in range(self.end + 1, ledger.end + 1) if offset in ledger.ends)
            records = self.records(self.end, end)
            self.ever.note(records)
            steps = cluster.run(self.model, records, self.end)
            self._count(records, steps)
            self.end = end
            self._batches += 1
            if self._batches % FORK_EVERY == 0:
                self._forks.append((end, self.model.fork()))

    def records(self, start: Offset, end: Offset) -> list[Message]:
        """The controllers' records of one committed batch; none if it is the quorum's own."""
        texts = [text for _, text in self._world.checker.ledger.cells[start:end]]
        return [record_of(text) for text in texts] if texts and is_data(texts[0]) else []

    def model_at(self, offset: Offset) -> Model:
        """The cluster after everything below `offset`, which is committed."""
        self.catch_up()
        require(offset <= self.end, "I-39", "only what is committed is spoken of", offset, self.end)
        start, kept = max((fork for fork in self._forks if fork[0] <= offset), key=lambda fork: fork[0])
        model = kept.fork()
        for at, (_, text) in enumerate(self._world.checker.ledger.cells[start:offset], start):
            if is_data(text):
                model.apply(record_of(text), at)
        return model

    def judge_checkpoint(self, records: Sequence[Message], offset: Offset) -> Model:
        """I-25: the model that `records` make is that of the log below `offset`, and no half of a transaction."""
        model, expected = Model(), self.model_at(offset)
        require(expected.opened is None, "I-43", "no checkpoint within a transaction", offset, expected.opened)
        for record in records:
            model.apply(record, offset)
        for found, known in zip(model.facts(), expected.facts(), strict=True):
            require(found == known, "I-25", "a checkpoint is the state at its offset", offset, found, known)
        model.legacy = expected.legacy
        return model

    def image_at(self, offset: Offset) -> bytes:
        """The chain of the log's records below `offset`."""
        ledger = self._world.checker.ledger
        require(offset <= ledger.end, "I-38", "who stands by stands at a commit", offset, ledger.end)
        return ledger.images[offset]

    def hash_at(self, offset: Offset) -> str:
        """The canonical hash of a state that has replayed the committed log one by one."""
        if offset not in self._hashes:
            if self._reference_end > offset:
                self._reference, self._reference_end = ClusterState(), 0
            cells = self._world.checker.ledger.cells[self._reference_end : offset]
            for at, (_, text) in enumerate(cells, self._reference_end):
                if is_data(text):
                    self._reference.apply(record_of(text), at)
                    self._reference.settle()
            self._reference_end = offset
            self._hashes[offset] = canonical(self._reference)
        return self._hashes[offset]

    def _count(self, records: list[Message], steps: list[Step]) -> None:
        counts = self.counts
        counts["records"] += len(records)
        for record in records:
            if isinstance(record, BrokerRegistrationChangeRecord):
                counts["fencings"] += record.fenced == 1
                counts["unfencings"] += record.fenced == -1
                counts["controlled shutdowns"] += record.in_controlled_shutdown == 1
        for step in steps:
            before, after = step.before, step.after
            if before is None:
                counts["partitions"] += 1
                continue
            counts["ISR changes"] += before.isr != after.isr
            counts["leader changes"] += before.leader != after.leader
            was_moving, moves = before.adding or before.removing, after.adding or after.removing
            is_there = set(before.adding) <= set(after.replicas) and not set(before.removing) & set(after.replicas)
            counts["reassignments completed"] += bool(was_moving and not moves and is_there)
            counts["reassignments called off"] += bool(was_moving and not moves and not is_there)
            counts["unclean elections"] += is_unclean(step)
            counts["ELR elections"] += is_from_elr(step)
            counts["ELR members"] += bool(set(after.elr) - set(before.elr))
