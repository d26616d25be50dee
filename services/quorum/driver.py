"""The loop around the core: persist → send → apply.

Everything runs on one event loop but the wait for the disk, which has a thread: answers to followers leave beside
the leader's own flush, which their next fetch overtakes or not. At most one flush is under way; what is appended
meanwhile is in the next one: that is the group commit, without a linger. The core counts only what is flushed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quorate.errors import Corrupt, ErrorCode
from quorate.nouns import Epoch, NodeId, Offset
from quorate.raft import messages as raft
from quorate.raft.core import Raft
from quorate.raft.log import Batch, Entry
from quorate.raft.ready import Leadership, Ready, Refusal, Upgrade
from quorate.runtime.clock import Clock
from quorate.runtime.logs import logger
from quorate.storage.disk_log import Flush
from quorate.storage.files import NoSpace
from services.quorum.appends import Uncommitted
from services.quorum.batches import control_batch_of, data_batches
from services.quorum.disk import Disk
from services.quorum.flusher import Flusher
from services.quorum.peers import Peers
from services.quorum.recorder import Recorder
from services.quorum.tracing import Tracer

log = logger(__name__)

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Kafka's largest batch; a larger append is an error and not split."""
UNCOMMITTED_BYTES_MAX: Final = 10 * BATCH_BYTES_MAX
"""Ten batches wait in Kafka's accumulator, too. With more on their way, the next append is left unread."""
READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one answer, whatever its asker would take: Kafka's `controller.quorum.fetch.max.bytes`."""
READS_BYTES_MAX: Final = 8 * READ_BYTES_MAX
"""Of the answers to fetches in one turn: many observers may be behind at once. The others get none, and ask again."""

