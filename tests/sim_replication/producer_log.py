"""A log in memory that knows its producers: the real `Producers` and `Verifications`, snapshots as bytes, segments.

It does what `quorate.partition_log.log` does with them in files. Seeds that are run with both hold the two together.
"""

from __future__ import annotations

from quorate.nouns import Epoch, Offset
from quorate.partition_log import Appended, TransactionEnd, Verification
from quorate.partition_log.aborted import Aborted
from quorate.partition_log.producers import Producers
from quorate.partition_log.verifications import Verifications
from quorate.replication.effects import Batch, Effect, HighWatermarkRaised, RestartAt
from tests.partition_log.batches import NOW_MS
from tests.replication.memory_log import MemoryLog
from tests.sim_replication.sent import Kind, Sent, header_of, marker_of, sent_of


class ProducerLog(MemoryLog):
    """Batches of `Sent`. `known_from` is where the present state was read from: a snapshot's offset."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.known_from: Offset = 0
        self._verifications = Verifications()
        self._snapshots: dict[Offset, bytes] = {}
        self._bases: list[Offset] = [0]
        self._aborted: list[Aborted] = []
        self._committed: Offset = 0
        self._files: list[Batch] = []
        """The batches, those included that lie below the log start."""
        super().__init__()

    # What a leader does

    def begin_verification(self, sent: Sent, *, bumps_epochs: bool) -> Verification | None:
        header = header_of(sent.batch(base_offset=0, epoch=0))
        return self._verifications.begin(self.producers, header, bumps_epochs=bumps_epochs, now_ms=NOW_MS)

    def drop_verification(self, producer_id: int, verification: Verification) -> None:
        self._verifications.drop(producer_id, verification)

    def produce(self, sent: Sent, *, epoch: Epoch, verification: Verification | None) -> Appended:
        """Raises ApiError."""
        batch = sent.batch(base_offset=self.leo, epoch=epoch)
        header = header_of(batch)
        if (known := self.producers.repeated(header)) is not None:
            return Appended(base_offset=known.base_offset, last_offset=known.last_offset, was_there=True)
        self._verifications.check(self.producers, header, verification)
        self.producers.check(header)
        self.append(batch)
        return Appended(base_offset=batch.base_offset, last_offset=batch.end_offset - 1)

    def append_marker(self, end: TransactionEnd, *, epoch: Epoch) -> Offset:
        """Returns the log's end. Raises ApiError."""
        self.producers.check_end(end)
        self.append(marker_of(end).batch(base_offset=self.leo, epoch=epoch))
        return self.leo

    def commit(self, high_watermark: Offset) -> None:
        self._committed = high_watermark
        self.producers.commit(high_watermark)
        self._note_open()

    def aborted(self, start: Offset, end: Offset) -> list[Aborted]:
        """Those with records from `start` to `end`."""
        return [each for each in self._aborted if each.last_offset >= start and each.first_offset < end]

    # Files

    def roll(self) -> None:
        """Another segment begins, with a snapshot at its base; not after one without records."""
        if self._bases[-1] == self.leo:
            return
        self._snapshots[self.leo] = self.producers.encode()
        kept = {*self._bases, self.leo}
        self._snapshots = {at: data for at, data in self._snapshots.items() if at in kept}
        self._bases.append(self.leo)

    def lose_snapshots(self) -> None:
        """A crash spoils what was not synced."""
        self._snapshots.clear()

    def reopen(self) -> None:
        """Another process: it has nothing of what was in memory only. A stop in order leaves a snapshot at the end."""
        if self.flushed == self.leo:
            self._snapshots[self.leo] = self.producers.encode()
        self._verifications, self._committed = Verifications(), 0
        super().reopen()

    # What the log in memory does besides

    def carry_out(self, effect: Effect) -> None:
        super().carry_out(effect)
        match effect:
            case HighWatermarkRaised(high_watermark):
                self.commit(high_watermark)
            case RestartAt(leo=leo):
                self._files.clear()
                self._snapshots.clear()
                self._aborted.clear()
                self._bases = [leo]
                self._load()

    def append(self, batch: Batch) -> None:
        super().append(batch)
        self._files.append(batch)
        self._count(batch)
        self._verifications.end(header_of(batch))
        self._note_open()

    def cut(self, to: Offset) -> None:
        super().cut(to)
        while self._files and self._files[-1].end_offset > to:
            self._files.pop()
        self._bases = [base for base in self._bases if base <= to] or [to]
        self._snapshots = {at: data for at, data in self._snapshots.items() if at <= to}
        self._load()

    def start_at(self, to: Offset) -> None:
        super().start_at(to)
        self._note_open()

    def _load(self) -> None:
        at = max(self._snapshots, default=None)
        self.producers = Producers() if at is None else Producers.decode(self._snapshots[at])
        self.known_from = self.start if at is None else at
        self._aborted = [each for each in self._aborted if each.last_offset < self.known_from]
        for batch in self._files:
            if batch.end_offset > self.known_from:
                self._count(batch)
        self.commit(min(self._committed, self.leo))

    def _count(self, batch: Batch) -> None:
        sent, header = sent_of(batch), header_of(batch)
        if not sent.kind.is_marker:
            self.producers.note(header)
            return
        decided = self.producers.note_marker(header, aborts=sent.kind is Kind.ABORT, coordinator_epoch=sent.value)
        if decided is not None and decided.aborted:
            self._aborted.append(Aborted(decided.producer_id, decided.first_offset, decided.last_offset, -1))

    def _note_open(self) -> None:
        opened = self.producers.first_open_offset
        self.first_open_offset = None if opened is None else max(opened, self.start)
