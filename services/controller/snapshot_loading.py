"""Loads a snapshot (KIP-630) from the quorum node: each chunk is applied, in turns, while the rest is being sent."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from itertools import islice

from kraft import Message
from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.engine.engine import Engine
from quorate.errors import Corrupt
from quorate.records import decode_record
from quorate.runtime.event_loop.turns import RECORDS_PER_TURN
from quorate.wire.batch import HEADER_BYTES, data_values, peek_header


class SnapshotLoading:
    """Loads a snapshot into the engine, chunk by chunk. Until the last chunk the engine's next offset is 0."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_under_way = False
        self._rest = b""
        """The first bytes of a snapshot's batch whose end is in a later chunk."""

    async def take(self, chunk: ListenResponse.SnapshotChunk) -> None:
        """Applies the next chunk; the last one completes the load. Raises Corrupt, ReplayFault.

        Others have the loop in between, and find the state as they do between two chunks: of no offset, and incomplete.
        """
        if not self._is_under_way:
            assert not self._rest, f"{len(self._rest)} bytes of another snapshot are left"
            self._engine.begin_load()
            self._is_under_way = True
        records = self._records(self._rest + chunk.data)
        while some := tuple(islice(records, RECORDS_PER_TURN)):
            self._engine.load_more(some, end_offset=chunk.end_offset)
            await asyncio.sleep(0)
        if chunk.last:
            if self._rest:
                raise Corrupt(f"a snapshot ends with {len(self._rest)} bytes of a batch", position=0)
            self._is_under_way = False
            self._engine.end_load(end_offset=chunk.end_offset)
            gc.freeze()  # else each collection scans a million partitions for 75 ms, in vain

    def give_up(self) -> None:
        """Abandons a load that is not complete: the state becomes empty again, as part of a snapshot is no state."""
        if self._is_under_way:
            self._engine.begin_load()
        self._is_under_way, self._rest = False, b""

    def _records(self, data: bytes) -> Iterator[Message]:
        position = 0
        while len(data) - position >= HEADER_BYTES:
            header = peek_header(data, position)
            if position + header.size > len(data):
                break
            if not header.is_control:
                yield from map(decode_record, data_values(data, position, header))
            position += header.size
        self._rest = data[position:]
