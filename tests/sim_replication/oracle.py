"""What every client may rely on (R71): acknowledged records stay, readers agree, no high watermark falls."""

from __future__ import annotations

from bisect import bisect_right
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
    acked: dict[int, object] = field(default_factory=dict)
    eras: dict[int, dict[int, object]] = field(default_factory=lambda: {0: {}})
    """What is committed, by how many unclean elections there were before; each begins with what its leader has."""
    seen_to: dict[tuple[int, int], int] = field(default_factory=dict)
    """By broker and process: how far its log was compared."""
    seen_in: dict[tuple[int, int], int] = field(default_factory=dict)
    """By the same: in which era the mark has risen; -1 for none of this process."""
    leader_marks: dict[int, int] = field(default_factory=dict)
    """The high watermark of each leader epoch."""
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    @property
    def committed(self) -> dict[int, object]:
        """In the present era."""
        return self.eras[max(self.eras)]

    def era(self, leader_epoch: int) -> int:
        """How many unclean elections this epoch has behind it, of those whose leaders have begun."""
        count = bisect_right(self.world.controller.unclean_epochs, leader_epoch)
        return max(era for era in self.eras if era <= count)

    def elected(self, broker: Broker, leader_epoch: int) -> None:
        """A broker is about to lead. After an unclean election all is lost, and may be, that it does not have."""
        count = bisect_right(self.world.controller.unclean_epochs, leader_epoch)
        if leader_epoch not in self.world.controller.unclean_epochs or count <= max(self.eras):
            return
        self.count("unclean")
        have = {batch.base_offset: batch.data for batch in broker.log.batches}

        def kept(known: dict[int, object]) -> dict[int, object]:
            start = broker.log.start
            return {at: value for at, value in known.items() if at < start or have.get(at) == value}

        before = len(self.acked)
        self.eras[count] = kept(self.committed)
        self.acked = kept(self.acked)
        self.counts["lost"] = self.counts.get("lost", 0) + before - len(self.acked)

    def acknowledged(self, offset: int, value: object, leader_epoch: int = 0) -> None:
        self.count("acknowledged")
        self._agrees(offset, value, "acknowledged", leader_epoch)
        if self.era(leader_epoch) == max(self.eras):
            self.acked[offset] = value

    def read(self, offset: int, value: object, leader_epoch: int = 0) -> None:
        self.count("read")
        self._agrees(offset, value, "read by a consumer", leader_epoch)

    def _agrees(self, offset: int, value: object, by: str, leader_epoch: int) -> None:
        known = self.eras[self.era(leader_epoch)].setdefault(offset, value)
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
        """No log loses what its broker has called committed, but after an unclean election."""
        if isinstance(effect, Truncate | RestartAt):
            self.count("truncation")
            to = effect.to if isinstance(effect, Truncate) else max(effect.leo, effect.start)
            key = (broker.id, broker.process)
            shown = self.seen_to.get(key, 0)
            if to < shown and self.seen_in[key] < self.era(broker.partition.leader_epoch):
                self.seen_to[key] = to
            elif to < shown:
                raise Violation("R55", f"broker {broker.id} truncates what it had as committed", to, shown)

    def after(self, broker: Broker) -> None:
        """Compares what has become committed at this broker with what all others have."""
        key, mark = (broker.id, broker.process), broker.partition.local.high_watermark
        epoch = broker.partition.leader_epoch
        era, seen = self.era(epoch), self.seen_to.get(key)
        if seen is None and era:
            self.seen_to[key], self.seen_in[key] = mark, -1  # of a checkpoint: it may lose that as it follows
        elif seen is not None and mark < seen:
            raise Violation("R55", f"the high watermark of broker {broker.id} falls", seen, mark)
        elif seen is None or mark > seen:
            for batch in broker.log.read(seen or 0, mark):
                self._agrees(batch.base_offset, batch.data, f"below the high watermark of broker {broker.id}", epoch)
            self.seen_to[key], self.seen_in[key] = mark, era
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
