"""An observer that reads the log from any node, from its beginning on: what it is sent is what is committed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from grpc.aio import EOF, AioRpcError

from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.nouns import Offset, ReplicaKey
from quorate.raft import messages as raft
from services.quorum import translate
from tests.sim_driver.loop import Life, context_of
from tests.sim_driver.wire import Channel

if TYPE_CHECKING:
    from tests.sim_driver.world import World

FIRST_ID: Final = 100
MAX_WAIT_MS: Final = 500


class Reader:
    """One observer. It goes back to 0 now and then, as a new one would come."""

    def __init__(self, world: World, number: int) -> None:
        self.id = FIRST_ID + number
        self.host = self.id
        self.byte_count = 0
        self._world = world
        self._random = world.stream(f"reader{number}")
        self._next: Offset = 0

    def start(self) -> None:
        life = Life(self, f"reader {self.id}")
        self._world.loop.create_task(self._live(life), context=context_of(life))

    async def _live(self, life: Life) -> None:
        try:
            while True:
                node = self._random.choice(list(self._world.nodes.values()))
                with suppress(AioRpcError, asyncio.InvalidStateError):
                    await self._read(Channel(self._world.network, life, node.address))
                await asyncio.sleep(self._random.randrange(1, 100) / 1000)
        except Exception as error:
            self._world.failed(life, error)

    async def _read(self, channel: Channel) -> None:
        """Until the stream breaks, or this end turns elsewhere."""
        call: Any = QuorumStub(channel).RelayFetchStream()  # type: ignore[arg-type]
        try:
            while self._random.randrange(15):
                await call.write(self._request())
                answer = await call.read()
                if answer is EOF:
                    return
                self._take(translate.from_fetch(answer.response, None))
                await asyncio.sleep(self._random.choice((0, 1, 2, 2, 20)) / 1000)
            self._next = 0
        finally:
            call.cancel()

    def _request(self) -> Any:
        checker = self._world.checker
        request = raft.FetchRequest(
            epoch=0,
            replica=ReplicaKey(self.id),
            fetch_offset=self._next,
            last_fetched_epoch=checker.epoch_before(self._next) if self._next else 0,
            max_bytes=self._random.choice((1, 1, 2_000, 1 << 20)),
            max_wait_ms=MAX_WAIT_MS,
            high_watermark=checker.end,
            from_any=True,
        )
        newest = checker.epoch_before(checker.end) if checker.end else 0
        return translate.to_fetch(replace(request, epoch=newest))

    def _take(self, answer: raft.FetchResponse) -> None:
        for batch in answer.batches:
            if batch.end_offset > answer.high_watermark:
                break  # a leader sends what is not committed, too
            assert isinstance(batch.data, bytes)
            self._world.checker.read(self.id, self._next, batch.base_offset, batch.data)
            self._next = batch.end_offset
            self.byte_count += batch.size
        if answer.snapshot_id is not None:
            self._next = answer.snapshot_id.offset
        elif answer.diverging is not None:
            self._next = 0
