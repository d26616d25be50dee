"""The protocol core of one node, without I/O: messages and time in, `Ready` out. Only this module changes the role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import (
    fencing,
    following,
    matrix,
    membership,
    parked_fetches,
    progress,
    quorum_epoch,
    read_index,
    role_entry,
    voting,
)
from quorate.raft.log import BatchInfo, LogView
from quorate.raft.messages import RESPONSES, EpochlessRequest, Message, NewsOfLeader, Request, Response
from quorate.raft.progress import QuorumDescription
from quorate.raft.ready import NO_EFFECTS, NOTHING, Effects, Leadership, Ready, Refusal, Upgrade, leadership_of
from quorate.raft.requests import InFlightRequest, Requests
from quorate.raft.roles import ElectionState, Follower, Leader, Resigned, Role, check_change, known_leader, unpersisted
from quorate.raft.settings import Chance, RaftSettings
from quorate.raft.step_context import Presence, StepContext, TransferState
from quorate.raft.voters import SUPPORTED, ListenerEndpoint, VersionRange, Voter, VoterSet

ROLES_A_STEP_MAX = 8
"""More rounds in one step would be an endless loop. The longest has four: Follower, Prospective, Candidate, Leader."""


class Raft:
    """The quorum protocol of one node: a state machine without I/O, clock or threads.

    The driver calls it with messages, the time and what the disk has done; after any call, `ready` returns the effects
    to carry out. `now_ms` is a monotonic clock. A wrong call by the driver is an assertion.

    `log` and `election` are the contents of the disk at start; `election` is None on an empty disk. `endpoints` are
    this node's listeners, the one for peers first: the core keeps them up to date in the voter set; without any it does
    not. `bootstrap` nodes may know the leader besides the voters. `recover_to` is how far the log reached, at least,
    before the disk lost flushed records: until it reaches there again, this node neither votes nor stands.
    """

    __slots__ = (
        "_bootstrap",
        "_cluster_id",
        "_deadline",
        "_effects",
        "_handover",
        "_leadership",
        "_log",
        "_me",
        "_node",
        "_now_ms",
        "_persisted",
        "_random",
        "_recover_to",
        "_requests",
        "_role",
        "_settings",
    )

    def __init__(
        self,
        *,
        node: ReplicaKey,
        cluster_id: str,
        log: LogView,
        election: ElectionState | None,
        random: Chance,
        now_ms: int,
        settings: RaftSettings | None = None,
        bootstrap: Iterable[NodeId] = (),
        endpoints: Iterable[ListenerEndpoint] = (),
        kraft_versions: VersionRange = SUPPORTED,
        recover_to: OffsetAndEpoch | None = None,
    ) -> None:
        self._node = node
        self._me = Voter(key=node, endpoints=tuple(endpoints), kraft_versions=kraft_versions)
        self._cluster_id = cluster_id
        self._settings = settings or RaftSettings()
        self._bootstrap = frozenset(bootstrap)
        self._recover_to = recover_to
        self._random = random
        self._log = log
        self._requests = Requests()
        self._effects = Effects()
        self._deadline: int | None = None
        self._now_ms = now_ms
        self._persisted = election or ElectionState()
        assert self._persisted.epoch >= 0, election
        self._handover = TransferState(reported_epoch=self._persisted.epoch)
        context = self._context(now_ms)
        self._role: Role = role_entry.first_role(context, self._persisted)
        self._leadership = Leadership(epoch=0, leader_id=None)
        self._note_transition("Start", context.reason)
        self._pursue(context)

    # Outputs to the driver.

    @property
    def node(self) -> ReplicaKey:
        """The replica key of this node."""
        return self._node

    @property
    def role(self) -> Role:
        """The current role. Read only: only the core changes it."""
        return self._role

    @property
    def log(self) -> LogView:
        """The core's view of this node's log. Read only."""
        return self._log

    @property
    def deadline(self) -> int | None:
        """The moment by which `tick` must be called, in ms of the core's clock; None if no timer runs."""
        return self._deadline

    @property
    def persisted(self) -> ElectionState:
        """The election state that `ready` returned last, at first the disk's; durable before a message (I-03, I-04)."""
        return self._persisted

    def ready(self) -> Ready:
        """Returns all effects since the last call, each once; the falsy `NOTHING` if there are none."""
        election = unpersisted(self._role, self._persisted)
        if election is not None:
            assert election.epoch >= self._persisted.epoch, (election, self._persisted)  # I-03
            self._persisted = election
        elif self._effects == NO_EFFECTS:
            return NOTHING
        effects, self._effects = self._effects, Effects()
        return effects.as_ready(election, self._log)

    def describe(self, now_ms: int) -> QuorumDescription:
        """Returns leader, epoch and high watermark; on the leader also each replica's log end and fetch times."""
        return progress.describe(self._context(now_ms), self._role)

    # Inputs from the driver.

    def step(self, message: Message, now_ms: int) -> None:
        """Handles a peer's request, to be answered in a `Ready`, or a response, ignored if it is no longer awaited."""
        context = self._context(now_ms)
        if isinstance(message, Request):
            self._take_request(context, message)
        else:
            self._take_response(context, message)
        self._pursue(context)

    def tick(self, now_ms: int) -> None:
        """Lets timers that are due run. A call without a due timer does nothing."""
        self._pursue(self._context(now_ms))

    def append(self, batches: Sequence[BatchInfo], now_ms: int) -> Refusal | None:
        """Appends all of `batches` as leader of their epoch at the log end, else says why not (also in a transfer)."""
        context = self._context(now_ms)
        refusal = quorum_epoch.append(context, self._role, batches)
        if refusal is None:
            self._pursue(context)
        return refusal

    def flushed(self, offset: Offset, now_ms: int) -> None:
        """Records that all records below `offset` (exclusive) are on stable storage: now they count for commits."""
        context = self._context(now_ms)
        self._log.flush(offset)
        self._pursue(context)

    def peer_lost(self, node_id: NodeId, now_ms: int) -> None:
        """Handles a stream to or from `node_id` that broke or was refused: requests to it have failed.

        Its held fetches are forgotten. If this node follows it, it asks for pre-votes after a short random wait.
        """
        context = self._context(now_ms)
        context.lose(node_id, known_leader(self._role))
        role = self._role
        if isinstance(role, Leader | Follower):
            parked_fetches.drop_parked(role, node_id)
        if isinstance(role, Follower) and role.leader_id == node_id:
            following.lose_leader(context, role)
        self._pursue(context)

    def request_failed(self, token: object, now_ms: int) -> None:
        """Handles a request that will not be answered; `token` is its `reply_to`. It is sent again after a pause."""
        context = self._context(now_ms)
        flight = self._requests.take(token)
        if flight is not None:
            context.give_up(flight)
        self._pursue(context)

    @property
    def is_recovering(self) -> bool:
        """Whether flushed records that the disk lost are still missing. Until they are back, keep `recover_to`."""
        return self._recover_to is not None

    @property
    def is_released(self) -> bool:
        """Whether a node that called `resign` may exit: all voters know of it, or a later epoch has begun.

        It can stay False, as when a voter is down and the others elect no leader; so the driver waits with a limit.
        """
        role, voters = self._role, self._log.voters.latest
        if isinstance(role, Resigned):
            return role.acknowledged >= voters.ids - {self._node.id}
        return not isinstance(role, Leader) or voters.is_sole(self._node)

    def note_readers(self, readers: Mapping[ReplicaKey, Offset], now_ms: int) -> bool:
        """Records, on the leader, fetch offsets of observers that a gateway answered. False: one was left out."""
        assert isinstance(self._role, Leader), self._role
        return progress.note_readers(self._context(now_ms), self._role, readers)

    def controller_presence(self, presence: Presence, now_ms: int) -> None:
        """Sets whether this node's controller is present: a follower reports it, a leader without one may resign."""
        self._handover.presence = presence
        self._pursue(self._context(now_ms))

    def resign(self, now_ms: int) -> bool:
        """Resigns as leader and names successors to the voters (EndQuorumEpoch). Returns False if it did not lead."""
        context, role = self._context(now_ms), self._role
        if not isinstance(role, Leader):
            return False
        self._become(context, role_entry.resigned(context, role, reason="asked to resign"))
        self._pursue(context)
        return True

    def upgrade_kraft_version(self, version: int, now_ms: int, *, epoch: Epoch, validate_only: bool = False) -> Upgrade:
        """Appends the upgrade of kraft.version to `version`, or only checks it; an error is in the result. KIP-853.

        The present version is accepted, and nothing is written. NOT_LEADER_OR_FOLLOWER: this node does not lead
        `epoch`. REQUEST_TIMED_OUT: nothing of it is committed yet. INVALID_UPDATE_VERSION: a lower version, or one that
        a voter does not support, or a voter has not announced its directory id or listeners.
        """
        context = self._context(now_ms)
        upgrade = membership.upgrade(context, self._role, version, epoch=epoch, validate_only=validate_only)
        self._pursue(context)
        return upgrade

    def snapshot_complete(
        self,
        snapshot_id: OffsetAndEpoch,
        voters: VoterSet | None,
        now_ms: int,
        *,
        kraft_version: int | None = None,
    ) -> bool:
        """Installs the downloaded snapshot, which is complete and fsynced; returns False if it is no longer wanted.

        `voters` and `kraft_version` are from its header, if it has them. The next `Ready.install` replaces the log.
        """
        context, role = self._context(now_ms), self._role
        is_wanted = isinstance(role, Follower) and following.install(
            context, role, snapshot_id, voters=voters, kraft_version=kraft_version
        )
        self._pursue(context)
        return is_wanted

    def snapshot_failed(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        """Drops the download of `snapshot_id`, whose bytes are no valid snapshot; a Fetch follows after a pause."""
        context = self._context(now_ms)
        if isinstance(self._role, Follower):
            following.drop_download(context, self._role, snapshot_id)
        self._pursue(context)

    def snapshot_taken(self, snapshot_id: OffsetAndEpoch, size: int) -> None:
        """Registers a complete snapshot of `size` bytes that this node wrote itself (I-26). KIP-630."""
        self._log.take_snapshot(snapshot_id, size)

    def log_started(self, snapshot_id: OffsetAndEpoch) -> None:
        """Moves the log start to the end of `snapshot_id`: the driver has removed all records before it (I-27)."""
        self._log.start_at(snapshot_id)

    # One step: fence the message, handle it, then do what is due.

    def _context(self, now_ms: int) -> StepContext:
        assert now_ms >= self._now_ms, (now_ms, self._now_ms)
        self._now_ms = now_ms
        return StepContext(
            node=self._node,
            me=self._me,
            cluster_id=self._cluster_id,
            settings=self._settings,
            random=self._random,
            bootstrap=self._bootstrap,
            log=self._log,
            requests=self._requests,
            handover=self._handover,
            is_recovering=self.is_recovering,
            effects=self._effects,
            now_ms=now_ms,
        )

    def _take_request(self, context: StepContext, request: Request) -> None:
        """Fences a request, enters its epoch, and passes it to its handler, or answers it with an error."""
        fault = fencing.refusal(context, self._role, request)
        if fault is None and not isinstance(request, EpochlessRequest):
            if voting.enters_epoch(context, self._role, request):
                leader_id = request.leader_id if isinstance(request, NewsOfLeader) else None
                self._enter_epoch(context, request.epoch, leader_id, type(request).__name__)
            fault = fencing.misaddressed(context, request)
        handler = matrix.handler(self._role, request)
        if fault is not None:
            context.refuse(self._role, request, fault)
        elif handler is None:
            context.refuse(self._role, request, fencing.not_leader(self._role))
        else:
            self._become(context, handler(context, self._role, request))

    def _take_response(self, context: StepContext, response: Response) -> None:
        """Handles a response whose request is in flight, and counts whether the peer has failed."""
        context.flight = self._requests.take(response.reply_to)
        if context.flight is None:  # sent by an earlier role, expired, or answered already
            return
        assert isinstance(response, RESPONSES[type(context.flight.request)]), (context.flight, response)
        peer, request_class = context.flight.to, context.flight.request_class
        failures = self._requests.failures(peer, request_class)
        if response.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._requests.deny(context.flight, now_ms=context.now_ms)
            self._effects.denied.append(peer)
            context.pause(peer, request_class)
            return
        self._requests.allow(context.flight)
        self._take_answer(context, context.flight, response)
        if self._requests.failures(peer, request_class) == failures:
            self._requests.succeed(peer, request_class)

    def _take_answer(self, context: StepContext, flight: InFlightRequest, response: Response) -> None:
        """Enters the response's epoch, and passes it to its handler unless that has changed the role."""
        if fencing.has_epoch(response):
            if not fencing.is_believable(context, self._role, response):
                context.give_up(flight)
                return
            before = self._role
            source = f"{type(response).__name__} of {context.peer}"
            self._enter_epoch(context, response.epoch, response.leader_id, source)
            if self._role is not before:
                return  # the request was of the previous role, so its answer has no use
        handler = matrix.handler(self._role, response)
        if handler is None:
            context.give_up(flight)
        else:
            self._become(context, handler(context, self._role, response))

    def _enter_epoch(self, context: StepContext, epoch: Epoch, leader_id: NodeId | None, source: str) -> None:
        """Enters a later epoch, or follows a leader that was unknown; see `fencing.role_in_epoch`."""
        role = fencing.role_in_epoch(context, self._role, epoch=epoch, leader_id=leader_id, source=source)
        self._become(context, role)

    def _note_recovery(self, context: StepContext, recover_to: OffsetAndEpoch) -> None:
        """Ends the recovery when the log again reaches `recover_to`: this node may vote and stand again."""
        # In the same epoch, the log must be as long again. In a later epoch it has what was committed before, or its
        # leader could not have been elected (I-12). Until then this node's fetches still count: what they acknowledge
        # is on its disk.
        if self._log.last_flushed >= recover_to:
            self._recover_to = None
            context.is_recovering = False

    def _pursue(self, context: StepContext) -> None:
        """Runs the role's periodic work, and that of each role that it becomes, until none changes the role."""
        if self._recover_to is not None:
            self._note_recovery(context, self._recover_to)
        self._requests.expire(context.now_ms)
        for _ in range(ROLES_A_STEP_MAX):
            context.wake_at_ms = None
            role = self._role
            for pursuit in matrix.PURSUITS[type(role)]:
                after = pursuit(context, role)
                if after is not None:
                    self._become(context, after)
                    break
            else:
                self._deadline = context.wake_at_ms
                return
        raise AssertionError((self._role, context.reason))

    def _become(self, context: StepContext, role: Role | None) -> None:
        """Becomes `role` unless None; refuses fetches, voter changes and reads that waited for the previous role."""
        if role is None:
            return
        before = self._role
        check_change(before, role)
        self._role = role
        self._requests.clear()  # answers to requests of the previous role are dropped
        self._effects.drop_fetches()
        if isinstance(before, Leader | Follower):
            parked_fetches.release_parked(context, before, role)
        if isinstance(before, Leader):
            membership.release_change(context, before, role)
            read_index.release(context, before, role)
        self._note_transition(type(before).__name__, context.reason)

    def _note_transition(self, before: str, reason: str) -> None:
        """Adds the change of role, and the new leader if there is one, to the effects."""
        self._effects.change_role(before, self._role, reason)
        leadership = leadership_of(self._role)
        if leadership != self._leadership:
            self._leadership = self._effects.leadership = leadership
