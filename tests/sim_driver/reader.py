"""An observer that reads the log from any node, from its beginning on: what it is sent is what is committed.

Where the log does not begin at 0 any more it fetches the snapshot, in pieces. It may be so slow that both are gone
before it has read them; or it stays where the log begins and asks for that again and again, several times at once: what
the node is about to send is then removed at that very moment.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from grpc.aio import EOF, AioRpcError

from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import messages as raft
from quorate.raft.log import BatchInfo
from services.quorum import translate
from tests.sim_driver.loop import Life, context_of
from tests.sim_driver.states import check_snapshot
from tests.sim_driver.wire import Channel

if TYPE_CHECKING:
    from tests.sim_driver.world import World

FIRST_ID: Final = 100
MAX_WAIT_MS: Final = 500
PACES_MS: Final[tuple[tuple[int, ...], ...]] = ((0, 1, 2, 2, 20), (5,), (20, 50))
PIECES: Final = (40, 100, 1 << 20)
ANSWER_S: Final = 5.0
AT_ONCE: Final = 8
"""Requests on their way of one that stays where the log begins."""


class Reader:
    """One observer. It goes back to 0 now and then, as a new one would come."""

    def __init__(self, world: World, number: int) -> None:
        self.id = FIRST_ID + number
        self.host = self.id
        self.byte_count = 0
        self.piece_count = 0
        self.stay_count = 0
        self._world = world
        self._random = world.stream(f"reader{number}")
        self._next: Offset = 0
        self._epoch: Epoch = 0
        """Of the node that was asked last."""
        self._wanted: OffsetAndEpoch | None = None
        """The snapshot that it was referred to."""
        self._pace_ms = PACES_MS[0]

    def start(self) -> None:
        life = Life(self, f"reader {self.id}")
        self._world.loop.create_task(self._live(life), context=context_of(life))

    async def _live(self, life: Life) -> None:
        try:
            while True:
                node = self._random.choice(list(self._world.nodes.values()))
                with suppress(AioRpcError, asyncio.InvalidStateError, Corrupt):
                    stays = self._random.randrange(2) == 0
                    await (self._stay if stays else self._read)(Channel(self._world.network, life, node.address))
                await asyncio.sleep(self._random.randrange(1, 100) / 1000)
        except Exception as error:
            self._world.failed(life, error)

    async def _read(self, channel: Channel) -> None:
        """Until the stream breaks, or this end turns elsewhere."""
        stub: Any = QuorumStub(channel)  # type: ignore[arg-type]
        call = stub.RelayFetchStream()
        self._pace_ms = self._random.choice(PACES_MS)
        try:
            while self._random.randrange(40):
                max_bytes = self._random.choice((1, 1, 2_000, 1 << 20))
                await call.write(self._request(self._next, max_bytes=max_bytes))
                answer = await call.read()
                if answer is EOF:
                    return
                self._take(translate.from_fetch(answer.response, None))
                if self._wanted is not None:
                    await self._fetch_snapshot(stub, self._wanted)
                await self._rest()
            self._next = 0
        finally:
            call.cancel()

    async def _stay(self, channel: Channel) -> None:
        """Read the first batch that there is, wherever that is by now."""
        call: Any = QuorumStub(channel).RelayFetchStream()  # type: ignore[arg-type]
        start: Offset = 0
        try:
            for _ in range(self._random.randrange(40)):
                for _ in range(AT_ONCE):
                    await call.write(self._request(start, max_bytes=1))
                for _ in range(AT_ONCE):
                    answer = await call.read()
                    if answer is EOF:
                        return
                    told = translate.from_fetch(answer.response, None)
                    for batch in told.batches:
                        if batch.end_offset <= told.high_watermark:
                            self._check(start, batch)
                            self.stay_count += 1
                start = max(0, told.log_start_offset)
        finally:
            call.cancel()

    async def _rest(self) -> None:
        await asyncio.sleep(self._random.choice(self._pace_ms) / 1000)

    def _request(self, offset: Offset, *, max_bytes: int) -> Any:
        checker = self._world.checker
        newest = checker.epoch_before(checker.end) if checker.end else 0
        request = raft.FetchRequest(
            epoch=newest,
            replica=ReplicaKey(self.id),
            fetch_offset=offset,
            last_fetched_epoch=checker.epoch_before(offset) if offset else 0,
            max_bytes=max_bytes,
            max_wait_ms=MAX_WAIT_MS,
            high_watermark=checker.end,
            from_any=True,
        )
        return translate.to_fetch(request)

    def _take(self, answer: raft.FetchResponse) -> None:
        self._epoch, self._wanted = answer.epoch, answer.snapshot_id
        for batch in answer.batches:
            if batch.end_offset > answer.high_watermark:
                break  # a leader sends what is not committed, too
            self._check(self._next, batch)
            self._next = batch.end_offset
            self.byte_count += batch.size
        if answer.diverging is not None:
            self._next = 0

    def _check(self, offset: Offset, batch: BatchInfo) -> None:
        """It is what is committed there. Raises Corrupt: where it begins, its checksum does not say."""
        if batch.base_offset != offset and self._world.network.garbler.permille:
            raise Corrupt(f"a batch at offset {batch.base_offset}, where {offset} follows")
        assert isinstance(batch.data, bytes)
        self._world.checker.read(self.id, offset, batch.base_offset, batch.data)

    # A snapshot.

    async def _fetch_snapshot(self, stub: Any, wanted: OffsetAndEpoch) -> None:
        """All of it, or nothing: it may be gone before it has come."""
        data, size, piece_bytes = b"", 1, self._random.choice(PIECES)
        while len(data) < size:
            request = raft.FetchSnapshotRequest(
                epoch=self._epoch,
                replica=ReplicaKey(self.id),
                snapshot_id=wanted,
                position=len(data),
                max_bytes=piece_bytes,
                from_any=True,
            )
            answer = await stub.RelayFetchSnapshot(translate.to_fetch_snapshot(request), timeout=ANSWER_S)
            piece = translate.from_fetch_snapshot(answer.response, None)
            if piece.error or not piece.data:
                return
            self.piece_count += 1
            data, size = data + piece.data, piece.size
            await self._rest()
        check_snapshot(self._world.checker, data, wanted.offset, self._world.directory / f"read-{self.id}.checkpoint")
        self._next = wanted.offset
