"""Makes snapshots of the state, by size of the log and by time, on any controller, and hands them to its quorum node.

KIP-630. The state is held as of the last commit while writes and replay go on. It is written in slices, so that a large
one never keeps the event loop for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import grpc

from kraft.service.quorum_pb2 import CreateSnapshotRequest, CreateSnapshotResponse
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.controller.engine import Engine
from quorate.metadata.state import ClusterState
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.records import encode_record
from quorate.runtime.clock import Clock
from quorate.runtime.logs import logger

log = logger(__name__)

LOOKS_S: Final = 0.25
"""Pause between two looks whether a snapshot is due: by so much log may it come too late."""
SLICE_MS: Final = 5
"""Records are written so long before others have their turn: a tenth of the pause that nobody may notice."""
SLICE_RECORDS: Final = 64
"""The clock is read after so many."""
PIECE_BYTES: Final = 512 * 1024
"""Records of one message."""
RETRY_S: Final = 1.0
"""Pause after a snapshot that did not come about."""
DEADLINE_S: Final = 600.0
"""A bound against hanging, far beyond what the largest state takes."""


@dataclass(slots=True)
class Applied:
    """How much of the log a controller has applied since its last snapshot: `size` in bytes, about."""

    epoch: Epoch = 0
    """The epoch of the record that was applied last."""
    size: int = 0

    def note(self, epoch: Epoch, size: int) -> None:
        """A batch, or as much of the log as `size` says."""
        self.epoch = epoch
        self.size += size

    def restart(self, epoch: Epoch) -> None:
        """The state is that of a snapshot now."""
        self.epoch, self.size = epoch, 0


class Stands(Protocol):
    """The controller whose state it is."""

    engine: Engine
    applied: Applied


class Lost(Exception):
    """The state that was being written is gone: the controller has gone back, or has loaded a snapshot."""


class Snapshots:
    """Makes one when it is due; `bytes_between` and `interval_ms` say when, `interval_ms` 0 never by time."""

    def __init__(
        self, stands: Stands, channel: grpc.aio.Channel, clock: Clock, *, bytes_between: int, interval_ms: int
    ) -> None:
        self._stands = stands
        self._stub = RaftClientStub(channel)
        self._clock = clock
        self._bytes_between = bytes_between
        self._interval_ms = interval_ms
        self._last_ms = clock.monotonic_ms()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOKS_S)
            if self._is_due():
                try:
                    await self.make()
                except (grpc.aio.AioRpcError, Lost) as failure:
                    log.debug("no snapshot", reason=str(failure).partition("\n")[0])
                    await asyncio.sleep(RETRY_S)

    async def make(self) -> OffsetAndEpoch | None:
        """Make a snapshot of what is committed; None if there is none to be made now. Raises AioRpcError, Lost."""
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
        """The state's records to the quorum node, which knows from its log when the last one was appended."""
        call = self._stub.CreateSnapshot(timeout=DEADLINE_S)
        try:
            await call.write(CreateSnapshotRequest(end_offset=snapshot.offset, epoch=snapshot.epoch))
            for values in self._pieces(state, snapshot.offset):
                await call.write(CreateSnapshotRequest(values=values))
                await asyncio.sleep(0)
                if not state.registry.is_held(snapshot.offset):
                    raise Lost(f"the state at offset {snapshot.offset} is gone")
            await call.write(CreateSnapshotRequest())  # only this says that it is whole
            await call.done_writing()
        except asyncio.InvalidStateError:
            pass  # gRPC's answer to a write on a stream that has been refused: the call says why
        except BaseException:
            call.cancel()
            raise
        answer: CreateSnapshotResponse = await call
        return answer.size_bytes

    def _pieces(self, state: ClusterState, offset: Offset) -> Iterator[list[bytes]]:
        """The encoded records, as many at a time as one message takes, or as take no longer than a slice."""
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
