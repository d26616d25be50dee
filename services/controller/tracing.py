"""Trace spans of a controller: write, apply and commit, children of the W3C trace context in a batch's first record."""

from __future__ import annotations

from typing import TypeVar

from kraft import Message
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, steps_of
from quorate.controller.engine.engine import Answer
from quorate.controller.engine.steps import Steps
from quorate.liveness import ControlState
from quorate.metadata.state import ClusterState
from quorate.nouns import Epoch, NodeId, Offset, Principal
from quorate.records import trace_of
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.telemetry.tracing import Span, Telemetry, current_traceparent
from quorate.wire.batch import BatchHeader
from services.controller.pending import PendingWrite

T = TypeVar("T")


class WriteTracer:
    """Records the write, apply and commit spans of one controller; does nothing while telemetry is off."""

    def __init__(self, telemetry: Telemetry, clock: Clock, *, node_id: NodeId) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._node_id = node_id

    @property
    def enabled(self) -> bool:
        """Whether traces are recorded (telemetry is on)."""
        return self._telemetry.enabled

    def traceparent(self) -> bytes | None:
        """Returns the current W3C traceparent, which the written records carry; None while telemetry is off."""
        return current_traceparent() if self._telemetry.enabled else None

    def write(self, api: str, by: Principal | None) -> Span:
        """Returns the `write` span, around a decision; `by` is who asks, None for this node."""
        if not self._telemetry.enabled:
            return self._telemetry.span("write")
        who = {} if by is None else {"kraft.principal": str(by)}
        return self._telemetry.span("write", attributes={"kraft.api": api, **who}, root=False)

    def state_change(self, broker_id: NodeId, state: ControlState, reason: str) -> Span:
        """Returns the span around a change of a broker's state that the heartbeat service asks for, with its reason."""
        told = {"kraft.broker.id": broker_id, "kraft.broker.state": state.value, "kraft.reason": reason}
        return self._telemetry.span("change a broker's state", attributes=told, root=False)

    def timed(self, command: Command[T], waiting: PendingWrite) -> Command[T]:
        """Returns the command so that it notes the end of its decision in `waiting`; itself while telemetry is off."""
        if not self._telemetry.enabled:
            return command

        @CommandInSteps
        def decide(state: ClusterState, moment: Moment) -> Steps[Decision[T]]:
            decision = yield from steps_of(command, state, moment)
            waiting.decided_ns = self._clock.wall_ns()
            return decision

        return decide

    def applied(self, waiting: PendingWrite, *, epoch: Epoch, end_offset: Offset, record_count: int) -> None:
        """Records the `apply` span of a batch that this active controller has written."""
        base = end_offset - record_count
        self._apply(waiting.traceparent, epoch, base, record_count, (waiting.decided_ns, waiting.written_ns))

    def _apply(
        self, traceparent: bytes | None, epoch: Epoch, offset: Offset, record_count: int, between_ns: tuple[int, int]
    ) -> None:
        if self._telemetry.enabled and record_count:
            self._telemetry.span_from(
                traceparent,
                "apply",
                start_ns=between_ns[0],
                end_ns=between_ns[1],
                attributes={
                    "kraft.node.id": self._node_id,
                    "kraft.epoch": epoch,
                    "kraft.base_offset": offset,
                    "kraft.record_count": record_count,
                },
            )

    def replayed(self, first: Message, header: BatchHeader, *, start_ns: int) -> None:
        """Records the `apply` span of a batch that a standby has just replayed, from `start_ns` (ns since 1970) on.

        There is none for a batch whose first record has no trace context.
        """
        if self._telemetry.enabled:
            between_ns = start_ns, self._clock.wall_ns()
            self._apply(trace_of(first), header.epoch, header.base_offset, header.count, between_ns)

    def committed(self, traceparent: bytes | None, api: str, answer: Answer, *, start_ns: int) -> None:
        """Records the `commit` span, from the end of the write (`start_ns`, ns since 1970) until the answer is sent."""
        if self._telemetry.enabled:
            self._telemetry.span_from(
                traceparent,
                "commit",
                start_ns=start_ns,
                end_ns=self._clock.wall_ns(),
                attributes={"kraft.api": api, "kraft.epoch": answer.epoch, "kraft.end_offset": answer.offset},
                error=answer.error.code.name if answer.error else None,
            )
