"""What every client may rely on (R71): acknowledged records stay, readers agree, no high watermark falls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quorate.replication import Effect, RestartAt, Truncate
from tests.sim.invariants.base import Violation

if TYPE_CHECKING:
    from tests.sim_replication.broker import Broker
    from tests.sim_replication.world import World


@dataclass
class Oracle:
    """Values by offset: what was acknowledged, what any reader or high watermark has shown."""

    world: World
    acked: dict[int, int] = field(default_factory=dict)
    committed: dict[int, object] = field(default_factory=dict)
    seen_to: dict[tuple[int, int], int] = field(default_factory=dict)
    """By broker and process: how far its log was compared."""
    leader_marks: dict[int, int] = field(default_factory=dict)
    """The high watermark of each leader epoch."""
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def acknowledged(self, offset: int, value: int) -> None:
        self.count("acknowledged")
        self._agrees(offset, value, "acknowledged")
        self.acked[offset] = value

    def read(self, offset: int, value: object) -> None:
        self.count("read")
        self._agrees(offset, value, "read by a consumer")

    def _agrees(self, offset: int, value: object, by: str) -> None:
        known = self.committed.setdefault(offset, value)
        if known != value:
            raise Violation("R71", f"one offset has one committed record; this one was {by}", offset, known, value)

    def leads(self, broker: Broker) -> None:
        """A broker begins to lead, or leads on: in the controller's present epoch it has all that was acknowledged."""
        if broker.partition.leader_epoch != self.world.controller.partition.leader_epoch:
            return
        self.count("leader")
        log = broker.log
        have = {batch.base_offset: batch.data for batch in log.batches}
        missing = [(at, value) for at, value in self.acked.items() if at >= log.start and have.get(at) != value]
        if missing:
            raise Violation("R71", f"broker {broker.id} leads without acknowledged records", missing[:3], log.leo)

    def before(self, broker: Broker, effect: Effect) -> None:
        """No log loses what its broker has called committed: all elections here are clean."""
        if isinstance(effect, Truncate | RestartAt):
            self.count("truncation")
            to = effect.to if isinstance(effect, Truncate) else effect.leo
            shown = self.seen_to.get((broker.id, broker.process), 0)
            if to < shown:
                raise Violation("R55", f"broker {broker.id} truncates what it had as committed", to, shown)

    def after(self, broker: Broker) -> None:
        """Compares what has become committed at this broker with what all others have."""
        key, mark = (broker.id, broker.process), broker.partition.local.high_watermark
        seen = self.seen_to.get(key)
        if seen is None or mark > seen:
            for batch in broker.log.read(seen or 0, mark):
                self._agrees(batch.base_offset, batch.data, f"below the high watermark of broker {broker.id}")
            self.seen_to[key] = mark
        role = broker.leading
        if role is not None:
            self._leader_mark(broker, role.leader_epoch, mark)

    def _leader_mark(self, broker: Broker, epoch: int, mark: int) -> None:
        before = self.leader_marks.get(epoch, 0)
        if mark < before:
            raise Violation("R23", f"the high watermark of leader {broker.id} falls in epoch {epoch}", before, mark)
        self.leader_marks[epoch] = mark
        partition = self.world.controller.partition
        if mark == before or epoch != partition.leader_epoch:
            return
        self.count("commit")
        for member in partition.isr - self.world.damaged:
            leo = self.world.brokers[member].log.leo
            if leo < mark:
                raise Violation("R71", f"the ISR member {member} lacks what is committed", leo, mark, partition)
