"""What is asked of controllers, and what became of it: the history that the oracle judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kraft import Message
from quorate.controller.engine.decision import Command
from quorate.controller.engine.deduplication import RequestId
from quorate.controller.engine.engine import QueueLimit
from quorate.controller.partitions.chunked_change import ChunkLimits
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.placement import PlacementSpec

if TYPE_CHECKING:
    from tests.sim_controller.controller import Controller

Wanted = Callable[[ClusterState], tuple[tuple[str, PlacementSpec], ...]]

CHUNK_LIMITS = (ChunkLimits(changed_max=1, looked_at_max=3, uncut_max=1), ChunkLimits())
"""So small that nearly every change to a broker is cut into chunks, or none: one after the other, as registrations
come."""

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"

NOT_KNOWN = frozenset({ErrorCode.NOT_CONTROLLER})
"""An error after the decision that leaves open whether it was written."""


def _none(controller: Controller, placements: Any) -> Command[Any]:
    raise AssertionError(f"a call without a command, at {controller.node.id}")


@dataclass(eq=False, kw_only=True)
class Call:
    """One request at one controller. `base` and `records` are of its last decision, if there was one."""

    what: str
    request: Any
    command: Callable[[Controller, Any], Command[Any]] = _none
    """Made where it is served; the second argument are placements."""
    ended: Callable[[Call], None] = lambda call: None
    chunks: Callable[[Controller], Iterator[Command[Any]]] | None = None
    """Of a change in chunks: its commands, the last of which has the answer."""
    wanted: Wanted | None = None
    lane: QueueLimit = QueueLimit.ADMIN
    is_read: bool = False
    request_id: RequestId | None = None
    asked_ms: int = 0
    asked_end: Offset = 0
    """The highest offset that anybody had been answered with when this was asked."""
    outcome: str = ""
    response: Any = None
    error: ApiError | None = None
    base: Offset = -1
    offset: Offset = -1
    """The state that the answer speaks of ends there."""
    records: tuple[Message, ...] | None = None
    tries: int = 0
    answers: set[str] = field(default_factory=set)
    """What would have been answered by every decision that was ever made for it; kept where it may be asked again."""

    @property
    def is_ended(self) -> bool:
        return bool(self.outcome)

    def end(self, outcome: str) -> None:
        """What the asker knows from now on."""
        if not self.outcome:
            self.outcome = outcome
            self.ended(self)

    def __str__(self) -> str:
        return f"{self.what} {self.outcome or 'open'} {self.error or ''}"


def told_of(response: Any) -> str:
    """A response, to be compared: what the log does not keep of it is left out."""
    return repr([(topic.name, topic.topic_id, topic.error_code) for topic in response.topics])
