"""The trace of a produced record: append → replicate (each follower) → high watermark → acknowledged.

Clients of Kafka's wire send no trace context, so a trace begins here, with one Produce a second at most: a broker may
answer thousands. Its followers are seen where the leader sees them: a follower has a record when its next fetch begins
behind it (R18). Requests of followers carry no context on Kafka's wire.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from quorate.nouns import NodeId, Offset
from quorate.runtime.telemetry.tracing import Attributes, Span, SpanKind, Telemetry
from services.broker.table import Hosted, Key

__all__ = ["ProduceTraces"]

APART_NS: Final = 1_000_000_000
"""The least time between two traces that begin here."""


@dataclass(slots=True, kw_only=True)
class _Watched:
    """Records that followers are still to fetch. `end` is exclusive."""

    parent: bytes
    end: Offset
    since_ns: int
    seen: set[NodeId] = field(default_factory=set)


class ProduceTraces:
    """The spans of Produce."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._watched: defaultdict[Key, list[_Watched]] = defaultdict(list)
        self._next_ns = 0

    def of_request(self, acks: int) -> Span:
        """Returns the span of a whole Produce. It records at most one request a second, and nothing of the others."""
        is_due = self._telemetry.enabled and time.monotonic_ns() >= self._next_ns
        if is_due:
            self._next_ns = time.monotonic_ns() + APART_NS
        return self._telemetry.span("Produce", kind=SpanKind.SERVER, attributes={"kraft.acks": acks}, root=is_due)

    def appending(self, hosted: Hosted) -> Span:
        """Returns the span of one partition's append; it records nothing outside of a request that is traced."""
        attributes: Attributes = {
            "kraft.partition": str(hosted.name),
            "kraft.leader.epoch": hosted.partition.leader_epoch,
        }
        return self._telemetry.span("append", attributes=attributes, root=False)

    @contextmanager
    def waiting(self, request: Span, required: Mapping[Key, Offset]) -> Iterator[None]:
        """Traces the block as a request's wait for high watermarks; `fetched` traces followers' fetches meanwhile.

        `required` has by partition the offset (exclusive end) that is waited for. Nothing for a request that is not
        traced.
        """
        if (parent := request.traceparent) is None:
            yield
            return
        since_ns = time.time_ns()
        watched = {key: _Watched(parent=parent, end=end, since_ns=since_ns) for key, end in required.items()}
        for key, each in watched.items():
            self._watched[key].append(each)
        try:
            with self._telemetry.span("high watermark"):
                yield
        finally:
            for key, each in watched.items():
                self._watched[key].remove(each)
                if not self._watched[key]:
                    del self._watched[key]

    def fetched(self, hosted: Hosted, follower: NodeId, offset: Offset) -> None:
        """Writes a span for each traced request whose records this follower has now: its fetch begins at `offset`."""
        for each in self._watched.get(hosted.key, ()):
            if each.end <= offset and follower not in each.seen:
                each.seen.add(follower)
                self._telemetry.span_from(
                    each.parent,
                    "replicate",
                    start_ns=each.since_ns,
                    end_ns=time.time_ns(),
                    attributes={"kraft.partition": str(hosted.name), "kraft.replica": follower},
                )
