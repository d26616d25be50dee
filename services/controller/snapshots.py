"""Snapshot upload (KIP-630): makes snapshots of the committed state by log size and time, for the quorum node.

Every controller does this. The timeline keeps the state at the last commit while writes and replay go on. Records are
written in short slices, so that a large snapshot does not block the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import grpc

from kraft.service.quorum_pb2 import CreateSnapshotRequest, CreateSnapshotResponse
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.controller.engine.engine import Engine
from quorate.metadata.state import ClusterState
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.records import encode_record
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.logging.logs import logger

log = logger(__name__)

LOOKS_S: Final = 0.25
"""Pause (s) between two checks whether a snapshot is due."""
SLICE_MS: Final = 5
"""Longest slice of encoding (ms) before the event loop runs other tasks: a tenth of the longest pause allowed."""
SLICE_RECORDS: Final = 64
"""Number of snapshot records that are encoded between two reads of the clock."""
PIECE_BYTES: Final = 512 * 1024
"""Size at which one message of a snapshot upload is full."""
RETRY_S: Final = 1.0
"""Pause (s) after a snapshot that failed."""
DEADLINE_S: Final = 600.0
"""Deadline of one snapshot upload, far above what the largest state needs."""


@dataclass(slots=True)
class AppliedSinceSnapshot:
    """How much of the log a controller has applied since its last snapshot; `size` is approximate, in bytes."""

    epoch: Epoch = 0
    """The epoch of the record that was applied last."""
    size: int = 0

    def note(self, epoch: Epoch, size: int) -> None:
        """Adds `size` bytes of log that were applied in `epoch`."""
        self.epoch = epoch
        self.size += size

    def restart(self, epoch: Epoch) -> None:
        """Resets the count of applied bytes after a snapshot of `epoch` was loaded."""
        self.epoch, self.size = epoch, 0


class HasState(Protocol):
    """The parts of the driver that snapshots need: the engine, and how much of the log was applied."""

    engine: Engine
    applied: AppliedSinceSnapshot


class StateLost(Exception):
    """Raised when the state being written is no longer kept: the controller has reverted, or has loaded a snapshot."""


class Snapshots:
    """Makes snapshots of the committed state and uploads them to the quorum node, whenever one is due.

    That is after `bytes_between` bytes of log, or after `interval_ms` (ms; 0 for never) if the log has grown.
    """

    def __init__(
        self, stands: HasState, channel: grpc.aio.Channel, clock: Clock, *, bytes_between: int, interval_ms: int
    ) -> None:
        self._stands = stands
        self._stub = RaftClientStub(channel)
        self._clock = clock
        self._bytes_between = bytes_between
        self._interval_ms = interval_ms
        self._last_ms = clock.monotonic_ms()

    async def run(self) -> None:
        """Makes each snapshot that is due, until cancelled."""
        while True:
            await asyncio.sleep(LOOKS_S)
            if self._is_due():
                try:
                    await self.make()
                except (grpc.aio.AioRpcError, StateLost) as failure:
                    log.debug("no snapshot", reason=str(failure).partition("\n")[0])
                    await asyncio.sleep(RETRY_S)

    async def make(self) -> OffsetAndEpoch | None:
        """Makes a snapshot of the committed state, uploads it and returns its id.

        None if nothing is committed yet, or a metadata transaction is open.
        Raises AioRpcError if the quorum node refuses it or is gone, StateLost if the state is no longer kept.
        """
        engine, applied = self._stands.engine, self._stands.applied
        size, epoch, started_ms = applied.size, applied.epoch, self._clock.monotonic_ms()
        offset = engine.hold_stable()
        if not offset:
            return None
        snapshot = OffsetAndEpoch(epoch=epoch, offset=offset)
        try:
            size_bytes = await self._write(engine.state, snapshot)
        finally:
            engine.state.registry.release(offset)
        applied.size = max(0, applied.size - size)
        self._last_ms = started_ms
        took_ms = self._clock.monotonic_ms() - started_ms
        log.info("made a snapshot", end_offset=offset, epoch=epoch, size=size_bytes, took_ms=took_ms)
        return snapshot

    def _is_due(self) -> bool:
        size = self._stands.applied.size
        age_ms = self._clock.monotonic_ms() - self._last_ms
        return size >= self._bytes_between or bool(size and self._interval_ms and age_ms >= self._interval_ms)

    async def _write(self, state: ClusterState, snapshot: OffsetAndEpoch) -> int:
        """Streams the state's records to the quorum node; returns the size of the snapshot in bytes.

        The node takes the snapshot's timestamp from its own log.
        """
        call = self._stub.CreateSnapshot(timeout=DEADLINE_S)
        try:
            await call.write(CreateSnapshotRequest(end_offset=snapshot.offset, epoch=snapshot.epoch))
            _check_held(state, snapshot.offset)
            for values in self._pieces(state, snapshot.offset):
                await call.write(CreateSnapshotRequest(values=values))
                await asyncio.sleep(0)
                _check_held(state, snapshot.offset)
            await call.write(CreateSnapshotRequest())  # an empty message marks the end
            await call.done_writing()
        except asyncio.InvalidStateError:
            pass  # gRPC raises it for a write on a refused stream; awaiting the call raises the reason
        except BaseException:
            call.cancel()
            raise
        answer: CreateSnapshotResponse = await call
        return answer.size_bytes

    def _pieces(self, state: ClusterState, offset: Offset) -> Iterator[list[bytes]]:
        """Yields encoded records in chunks of at most one message's size and one slice's time."""
        values: list[bytes] = []
        size = 0
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        for record, version in state.at(offset).records():
            value = encode_record(record, version)
            values.append(value)
            size += len(value)
            is_late = len(values) % SLICE_RECORDS == 0 and self._clock.monotonic_ms() >= until_ms
            if is_late or size >= PIECE_BYTES:
                yield values
                values, size = [], 0
                until_ms = self._clock.monotonic_ms() + SLICE_MS
        if values:
            yield values


def _check_held(state: ClusterState, offset: Offset) -> None:
    """Raises StateLost if the timeline no longer holds the state at `offset`."""
    if not state.registry.is_held(offset):
        raise StateLost(f"the state at offset {offset} is gone")
