"""The log on disk in the place of `ProducerLog`: its files are what the simulator then loses and reads again."""

from __future__ import annotations

from pathlib import Path

from quorate.nouns import Epoch, Offset
from quorate.partition_log import Appended, TransactionEnd, Verification
from quorate.partition_log.aborted import Aborted
from quorate.partition_log.names import producer_snapshots, producers_file
from quorate.replication.effects import Batch, Effect, RestartAt, Truncate
from quorate.wire.batch import BatchHeader
from tests.partition_log.batches import NOW_MS
from tests.sim_replication.sent import Sent, read_back, stored
from tests.sim_replication.stored_log import StoredLog


class StoredProducerLog(StoredLog):
    """The same door as `ProducerLog`."""

    def __init__(self, directory: Path) -> None:
        self.known_from: Offset = 0
        super().__init__(directory)

    def begin_verification(self, sent: Sent, *, bumps_epochs: bool) -> Verification | None:
        return self._log.begin_verification(sent.produced(), bumps_epochs=bumps_epochs, now_ms=NOW_MS)

    def drop_verification(self, producer_id: int, verification: Verification) -> None:
        self._log.drop_verification(producer_id, verification)

    def produce(self, sent: Sent, *, epoch: Epoch, verification: Verification | None) -> Appended:
        return self._log.append_as_leader(sent.produced(), epoch=epoch, now_ms=NOW_MS, verification=verification)

    def append_marker(self, end: TransactionEnd, *, epoch: Epoch) -> Offset:
        self._log.append_marker(end, epoch=epoch, now_ms=NOW_MS)
        return self.leo

    def commit(self, high_watermark: Offset) -> None:
        self._log.commit(high_watermark)

    def aborted(self, start: Offset, end: Offset) -> list[Aborted]:
        """Without the last stable offsets, which only shorten the search."""
        found = self._log.aborted(start, end)
        return [each._replace(last_stable_offset=-1) for each in found]

    def roll(self) -> None:
        if not self._log.is_in_last_segment(self.leo - 1):
            return
        self._log.roll()

    def lose_snapshots(self) -> None:
        for offset in producer_snapshots(self._log.directory):
            producers_file(self._log.directory, offset).unlink()

    def carry_out(self, effect: Effect) -> None:
        super().carry_out(effect)
        if isinstance(effect, Truncate | RestartAt):
            self._opened()

    def _opened(self) -> None:
        known = [at for at in producer_snapshots(self._log.directory) if at <= self.leo]
        self.known_from = max(known, default=self.start)

    def _read_back(self, data: bytes, position: int, header: BatchHeader) -> Batch:
        return read_back(data, position, header)

    def _stored(self, batch: Batch) -> bytes:
        return stored(batch)
