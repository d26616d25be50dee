"""The controller beside a node, as far as that is concerned: it listens, writes while active, and makes snapshots.

It speaks through the real stubs. It may be slow, go away and come back where it stood, or begin anew from nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from grpc.aio import EOF, AioRpcError

from kraft.service.quorum_pb2 import (
    AppendRequest,
    ConfirmLeadershipRequest,
    ControllerHeartbeatRequest,
    CreateSnapshotRequest,
    ListenRequest,
    ListenResponse,
    ResignRequest,
)
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.nouns import Epoch, Offset
from services.quorum.appends import joined
from tests.sim_driver.checker import require
from tests.sim_driver.loop import Life, context_of
from tests.sim_driver.states import check_snapshot, record, state_at
from tests.sim_driver.wire import Call, Channel

if TYPE_CHECKING:
    from tests.sim_driver.node import Node
    from tests.sim_driver.world import World

IN_FLIGHT_MAX: Final = 6
CONFIRM_EVERY_MS: Final = 100
CONFIRM_S: Final = 5.0
HEARTBEAT_S: Final = 0.25


@dataclass
class Write:
    """One Append under way."""

    base_offset: Offset
    end: Offset
    attempt: int
    values: list[bytes]
    is_taken: bool = False
    is_wrong: bool = False
    """It does not go where the log ends."""


class Clerk:
    """One controller over all its lives. `next` is where its state stands."""

    def __init__(self, world: World, node: Node) -> None:
        self.host = node.host
        self.next: Offset = 0
        self.acknowledged_count = 0
        self.load_count = 0
        self.confirmed_count = 0
        self.is_active = False
        self._world = world
        self._node = node
        self._random = world.stream(f"clerk{node.id}")
        self._leisure = world.stream(f"confirm{node.id}")
        self._life: Life | None = None
        self._written = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._epoch: Epoch = -1
        self._attempt = 0
        self._at: Offset = 0
        self._writes: dict[int, Write] = {}
        self._loading = b""
        self.is_active = False

    def counts(self) -> dict[str, int]:
        """What has come about."""
        return {
            "acknowledged": self.acknowledged_count,
            "confirmed": self.confirmed_count,
            "loads": self.load_count,
        }

    def stop(self) -> None:
        """Its process is killed."""
        if self._life is not None:
            self._life.is_over = True
            self._world.network.lose(self._life)
        self._life = None
        self._begin_anew()

    def pause(self, ms: int) -> None:
        """SIGSTOP for so long: its streams stay as they are."""
        assert self._life is not None
        self._life.paused_until_us = self._world.loop.now_us + 1000 * ms

    def start(self, *, from_nothing: bool) -> None:
        """A process begins; one before has ended."""
        if self._life is not None:
            self._life.is_over = True
            self._world.network.lose(self._life)
        if from_nothing:
            self.next = 0
        self._begin_anew()
        self._life = Life(self, f"clerk {self._node.id}")
        self._world.loop.create_task(self._live(self._life), context=context_of(self._life))

    async def _live(self, life: Life) -> None:
        try:
            while True:
                self._begin_anew()
                channel = Channel(self._world.network, life, self._node.address)
                with suppress(AioRpcError):
                    await self._listen(RaftClientStub(channel))  # type: ignore[arg-type]
                await asyncio.sleep(self._random.randrange(1, 200) / 1000)
        except Exception as error:
            self._world.failed(life, error)

    async def _listen(self, stub: Any) -> None:
        """Until the stream breaks, or this end has had enough."""
        session_id = self._leisure.getrandbits(63)
        call: Call = stub.Listen(ListenRequest(next_offset=self.next, session_id=session_id))
        beats = self._spawn(partial(self._beat, session_id=session_id), stub)
        office: list[asyncio.Task[None]] = []
        try:
            while not self._has_enough():
                event = await call.read()
                if event is EOF:
                    return
                self._take(event)
                if self.is_active and not office:
                    office = [self._spawn(self._write, stub), self._spawn(self._confirm, stub)]
                elif not self.is_active:
                    while office:
                        office.pop().cancel()
                if not self._loading and self._wants_snapshot():
                    self._spawn(partial(self._snapshot, end=self._any_end()), stub)
                if self._is_hasty():
                    self._spawn(partial(self._snapshot, end=self._world.checker.at(self.next)[0].next_offset), stub)
                await self._breathe()
        finally:
            beats.cancel()
            for task in office:
                task.cancel()
            call.cancel()

    async def _beat(self, stub: Any, *, session_id: int) -> None:
        """As services/controller/quorum_link.py does."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            with suppress(AioRpcError):
                await stub.ControllerHeartbeat(ControllerHeartbeatRequest(session_id=session_id), timeout=1.0)

    def _spawn(self, work: Callable[[Any], Awaitable[None]], what: Any) -> asyncio.Task[None]:
        async def told() -> None:
            try:
                await work(what)
            except Exception as error:
                assert self._life is not None
                self._world.failed(self._life, error)

        return asyncio.get_running_loop().create_task(told())

    def _has_enough(self) -> bool:
        return not self._world.is_healed and self._random.randrange(1_000) < self._world.plan.hangs_up_permille

    async def _breathe(self) -> None:
        """Applying takes a while, or none."""
        slow_ms = 0 if self._world.is_healed else self._world.plan.slow_ms
        if slow_ms and self._random.randrange(30) == 0:
            await asyncio.sleep(self._random.randrange(slow_ms) / 1000)
        else:
            await asyncio.sleep(self._random.choice((0, 0, 0, 1, 3)) / 1000)

    # What it hears.

    def _take(self, event: ListenResponse) -> None:
        world, who = self._world, f"clerk {self._node.id}"
        kind = event.WhichOneof("event")
        world.trace.turn(world.now_ms, self._node.id, kind, self.next)
        match kind:
            case "snapshot":
                self._load(event.snapshot)
            case "batches":
                require("I-23", not self.is_active, "told of batches while active", who)
                self.next = world.checker.heard_batches(who, self.next, event.batches.records)
            case "committed":
                high_watermark = event.committed.high_watermark
                if self.is_active:
                    self._commit(high_watermark)
                else:
                    require("I-23", high_watermark <= self.next, "a standby lacks what it is told to have", who)
            case "leadership":
                self._lead(event.leadership)

    def _load(self, piece: ListenResponse.SnapshotChunk) -> None:
        self._loading += piece.data
        if not piece.last:
            return
        data, self._loading = self._loading, b""
        path = self._world.directory / f"loaded-{self._node.id}.checkpoint"
        check_snapshot(self._world.checker, data, piece.end_offset, path)
        require("I-23", piece.end_offset > self.next, "a snapshot of what it has", piece.end_offset, self.next)
        self.next = piece.end_offset
        self.load_count += 1
        self._world.note(self._node.id, "clerk loads", self.next)

    def _commit(self, high_watermark: Offset) -> None:
        require("I-23", high_watermark > self.next, "told again", high_watermark, self.next)
        self.next = high_watermark
        self._acknowledge()

    def _acknowledge(self) -> None:
        """An append that was taken and is committed counts."""
        done = [number for number, write in self._writes.items() if write.is_taken and write.end <= self.next]
        for number in done:
            write = self._writes.pop(number)
            self._world.checker.acknowledged(self._node.id, write.base_offset, write.end, write.values)
            self.acknowledged_count += 1

    def _lead(self, told: ListenResponse.Leadership) -> None:
        self._writes.clear()
        self.is_active = told.leader_id == self._node.id and told.HasField("next_offset")
        self._epoch = told.epoch
        if self.is_active:
            self._world.checker.heard_claim(self._node.id, told.epoch, self.next)
            self._world.note(self._node.id, "clerk is active", told.epoch, told.next_offset)
            self._at = told.next_offset

    # What it writes.

    async def _write(self, stub: Any) -> None:
        call: Call = stub.Append()
        answers = self._spawn(self._hear_answers, call)
        try:
            with suppress(AioRpcError, asyncio.InvalidStateError):
                while not self._world.is_over:
                    if len(self._writes) < IN_FLIGHT_MAX:
                        await call.write(self._request())
                    pause_ms = self._world.plan.write_every_ms if self._random.randrange(3) else 0
                    await asyncio.sleep(pause_ms / 1000)
                    if self._random.randrange(400) == 0 and not self._world.is_healed:
                        self._world.fired("S-26 resigned")
                        await stub.Resign(ResignRequest(epoch=self._epoch))
        finally:
            answers.cancel()
            call.cancel()

    async def _confirm(self, stub: Any) -> None:
        """Ask whether it still leads, as before each read of its state that must be of now."""
        epoch, checker = self._epoch, self._world.checker
        while True:
            await asyncio.sleep(self._leisure.randrange(1, CONFIRM_EVERY_MS) / 1000)
            committed = checker.epoch_before(checker.end)
            try:
                answer = await stub.ConfirmLeadership(ConfirmLeadershipRequest(epoch=epoch), timeout=CONFIRM_S)
            except AioRpcError:
                continue
            if answer.error_code == 0:
                self.confirmed_count += 1
                why = "is told that it leads; when it asked, another had committed"
                require("I-40", committed <= epoch, why, self._node.id, epoch, committed)

    def _request(self) -> AppendRequest:
        batches = [
            AppendRequest.Batch(
                values=[self._value() for _ in range(self._random.choice((1, 1, 2, 5)))], may_join=joins
            )
            for joins in self._random.choice(((), (), (), (True, True), (True, False)))
        ]
        values = [] if batches else [self._value() for _ in range(self._random.choice((1, 1, 2, 10)))]
        self._written += 1
        slip = self._random.randrange(-1, 2) if self._random.randrange(60) == 0 and not self._world.is_healed else 0
        self._at += slip
        # One too far is right after all where the leader has written who votes in between.
        is_wrong = slip < 0 or (slip > 0 and self._world.is_static)
        request = AppendRequest(
            correlation_id=self._written,
            epoch=self._epoch,
            base_offset=self._at,
            values=values,
            attempt=self._attempt,
            batches=batches,
        )
        written = [value for batch in joined(request) for value in batch]
        end = self._at + len(written)
        self._writes[self._written] = Write(self._at, end, self._attempt, written, is_wrong=is_wrong)
        self._at = end
        return request

    def _value(self) -> bytes:
        """No other is like it."""
        self._written += 1
        padding = self._random.choice((10, 40, 300))
        return record(f"{self._node.id}/{self._epoch}/{self._world.loop.now_us}/{self._written}", padding)

    async def _hear_answers(self, call: Call) -> None:
        with suppress(AioRpcError):
            while (answer := await call.read()) is not EOF:
                write = self._writes.get(answer.correlation_id)
                if write is None:
                    continue
                require("I-41", not (write.is_wrong and answer.error_code == 0), "taken at a wrong offset", write)
                if answer.error_code == 0:
                    require("I-41", answer.end_offset == write.end, "written elsewhere", answer.end_offset, write)
                    write.is_taken = True
                    self._acknowledge()
                else:
                    self._world.checker.refused.update(write.values)
                    del self._writes[answer.correlation_id]
                    if write.attempt == self._attempt:
                        self._attempt += 1
                        self._at = answer.end_offset
                    self._world.fired("refused")

    # Snapshots.

    def _wants_snapshot(self) -> bool:
        every = self._world.plan.snapshot_permille
        return self.next > 0 and self._random.randrange(1_000) < every

    def _is_hasty(self) -> bool:
        """Its node is behind: is a snapshot to end where the next batch will, which may be about to be written?"""
        is_behind = 0 < self.next < self._world.checker.end and not self._loading
        return is_behind and self._world.plan.snapshot_permille > 0 and self._leisure.randrange(3) == 0

    def _any_end(self) -> Offset:
        """What it has applied, or elsewhere: before the log, in a batch, beyond what is committed."""
        known = self._world.checker
        others = (0, self.next - 1, self.next + 1, self.next + 50, known.end)
        return self.next if self._random.randrange(4) else self._random.choice(others)

    async def _snapshot(self, stub: Any, *, end: Offset) -> None:
        known = self._world.checker
        pieces = self._pieces(end, breaks_off=self._random.randrange(8) == 0)
        try:
            await stub.CreateSnapshot(pieces)
        except AioRpcError as refused:
            self._world.note(self._node.id, "no snapshot", refused.details())
        else:
            is_end = known.ends_at(end)
            require("I-26", is_end, "a snapshot that ends in a batch, or beyond what is committed", end)
            self._world.fired("S-24")

    async def _pieces(self, end: Offset, *, breaks_off: bool) -> AsyncIterator[CreateSnapshotRequest]:
        known = self._world.checker
        content = end if known.ends_at(end) else self.next
        values = state_at(known, content)
        half = len(values) // 2
        yield CreateSnapshotRequest(end_offset=end, epoch=known.epoch_before(content), values=values[:half])
        await self._breathe()
        if not breaks_off:
            yield CreateSnapshotRequest(values=values[half:])
            yield CreateSnapshotRequest()
