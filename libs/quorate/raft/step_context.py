"""The context of one step: what a handler may read, and the effects that it may ask for."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.nouns import EPOCHS_END, ZERO_UUID, Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.flaws import flaw
from quorate.raft.log import Entry, LogView
from quorate.raft.messages import EPOCH_UNKNOWN, RESPONSES, Request, Response, TransferLeadershipRequest, Worded
from quorate.raft.ready import Effects, Send, SnapshotChunk
from quorate.raft.requests import InFlightRequest, RequestClass, Requests
from quorate.raft.roles import Role, known_leader
from quorate.raft.settings import Chance, RaftSettings
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet


class Refused(msgspec.Struct, frozen=True):
    """A refusal: an error code of Kafka's, and a sentence where the response has room for one."""

    error: ErrorCode
    message: str = ""


NO_FAULT = Refused(ErrorCode.NONE)
OF_MISCONFIGURED = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_VOTER_KEY,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.INVALID_REQUEST,
    }
)
"""Errors that no node of a quorum earns whose settings and directory are right."""


@dataclass(slots=True, kw_only=True)
class LeadershipTransfer:
    """A transfer of leadership that is under way: from the leader of `epoch` to the voter `to`. Raft thesis 3.10."""

    request: TransferLeadershipRequest
    to: ReplicaKey
    epoch: Epoch
    deadline_ms: int
    """When the voter must have caught up; after the old leader has resigned, when the voter must lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Whether the controller beside this node is present. A core whose driver reports nothing assumes that it is."""

    is_present: bool = True
    resign_at_ms: int | None = None
    """When a leader without its controller resigns for a voter that has one; None for never."""


@dataclass(slots=True)
class TransferState:
    """State of the core that outlives roles, but not the process.

    It is the leadership transfer under way, which is decided only after its leader has resigned; controller presence;
    and whether this node has been a voter since the start.
    """

    transfer: LeadershipTransfer | None = None
    presence: Presence = Presence()
    reported_epoch: Epoch = 0
    """The epoch to whose leader controller presence was last reported; at first the epoch at the process's start."""
    reported_present: bool | None = None
    """The presence that the leader of `reported_epoch` knows. None if that is unknown: the report may or may not have
    arrived."""
    was_voter: bool = False
    """Whether this node has led, or been a voter, committed and caught up, since the process started."""
    report_sequence: int = 0
    """The sequence of the last report. A process that was started again learns from the answer how far it was."""


