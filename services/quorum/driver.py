"""The loop around the core: persist → send → apply.

Everything runs on one event loop. What arrives while a turn is under way is in the next one: that is the
group commit, without a linger. Answers to followers leave beside the leader's own flush, which their next
fetch then overtakes or not; the core counts only what is flushed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.errors import Corrupt, ErrorCode
from quorate.nouns import Epoch, NodeId, Offset
from quorate.raft import messages as raft
from quorate.raft.core import Raft
from quorate.raft.log import Batch, LeaderChange
from quorate.raft.ready import Leadership, Ready, Refusal
from quorate.runtime.clock import Clock
from quorate.runtime.logs import logger
from quorate.wire.batch import data_batch
from services.quorum.batches import leader_change_batch
from services.quorum.disk import Disk
from services.quorum.peers import Peers
from services.quorum.tracing import Tracer

log = logger(__name__)

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Kafka's largest batch; a larger append is an error and not split."""

Answer = Callable[[raft.Response, bytes], None]
"""Sends one answer, with the bytes that it said to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """What became of an append: `end_offset` is the end of the log after it, or the offset that is wanted."""

    error: ErrorCode
    end_offset: Offset


class Driver:
    """Drives one core. `changed` is called after each turn that moved the high watermark or the leadership."""

    def __init__(self, core: Raft, disk: Disk, clock: Clock, tracer: Tracer) -> None:
        self.core = core
        self.disk = disk
        self.leadership = Leadership(epoch=0, leader_id=None)
        self.changed = asyncio.Event()
        self._clock = clock
        self._tracer = tracer
        self._peers: Peers | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._failed: Callable[[BaseException], None] = _raise
        self._claimed: Epoch = -1

    def start(self, peers: Peers, failed: Callable[[BaseException], None]) -> None:
        """Begin to take turns. `failed` is told of what cannot be gone on from: a disk that does not do its work."""
        self._peers = peers
        self._failed = failed
        self._soon = asyncio.get_running_loop().call_soon(self._run)

    def stop(self) -> None:
        """Take no further turn."""
        for handle in (self._timer, self._soon):
            if handle is not None:
                handle.cancel()
        self._peers = None

    # What happens to the node.

    def hear(self, message: raft.Message) -> None:
        """A peer's request or answer."""
        self.core.step(message, self.now_ms)
        self._wake()

    def lose(self, node_id: NodeId) -> None:
        """The stream to a node broke."""
        self.core.peer_lost(node_id, self.now_ms)
        self._wake()

    def fail(self, token: object) -> None:
        """A request will not be answered."""
        self.core.request_failed(token, self.now_ms)
        self._wake()

    def resign(self, epoch: Epoch) -> None:
        """Give up leadership in `epoch`."""
        if self.core.role.epoch == epoch:
            self.core.resign(self.now_ms)
            self._wake()

    def claim(self, epoch: Epoch) -> bool:
        """A controller is to be active in `epoch`; False if one was already: an epoch has one."""
        is_free = epoch > self._claimed
        self._claimed = max(self._claimed, epoch)
        return is_free

    def append(self, epoch: Epoch, base_offset: Offset, values: Sequence[bytes]) -> AppendResult:
        """WRITE the controller's records into the log as one batch, if this node leads `epoch` and ends there."""
        size = sum(map(len, values))
        if not values or size > BATCH_BYTES_MAX:
            code = ErrorCode.RECORD_LIST_TOO_LARGE if values else ErrorCode.INVALID_REQUEST
            return AppendResult(error=code, end_offset=self.core.log.leo)
        data = data_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=self._clock.wall_ms(), values=values)
        batch = Batch(
            base_offset=base_offset,
            last_offset=base_offset + len(values) - 1,
            epoch=epoch,
            size=len(data),
            data=data,
        )
        refusal: Refusal | None = self.core.append((batch,), self.now_ms)
        self._wake()
        if refusal is None:
            return AppendResult(error=ErrorCode.NONE, end_offset=batch.end_offset)
        return AppendResult(error=refusal.error, end_offset=refusal.wanted_offset)

    @property
    def now_ms(self) -> int:
        """The clock that the core is told."""
        return self._clock.monotonic_ms()

    @property
    def wall_ms(self) -> int:
        """The time of day, for those who read it."""
        return self._clock.wall_ms()

    # A turn.

    def _wake(self) -> None:
        if self._soon is None and self._peers is not None:
            self._soon = asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._soon = None
        try:
            while ready := self.core.ready():
                self._carry_out(ready)
            self._set_timer()
        except BaseException as error:  # a turn that is not carried out whole must not be followed by another
            self.stop()
            self._failed(error)

    def _carry_out(self, ready: Ready) -> None:
        """What `Ready` lists, in its order: nothing leaves that is not durable first."""
        if ready.election is not None:
            self.disk.persist(ready.election)
        if ready.truncate_to is not None:
            self.disk.truncate_to(ready.truncate_to)
        if ready.install is not None:
            self.disk.install(ready.install)
        appended = [self._appendable(batch) for batch in ready.append]
        for data in appended:
            self.disk.append(data)
        if ready.chunk is not None:
            self._store_chunk(ready)
        for answer in ready.answers:
            self._answer(answer)
        assert self._peers is not None
        for send in ready.requests:
            self._peers.send(send)
        if appended:
            self._flush(appended)
        self._tell(ready)

    def _appendable(self, batch: Batch | LeaderChange) -> bytes:
        if isinstance(batch, LeaderChange):
            return leader_change_batch(batch, timestamp_ms=self._clock.wall_ms())
        assert isinstance(batch.data, bytes)
        return batch.data

    def _flush(self, appended: Sequence[bytes]) -> None:
        started = self._clock.wall_ns()
        end = self.disk.flush()
        self._tracer.flushed(appended, start_ns=started, end_ns=self._clock.wall_ns())
        self.core.flushed(end, self.now_ms)

    def _store_chunk(self, ready: Ready) -> None:
        chunk = ready.chunk
        assert chunk is not None
        self.disk.store_chunk(chunk)
        if not chunk.is_last:
            return
        try:
            voters = self.disk.complete_download(chunk.snapshot_id)
        except Corrupt as damage:
            log.warning("a snapshot came damaged", reason=str(damage))
            self.core.snapshot_failed(chunk.snapshot_id, self.now_ms)
        else:
            self.core.snapshot_complete(chunk.snapshot_id, voters, self.now_ms)

    def _answer(self, answer: raft.Response) -> None:
        """Send an answer, with the bytes that it points to; they are read now, before a later turn may remove them."""
        data = b""
        if isinstance(answer, raft.FetchResponse) and answer.read is not None:
            data = self.disk.read(answer.read.offset, answer.read.max_bytes)
        elif isinstance(answer, raft.FetchSnapshotResponse) and answer.read is not None:
            data = self.disk.read_snapshot(answer.read)
        reply: Answer = answer.reply_to  # type: ignore[assignment]  # the servicer gave it with the request
        reply(answer, data)

    def _tell(self, ready: Ready) -> None:
        for transition in ready.transitions:
            log.info(
                "became " + transition.after.lower(),
                before=transition.before.lower(),
                epoch=transition.epoch,
                leo=self.core.log.leo,
                reason=transition.reason,
            )
        if ready.leadership is not None:
            self.leadership = ready.leadership
            assert self._peers is not None
            self._peers.stop_fetching(unless_from=ready.leadership.leader_id)
        if ready.leadership is not None or ready.high_watermark is not None:
            self.changed.set()
            self.changed = asyncio.Event()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.core.deadline is not None:
            delay_s = max(0, self.core.deadline - self.now_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.core.tick(self.now_ms)
        self._wake()


def _raise(error: BaseException) -> None:
    raise error
