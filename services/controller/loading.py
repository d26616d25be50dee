"""A snapshot on its way from the quorum node: what has come of it is applied while the rest is being sent."""

from __future__ import annotations

import gc
from collections.abc import Iterator

from kraft import Message
from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.engine import Engine
from quorate.errors import Corrupt
from quorate.records import decode_record
from quorate.wire.batch import HEADER_BYTES, data_values, peek_header


class Loading:
    """Brings the engine to what a snapshot says, chunk by chunk. In between it stands at the beginning of the log."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_under_way = False
        self._rest = b""
        """A batch of which not all has come."""

    def take(self, chunk: ListenResponse.SnapshotChunk) -> None:
        """The next piece. Raises Corrupt, ReplayFault."""
        if not self._is_under_way:
            self._engine.begin_load()
            self._is_under_way = True
        self._engine.load_more(self._records(self._rest + chunk.data), end_offset=chunk.end_offset)
        if chunk.last:
            if self._rest:
                raise Corrupt(f"a snapshot ends with {len(self._rest)} bytes of a batch", position=0)
            self._is_under_way = False
            self._engine.end_load(end_offset=chunk.end_offset)
            gc.freeze()  # the collector would look through a million partitions for 75 ms, and find nothing

    def give_up(self) -> None:
        """The rest does not come: no part of a snapshot is a state."""
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
