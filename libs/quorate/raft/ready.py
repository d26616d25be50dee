"""What a driver must do after a step, in order: persist, truncate, append, send; flush, and say so."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch
from quorate.raft.log import Entry
from quorate.raft.messages import Request, Response
from quorate.raft.roles import ElectionState
from quorate.raft.voters import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A request to a peer. `request.reply_to` is the number under which the core waits for the answer."""

    to: NodeId
    request: Request
    endpoints: tuple[Endpoint, ...] = ()
    """Where the peer listens, if the voter set does not say it: a node that is about to vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChunk:
    """Bytes of a snapshot download. Position 0 begins it anew; once `is_last` is on disk the download is frozen."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: bytes
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of role, for logs."""

    before: str
    after: str
    epoch: Epoch
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who leads. `epoch_start_offset` is set if we do.

    A listener is told that it leads only once it has consumed everything below `epoch_start_offset`.
    """

    epoch: Epoch
    leader_id: NodeId | None
    epoch_start_offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an append was not taken, and what would be: who leads, in which epoch, from which offset on."""

    error: ErrorCode
    leader_id: NodeId | None
    epoch: Epoch
    wanted_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What came of an upgrade of kraft.version: `end_offset` is the log's end after its records, if any were needed.

    It is done once that is committed.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Everything that is to be done, in the order of the fields. Later calls add to the next one.

    What stands before `answers` is written before an answer or request leaves; `election` is also fsynced.
    Appended batches are fsynced next, beside the sending, and `Raft.flushed` says so. An answer with a `read` is
    read before a later `Ready` is carried out.
    """

    election: ElectionState | None = None
    truncate_to: Offset | None = None
    install: OffsetAndEpoch | None = None
    """The log is replaced by this snapshot, which is on disk."""
    append: tuple[Entry, ...] = ()
    chunk: SnapshotChunk | None = None
    answers: tuple[Response, ...] = ()
    requests: tuple[Send, ...] = ()
    high_watermark: Offset | None = None
    """Set if it has moved."""
    leadership: Leadership | None = None
    """Set if it has changed."""
    transitions: tuple[Transition, ...] = ()

    def __bool__(self) -> bool:
        return self is not NOTHING and self != NOTHING


NOTHING = Ready()


@dataclass(slots=True, kw_only=True)
class Effects:
    """What handlers have asked for since the last `Ready`."""

    truncate_to: Offset | None = None
    install: OffsetAndEpoch | None = None
    append: list[Entry] = field(default_factory=list)
    chunk: SnapshotChunk | None = None
    answers: list[Response] = field(default_factory=list)
    requests: list[Send] = field(default_factory=list)
    high_watermark: Offset | None = None
    leadership: Leadership | None = None
    transitions: list[Transition] = field(default_factory=list)

    def as_ready(self, election: ElectionState | None) -> Ready:
        """These effects, and `election` if it has to be persisted."""
        return Ready(
            election=election,
            truncate_to=self.truncate_to,
            install=self.install,
            append=tuple(self.append),
            chunk=self.chunk,
            answers=tuple(self.answers),
            requests=tuple(self.requests),
            high_watermark=self.high_watermark,
            leadership=self.leadership,
            transitions=tuple(self.transitions),
        )


NO_EFFECTS = Effects()
"""What `NOTHING` is made of; never changed."""