Answer = Callable[[raft.Response, bytes], None]
"""Sends one answer, with the bytes that it said to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """What became of an append: `end_offset` is the end of the log after it, or the offset that is wanted."""

    error: ErrorCode
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class _Flushing:
    """What the disk is waited for, and what its spans need."""

    flush: Flush
    batches: tuple[bytes, ...]
    start_ns: int


class Driver:
    """Drives one core. `changed` is called after each turn that moved the high watermark or the leadership."""

    def __init__(
        self,
        core: Raft,
        disk: Disk,
        clock: Clock,
        tracer: Tracer,
        *,
        append_linger_ms: int = 0,
        flusher: Flusher | None = None,
    ) -> None:
        self.core = core
        self.disk = disk
        self.recorder = Recorder()
        self.leadership = Leadership(epoch=0, leader_id=None)
        self.high_watermark = core.log.high_watermark
        """Up to where everything is committed and can be read: the core may know of more, not carried out yet."""
        self.changed = asyncio.Event()
        self._clock = clock
        self._tracer = tracer
        self._peers: Peers | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._soon: asyncio.Handle | None = None
        self._linger_ms = append_linger_ms
        self._lingering: asyncio.TimerHandle | None = None
        self._failed: Callable[[BaseException], None] = _raise
        self._claimed: Epoch = -1
        self._flusher = flusher or Flusher()
        self._flushing: _Flushing | None = None
        self._unflushed: list[bytes] = []
        self._uncommitted = Uncommitted()
        self._reads_left = READS_BYTES_MAX

    def start(self, peers: Peers, failed: Callable[[BaseException], None]) -> None:
        """Begin to take turns. `failed` is told of what cannot be gone on from: a disk that does not do its work."""
        self._peers = peers
        self._failed = failed
        self._flusher.start()
        self._soon = asyncio.get_running_loop().call_soon(self._run)

    def stop(self) -> None:
        """Take no further turn, and wait until the disk is not waited for any more."""
        self._halt()
        self._flusher.stop()

    def _halt(self) -> None:
        for handle in (self._timer, self._soon, self._lingering):
            if handle is not None:
                handle.cancel()
        self._peers = None

    # What happens to the node.

    def hear(self, message: raft.Message) -> None:
        """A peer's request or answer. One that brings more than the disk has room for counts as lost."""
        size = _size_of(message)
        if size and not self._has_room(size):
            self.fail(message.reply_to)
            return
        self.core.step(message, self.now_ms)
        self._wake()

    async def ask(self, request: Callable[[Answer], raft.Request]) -> tuple[Any, bytes]:
        """A peer's or a person's request, built with the way back, and its answer with the bytes that go along."""
        answered: asyncio.Future[tuple[Any, bytes]] = asyncio.get_running_loop().create_future()

        def reply(answer: raft.Response, data: bytes) -> None:
            if not answered.done():  # the asker may have gone
                answered.set_result((answer, data))

        self.hear(request(reply))
        return await answered

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

    def upgrade_kraft_version(self, version: int, *, epoch: Epoch, validate_only: bool) -> Upgrade:
        """Raise kraft.version; done once the high watermark has reached the answer's end offset. KIP-853."""
        upgrade = self.core.upgrade_kraft_version(version, self.now_ms, epoch=epoch, validate_only=validate_only)
        self._wake()
        return upgrade

    def claim(self, epoch: Epoch) -> bool:
        """A controller is to be active in `epoch`; False if one was already: an epoch has one."""
        is_free = epoch > self._claimed
        self._claimed = max(self._claimed, epoch)
        return is_free

    def append(self, epoch: Epoch, base_offset: Offset, batches: Sequence[Sequence[bytes]]) -> AppendResult:
        """WRITE the controller's records into the log, if this node leads `epoch` and ends there: all, or nothing."""
        error = _size_error(batches)
        if error is not ErrorCode.NONE:
            return AppendResult(error=error, end_offset=self.core.log.leo)
        if not self._has_room(sum(sum(map(len, values)) for values in batches)):
            return AppendResult(error=ErrorCode.KAFKA_STORAGE_ERROR, end_offset=self.core.log.leo)
        made = data_batches(batches, base_offset=base_offset, epoch=epoch, timestamp_ms=self._clock.wall_ms())
        refusal: Refusal | None = self.core.append(made, self.now_ms)
        self._wait_for_company()
        if refusal is None:
            self._uncommitted.add(made[-1].end_offset, sum(batch.size for batch in made))
            return AppendResult(error=ErrorCode.NONE, end_offset=made[-1].end_offset)
        return AppendResult(error=refusal.error, end_offset=refusal.wanted_offset)

    async def has_room(self) -> None:
        """Wait until what was appended before is committed, but for what a leader may have on its way."""
        while self._uncommitted.size > UNCOMMITTED_BYTES_MAX:
            await self.changed.wait()

    def _has_room(self, size: int) -> bool:
        """Asked before the core is told: what it has taken must be kept."""
        try:
            self.disk.reserve(size)
        except NoSpace as full:
            log.warning("no room on the disk", size=size, reason=full.strerror)
            return False
        return True

    @property
    def now_ms(self) -> int:
        """The clock that the core is told."""
        return self._clock.monotonic_ms()

    @property
    def wall_ms(self) -> int:
        """The time of day, for those who read it."""
        return self._clock.wall_ms()

    def settle(self) -> None:
        """Carry out at once what is due, so that nothing is pending that points into the log."""
        if self._soon is not None:
            self._soon.cancel()
            self._run()

    # A turn.

    def _wait_for_company(self) -> None:
        """What was appended is written with what else comes in the linger; by default at once."""
        if self._linger_ms == 0:
            self._wake()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(self._linger_ms / 1000, self._wake)

    def _wake(self) -> None:
        if self._soon is None and self._peers is not None:
            self._soon = asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._soon = None
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        try:
            while ready := self.core.ready():
                self._carry_out(ready)
            self._flush()
            self._set_timer()
        except BaseException as error:  # a turn that is not carried out whole must not be followed by another
            self._halt()
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
        self._unflushed += appended
        if ready.chunk is not None:
            self._store_chunk(ready)
        self._reads_left = READS_BYTES_MAX
        for answer in ready.answers:
            self._answer(answer)
        assert self._peers is not None
        for send in ready.requests:
            self._peers.send(send)
        self._tell(ready)
        self.recorder.carried_out(ready, self.core.role)

    def _appendable(self, entry: Entry) -> bytes:
        if not isinstance(entry, Batch):
            return control_batch_of(entry, timestamp_ms=self._clock.wall_ms())
        assert isinstance(entry.data, bytes)
        return entry.data

    def _flush(self) -> None:
        """Begin to wait for the disk, unless that is waited for already, or has everything."""
        if self._flushing is None and (flush := self.disk.begin_flush()) is not None:
            self._flushing = _Flushing(flush, tuple(self._unflushed), self._clock.wall_ns())
            self._unflushed.clear()
            self.recorder.flush_begins()
            self._flusher.wait_for(flush, self._flushed)

    def _flushed(self, error: OSError | None) -> None:
        """The disk has it. If it has failed, nobody knows what it has, and this process must not go on."""
        if self._peers is None:
            return
        if error is not None:
            self.disk.fail_flush(error)
            self._halt()
            self._failed(error)
            return
        assert self._flushing is not None
        flushing, self._flushing = self._flushing, None
        end = self.disk.end_flush(flushing.flush)
        self.recorder.flush_ends()
        self._tracer.flushed(flushing.batches, start_ns=flushing.start_ns, end_ns=self._clock.wall_ns())
        self.core.flushed(end, self.now_ms)
        self._wake()

    def _store_chunk(self, ready: Ready) -> None:
        chunk = ready.chunk
        assert chunk is not None
        self.disk.store_chunk(chunk)
        if not chunk.is_last:
            return
        try:
            quorum = self.disk.complete_download(chunk.snapshot_id)
        except Corrupt as damage:
            log.warning("a snapshot came damaged", reason=str(damage))
            self.core.snapshot_failed(chunk.snapshot_id, self.now_ms)
        else:
            self.core.snapshot_complete(
                chunk.snapshot_id, quorum.voters, self.now_ms, kraft_version=quorum.kraft_version
            )

    def _answer(self, answer: raft.Response) -> None:
        """Send an answer, with the bytes that it points to; they are read now, before a later turn may remove them."""
        data = b""
        if isinstance(answer, raft.FetchResponse) and answer.read is not None:
            data = self._read(answer.read)
        elif isinstance(answer, raft.FetchSnapshotResponse) and answer.read is not None:
            data = self.disk.read_snapshot(answer.read)
        reply: Answer = answer.reply_to  # type: ignore[assignment]  # the servicer gave it with the request
        reply(answer, data)

    def _read(self, read: raft.Read) -> bytes:
        if self._reads_left <= 0:
            return b""
        data = self.disk.read(read.offset, min(read.max_bytes, READ_BYTES_MAX), below=read.below)
        self._reads_left -= len(data)
        return data

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
            self._uncommitted.clear()
            assert self._peers is not None
            self._peers.stop_fetching(unless_from=ready.leadership.leader_id)
        if ready.high_watermark is not None:
            self.high_watermark = ready.high_watermark
            self._uncommitted.settle(ready.high_watermark)
        if ready.leadership is not None or ready.high_watermark is not None:
            self.changed.set()
            self.changed = asyncio.Event()

    def _set_timer(self) -> None:
        """Be woken when the core wants it; sooner does no harm, and most deadlines move on before they come."""
        deadline_ms = self.core.deadline
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_s = max(0, deadline_ms - self.now_ms) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.core.tick(self.now_ms)
        self._wake()


def _size_error(batches: Sequence[Sequence[bytes]]) -> ErrorCode:
    if not batches or not all(batches):
        return ErrorCode.INVALID_REQUEST
    if any(sum(map(len, values)) > BATCH_BYTES_MAX for values in batches):
        return ErrorCode.RECORD_LIST_TOO_LARGE
    return ErrorCode.NONE


def _size_of(message: raft.Message) -> int:
    """How much the disk is to take of it, in bytes."""
    match message:
        case raft.FetchResponse():
            return sum(batch.size for batch in message.batches)
        case raft.FetchSnapshotResponse():
            return len(message.data)
        case _:
            return 0


def _raise(error: BaseException) -> None:
    raise error
