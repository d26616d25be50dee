"""write → commit → apply: the loop around the engine.

`write` takes a command and hands its records to the quorum node; `commit` answers what has become durable on a
majority; `apply` replays what another controller has written. The engine decides, this file only carries.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

import grpc

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.decision import Command, Decision, Moment
from quorate.controller.engine import Answer, Engine, Lane
from quorate.controller.repeats import RequestId
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.nouns import Epoch, NodeId, Offset
from quorate.records import decode_record
from quorate.runtime.clock import Clock
from quorate.runtime.logs import logger
from quorate.runtime.telemetry import Telemetry
from quorate.wire.batch import batches, data_values
from services.controller.loading import Loading
from services.controller.performance import PerformanceLog
from services.controller.quorum_link import Behind, QuorumLink
from services.controller.snapshots import Applied
from services.controller.tracing import Tracer

log = logger(__name__)

T = TypeVar("T")
NOBODY: Final = -1
TURNS_UNDER_WAY_MAX: Final = 4
"""Turns of one change that wait to be committed: one is decided while those before it are flushed and fetched."""
FOR_NOW: Final = {
    ErrorCode.KAFKA_STORAGE_ERROR: "the quorum's leader has no room on its disk",
    ErrorCode.REQUEST_TIMED_OUT: "the quorum's leader is handing over to another",
}
"""Refusals of an append after which this controller may stay active: whoever waits is told to try again."""
OF_NO_STATE: Final = frozenset({*FOR_NOW, ErrorCode.NOT_CONTROLLER})
"""Refusals that rest on nothing that is committed."""
LEADER_EPOCH: Final = "leader_epoch"
OFFSET: Final = "offset"
"""Metadata keys of a refusal: it speaks of the state after all records below this offset."""


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """A command whose answer is awaited, and what its spans need."""

    answered: asyncio.Future[Answer]
    traceparent: bytes | None
    api: str
    written_ns: int


class Driver:
    """Carries between the engine and the quorum node."""

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
        self.engine = engine
        self._performance = performance or PerformanceLog()
        self.leader_id: NodeId = NOBODY
        self.leader_epoch: Epoch = 0
        self.changed = asyncio.Event()
        self._link = QuorumLink(channel, self)
        self._clock = clock
        self._tracer = Tracer(telemetry, clock, node_id=node_id)
        self._node_id = node_id
        self._activation = activation
        self._activated: Offset = 0
        """Where the activation of this epoch ends. Until the quorum has it, nothing else may stand in its place."""
        self.applied = Applied()
        self._loading = Loading(engine)

    async def run(self) -> None:
        """Until cancelled."""
        await self._link.run()

    @property
    def is_active(self) -> bool:
        """May it write?"""
        return self.engine.epoch is not None

    # WRITE

    async def write(
        self, api: str, command: Command[T], *, lane: Lane = Lane.CLUSTER, request_id: RequestId | None = None
    ) -> Answer:
        """Decide, apply, append; the answer comes when everything that it rests on is committed.

        A request that was sent with the same `request_id` before is answered as then. Raises ApiError: the command's
        refusal, NOT_CONTROLLER when this controller is not active or ceases to be.
        """
        return _said(await self._begin(api, command, lane, request_id))

    async def write_in_turns(self, api: str, turns: Iterable[Command[T]], *, lane: Lane = Lane.CLUSTER) -> Answer:
        """Write one command after the other, while others write in between; the answer is the last one's.

        Each is taken from `turns` when the one before has been decided; also when nobody waits for the answer any
        more, as half of such a change helps nobody. Raises ApiError, as `write`: what was written before stays.
        """
        return await asyncio.shield(asyncio.ensure_future(self._take_turns(api, turns, lane)))

    async def _take_turns(self, api: str, turns: Iterable[Command[T]], lane: Lane) -> Answer:
        under_way: deque[asyncio.Future[Answer]] = deque()
        for command in turns:
            under_way.append(self._begin(api, command, lane))
            await asyncio.sleep(0)  # the others' turn
            if len(under_way) > TURNS_UNDER_WAY_MAX:
                _said(await under_way.popleft())
        answers = [_said(await answered) for answered in under_way]
        return answers[-1]

    def _begin(
        self, api: str, command: Command[T], lane: Lane, request_id: RequestId | None = None
    ) -> asyncio.Future[Answer]:
        """Decide, apply, append."""
        begun_ns = self._clock.wall_ns()
        waiting = _Waiting(
            answered=asyncio.get_running_loop().create_future(),
            traceparent=self._tracer.traceparent(),
            api=api,
            written_ns=begun_ns,
        )
        base, decided_ns = self.engine.next_offset, begun_ns

        def timed(state: ClusterState, moment: Moment) -> Decision[T]:
            nonlocal decided_ns
            decision = command(state, moment)
            decided_ns = self._clock.wall_ns()
            return decision

        with self._tracer.write(api) as span:
            self.engine.write(
                waiting,
                timed if self._tracer.enabled else command,
                now_ms=self._clock.wall_ms(),
                traceparent=waiting.traceparent,
                request_id=request_id,
                lane=lane,
            )
            record_count = self.engine.next_offset - base
            span.set("kraft.base_offset", base)
            span.set("kraft.record_count", record_count)
        waiting.written_ns = self._clock.wall_ns()
        self._performance.note(api, waiting.written_ns - begun_ns)
        # Before the append, since what cannot be applied must not be replicated.
        self._tracer.applied(
            waiting.traceparent,
            epoch=self.leader_epoch,
            offset=base,
            record_count=record_count,
            start_ns=decided_ns,
            end_ns=waiting.written_ns,
        )
        self._carry_out()
        return waiting.answered

    def read(self, command: Command[T], *, as_of: Offset) -> Answer:
        """What a read says of the state at an offset that is held, and committed. Raises ApiError."""
        decision = command(self.engine.state.at(as_of), Moment(next_offset=as_of, now_ms=self._clock.wall_ms()))
        assert not decision.records, decision.records
        return Answer(token=None, response=decision.response, epoch=self.leader_epoch, offset=as_of)

    def appended(self, end_offset: Offset) -> None:
        """The quorum node has it in its log."""
        if self.is_active:
            self.engine.took(end_offset)
            self._carry_out()  # the commit may have been heard of before

    def refused(self, error: ErrorCode, wanted: Offset) -> None:
        """The quorum node did not take it: another leader, or a control record in between.

        Raises Behind if this controller cannot stay active though its node leads.
        """
        if not self.is_active:
            return
        is_activated = self.engine.appended >= self._activated
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and self.engine.wanted(wanted):
            log.info("deciding again", wanted=wanted, next_offset=self.engine.next_offset)
            if not is_activated:
                self._activated = self.engine.next_offset
        elif error in FOR_NOW and is_activated and self.engine.refuse(ApiError(error, FOR_NOW[error])):
            log.warning("nothing can be written", reason=FOR_NOW[error])
        else:
            self._renounce(f"append refused: {error.name}")
            if error is ErrorCode.OFFSET_OUT_OF_RANGE or error in FOR_NOW:
                self._carry_out()
                # The quorum node leads on, and takes this controller for active: only a new stream ends that.
                raise Behind(f"this controller cannot stay active: {error.name}")
        self._carry_out()

    # COMMIT

    def commit(self, high_watermark: Offset) -> None:
        """Answer what is committed now."""
        if self.is_active:
            self.engine.commit(high_watermark)
            self._carry_out()

    # APPLY

    def apply(self, data: bytes) -> None:
        """Replay committed batches that another controller has written. Raises Corrupt, ReplayFault."""
        for position, header in batches(data):
            if header.next_offset <= self.engine.next_offset:
                continue
            if header.base_offset > self.engine.next_offset:
                raise Behind(f"offset {self.engine.next_offset} is wanted, {header.base_offset} came")
            started = self._clock.wall_ns()
            records = () if header.is_control else tuple(map(decode_record, data_values(data, position, header)))
            self.engine.replay(records, base_offset=header.base_offset, end_offset=header.next_offset)
            self.applied.note(header.epoch, header.size)
            if records:
                self._tracer.replayed(records[0], header, start_ns=started)

    # What the quorum node tells.

    def next_offset(self) -> Offset:
        """Where to go on listening."""
        return self.engine.next_offset

    def hear(self, event: ListenResponse) -> None:
        """One event, in order."""
        match event.WhichOneof("event"):
            case "committed":
                self.commit(event.committed.high_watermark)
            case "batches":
                self.apply(event.batches.records)
            case "leadership":
                self._lead(event.leadership)
            case "snapshot":
                self._load(event.snapshot)
            case other:
                raise AssertionError(other)
        self._tell()

    def cut_off(self) -> None:
        """The quorum node is gone: what waits may or may not come to be committed."""
        self._renounce("cut off from the quorum node")
        self._loading.give_up()
        self.leader_id = NOBODY
        self._carry_out()
        self._tell()

    def _lead(self, leadership: ListenResponse.Leadership) -> None:
        self._renounce(f"{leadership.leader_id} leads epoch {leadership.epoch}")
        self.leader_id, self.leader_epoch = leadership.leader_id, leadership.epoch
        if leadership.leader_id == self._node_id:
            self._claim(leadership.epoch, leadership.next_offset)
        self._carry_out()

    def _claim(self, epoch: Epoch, next_offset: Offset) -> None:
        """Become active; the first write of the epoch is the activation, before any that is asked for."""
        self.engine.claim(epoch, next_offset)
        self.applied.note(epoch, 0)
        log.info("active", epoch=epoch, next_offset=next_offset)
        waiting = _Waiting(
            answered=asyncio.get_running_loop().create_future(),
            traceparent=None,
            api="activation",
            written_ns=self._clock.wall_ns(),
        )
        waiting.answered.add_done_callback(_report_activation)
        self.engine.write(waiting, self._activation, now_ms=self._clock.wall_ms())
        self._activated = self.engine.next_offset

    def _renounce(self, reason: str) -> None:
        if self.is_active:
            log.info("standing by", epoch=self.engine.epoch, reason=reason)
            self._link.drop()
            self.engine.renounce()

    def _load(self, chunk: ListenResponse.SnapshotChunk) -> None:
        self._loading.take(chunk)
        if chunk.last:
            self.applied.restart(chunk.epoch)
            log.info("loaded a snapshot", end_offset=chunk.end_offset, epoch=chunk.epoch)

    def _carry_out(self) -> None:
        ready = self.engine.ready()
        for append in ready.appends:
            self._link.send(append)
            self.applied.note(append.epoch, sum(map(len, append.values)))
        for answer in ready.answers:
            waiting: _Waiting = answer.token
            self._tracer.committed(waiting.traceparent, waiting.api, answer, start_ns=waiting.written_ns)
            if not waiting.answered.done():  # the asker may have gone
                waiting.answered.set_result(answer)

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def _said(answer: Answer) -> Answer:
    """Raises ApiError if that is what the command came to; it tells of which state, as an answer does."""
    if answer.error is not None:
        if answer.error.code not in OF_NO_STATE:
            answer.error.metadata |= {LEADER_EPOCH: str(answer.epoch), OFFSET: str(answer.offset)}
        raise answer.error
    return answer


def _report_activation(answered: asyncio.Future[Answer]) -> None:
    if not answered.cancelled() and (error := answered.result().error) is not None:
        log.warning("not activated", reason=str(error))
