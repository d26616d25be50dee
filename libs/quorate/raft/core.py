"""One node of the quorum: messages and time in, `Ready` out. The only place where a node becomes another role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import confirming, enter, fencing, following, holding, matrix, membership, progress
from quorate.raft.log import Batch, LogView
from quorate.raft.messages import EpochlessRequest, Message, NewsOfLeader, Request, Response
from quorate.raft.progress import Quorum
from quorate.raft.ready import NO_EFFECTS, NOTHING, Effects, Leadership, Ready, Refusal, Transition, Upgrade
from quorate.raft.requests import Flight, Lane, Requests
from quorate.raft.roles import ElectionState, Follower, Leader, Resigned, Role, known_leader, unpersisted
from quorate.raft.settings import Chance, Settings
from quorate.raft.turn import Fault, Handover, Turn
from quorate.raft.voters import SUPPORTED, Endpoint, VersionRange, Voter, VoterSet

ROLES_A_STEP_MAX = 8
"""More changes of role in one step would be a circle; the longest way is Follower to Leader, alone: four."""


class Raft:
    """The protocol of one node, without I/O. Each call may leave something to do in `ready`.

    `log` and `election` are what the disk holds at start; None if nothing was ever written. The calls' `now_ms`
    is of a clock that never goes back. A false call by the driver is an assertion. `endpoints` are this node's own
    listeners, the one for peers first: it sees to it that the voter set has them. Without any it leaves that alone.
    `relays` are asked by a node that does not vote before the leader is, and what they know to be committed is enough.
    `recover_to` is how far the log went, at least, before the disk lost a part of it that had been flushed.
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
        "_relays",
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
        settings: Settings | None = None,
        bootstrap: Iterable[NodeId] = (),
        relays: Iterable[NodeId] = (),
        endpoints: Iterable[Endpoint] = (),
        kraft_versions: VersionRange = SUPPORTED,
        recover_to: OffsetAndEpoch | None = None,
    ) -> None:
        self._node = node
        self._me = Voter(key=node, endpoints=tuple(endpoints), kraft_versions=kraft_versions)
        self._cluster_id = cluster_id
        self._settings = settings or Settings()
        self._bootstrap = frozenset(bootstrap)
        self._relays = tuple(relays)
        self._recover_to = recover_to
        self._random = random
        self._log = log
        self._requests = Requests()
        self._handover = Handover()
        self._effects = Effects()
        self._deadline: int | None = None
        self._now_ms = now_ms
        self._persisted = election or ElectionState()
        assert self._persisted.epoch >= 0, election
        turn = self._turn(now_ms)
        self._role: Role = enter.first_role(turn, self._persisted)
        self._leadership = Leadership(epoch=0, leader_id=None)
        self._note_transition("Start", turn.reason)
        self._pursue(turn)

    # What a driver sees.

    @property
    def node(self) -> ReplicaKey:
        """Who we are."""
        return self._node

    @property
    def role(self) -> Role:
        """What we are; to be read only."""
        return self._role

    @property
    def log(self) -> LogView:
        """What we know of our log; to be read only."""
        return self._log

    @property
    def deadline(self) -> int | None:
        """When `tick` must be called at the latest; None if nothing is timed."""
        return self._deadline

    @property
    def persisted(self) -> ElectionState:
        """The election state handed out last: the disk has it, or must before anything else leaves."""
        return self._persisted

    def ready(self) -> Ready:
        """Takes everything that is to be done; what has been taken is not given again."""
        election = unpersisted(self._role, self._persisted)
        if election is not None:
            self._persisted = election
        elif self._effects == NO_EFFECTS:
            return NOTHING
        effects, self._effects = self._effects, Effects()
        return effects.as_ready(election)

    def describe(self, now_ms: int) -> Quorum:
        """Who leads and how far everybody is, for DescribeQuorum."""
        role = self._role
        if isinstance(role, Leader):
            return progress.describe(self._turn(now_ms), role)
        return Quorum(leader_id=known_leader(role), epoch=role.epoch, high_watermark=self._log.high_watermark)

    # What a driver tells.

    def step(self, message: Message, now_ms: int) -> None:
        """Takes a request or a response of a peer."""
        turn = self._turn(now_ms)
        if isinstance(message, Request):
            self._take_request(turn, message)
        else:
            self._take_response(turn, message)
        self._pursue(turn)

    def tick(self, now_ms: int) -> None:
        """Time has passed."""
        self._pursue(self._turn(now_ms))

    def append(self, batches: Sequence[Batch], now_ms: int) -> Refusal | None:
        """Appends all of `batches` if we lead their epoch and they begin at our end; else nothing, and says why."""
        assert batches
        assert all(batch.epoch == batches[0].epoch for batch in batches), batches
        assert all(a.end_offset == b.base_offset for a, b in pairwise(batches)), batches
        turn = self._turn(now_ms)
        error = self._append_error(batches[0])
        if error is not ErrorCode.NONE:
            leader_id, epoch = known_leader(self._role), self._role.epoch
            return Refusal(error=error, leader_id=leader_id, epoch=epoch, wanted_offset=self._log.leo)
        for batch in batches:
            turn.append(batch)
        self._pursue(turn)
        return None

    def flushed(self, offset: Offset, now_ms: int) -> None:
        """Everything below `offset` of what `Ready.append` has given is on stable storage."""
        turn = self._turn(now_ms)
        self._log.flush(offset)
        self._pursue(turn)

    def peer_lost(self, node_id: NodeId, now_ms: int) -> None:
        """The stream to `node_id` was reset, or refused: nothing asked before will be answered."""
        turn = self._turn(now_ms)
        for lane in Lane:
            turn.pause(node_id, lane)
        role = self._role
        if isinstance(role, Leader | Follower):
            holding.drop_parked(role, node_id)
        if isinstance(role, Follower) and role.leader_id == node_id:
            following.lose_leader(turn, role)
        self._pursue(turn)

    def request_failed(self, token: object, now_ms: int) -> None:
        """The request with `reply_to` = `token` will not be answered."""
        turn = self._turn(now_ms)
        flight = self._requests.take(token)
        if flight is not None:
            turn.pause_flight(flight)
        self._pursue(turn)

    @property
    def is_recovering(self) -> bool:
        """Is the log still short of what it was before the disk lost a part? Until then `recover_to` must be kept."""
        return self._recover_to is not None

    @property
    def is_released(self) -> bool:
        """After `resign`: does every voter know that we have left, or is there a later epoch? Then we may go.

        It may never come true, say if a voter is down and the others elect nobody: the patience is the driver's.
        """
        role, voters = self._role, self._log.voters.latest
        if isinstance(role, Resigned):
            return role.acknowledged >= voters.ids - {self._node.id}
        return not isinstance(role, Leader) or voters.is_sole(self._node)

    def resign(self, now_ms: int) -> bool:
        """Gives up leadership and names successors. False if we do not lead."""
        turn = self._turn(now_ms)
        role = self._role
        if not isinstance(role, Leader):
            return False
        self._become(turn, enter.resigned(turn, role, reason="asked to resign"))
        self._pursue(turn)
        return True

    def upgrade_kraft_version(self, version: int, now_ms: int, *, epoch: Epoch, validate_only: bool = False) -> Upgrade:
        """Raises kraft.version to `version`, if we lead `epoch` and every voter can work with it. KIP-853.

        Equal is no news. INVALID_UPDATE_VERSION: lower, not supported, or a voter has not told all of itself yet.
        """
        turn = self._turn(now_ms)
        role = self._role
        if not isinstance(role, Leader) or role.epoch != epoch:
            message = f"this node is {type(role).__name__} of epoch {role.epoch}; epoch {epoch} was meant"
            return Upgrade(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=message, end_offset=self._log.leo)
        upgrade = membership.upgrade(turn, role, version, validate_only=validate_only)
        self._pursue(turn)
        return upgrade

    def snapshot_complete(
        self,
        snapshot_id: OffsetAndEpoch,
        voters: VoterSet | None,
        now_ms: int,
        *,
        kraft_version: int | None = None,
    ) -> bool:
        """The download of `snapshot_id` is on disk, whole and durable; its header has `voters` and `kraft_version`.

        None for what the header has not. True if the log now gives way to it (`Ready.install`); False if it is no
        longer wanted.
        """
        turn = self._turn(now_ms)
        role = self._role
        is_wanted = isinstance(role, Follower) and following.install(
            turn, role, snapshot_id, voters=voters, kraft_version=kraft_version
        )
        self._pursue(turn)
        return is_wanted

    def snapshot_failed(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        """The download of `snapshot_id` is no snapshot: it is begun anew."""
        turn = self._turn(now_ms)
        role = self._role
        if isinstance(role, Follower):
            following.drop_download(turn, role, snapshot_id)
        self._pursue(turn)

    def snapshot_taken(self, snapshot_id: OffsetAndEpoch, size: int) -> None:
        """A snapshot of `size` bytes of our own is on disk. KIP-630."""
        log = self._log
        assert log.start <= snapshot_id.offset <= log.high_watermark, (log.start, snapshot_id, log.high_watermark)
        assert log.epochs.epoch_at(snapshot_id.offset - 1) == snapshot_id.epoch, snapshot_id
        log.snapshots[snapshot_id] = size

    def log_started(self, snapshot_id: OffsetAndEpoch) -> None:
        """The records below `snapshot_id`, which is on disk, and the snapshots before it are removed."""
        self._log.start_at(snapshot_id)

    # How it goes.

    def _turn(self, now_ms: int) -> Turn:
        assert now_ms >= self._now_ms, (now_ms, self._now_ms)
        self._now_ms = now_ms
        return Turn(
            node=self._node,
            me=self._me,
            cluster_id=self._cluster_id,
            settings=self._settings,
            random=self._random,
            bootstrap=self._bootstrap,
            relays=self._relays,
            log=self._log,
            requests=self._requests,
            handover=self._handover,
            is_recovering=self.is_recovering,
            effects=self._effects,
            now_ms=now_ms,
        )

    def _take_request(self, turn: Turn, request: Request) -> None:
        fault = fencing.refusal(turn, self._role, request)
        if fault is None and not isinstance(request, EpochlessRequest):
            leader_id = request.leader_id if isinstance(request, NewsOfLeader) else None
            self._hear(turn, request.epoch, leader_id, type(request).__name__)
            if fencing.is_misaddressed(turn, request):
                fault = Fault(ErrorCode.INVALID_VOTER_KEY)
        handler = matrix.handler(self._role, request)
        if fault is not None:
            turn.refuse(self._role, request, fault)
        elif handler is None:
            turn.refuse(self._role, request, fencing.unheard(self._role))
        else:
            self._become(turn, handler(turn, self._role, request))

    def _take_response(self, turn: Turn, response: Response) -> None:
        turn.flight = self._requests.take(response.reply_to)
        if turn.flight is None:  # asked by an earlier role, or answered before
            return
        peer, lane = turn.flight.to, turn.flight.lane
        failures = self._requests.failures(peer, lane)
        self._take_answer(turn, turn.flight, response)
        if self._requests.failures(peer, lane) == failures:
            self._requests.succeed(peer, lane)

    def _take_answer(self, turn: Turn, flight: Flight, response: Response) -> None:
        if fencing.has_epoch(response):
            if not fencing.is_believable(turn, self._role, response):
                turn.pause_flight(flight)
                return
            before = self._role
            self._hear(turn, response.epoch, response.leader_id, f"{type(response).__name__} of {turn.peer}")
            if self._role is not before:
                return
        handler = matrix.handler(self._role, response)
        if handler is None:
            turn.pause_flight(flight)
        else:
            self._become(turn, handler(turn, self._role, response))

    def _hear(self, turn: Turn, epoch: Epoch, leader_id: NodeId | None, source: str) -> None:
        self._become(turn, fencing.heard(turn, self._role, epoch=epoch, leader_id=leader_id, source=source))

    def _note_recovery(self, turn: Turn) -> None:
        """Stands and votes again once nothing is missing that we may have acknowledged."""
        # In the same epoch that takes as long a log. One that has come to a later epoch has what was committed before:
        # nobody leads without that. Until then our fetches still count: what they say is on our disk, is.
        if self._recover_to is not None and self._log.last_flushed >= self._recover_to:
            self._recover_to = None
            turn.is_recovering = False

    def _pursue(self, turn: Turn) -> None:
        """Lets the role do what is due, and the next role, until one stays."""
        self._note_recovery(turn)
        self._requests.expire(turn.now_ms)
        for _ in range(ROLES_A_STEP_MAX):
            turn.wake_ms = None
            role = self._role
            for pursuit in matrix.PURSUITS[type(role)]:
                after = pursuit(turn, role)
                if after is not None:
                    self._become(turn, after)
                    break
            else:
                self._deadline = turn.wake_ms
                return
        raise AssertionError((self._role, turn.reason))

    def _become(self, turn: Turn, role: Role | None) -> None:
        """Becomes `role`, if there is one."""
        if role is None:
            return
        before = self._role
        assert role.epoch >= before.epoch, (before, role)
        self._role = role
        self._requests.clear()
        if isinstance(before, Leader | Follower):
            holding.release_parked(turn, before, role)
        if isinstance(before, Leader):
            membership.release_change(turn, before, role)
            confirming.release(turn, before, role)
        self._note_transition(type(before).__name__, turn.reason)

    def _note_transition(self, before: str, reason: str) -> None:
        role = self._role
        transition = Transition(before=before, after=type(role).__name__, epoch=role.epoch, reason=reason)
        self._effects.transitions.append(transition)
        start = role.epoch_start_offset if isinstance(role, Leader) else None
        leadership = Leadership(epoch=role.epoch, leader_id=known_leader(role), epoch_start_offset=start)
        if leadership != self._leadership:
            self._leadership = self._effects.leadership = leadership

    def _append_error(self, first: Batch) -> ErrorCode:
        role = self._role
        if not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if first.epoch < role.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if first.epoch > role.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self._handover.transfer is not None:  # nothing is wrong, and it ends: to be tried again
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode.NONE if first.base_offset == self._log.leo else ErrorCode.OFFSET_OUT_OF_RANGE
