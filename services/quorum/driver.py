"""The event loop around the Raft core: it executes each `Ready` of the core: persist, append, send, flush.

Everything runs on one event loop except the wait for fsync, which has a thread, so followers get records while the
leader still flushes them. At most one flush runs at a time; records that are appended meanwhile share the next one
(group commit, without a linger). The core counts only flushed records for the high watermark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message as ProtobufMessage

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import Presence
from quorate.raft import messages as raft
from quorate.raft.core import Raft
from quorate.raft.log import BatchInfo, Entry
from quorate.raft.ready import Leadership, Ready, Refusal, Upgrade
from quorate.raft.roles import Leader
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.logging.logs import logger
from quorate.storage.files import NoSpace
from services.quorum.answers import Answer, Answers
from services.quorum.appends import Uncommitted, size_error
from services.quorum.batches import control_batch_of, data_batches, size_of
from services.quorum.boundaries import boundary_flaw
from services.quorum.disk import Disk
from services.quorum.downloads import Downloads
from services.quorum.flusher import Flusher, Flushing
from services.quorum.peers import Peers
from services.quorum.readiness import is_caught_up
from services.quorum.recorder import Recorder
from services.quorum.tracing import AppendTracer

log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """The result of an append: `end_offset` is the log end after it; after an error, the base offset to append at."""

    error: ErrorCode
    end_offset: Offset


class QuorumDriver:
    """Runs one Raft core on the event loop. `changed` is set, and replaced, when high watermark or leader change."""

    def __init__(
        self,
        core: Raft,
        disk: Disk,
        clock: Clock,
        tracer: AppendTracer,
        *,
        append_linger_ms: int = 0,
        flusher: Flusher | None = None,
    ) -> None:
        self.core = core
        self.disk = disk
        self.recorder = Recorder()
        self.downloads = Downloads()
        self.leadership = Leadership(epoch=0, leader_id=None)
        self.high_watermark = core.log.high_watermark
        """The offset (exclusive) up to which records are committed and readable; the core's may be ahead of it."""
        self.is_caught_up = False
        """Whether the log has all that is committed, as its leader said last."""
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
        self.presence = Presence()
        self._flusher = flusher or Flusher()
        self._flushing: Flushing | None = None
        self._unflushed: list[bytes] = []
        self._uncommitted = Uncommitted()
        self._answers = Answers(disk, self.downloads)

    def start(self, peers: Peers, failed: Callable[[BaseException], None]) -> None:
        """Starts the loop. `failed` is called with an error that must end the process, such as a failed fsync."""
        self._peers = peers
        self._failed = failed
        self._flusher.start()
        self._soon = asyncio.get_running_loop().call_soon(self._run)

    def stop(self) -> None:
        """Stops the loop, and the flush thread after the running flush."""
        self._halt()
        self._flusher.stop()

    async def stopped(self) -> None:
        """Waits until the running flush is done after `stop`, for ever if the disk hangs."""
        await self._flusher.stopped()

    def _halt(self) -> None:
        for handle in (self._timer, self._soon, self._lingering):
            if handle is not None:
                handle.cancel()
        self._peers = None

    # Inputs: messages, failures, and requests of the controller.

    def hear(self, message: raft.Message) -> None:
        """Passes a peer's request or answer to the core. One with more records than fit on the disk counts as failed.

        So does a Fetch answer with an offset within a batch; a Fetch request at one raises ApiError(INVALID_REQUEST).
        """
        if (flaw := boundary_flaw(self.disk.log, self.core.log, message)) is not None:
            self.recorder.refused(f"a Fetch answer: {flaw}")
        size = size_of(message)
        if flaw is not None or (size and not self._has_room(size)):
            self.fail(message.reply_to)
            return
        self.core.step(message, self.now_ms)
        self._wake()

    async def ask(self, request: Callable[[Answer], raft.Request]) -> tuple[Any, bytes]:
        """Passes a request to the core, and returns its answer with the bytes of log or snapshot for it, or b"".

        `request` builds the request from the callback for its answer. There is no deadline. Raises ApiError as `hear`.
        """
        answered: asyncio.Future[tuple[Any, bytes]] = asyncio.get_running_loop().create_future()

        def reply(answer: raft.Response, data: bytes) -> None:
            if not answered.done():  # the caller may have gone
                answered.set_result((answer, data))

        self.hear(request(reply))
        return await answered

    def lose(self, node_id: NodeId) -> None:
        """Reports to the core that the fetch stream to or from a node broke."""
        self.core.peer_lost(node_id, self.now_ms)
        self._wake()

    def fail(self, token: object) -> None:
        """Reports to the core that a request failed, so that it asks again after a pause; `token` is its `reply_to`."""
        self.core.request_failed(token, self.now_ms)
        self._wake()

    def resign(self, epoch: Epoch) -> None:
        """Resigns the leadership in `epoch`; no effect in another epoch."""
        if self.core.role.epoch == epoch:
            self.core.resign(self.now_ms)
            self._wake()

    def note_readers(self, readers: Mapping[ReplicaKey, Offset], *, epoch: Epoch) -> bool:
        """Notes the fetch offsets of replicas that a gateway has answered.

        Returns False if one was not taken, such as a voter's, or this node does not lead `epoch`.
        """
        role = self.core.role
        if not isinstance(role, Leader) or role.epoch != epoch:
            return False
        return self.core.note_readers(readers, self.now_ms)

    def set_presence(self, presence: Presence) -> None:
        """Passes to the core whether this node's controller is present."""
        self.presence = presence
        self.core.controller_presence(presence, self.now_ms)
        self._wake()

    async def ask_kafka_leader(self, request: ProtobufMessage) -> Any:
        """Sends a request to the leader if that is a Kafka controller, and returns its answer. Raises ApiError:
        NOT_CONTROLLER if it is none, or no leader is known; else as `Peers.ask_kafka_leader`."""
        leader_id = self.core.role.leader_id
        if leader_id is None or self._peers is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"no leader of epoch {self.core.role.epoch} is known")
        return await self._peers.ask_kafka_leader(leader_id, request)

    def upgrade_kraft_version(self, version: int, *, epoch: Epoch, validate_only: bool) -> Upgrade:
        """Raises kraft.version, or says why not; done once the high watermark is at the result's end offset."""
        upgrade = self.core.upgrade_kraft_version(version, self.now_ms, epoch=epoch, validate_only=validate_only)
        self._wake()
        return upgrade

    def claim(self, epoch: Epoch) -> bool:
        """Reserves `epoch` for one active controller; False if another was active in it, or in a later one."""
        is_free = epoch > self._claimed
        self._claimed = max(self._claimed, epoch)
        return is_free

    def append(self, epoch: Epoch, base_offset: Offset, batches: Sequence[Sequence[bytes]]) -> AppendResult:
        """Appends the controller's encoded records, a batch for each list, all or none; waits for no flush or commit.

        If it cannot, the result has the error: this node does not lead `epoch` or is transferring it, its log does not
        end at `base_offset`, a batch is empty or too large, or the disk is full (KAFKA_STORAGE_ERROR).
        """
        error = size_error(batches)
        if error is not ErrorCode.NONE:
            return AppendResult(error=error, end_offset=self.core.log.leo)
        if not self._has_room(sum(sum(map(len, values)) for values in batches)):
            return AppendResult(error=ErrorCode.KAFKA_STORAGE_ERROR, end_offset=self.core.log.leo)
        made = data_batches(batches, base_offset=base_offset, epoch=epoch, timestamp_ms=self._clock.wall_ms())
        refusal: Refusal | None = self.core.append(made, self.now_ms)
        self._schedule_turn()
        if refusal is None:
            self._uncommitted.add(made[-1].end_offset, sum(batch.size for batch in made))
            return AppendResult(error=ErrorCode.NONE, end_offset=made[-1].end_offset)
        return AppendResult(error=refusal.error, end_offset=refusal.wanted_offset)

    async def has_room(self) -> None:
        """Waits while too many bytes are uncommitted (backpressure)."""
        while self._uncommitted.is_full:
            await self.changed.wait()

    def _has_room(self, size: int) -> bool:
        """Reserves disk space before the core gets the records, since all that the core accepts must be written."""
        try:
            self.disk.reserve(size)
        except NoSpace as full:
            log.warning("no room on the disk", size=size, reason=full.strerror)
            return False
        return True

    @property
    def now_ms(self) -> int:
        """The monotonic clock, in ms, which the core gets."""
        return self._clock.monotonic_ms()

    @property
    def wall_ms(self) -> int:
        """The wall clock, in ms since 1970, for timestamps."""
        return self._clock.wall_ms()

    def settle(self) -> None:
        """Executes a pending turn at once, so that no pending action refers to positions in the log."""
        if self._soon is not None:
            self._soon.cancel()
            self._run()

    # A turn.

    def _schedule_turn(self) -> None:
        """Schedules a turn after the append linger, so that more appends share its flush; without a linger at once."""
        if self._linger_ms == 0:
            self._wake()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(self._linger_ms / 1000, self._wake)

    def _wake(self) -> None:
        if self._soon is None and self._peers is not None:
            self._soon = asyncio.get_running_loop().call_soon(self._run)

    def _end(self, error: BaseException) -> None:
        """Ends the node: core or disk may be half changed, and asyncio only logs what a callback raises."""
        self._halt()
        self._failed(error)

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
        except BaseException as error:
            self._end(error)

    def _carry_out(self, ready: Ready) -> None:
        """Executes a `Ready` in its order: the election state is durable before any answer or request leaves."""
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
        self._answers.begin_turn()
        for answer in ready.answers:
            self._answers.send(answer, now_ms=self.now_ms)
        assert self._peers is not None
        if ready.leadership is not None:
            # Before the requests: the next role's first Fetch, to look for a leader, may be among them.
            self._peers.stop_fetching(unless_from=ready.leadership.leader_id)
        for send in ready.requests:
            self._peers.send(send)
        self._report(ready)
        self.recorder.carried_out(ready, self.core.role, leo=self.core.log.leo)

    def _appendable(self, entry: Entry) -> bytes:
        if not isinstance(entry, BatchInfo):
            return control_batch_of(entry, timestamp_ms=self._clock.wall_ms())
        assert isinstance(entry.data, bytes)
        return entry.data

    def _flush(self) -> None:
        """Starts a flush of the appended batches, unless one is running or nothing is unflushed."""
        if self._flushing is None and (flush := self.disk.begin_flush()) is not None:
            self._flushing = Flushing(flush, tuple(self._unflushed), self._clock.wall_ns())
            self._unflushed.clear()
            self.recorder.flush_begins()
            self._flusher.wait_for(flush, self._flushed)

    def _flushed(self, error: Exception | None) -> None:
        """Handles the end of a flush. After a failed fsync the disk's content is unknown, so the process ends.

        Also while it stops: to flush once more would succeed, as the kernel tells of an error once.
        """
        if self._peers is None and error is None:
            return
        try:
            if error is not None:
                self.disk.fail_flush(error)
                raise error
            assert self._flushing is not None
            flushing, self._flushing = self._flushing, None
            end = self.disk.end_flush(flushing.flush)
            self.recorder.flush_ends()
            self._tracer.flushed(flushing.batches, start_ns=flushing.start_ns, end_ns=self._clock.wall_ns())
            self.core.flushed(end, self.now_ms)
            self._wake()
        except BaseException as failure:
            self._end(failure)

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

    def _report(self, ready: Ready) -> None:
        if ready.leadership is not None:
            self.leadership = ready.leadership
            self._uncommitted.clear()
        if ready.high_watermark is not None:
            self.high_watermark = ready.high_watermark
            self._uncommitted.settle(ready.high_watermark)
        was_caught_up, self.is_caught_up = self.is_caught_up, is_caught_up(self.core, joins=False)
        if ready.leadership is not None or ready.high_watermark is not None or self.is_caught_up != was_caught_up:
            self.changed.set()
            self.changed = asyncio.Event()

    def _set_timer(self) -> None:
        """Sets the timer to the core's deadline. A timer that is due earlier stays, as an early tick does no harm."""
        deadline_ms = self.core.deadline
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_s = max(0, deadline_ms - self.now_ms) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        """Has the core run what is due. Mostly nothing is: an append has answered the fetches that were held until now.

        Then the core has nothing to say, and the timer is set to the deadline that it has by now.
        """
        self._timer = None
        try:
            if self.core.deadline is None or self.core.deadline > self.now_ms:
                self._set_timer()
            else:
                self.core.tick(self.now_ms)
                self._wake()
        except BaseException as error:
            self._end(error)


def _raise(error: BaseException) -> None:
    raise error