class StepContext(msgspec.Struct, kw_only=True):
    """The context of one call of the core. Handlers change the log's view, and ask for effects, only through it.

    Each method of the second half adds to `effects`, which the next `Ready` hands to the driver.
    """

    node: ReplicaKey
    me: Voter
    """This node as the voter set should list it, if it votes."""
    cluster_id: str
    settings: RaftSettings
    random: Chance
    bootstrap: frozenset[NodeId]
    """Nodes that may know the leader, besides the voters (`controller.quorum.bootstrap.servers`)."""
    log: LogView
    requests: Requests
    handover: TransferState
    effects: Effects
    is_recovering: bool
    """Whether the disk has lost flushed records that are not fetched again yet: no vote and no election until then."""
    now_ms: int
    flight: InFlightRequest | None = None
    """The request that the present response answers; None while a request or a timer is handled."""
    reason: str = ""
    """Why the handler changes the role, for the log."""
    wake_at_ms: int | None = None
    """The earliest moment that a timer asked for in this step; None if none did."""

    # The state that a handler may read.

    @property
    def voters(self) -> VoterSet:
        """The voter set in force, committed or not (I-32)."""
        return self.log.voters.latest

    @property
    def is_voter(self) -> bool:
        """Whether this node is a voter."""
        return self.voters.has(self.node)

    def may_stand_in(self, epoch: Epoch) -> bool:
        """Returns whether this node may ask for votes of `epoch`. Not if no later epoch could follow it."""
        return epoch < EPOCHS_END and self._may_stand

    @property
    def _may_stand(self) -> bool:
        """Whether this node may start an election: a voter, or one whose removal is not committed. Raft thesis 4.2.2.

        Until the removal is committed, perhaps only the removed voter has the log that a leader needs. In Kafka it does
        not stand, and together with a voter that lacks the removal's record, neither can then ever lead.
        """
        if self.is_recovering:
            return False
        offset = self.log.voters.latest_offset
        if self.is_voter or offset is None or self.log.is_voter_change_committed:
            return self.is_voter
        return self.log.voters.before(offset).has(self.node)

    @property
    def presence_wait_ms(self) -> int:
        """How much later than others this node starts an election, in ms: a voter with its controller goes first."""
        is_first = self.handover.presence.is_present or self.is_sole_voter
        return 0 if is_first else self.settings.presence_wait_ms

    @property
    def own_vote(self) -> set[NodeId]:
        """This node's id as a set, to be counted in a majority; empty if it is not a voter."""
        return {self.node.id} if self.is_voter else set()

    @property
    def is_sole_voter(self) -> bool:
        """Whether this node is the only voter."""
        return self.voters.is_sole(self.node)

    @property
    def other_voters(self) -> tuple[ReplicaKey, ...]:
        """The keys of the voters other than this node."""
        # A voter with this node's id on another disk is left out: a message to that id would come to this node itself.
        return tuple([key for key in self.voters.keys if key.id != self.node.id])

    @property
    def known_peers(self) -> frozenset[NodeId]:
        """The ids of the nodes other than this one that it is configured to call, or that vote."""
        return (self.voters.ids | self.bootstrap) - {self.node.id}

    @property
    def peer(self) -> NodeId:
        """The node that sent the present response."""
        assert self.flight is not None
        assert self.flight.to != self.node.id, self.flight
        return self.flight.to

    def draw_election_deadline_ms(self) -> int:
        """Returns a random moment from one to two election timeouts from now, as Kafka draws it. Raft 5.2."""
        base_ms = self.settings.election_timeout_ms
        wait_ms = base_ms + self.random.randrange(base_ms)
        assert base_ms <= wait_ms < 2 * base_ms, (wait_ms, base_ms)
        return self.now_ms + wait_ms

    # The effects that a handler may ask for.

    def wake_at(self, at_ms: int) -> None:
        """Sets a timer, unless there is an earlier one: `tick` must be called at `at_ms`, and this role runs again."""
        assert at_ms > self.now_ms, (at_ms, self.now_ms)  # else the driver would call `tick` in an endless loop
        if self.wake_at_ms is None or at_ms < self.wake_at_ms:
            self.wake_at_ms = at_ms

    def wait_until(self, at_ms: int) -> bool:
        """Sets a timer for the moment `at_ms` unless it has come. Returns whether it has."""
        if at_ms > self.now_ms:
            self.wake_at(at_ms)
        return at_ms <= self.now_ms

    def wait_to_ask(self, peer: NodeId, request_class: RequestClass = RequestClass.LOG) -> bool:
        """Sets a timer for the end of the request of this class to `peer`, or of the retry pause after it.

        Returns True if there is neither: then the next request may be sent.
        """
        return self.wait_until(self.requests.free_at_ms(peer, request_class, now_ms=self.now_ms))

    def ask(self, peer: NodeId, request: Request, endpoints: tuple[ListenerEndpoint, ...] = ()) -> None:
        """Sends `request` to `peer`: at `endpoints` if there are any, else where the voter set or configuration says.

        Does nothing while the peer does not authorize such requests. The caller has checked `wait_to_ask`.
        """
        assert peer != self.node.id, request
        assert flaw(request) is None, request  # its receiver would refuse it
        if not self.wait_until(self.requests.allowed_at_ms(peer, request, now_ms=self.now_ms)):
            return
        token = self.requests.next_token()
        request = replace(request, reply_to=token, cluster_id=self.cluster_id)
        deadline_ms = self.now_ms + self.settings.request_timeout_ms
        self.requests.add(token, InFlightRequest(to=peer, request=request, deadline_ms=deadline_ms))
        self.effects.requests.append(Send(to=peer, request=request, endpoints=endpoints))
        self.wake_at(deadline_ms)

    def pause(self, peer: NodeId, request_class: RequestClass = RequestClass.LOG) -> None:
        """Gives up the request of this class in flight to `peer`, and sends it none for the retry backoff (KIP-580)."""
        wait_ms = self.settings.retry_wait_ms(self.requests.failures(peer, request_class), self.random)
        assert 0 < wait_ms <= self.settings.retry_backoff_max_ms, wait_ms  # else it would be sent in an endless loop
        self.requests.fail(peer, request_class, retry_at_ms=self.now_ms + wait_ms)

    def give_up(self, request: InFlightRequest) -> None:
        """Gives up an in-flight request, whose answer is useless or will not come, and pauses as `pause` does."""
        self.pause(request.to, request.request_class)

    def lose(self, peer: NodeId, leader_id: NodeId | None) -> None:
        """Gives up all requests to `peer`, to which a stream was reset, and pauses in every class.

        Nothing is kept of a peer that neither leads nor is known, unless it was asked: anybody can open a stream under
        any id, and end it.
        """
        is_known = peer == leader_id or peer in self.known_peers
        for request_class in RequestClass:
            if is_known or self.requests.is_asked(peer, request_class):
                self.pause(peer, request_class)

    def answer(self, request: Request, response: Response) -> None:
        """Sends `response`, by the next `Ready`, to the sender of `request`, whose `reply_to` it gets."""
        assert isinstance(response, RESPONSES[type(request)]), (request, response)
        self.effects.answers.append(replace(response, reply_to=request.reply_to))

    def refuse(self, role: Role, request: Request, fault: Refused) -> None:
        """Answers `request` with an error, the leader and epoch that this node knows, and a reason if there is room.

        An error that only a misconfigured sender earns is also added to the effects, for the log.
        """
        assert fault.error is not ErrorCode.NONE, (request, fault)
        epoch, leader_id = role.epoch, known_leader(role)
        if fault.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            # This node's epoch and leader mean nothing in another cluster (I-81). Kafka's answer has the error alone,
            # too, but for UpdateRaftVoter, where it names them.
            epoch, leader_id = EPOCH_UNKNOWN, None
        # A node that joins asks all bootstrap servers, itself among them: that is no second process with its id.
        is_own = self.node.directory_id != ZERO_UUID and getattr(request, "replica", None) == self.node
        if fault.error in OF_MISCONFIGURED and not is_own:
            reason = f": {fault.message}" if fault.message else ""
            self.effects.misconfigured.append(f"{type(request).__name__}: {fault.error.name}{reason}")
        response = RESPONSES[type(request)](epoch=epoch, leader_id=leader_id, error=fault.error)
        if isinstance(response, Worded):
            response = replace(response, message=fault.message)
        self.answer(request, response)

    def append(self, entry: Entry) -> None:
        """Appends `entry` to the log's view; the next `Ready` hands it to the driver, which writes it."""
        self.log.append(entry)
        self.effects.append.append(entry)

    def truncate(self, *, to: Offset) -> None:
        """Removes the records at `to` and after. It must not be below the high watermark (I-13)."""
        # `Ready` truncates before it appends. A follower fetches only when all its records are flushed, so that one
        # step never does both.
        assert not self.effects.append, (to, self.effects.append)
        assert self.effects.truncate_to is None, (to, self.effects.truncate_to)
        self.log.truncate(to=to)
        self.effects.truncate_to = to

    def install(
        self, snapshot_id: OffsetAndEpoch, *, size: int, voters: VoterSet | None, kraft_version: int | None
    ) -> None:
        """Replaces the log by a snapshot. All of it is committed, so the high watermark moves to its end."""
        assert not self.effects.append, (snapshot_id, self.effects.append)
        assert self.effects.install is None, (snapshot_id, self.effects.install)
        assert snapshot_id.offset > 0, snapshot_id  # (0, 0) is each node's own bootstrap checkpoint
        self.log.install(snapshot_id, size=size, voters=voters, kraft_version=kraft_version)
        self.effects.install = snapshot_id
        self.effects.high_watermark = self.log.high_watermark

    def write_chunk(self, chunk: SnapshotChunk) -> None:
        """Writes a chunk of a snapshot that is being downloaded."""
        assert chunk.data or chunk.is_last, chunk
        assert self.effects.chunk is None, chunk  # the next chunk is requested by the `Ready` that has this one
        self.effects.chunk = chunk

    def commit(self, to: Offset) -> None:
        """Moves the high watermark to `to` (exclusive) if that is higher; it never falls (I-17)."""
        if to > self.log.high_watermark:
            self.log.commit(to)
            self.effects.high_watermark = to
