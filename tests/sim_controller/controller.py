"""write → commit → apply around the real engine: as services/controller's driver and link do, without asyncio."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.service.quorum_pb2 import AppendRequest
from quorate.controller.activation import activate
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.engine.engine import Answer, Append, Engine, QueueLimit
from quorate.controller.engine.failures import Consequence, Fault
from quorate.controller.partitions.new_partitions import StalePlacement, usable_brokers
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.features import supported_features
from quorate.metadata.state import ClusterState
from quorate.nouns import NOBODY, Epoch, NodeId, Offset
from quorate.placement import Racks, place
from quorate.raft import BatchInfo
from quorate.raft.messages import ConfirmLeadershipRequest, ConfirmLeadershipResponse, Response
from tests.sim.content import Snapshot, cells_of
from tests.sim.wire import OUTSIDE, Route
from tests.sim_controller.calls import NOT_KNOWN, OK, REFUSED, UNKNOWN, Call, told_of
from tests.sim_controller.cells import is_data, packed, record_of, text_of, unpacked
from tests.sim_controller.failing import failing
from tests.sim_controller.invariants.states import Watched

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim_controller.beside import Beside
    from tests.sim_controller.world import ControllerWorld

FOR_NOW: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT})
PLACEMENTS_TRIED_MAX: Final = 3


@dataclass(eq=False)
class Token:
    """What the engine keeps for a command; `call` is None for this controller's own."""

    what: str
    call: Call | None
    base: Offset = -1
    decision: Decision[Any] | None = None


