"""The spans of a controller: hung on the context that a batch carries in its first record; none when that is off."""

from __future__ import annotations

from kraft import Message
from quorate.controller.engine import Answer
from quorate.nouns import Epoch, NodeId, Offset
from quorate.records import trace_of
from quorate.runtime.clock import Clock
from quorate.runtime.telemetry import Span, Telemetry, current_traceparent
from quorate.wire.batch import BatchHeader


class Tracer:
    """Writes down when this controller decided, applied, and heard of the commit."""

    def __init__(self, telemetry: Telemetry, clock: Clock, *, node_id: NodeId) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._node_id = node_id

    @property
    def enabled(self) -> bool:
        """Does anybody look?"""
        return self._telemetry.enabled

    def traceparent(self) -> bytes | None:
        """What the records of whoever asks now are to carry."""
        return current_traceparent() if self._telemetry.enabled else None

    def write(self, api: str) -> Span:
        """WRITE: to be entered while a command is run."""
        return self._telemetry.span("write", attributes={"kraft.api": api}, root=False)

    def applied(
        self, traceparent: bytes | None, *, epoch: Epoch, offset: Offset, record_count: int, start_ns: int, end_ns: int
    ) -> None:
        """APPLY: a batch is in the state, of the writer itself as of a replica; from decoding or deciding it on."""
        if self._telemetry.enabled and record_count:
            self._telemetry.span_from(
                traceparent,
                "apply",
                start_ns=start_ns,
                end_ns=end_ns,
                attributes={
                    "kraft.node.id": self._node_id,
                    "kraft.epoch": epoch,
                    "kraft.base_offset": offset,
                    "kraft.record_count": record_count,
                },
            )

    def replayed(self, first: Message, header: BatchHeader, *, start_ns: int) -> None:
        """APPLY on a replica, which is just done: nothing is written down for an untraced batch."""
        if self._telemetry.enabled:
            self.applied(
                trace_of(first),
                epoch=header.epoch,
                offset=header.base_offset,
                record_count=header.count,
                start_ns=start_ns,
                end_ns=self._clock.wall_ns(),
            )

    def committed(self, traceparent: bytes | None, api: str, answer: Answer, *, start_ns: int) -> None:
        """COMMIT: what was written at `start_ns` is answered now."""
        if self._telemetry.enabled:
            self._telemetry.span_from(
                traceparent,
                "commit",
                start_ns=start_ns,
                end_ns=self._clock.wall_ns(),
                attributes={"kraft.api": api, "kraft.epoch": answer.epoch, "kraft.end_offset": answer.offset},
                error=answer.error.code.name if answer.error else None,
            )
