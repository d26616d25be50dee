"""One step's workspace: what a handler may read, and what it may ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.log import Entry, LogView
from quorate.raft.messages import RESPONSES, Request, Response, TransferLeadershipRequest, Worded
from quorate.raft.ready import Effects, Send, SnapshotChunk
from quorate.raft.requests import Flight, Lane, Requests
from quorate.raft.roles import Role, known_leader
from quorate.raft.settings import Chance, Settings
from quorate.raft.voters import Endpoint, Voter, VoterSet


@dataclass(frozen=True, slots=True)
class Fault:
    """Why not."""

    error: ErrorCode
    message: str = ""


NO_FAULT = Fault(ErrorCode.NONE)


@dataclass(slots=True, kw_only=True)
class Transfer:
    """Leadership of `epoch` on its way to another voter."""

    request: TransferLeadershipRequest
    to: ReplicaKey
    epoch: Epoch
    expires_ms: int
    """When the voter must have caught up, and once we have left, when it must lead."""


@dataclass(slots=True)
class Handover:
    """What has become of a transfer is known only after our leadership, so this outlives the role."""

    transfer: Transfer | None = None


@dataclass(slots=True, kw_only=True)
class Turn:
    """Lives for one call of the core. Handlers change the log's view and ask for effects only through it."""

    node: ReplicaKey
    me: Voter
    """What the voter set should say of us, if we vote."""
    cluster_id: str
    settings: Settings
    random: Chance
    bootstrap: frozenset[NodeId]
    """Nodes that may know the leader, besides the voters."""
    relays: tuple[NodeId, ...]
    """Nodes from which an observer fetches rather than from the leader, the best first."""
    log: LogView
    requests: Requests
    handover: Handover
    effects: Effects
    is_recovering: bool
    """Has the disk lost what we had promised to keep, and have we not fetched it again yet?"""
    now_ms: int
    flight: Flight | None = None
    """The request that the response in hand answers."""
    reason: str = ""
    """Why the handler returns another role."""
    wake_ms: int | None = None
    """When the core wants its next tick."""

    # What may be read.

    @property
    def voters(self) -> VoterSet:
        """The voter set in force."""
        return self.log.voters.latest

    @property
    def is_voter(self) -> bool:
        """Do we vote?"""
        return self.voters.has(self.node)

    @property
    def may_stand(self) -> bool:
        """May we ask for votes? Also if we are being removed: until that is committed, nobody else may have the log.

        Raft thesis §4.2.2. Kafka's voter does not, and with one that lacks the record neither then ever leads.
        """
        if self.is_recovering:
            return False
        offset = self.log.voters.latest_offset
        if self.is_voter or offset is None or self.log.is_voter_change_committed:
            return self.is_voter
        return self.log.voters.before(offset).has(self.node)

    @property
    def own_vote(self) -> set[NodeId]:
        """Our own vote, if it counts."""
        return {self.node.id} if self.is_voter else set()

    @property
    def is_sole_voter(self) -> bool:
        """Are we the whole quorum?"""
        return self.voters.is_sole(self.node)

    @property
    def other_voters(self) -> tuple[ReplicaKey, ...]:
        """The voters but ourselves."""
        # A voter with our id on another disk is no peer: a message to that id would come to us.
        return tuple([key for key in self.voters.keys if key.id != self.node.id])

    @property
    def peer(self) -> NodeId:
        """Who sent the response in hand."""
        assert self.flight is not None
        return self.flight.to

    def election_deadline_ms(self) -> int:
        """A moment drawn from one to two election timeouts ahead. Raft §5.2; rule as Kafka's."""
        base_ms = self.settings.election_timeout_ms
        return self.now_ms + base_ms + self.random.randrange(base_ms)

    def is_due(self, at_ms: int) -> bool:
        """Has `at_ms` come? If not, the core is woken then."""
        if at_ms <= self.now_ms:
            return True
        if self.wake_ms is None or at_ms < self.wake_ms:
            self.wake_ms = at_ms
        return False

    def may_ask(self, peer: NodeId, lane: Lane = Lane.LOG) -> bool:
        """Is no request to `peer` under way, and no pause after a failed one?"""
        return self.is_due(self.requests.free_ms(peer, lane, now_ms=self.now_ms))

    # What may be asked for.

    def ask(self, peer: NodeId, request: Request, endpoints: tuple[Endpoint, ...] = ()) -> None:
        """Sends `request` to `peer`: by `endpoints` if there are any, else as the voter set or configuration say."""
        assert peer != self.node.id, request
        token = self.requests.next_token()
        request = replace(request, reply_to=token, cluster_id=self.cluster_id)
        expires_ms = self.now_ms + self.settings.request_timeout_ms
        self.requests.add(token, Flight(to=peer, request=request, expires_ms=expires_ms))
        self.effects.requests.append(Send(to=peer, request=request, endpoints=endpoints))
        self.is_due(expires_ms)

    def pause(self, peer: NodeId, lane: Lane = Lane.LOG) -> None:
        """Nothing is asked of `peer` for a moment, and nothing asked before is waited for."""
        wait_ms = self.settings.retry_wait_ms(self.requests.failures(peer, lane), self.random)
        self.requests.fail(peer, lane, retry_ms=self.now_ms + wait_ms)

    def pause_flight(self, flight: Flight) -> None:
        """As `pause`, where `flight` was: its answer is of no use, or will not come."""
        self.pause(flight.to, flight.lane)

    def answer(self, request: Request, response: Response) -> None:
        """Sends `response` to whoever sent `request`."""
        assert isinstance(response, RESPONSES[type(request)]), (request, response)
        self.effects.answers.append(replace(response, reply_to=request.reply_to))

    def refuse(self, role: Role, request: Request, fault: Fault) -> None:
        """Answers with why not, in words too where they have room, and with the leader and epoch that we know."""
        response = RESPONSES[type(request)](epoch=role.epoch, leader_id=known_leader(role), error=fault.error)
        if isinstance(response, Worded):
            response = replace(response, message=fault.message)
        self.answer(request, response)

    def append(self, entry: Entry) -> None:
        """Adds `entry` at the end of the log."""
        self.log.append(entry)
        self.effects.append.append(entry)

    def truncate(self, *, to: Offset) -> None:
        """Removes the records at `to` and after."""
        # `Ready` truncates before it appends; a follower waits for its flush in between, so both never meet.
        assert not self.effects.append, (to, self.effects.append)
        assert self.effects.truncate_to is None, (to, self.effects.truncate_to)
        self.log.truncate(to=to)
        self.effects.truncate_to = to

    def install(
        self, snapshot_id: OffsetAndEpoch, *, size: int, voters: VoterSet | None, kraft_version: int | None
    ) -> None:
        """Replaces the log by a snapshot, all of which is committed."""
        assert not self.effects.append, (snapshot_id, self.effects.append)
        self.log.install(snapshot_id, size=size, voters=voters, kraft_version=kraft_version)
        self.effects.install = snapshot_id
        self.effects.high_watermark = self.log.high_watermark

    def write_chunk(self, chunk: SnapshotChunk) -> None:
        """Writes a piece of a snapshot download."""
        assert self.effects.chunk is None, chunk  # the next piece is asked for by the `Ready` that has this one
        self.effects.chunk = chunk

    def commit(self, to: Offset) -> None:
        """Moves the high watermark if `to` is beyond it; it never falls."""
        if to > self.log.high_watermark:
            self.log.commit(to)
            self.effects.high_watermark = to
