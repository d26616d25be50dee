"""A replica of the metadata: follows the log and applies what is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from kraft import Message
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.records import decode_record, trace_of
from quorate.runtime.clock import Clock
from quorate.runtime.log_reader import CommittedBatch, LoadedSnapshot, LogReader
from quorate.runtime.logs import logger
from quorate.runtime.telemetry import Telemetry
from quorate.wire.batch import batches, data_values

log = logger(__name__)


class Replica:
    """The state, how far it has come, and a way to wait for more.

    `state` may only be read between two awaits: the next batch changes it.
    """

    def __init__(self, reader: LogReader, clock: Clock, telemetry: Telemetry) -> None:
        self.state = ClusterState()
        self.applied: Offset = 0
        self._reader = reader
        self._clock = clock
        self._telemetry = telemetry
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """APPLY until cancelled. Raises Corrupt, ReplayFault."""
        async for event in self._reader.events():
            if isinstance(event, CommittedBatch):
                self._apply(event)
            else:
                self._load(event)
            self._moved.set()
            self._moved = asyncio.Event()

    @property
    def high_watermark(self) -> Offset:
        """What is committed, as far as the leader has said."""
        return self._reader.high_watermark

    async def changes(self) -> AsyncIterator[Offset]:
        """Each applied offset that the caller has time to see, the present one first."""
        while True:
            moved = self._moved
            yield self.applied
            await moved.wait()

    async def reached(self, offset: Offset) -> None:
        """Wait until everything below `offset` is applied."""
        while self.applied < offset:
            await self._moved.wait()

    def _apply(self, batch: CommittedBatch) -> None:
        started = self._clock.wall_ns()
        header = batch.header
        records: tuple[Message, ...] = () if header.is_control else tuple(map(decode_record, data_values(batch.data)))
        for offset, record in enumerate(records, start=header.base_offset):
            self.state.apply(record, offset)
        self.state.settle()
        self.applied = header.next_offset
        if records and self._telemetry.enabled:
            self._telemetry.span_from(
                trace_of(records[0]),
                "apply",
                start_ns=started,
                end_ns=self._clock.wall_ns(),
                attributes={
                    "kraft.epoch": header.epoch,
                    "kraft.base_offset": header.base_offset,
                    "kraft.record_count": header.count,
                },
            )

    def _load(self, snapshot: LoadedSnapshot) -> None:
        data = snapshot.data
        records = (
            decode_record(value)
            for position, header in batches(data)
            if not header.is_control
            for value in data_values(data, position, header)
        )
        self.state.load(records, snapshot.end_offset)
        self.applied = snapshot.end_offset
        log.info("loaded a snapshot", end_offset=snapshot.end_offset, epoch=snapshot.epoch)
