"""The effects that the driver carries out after a step, in order: persist, truncate, append, send, flush."""

from __future__ import annotations

import msgspec

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch
from quorate.raft.log import Entry, LogView
from quorate.raft.messages import FetchRequest, Request, Response
from quorate.raft.roles import ElectionState, Leader, Role, known_leader
from quorate.raft.voters import ListenerEndpoint


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a peer. `request.reply_to` is the number under which the core awaits the response."""

    to: NodeId
    request: Request
    endpoints: tuple[ListenerEndpoint, ...] = ()
    """The peer's listeners, if the voter set does not have them: those of a node that is being added as a voter."""


class SnapshotChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of a snapshot download, to be written at `position` (bytes). Position 0 starts the file anew.

    With `is_last`, the driver makes the file durable and reports `snapshot_complete` or `snapshot_failed`.
    """

    snapshot_id: OffsetAndEpoch
    position: int
    data: bytes
    is_last: bool


class RoleTransition(msgspec.Struct, frozen=True, kw_only=True):
    """A change of role with its reason, for the log. `before` and `after` are the names of the roles."""

    before: str
    after: str
    epoch: Epoch
    reason: str


class Leadership(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of an epoch, None while unknown; `epoch_start_offset` is set if it is this node.

    The controller becomes active only after it has applied everything below `epoch_start_offset`, which is all of
    earlier epochs (I-23). KIP-595.
    """

    epoch: Epoch
    leader_id: NodeId | None
    epoch_start_offset: Offset | None = None


def leadership_of(role: Role) -> Leadership:
    """Returns the leadership that a node of this role knows."""
    start = role.epoch_start_offset if isinstance(role, Leader) else None
    return Leadership(epoch=role.epoch, leader_id=known_leader(role), epoch_start_offset=start)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why an append was refused, with the present leader and epoch, and the offset at which an append would begin."""

    error: ErrorCode
    leader_id: NodeId | None
    epoch: Epoch
    wanted_offset: Offset


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an upgrade of kraft.version. It is done once everything below `end_offset` is committed.

    `end_offset` is the log end after the upgrade's records, or the present one if none were needed.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    end_offset: Offset


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of one or more steps, to be carried out in the order of the fields.

    Everything before `answers` is written before any answer or request leaves, and `election` is also fsynced: a vote
    is durable before it is visible (I-04). Appended batches are fsynced while the messages are under way;
    `Raft.flushed` reports it. An answer with a `read` gets its bytes before a later `Ready` is carried out: that may
    truncate the log.
    """

    election: ElectionState | None = None
    """The election state to write and fsync; None if it has not changed."""
    truncate_to: Offset | None = None
    """The offset at which the log is cut: records at it and after are removed."""
    install: OffsetAndEpoch | None = None
    """The snapshot, already on disk, that replaces the log."""
    append: tuple[Entry, ...] = ()
    """The batches to write at the log end, in order."""
    chunk: SnapshotChunk | None = None
    answers: tuple[Response, ...] = ()
    requests: tuple[Send, ...] = ()
    high_watermark: Offset | None = None
    """The new high watermark (exclusive); None if it has not moved."""
    leadership: Leadership | None = None
    """The new leader or epoch; None if neither has changed."""
    transitions: tuple[RoleTransition, ...] = ()
    refused: tuple[str, ...] = ()
    """Peers' answers that were ignored because they break a rule, each as text for the log."""
    misconfigured: tuple[str, ...] = ()
    """Requests that were refused because their sender is misconfigured, each as text for the log."""
    forgetful: tuple[str, ...] = ()
    """Voters that fetch from below what they had acknowledged to this leader, each as text for the log."""
    denied: tuple[NodeId, ...] = ()
    """The peers that answered CLUSTER_AUTHORIZATION_FAILED, one entry for each answer."""

    def __bool__(self) -> bool:
        return self is not NOTHING and self != NOTHING


NOTHING = Ready()


class Effects(msgspec.Struct, kw_only=True):
    """The effects that handlers have asked for since the last `Ready`. The fields are those of `Ready`."""

    truncate_to: Offset | None = None
    install: OffsetAndEpoch | None = None
    append: list[Entry] = []
    chunk: SnapshotChunk | None = None
    answers: list[Response] = []
    requests: list[Send] = []
    high_watermark: Offset | None = None
    leadership: Leadership | None = None
    transitions: list[RoleTransition] = []
    refused: list[str] = []
    misconfigured: list[str] = []
    forgetful: list[str] = []
    denied: list[NodeId] = []

    def change_role(self, before: str, role: Role, reason: str) -> None:
        """Adds the change from the role named `before` to `role` to the transitions, which the driver logs."""
        after = type(role).__name__
        self.transitions.append(RoleTransition(before=before, after=after, epoch=role.epoch, reason=reason))

    def drop_fetches(self) -> None:
        """Drops this node's own fetches that have not left yet: their role is over, and nobody would read the answers.

        Other requests of it still leave: a vote asked for or an epoch announced is news to its receiver.
        """
        if self.requests:
            self.requests = [send for send in self.requests if not isinstance(send.request, FetchRequest)]

    def as_ready(self, election: ElectionState | None, log: LogView) -> Ready:
        """Returns these effects as a `Ready`, and `election` if it is to be persisted; `log` is the view after them."""
        assert not self.append or self.append[-1].end_offset == log.leo, (self.append, log.leo)
        assert self.high_watermark in (None, log.high_watermark), (self.high_watermark, log.high_watermark)
        assert self.truncate_to is None or self.truncate_to <= log.leo, (self.truncate_to, log.leo)
        assert self.install is None or self.install.offset <= log.start, (self.install, log.start)
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
            refused=tuple(self.refused),
            misconfigured=tuple(self.misconfigured),
            forgetful=tuple(self.forgetful),
            denied=tuple(self.denied),
        )


NO_EFFECTS = Effects()
"""The empty effects, to compare with. Never changed."""