class Controller:
    """One controller process. `is_gone` once another has begun in its place."""

    def __init__(self, beside: Beside, node: Node, world: ControllerWorld) -> None:
        self.node = node
        self.is_gone = False
        self.leader_id: NodeId = NOBODY
        self.leader_epoch: Epoch = 0
        self.is_foreign = False
        """Does it behave like another make's that has begun a transaction, and is about to lose its leadership?"""
        self._beside = beside
        self._world = world
        self._incarnation = world.new_uuid()
        self.engine = Engine(ClusterState(world.supported))
        self.watched = Watched(world, node, self.engine)
        self._waiting: list[Append] = []
        self._activated: Offset = 0
        """Where the activation of this epoch ends."""
        self._sent = self._void_up_to = self._attempt = 0
        self._is_sending = False

    @property
    def is_active(self) -> bool:
        return self.engine.epoch is not None and not self.is_gone

    @property
    def now_ms(self) -> int:
        """The time of day as this node believes it: decisions may depend on it, safety must not."""
        return self.node.clock.wall_ms

    # WRITE

    def serve(self, call: Call) -> None:
        """One request, as services/controller/handlers serve it."""
        if self.is_gone or self.node.raft is None:
            return
        if not self.is_active or self.is_foreign:
            call.error = ApiError(ErrorCode.NOT_CONTROLLER, "not active")
            call.end(REFUSED)
        elif call.is_read:
            self._confirm(call)
        elif call.wanted is not None:
            self._place(call)
        elif call.chunks is not None:
            chunks = call.chunks(self)
            self._take_chunk(call, next(chunks), chunks)
        else:
            self._write(call, call.command(self, None))

    def _take_chunk(self, call: Call, command: Command[Any], chunks: Iterator[Command[Any]]) -> None:
        """One command of several, and the next when others may have written in between."""
        following = next(chunks, None)
        if following is None:
            self._write(call, command)
            return
        self._world.tally["changes cut up"] += 1
        self.write(call.what, command)
        self._world.at(self._world.stream_ms(), lambda: self._go_on(call, following, chunks))

    def _go_on(self, call: Call, command: Command[Any], chunks: Iterator[Command[Any]]) -> None:
        if self.is_active and not self.is_gone:
            self._take_chunk(call, command, chunks)
        else:
            call.end(UNKNOWN)

    def _confirm(self, call: Call) -> None:
        """A read is answered only if it still leads after it was asked."""

        def confirmed(response: Response) -> None:
            assert isinstance(response, ConfirmLeadershipResponse), response
            if self.is_gone or self.node.raft is None:
                return
            if response.error is not ErrorCode.NONE or not self.is_active:
                call.error = ApiError(ErrorCode.NOT_CONTROLLER, "leads no more")
                call.end(REFUSED)
            else:
                self._write(call, call.command(self, None))

        request = ConfirmLeadershipRequest(epoch=self.leader_epoch, reply_to=0)
        route = Route(OUTSIDE, 0, 0, request, is_answered=confirmed)
        self.node.take_request(ConfirmLeadershipRequest(epoch=self.leader_epoch, reply_to=route))

    def _place(self, call: Call) -> None:
        """Asks the placer; its answer takes its time, and the brokers may have changed by then."""
        assert call.wanted is not None
        state, placements = self.engine.state, {}
        call.tries += 1
        try:
            for name, spec in call.wanted(state):
                brokers = usable_brokers(state)
                try:
                    chosen = tuple(place(spec, Racks.of(brokers), self._world.placing))
                except ApiError as refused:
                    placements[name] = refused
                else:
                    self.watched.judge_placed(chosen, spec.replication_factor)
                    placements[name] = chosen  # type: ignore[assignment]
        except ApiError as refused:
            call.error = refused
            call.end(REFUSED)
            return
        self._world.at(self._world.stream_ms(), lambda: self._write_placed(call, placements))

    def _write_placed(self, call: Call, placements: dict[str, Any]) -> None:
        if self.is_gone or self.node.raft is None:
            return
        if not self.is_active:
            call.error = ApiError(ErrorCode.NOT_CONTROLLER, "not active any more")
            call.end(REFUSED)
            return
        self._write(call, call.command(self, placements))

    def _write(self, call: Call, command: Command[Any]) -> None:
        self.write(call.what, command, call)

    def write(self, what: str, command: Command[Any], call: Call | None = None) -> None:
        """Decide, apply, append; `call` is None for a chore."""
        token = Token(what, call)

        def noted(state: ClusterState, moment: Moment) -> Decision[Any]:
            token.base, token.decision = moment.next_offset, None
            decision = command(state, moment)
            token.decision = decision
            if call is not None and call.request_id is not None:
                call.answers.add(told_of(decision.response))
            self.watched.before_writing(token.what, None if call is None else call.request, decision, token.base)
            return decision

        try:
            request_id = None if call is None else call.request_id
            lane = call.lane if call is not None else Call.lane
            self.engine.write(token, noted, now_ms=self.now_ms, request_id=request_id, lane=lane)
        except ApiError as refused:
            self._end(call, REFUSED, refused)
        except Fault as fault:
            self._failed(fault)
        self._carry_out()

    def fail(self, row: str) -> None:
        """A write that cannot be, and what follows from it."""
        if self.is_active and not self.is_foreign:
            self._world.fired(row)
            self.watched.before_failing()
            self.write(row, failing(row))

    def _failed(self, fault: Fault) -> None:
        """As services/controller/driver.py: back, and another leads, or the process ends. Raises what is unplanned."""
        self._world.note(self.node.id, "failed", fault)
        if not self.watched.is_to_fail:
            raise fault.cause
        self.watched.after_failing()
        self._renounce(str(fault))
        self._carry_out()
        match fault.consequence:
            case Consequence.RENOUNCE:
                self._beside.cut_off("it has failed")
            case Consequence.FATAL:
                self._beside.restart_controller()

    def _end(self, call: Call | None, outcome: str, error: ApiError | None) -> None:
        if call is not None:
            call.error = error
            call.end(outcome)

    def register(self) -> None:
        """Tells the cluster that it is here, until its own record is in its state. KIP-919."""
        known = self.engine.state.controllers.get(self.node.id)
        if self.is_gone or (known is not None and known.incarnation_id == self._incarnation):
            return
        feature = ControllerRegistrationRequest.Feature
        request = ControllerRegistrationRequest(
            controller_id=self.node.id,
            incarnation_id=self._incarnation,
            listeners=(ControllerRegistrationRequest.Listener("CONTROLLER", f"host{self.node.id}", 9093, 0),),
            features=tuple(feature(name, low, high) for name, (low, high) in sorted(supported_features().items())),
        )
        call = Call(
            what="ControllerRegistration",
            request=request,
            command=lambda *_: register_controller(request),
            lane=QueueLimit.CLUSTER,
        )
        self._world.oracle.ask(call)

    # COMMIT, APPLY

    def commit(self, high_watermark: Offset) -> None:
        if self.is_active:
            self.engine.commit(high_watermark)
            self.watched.after_commit()
            self._carry_out()

    def apply(self, batch: BatchInfo) -> None:
        """One committed batch that another controller, or the quorum itself, has written."""
        engine = self.engine
        if self.is_gone or batch.end_offset <= engine.next_offset:
            return
        if batch.base_offset > engine.next_offset:
            self._beside.cut_off("behind")
            return
        texts = [text for _, text in cells_of(batch)]
        records = [record_of(text) for text in texts] if is_data(texts[0]) else []
        engine.replay(records, base_offset=batch.base_offset, end_offset=batch.end_offset)
        self.watched.after_replay(records, batch)

    def load(self, snapshot: Snapshot) -> None:
        """The log before it is gone."""
        if not self.is_gone:
            records = unpacked(snapshot.state)
            self.engine.load(records, end_offset=snapshot.id.offset)
            self.watched.after_load(records, snapshot.id)

    # Leadership.

    def lead(self, leader_id: NodeId, epoch: Epoch, next_offset: Offset) -> None:
        """Who leads, as the quorum node says; `next_offset` if it is this one."""
        if self.is_gone:
            return
        self._renounce("another leads")
        self.leader_id, self.leader_epoch = leader_id, epoch
        if leader_id == self.node.id:
            self._claim(epoch, next_offset)
        self._carry_out()

    def _claim(self, epoch: Epoch, next_offset: Offset) -> None:
        self.watched.before_claim()
        self.engine.claim(epoch, next_offset)
        self._world.note(self.node.id, "active", epoch, next_offset)
        self._world.tally["active controllers"] += 1
        self.is_foreign = False
        token = Token("activation", None)
        command = activate(self._world.bootstrap, self._world.controller_settings)

        def noted(state: ClusterState, moment: Moment) -> Decision[Any]:
            decision = command(state, moment)
            self.watched.before_writing("activation", None, decision, moment.next_offset)
            return decision

        self.engine.write(token, noted, now_ms=self.now_ms)
        self._activated = self.engine.next_offset

    def _renounce(self, why: str) -> None:
        if self.is_active:
            self._world.note(self.node.id, "stands by", self.engine.epoch, why)
            self._drop()
            self.watched.before_renounce()
            self.engine.renounce()
            self.watched.after_renounce()
            self.is_foreign = False

    def cut_off(self) -> None:
        self._drop()
        self._renounce("cut off")
        self.leader_id = NOBODY
        self._carry_out()

    # Appends on their way.

    def _drop(self) -> None:
        self._waiting.clear()
        self._void_up_to = self._sent
        self._attempt += 1

    def _send(self) -> None:
        self._is_sending = False
        if not self._waiting or self.is_gone:
            return
        self._sent += 1
        first = self._waiting[0]
        request = AppendRequest(
            correlation_id=self._sent,
            epoch=first.epoch,
            base_offset=first.base_offset,
            attempt=self._attempt,
            batches=[AppendRequest.Batch(values=each.values, may_join=not each.is_tagged) for each in self._waiting],
        )
        self._waiting.clear()
        self._beside.append(request)

    def hear_appended(self, correlation_id: int, error: ErrorCode, end_offset: Offset) -> None:
        """The quorum node's answer."""
        if self.is_gone or correlation_id <= self._void_up_to:
            return
        if error is ErrorCode.NONE:
            if self.is_active:
                self.engine.note_appended(end_offset)
                self._carry_out()
            return
        self._drop()
        self._refused(error, end_offset)

    def _refused(self, error: ErrorCode, wanted: Offset) -> None:
        if not self.is_active:
            return
        self._world.tally[f"append refused: {error.name}"] += 1
        self.watched.before_going_back()
        if not self._stays(error, wanted):
            self._renounce(f"append refused: {error.name}")
            if error is ErrorCode.OFFSET_OUT_OF_RANGE or error in FOR_NOW:
                self._beside.cut_off("its node leads on")
        self._carry_out()

    def _stays(self, error: ErrorCode, wanted: Offset) -> bool:
        """Can it stay active after this refusal?"""
        is_activated = self.engine.appended >= self._activated
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            can_go_on = self.engine.decide_again(wanted)
            if not is_activated:
                self._activated = self.engine.next_offset
            return can_go_on
        if error not in FOR_NOW or not is_activated or not self.engine.refuse_unappended(ApiError(error, "for now")):
            return False
        self.watched.after_refuse()
        return True

    def _carry_out(self) -> None:
        if self.is_gone:
            return
        ready = self.engine.ready()
        for append in ready.appends:
            self._note_append(append)
            self._waiting.append(append)
        if self._waiting and not self._is_sending:
            self._is_sending = True
            self._world.at(self._world.sending_ms(), self._send)
        for answer in ready.answers:
            self._answer(answer)

    def _note_append(self, append: Append) -> None:
        self._world.trace.turn(
            self._world.timeline.now_ms, self.node.id, "append", append.base_offset, zlib.crc32(b"".join(append.values))
        )
        records = tuple(record_of(text_of(value)) for value in append.values)
        self.watched.after_append(records, append)

    def _answer(self, answer: Answer) -> None:
        token: Token = answer.token
        call = token.call
        if call is None:
            if answer.error is not None and token.what != "activation":
                self._world.tally[f"refused: {token.what} {answer.error.code.name}"] += 1
            return
        if isinstance(answer.error, StalePlacement) and call.tries < PLACEMENTS_TRIED_MAX:
            self._world.tally["placed again"] += 1
            self._place(call)
            return
        call.offset, call.base = answer.offset, token.base
        call.records = None if token.decision is None else token.decision.records
        if answer.error is None:
            call.response = answer.response
            self._world.oracle.after_answer(call)
            self._end(call, OK, None)
        else:
            is_open = answer.error.code in NOT_KNOWN
            self._end(call, UNKNOWN if is_open else REFUSED, answer.error)

    # Checkpoints.

    def checkpoint(self) -> tuple[Offset, str] | None:
        """The state as of the last commit, and where that is."""
        engine = self.engine
        if self.is_gone:
            return None
        offset = engine.hold_stable()
        if offset is None:
            return None
        try:
            state = packed(engine.state.at(offset).records())
        finally:
            engine.state.registry.release(offset)
        self.watched.judge_checkpoint(offset, state)
        return offset, state


def active(world: ControllerWorld) -> list[Controller]:
    """Those that believe themselves active."""
    return [each for each in world.controllers() if each.is_active]
