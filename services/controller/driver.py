"""The event loop around the controller's engine: it carries records and answers between the engine and the quorum node.

`write` runs a command and appends its records at the quorum node; `commit` answers the requests whose records the high
watermark has passed; `apply` replays the committed batches of another controller. The engine makes every decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import grpc

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.engine.decision import Command, CommandInSteps
from quorate.controller.engine.deduplication import RequestId
from quorate.controller.engine.engine import Answer, Engine, QueueLimit
from quorate.controller.engine.failures import Consequence, Fault, Where, row_for, told_to_caller
from quorate.controller.engine.preparation import Undecided
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import NOBODY, Epoch, NodeId, Offset, Principal
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.event_loop.turns import decoded, in_turns
from quorate.runtime.logging.logs import logger
from quorate.runtime.telemetry.tracing import Telemetry
from quorate.wire.batch import batches, data_values
from services.controller.activating import report_activation, unrefused
from services.controller.decision_queue import DecisionQueue
from services.controller.pending import FOR_NOW, PendingWrite, response_of
from services.controller.performance import PerformanceLog
from services.controller.quorum_link import EventsBehind, QuorumLink
from services.controller.snapshot_loading import SnapshotLoading
from services.controller.snapshots import AppliedSinceSnapshot
from services.controller.tracing import WriteTracer

log = logger(__name__)
T = TypeVar("T")
NS_PER_MS: Final = 1_000_000


class ControllerDriver:
    """Connects the engine to the quorum node: sends its appends, feeds it events, and resolves the callers' futures."""

    def __init__(
        self,
        engine: Engine,
        channel: grpc.aio.Channel,
        clock: Clock,
        telemetry: Telemetry,
        *,
        node_id: NodeId,
        activation: Command[None],
        performance: PerformanceLog | None = None,
    ) -> None:
        self.engine, self.loop = engine, asyncio.get_running_loop()  # to ask for the loop is a call of the kernel
        self._performance = performance or PerformanceLog()
        self.leader_id: NodeId = NOBODY
        self.leader_epoch: Epoch = 0
        self.told_leader_id: NodeId = NOBODY  # of the last leadership event; it stays while the quorum node is gone
        self.leaderless_at: Offset | None = None  # where the state stood when it was heard last that nobody leads
        self.leaders_heard = 0  # count of leadership events that named a leader, for the metrics
        self.applied_at_ms: int = -1  # wall-clock time at which the last applied record was appended; -1 before any
        self.changed = asyncio.Event()
        self.on_leader: Callable[[], None] = lambda: None  # hears that another leads, or nobody, or in another epoch
        self._decisions, self.long_reads = DecisionQueue(engine), DecisionQueue(engine)
        self._link = QuorumLink(channel, self)
        self.write_coming = self._link.coming
        """Announces a write that follows right after the context; writes before it may wait to share its commit."""
        self.until_committed = self._link.until_committed
        """Waits while a commit is under way and others come: what is appended meanwhile is sent after it."""
        self._clock = clock
        self._led_until_ms = clock.monotonic_ms()
        self.tracer = WriteTracer(telemetry, clock, node_id=node_id)
        self._node_id = node_id
        self._activation = activation
        self._activated: Offset = 0  # the end of this epoch's activation records; no other write is appended before
        self.applied = AppliedSinceSnapshot()
        self._loading = SnapshotLoading(engine)
        self._fatal: Fault | None = None
        self._is_fatal = asyncio.Event()

    async def run(self) -> None:
        """Runs until cancelled. Raises Fault or Corrupt when the process has to end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._link.run())
            tasks.create_task(self._until_fatal())

    async def _until_fatal(self) -> None:
        await self._is_fatal.wait()
        assert self._fatal is not None
        raise self._fatal

    @property
    def leaderless_ms(self) -> int:
        """How long (ms) no leader has been known, since the start at most; 0 while one is."""
        return 0 if self.leader_id != NOBODY else self._clock.monotonic_ms() - self._led_until_ms

    @property
    def is_active(self) -> bool:
        """Whether this controller is the active one, which may write."""
        return self.engine.epoch is not None

    # WRITE

    async def write(
        self,
        api: str,
        command: Command[T],
        *,
        lane: QueueLimit = QueueLimit.CLUSTER,
        request_id: RequestId | None = None,
        begin: Callable[[], None] | None = None,
        by: Principal | None = None,
    ) -> Answer:
        """Runs a command, applies and appends its records, and returns the answer once they are committed.

        Commands are decided one after the other. `begin` is called when it is this one's turn; an ApiError that it
        raises ends the write. The trace says `by` whom. A request whose `request_id` was sent before gets the same
        answer. A caller that goes before the decision ends has written nothing. Raises ApiError: also NOT_CONTROLLER.
        """
        return response_of(await (await self.begin(api, command, lane, request_id, begin, by=by)))

    async def query(self, api: str, command: Command[T], *, lane: QueueLimit = QueueLimit.ADMIN) -> Answer:
        """Runs a command that only reads; it need not wait for a write that is being decided in steps. Raises ApiError.

        It returns the answer once all that it has read is committed. One that fails costs nobody else anything. It has
        no steps: each write between two of them would have it begun anew (`reads.read_in_steps`).
        """
        assert not isinstance(command, CommandInSteps), api
        answer = await (await self._decide(api, command, lane, only_reads=True))
        if answer.error is not None and answer.error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            log.error("a read has failed", exception=answer.error.__cause__, api=api)
        return response_of(answer)

    async def begin(
        self,
        api: str,
        command: Command[T],
        lane: QueueLimit,
        request_id: RequestId | None = None,
        begin: Callable[[], None] | None = None,
        *,
        by: Principal | None = None,
    ) -> asyncio.Future[Answer]:
        """Waits until all commands before are decided, then decides this one. Returns and raises as `_decide`."""
        if not self._decisions.enters(lane):
            await self._decisions.enter(lane)
        try:
            if begin is not None:
                begin()
            return await self._decide(api, command, lane, request_id, by=by, only_reads=False)
        finally:
            self._decisions.leave()

    async def _decide(
        self,
        api: str,
        command: Command[T],
        lane: QueueLimit,
        request_id: RequestId | None = None,
        *,
        by: Principal | None = None,
        only_reads: bool,
    ) -> asyncio.Future[Answer]:
        """Runs the command in the engine, sends its append, and returns the future of its answer. Raises ApiError.

        Between two steps of the decision the loop runs other tasks. A command without steps is decided at once.
        """
        begun_ns = self._clock.wall_ns()
        answered: asyncio.Future[Answer] = self.loop.create_future()
        waiting = PendingWrite.begun(api, begun_ns, answered, self.tracer.traceparent())
        asked = Undecided(
            token=waiting,
            command=self.tracer.timed(command, waiting),
            now_ms=begun_ns // NS_PER_MS,
            traceparent=waiting.traceparent,
            request_id=request_id,
            only_reads=only_reads,
        )
        with self.tracer.write(api, by) as span:
            try:  # the records are applied before they are appended: what cannot be applied must not be replicated
                record_count = await in_turns(self.engine.write_in_steps(asked, lane=lane))
            except Fault as fault:
                raise self._failed(fault) from None
            end_offset = self.engine.next_offset
            span.set("kraft.base_offset", end_offset - record_count)
            span.set("kraft.record_count", record_count)
        waiting.written_ns = self._clock.wall_ns()
        self._performance.note(api, waiting.written_ns - begun_ns)
        if record_count:
            self.applied_at_ms = waiting.written_ns // NS_PER_MS
            self.tracer.applied(waiting, epoch=self.leader_epoch, end_offset=end_offset, record_count=record_count)
        self._carry_out()
        return answered

    def appended(self, end_offset: Offset) -> None:
        """Handles an append that succeeded: the quorum node's log has everything below `end_offset`."""
        if self.is_active:
            self.engine.note_appended(end_offset)
            self._carry_out()  # the high watermark may have passed it already

    def refused(self, error: ErrorCode, wanted: Offset) -> None:
        """Handles a refused append; the quorum node expects offset `wanted`. All later appends are void, too.

        By the table in `failures` the commands are decided again, the waiting requests get an error, or this controller
        renounces. Raises EventsBehind if the streams to the quorum node have to be reopened.
        """
        if not self.is_active:
            return
        if not self._stays(error, wanted):
            self._renounce(f"append refused: {error.name}")
            if row_for(Where.APPENDING, error).consequence is not Consequence.STAND_BY:
                self._carry_out()
                # The quorum node still leads, and regards this controller as active: only a new stream ends that.
                raise EventsBehind(f"this controller cannot stay active: {error.name}")
        self._carry_out()

    def _stays(self, error: ErrorCode, wanted: Offset) -> bool:
        """Decides again or fails the waiting requests, by the table in `failures`; False if it must renounce."""
        is_activated = self.engine.appended >= self._activated
        match row_for(Where.APPENDING, error).consequence:
            case Consequence.DECIDE_AGAIN if self._decides_again(wanted):
                log.info("deciding again", wanted=wanted, next_offset=self.engine.next_offset)
                if not is_activated:
                    self._activated = self.engine.next_offset
                return True
            case Consequence.REFUSE if is_activated and self.engine.refuse_unappended(ApiError(error, FOR_NOW[error])):
                log.warning("nothing can be written", reason=FOR_NOW[error])
                return True
        return False

    def _decides_again(self, wanted: Offset) -> bool:
        """Runs the commands again whose append was refused, from offset `wanted`; False if that is impossible."""
        try:
            return self.engine.decide_again(wanted)
        except Fault as fault:
            self._failed(fault)
            return False

    def failed_beside(self, cause: Exception, what: str) -> ApiError:
        """Handles an exception of code that prepares a decision as one of the decision; returns the caller's error."""
        failure = self.engine.failed(Where.DECIDING, cause, what)
        return self._failed(failure) if isinstance(failure, Fault) else failure

    def _failed(self, fault: Fault) -> ApiError:
        """Renounces the leadership or ends the process, by the table in `failures`; returns the caller's ApiError."""
        log.error(
            "this controller has failed",
            exception=fault.cause,
            fault=str(fault),
            consequence=fault.consequence.name.lower(),
            epoch=self.engine.epoch,
        )
        self._renounce(str(fault))
        self._carry_out()
        self._tell()
        match fault.consequence:
            case Consequence.RENOUNCE:
                self._link.begin_anew()
            case Consequence.FATAL:
                self._fatal = self._fatal or fault
                self._is_fatal.set()
        return told_to_caller(fault)

    def _failed_on_standby(self, where: Where, cause: Exception, what: str) -> Exception:
        """Returns the exception that ends a standby's process: Corrupt unchanged, as it has its own exit code."""
        failure = self.engine.failed(where, cause, what)
        return cause if isinstance(cause, Corrupt) else failure

    # COMMIT

    def commit(self, high_watermark: Offset) -> None:
        """Answers the requests whose records are below the high watermark; a standby that has applied it is loaded."""
        if self.is_active:
            self.engine.commit(high_watermark)
            self._carry_out()
        elif 0 < high_watermark <= self.engine.next_offset:
            self.engine.is_loaded = True

    # APPLY

    async def apply(self, data: bytes) -> None:
        """Replays committed batches that another controller wrote. Raises EventsBehind, Corrupt, Fault.

        A large batch is decoded in turns and replayed at once, so no reader sees half of it. In between the engine does
        not change: on standby only events change it, and they are handled one after the other.
        """
        for position, header in batches(data):
            if header.next_offset <= self.engine.next_offset:
                continue
            if header.base_offset > self.engine.next_offset:
                raise EventsBehind(f"a batch at {header.base_offset} came, where {self.engine.next_offset} follows")
            started = self._clock.wall_ns()
            try:
                records = () if header.is_control else await decoded(data_values(data, position, header))
                self.engine.replay(records, base_offset=header.base_offset, end_offset=header.next_offset)
            except Exception as cause:  # as in the engine
                raise self._failed_on_standby(Where.REPLAYING, cause, f"the batch at {header.base_offset}") from cause
            self.applied.note(header.epoch, header.size)
            self.applied_at_ms = header.max_timestamp
            if records:
                self.tracer.replayed(records[0], header, start_ns=started)

    def next_offset(self) -> Offset:
        """Returns the offset from which the quorum node's events are requested."""
        return self.engine.next_offset

    async def hear(self, event: ListenResponse) -> None:
        """Handles one Listen event: a commit, batches, a leader change, or a snapshot chunk. Raises as `apply`."""
        match event.WhichOneof("event"):
            case "committed":
                self.commit(event.committed.high_watermark)
            case "batches":
                await self.apply(event.batches.records)
            case "leadership":
                self._lead(event.leadership)
            case "snapshot":
                await self._load(event.snapshot)
            case other:
                raise AssertionError(other)
        self._tell()

    def cut_off(self) -> None:
        """Handles the loss of the quorum node: renounces, and forgets the leader; waiting writes get NOT_CONTROLLER."""
        self._renounce("cut off from the quorum node")
        self._loading.give_up()
        self._hear_of_leader(NOBODY, self.leader_epoch)
        self._carry_out()
        self._tell()

    def _lead(self, leadership: ListenResponse.Leadership) -> None:
        self._renounce(f"{leadership.leader_id} leads epoch {leadership.epoch}")
        self.told_leader_id = leadership.leader_id
        self._hear_of_leader(leadership.leader_id, leadership.epoch)
        self.leaderless_at = self.engine.next_offset if leadership.leader_id == NOBODY else None
        self.leaders_heard += leadership.leader_id != NOBODY
        if leadership.leader_id == self._node_id:
            self._claim(leadership.epoch, leadership.next_offset)
        self._carry_out()

    def _hear_of_leader(self, leader_id: NodeId, epoch: Epoch) -> None:
        if self.leader_id != NOBODY:
            self._led_until_ms = self._clock.monotonic_ms()
        self.leader_id, self.leader_epoch = leader_id, epoch
        self.on_leader()

    def _claim(self, epoch: Epoch, next_offset: Offset) -> None:
        """Becomes the active controller of `epoch`; the activation records are its first write."""
        self.engine.claim(epoch, next_offset)
        self.applied.note(epoch, 0)
        log.info("active", epoch=epoch, next_offset=next_offset)
        answered: asyncio.Future[Answer] = self.loop.create_future()
        answered.add_done_callback(report_activation)
        waiting = PendingWrite.begun("activation", self._clock.wall_ns(), answered)
        try:
            self.engine.write(waiting, unrefused(self._activation), now_ms=self._clock.wall_ms())
        except Fault as fault:
            # Any failure here is fatal: an epoch cannot go on without its activation records.
            self._failed(Fault(Where.ACTIVATING, fault.cause, f"epoch {epoch} at offset {next_offset}"))
        self._activated = self.engine.next_offset

    def _renounce(self, reason: str) -> None:
        if self.is_active:
            log.info("standing by", epoch=self.engine.epoch, reason=reason)
            self._link.drop()
            self.engine.renounce()

    async def _load(self, chunk: ListenResponse.SnapshotChunk) -> None:
        try:
            await self._loading.take(chunk)
        except Exception as cause:  # as in the engine
            what = f"the snapshot that ends at {chunk.end_offset}, epoch {chunk.epoch}"
            raise self._failed_on_standby(Where.LOADING, cause, what) from cause
        if chunk.last:
            self.applied.restart(chunk.epoch)
            log.info("loaded a snapshot", end_offset=chunk.end_offset, epoch=chunk.epoch)

    def _carry_out(self) -> None:
        ready, is_traced = self.engine.ready(), self.tracer.enabled
        for append in ready.appends:
            self._link.send(append)
            self.applied.note(append.epoch, sum(map(len, append.values)))
        for answer in ready.answers:
            waiting: PendingWrite = answer.token
            if is_traced:
                self.tracer.committed(waiting.traceparent, waiting.api, answer, start_ns=waiting.written_ns)
            waiting.answer(answer)

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()
