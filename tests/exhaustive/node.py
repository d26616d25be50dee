"""One node of the model: the real core over a pretend disk, taken up from a value, stepped once, and put down again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from msgspec.structs import replace

from quorate.epochs import EpochCache
from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import (
    BatchInfo,
    ElectionState,
    LeaderChange,
    LogView,
    Raft,
    RaftSettings,
    Ready,
    VoterHistory,
    VoterSet,
)
from quorate.raft import invariants as core_invariants
from quorate.raft.history import History
from quorate.raft.log import VotersChange
from quorate.raft.messages import (
    ControllerPresenceRequest,
    ControllerPresenceResponse,
    FetchResponse,
    Message,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.ready import Effects
from quorate.raft.requests import InFlightRequest, Requests
from quorate.raft.roles import Candidate, Follower, Leader, Prospective
from tests.exhaustive.frozen import LATER_MS, NOW_MS, Value, freeze, thaw

CLUSTER_ID = "walked"
SETTINGS = RaftSettings()
LEFT_OUT = frozenset(
    {"_settings", "_random", "_cluster_id", "_bootstrap", "_now_ms", "_deadline", "_effects", "_leadership"}
)
"""Slots of the core that are the same in every state, or follow from the others."""
TOKENS_FROM = 2 * LATER_MS
"""A step numbers its requests from here on, beyond every node id."""
BRANCHES_MAX = 4
"""A choice among so few is taken every way; a wider one draws the length of a wait, and all waits are alike."""

Entry: TypeAlias = tuple[Epoch, Value, Value, int | None]
"""One record: its epoch, what it says, the voter set and the kraft.version that its batch brings, or None."""
REST: Value = ("tuple", "rest")
"""What a record says that is not the first of its batch."""
Slot: TypeAlias = tuple[NodeId, bool]
"""A slot: the peer of a request, and whether it is about voters. Each has one request at a time."""
Route: TypeAlias = tuple[str, NodeId, bool, int]
"""The way back to an asker: "route", the slot as the asker sees it, and whether it waits."""
Local: TypeAlias = tuple[Value, tuple[Entry, ...], Offset, Value, Value]
"""A node between two steps: core, log, end of what is flushed, election state on disk, last vote that it sent."""


class Violation(AssertionError):
    """A law is broken; the message begins with its number."""


def require(holds: bool, law: str, *values: object) -> None:
    if not holds:
        raise Violation(f"{law}: {values}")


@dataclass(slots=True)
class Branches:
    """The core's chance: follows a script, then takes the first way and notes how many ways there were."""

    script: tuple[int, ...] = ()
    is_single: bool = False
    """Is only the first way taken?"""
    widths: list[int] = field(default_factory=list)

    def randrange(self, stop: int, /) -> int:
        if stop > BRANCHES_MAX:
            return 1
        if self.is_single:
            return 0
        at = len(self.widths)
        self.widths.append(stop)
        return self.script[at] if at < len(self.script) else 0

    def others(self) -> Iterator[tuple[int, ...]]:
        """Scripts for the ways that were not taken at the choices after the script's end."""
        taken = self.script + (0,) * (len(self.widths) - len(self.script))
        for at in range(len(self.script), len(self.widths)):
            for way in range(1, self.widths[at]):
                yield (*taken[:at], way)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all nodes of a walk."""

    base: VoterSet
    """The voters before the first record."""
    kraft_version: int = 0
    is_pre_vote_free: bool = False
    is_lean: bool = False


@dataclass(frozen=True, slots=True)
class Disk:
    """What a process finds when it starts."""

    log: Sequence[Entry] = ()
    election: ElectionState | None = None
    grant: tuple[Epoch, ReplicaKey] | None = None
    """Not on a real disk: the last vote that was sent, for the law."""


@dataclass(slots=True)
class Node:
    """A node during one step. Its messages and effects are kept for the model to carry out and to judge."""

    raft: Raft
    log: list[Entry]
    flushed: Offset
    durable: ElectionState
    grant: tuple[Epoch, ReplicaKey] | None
    setting: Setting
    requests: list[tuple[NodeId, int, Message]] = field(default_factory=list)
    """To whom, under which token, what."""
    answers: list[tuple[Route, Message]] = field(default_factory=list)
    """Along which route, what."""
    cut: list[tuple[Offset, Entry]] = field(default_factory=list)
    """Records that were truncated."""
    request: Message | None = None
    """The request in hand."""

    # Taken up and put down.

    @classmethod
    def take_up(cls, setting: Setting, local: Local, chance: Branches) -> Node:
        core, log, flushed, durable, grant = local
        left_out: dict[str, object] = {
            "_settings": SETTINGS,
            "_random": chance,
            "_cluster_id": CLUSTER_ID,
            "_bootstrap": frozenset(),
            "_now_ms": NOW_MS,
            "_deadline": None,
            "_effects": Effects(),
            "_leadership": None,
        }
        return cls(
            raft=cast(Raft, thaw(core, left_out)),
            log=list(log),
            flushed=flushed,
            durable=cast(ElectionState, thaw(durable)),
            grant=cast("tuple[Epoch, ReplicaKey] | None", thaw(grant)),
            setting=setting,
        )

    @classmethod
    def start(cls, setting: Setting, key: ReplicaKey, chance: Branches, disk: Disk) -> Node:
        """A process that finds `disk`."""
        log = disk.log
        sets = [(offset, cast(VoterSet, thaw(entry[2]))) for offset, entry in enumerate(log) if entry[2] is not None]
        levels = [(offset, entry[3]) for offset, entry in enumerate(log) if entry[3] is not None]
        view = LogView(
            voters=VoterHistory(setting.base, sets),
            kraft_versions=History(setting.kraft_version, levels),
            epochs=EpochCache((entry[0], offset) for offset, entry in enumerate(log)),
            leo=len(log),
            flushed=len(log),
        )
        raft = Raft(
            node=key,
            cluster_id=CLUSTER_ID,
            log=view,
            election=disk.election,
            random=chance,
            now_ms=NOW_MS,
            settings=SETTINGS,
        )
        return cls(raft, list(log), len(log), disk.election or ElectionState(), disk.grant, setting)

    def put_down(self) -> Local:
        """The value of this node, once nothing is left to do."""
        core_invariants.check(self.raft)
        _forget_dead(self.raft)
        _name_tokens(self.raft._requests)
        core = freeze(self.raft, LEFT_OUT)
        return core, tuple(self.log), self.flushed, freeze(self.durable), freeze(self.grant)

    # The driver's loop.

    def drive(self) -> None:
        """Carries out what the core asks for, until it asks for nothing."""
        while True:
            ready = self.raft.ready()
            if ready:
                self._carry_out(ready)
            elif not (self._retry() or self._win_pre_votes()):
                return

    def _carry_out(self, ready: Ready) -> None:
        if ready.election is not None:
            self.persist(ready.election)
        if ready.truncate_to is not None:
            self.cut += enumerate(self.log[ready.truncate_to :], ready.truncate_to)
            del self.log[ready.truncate_to :]
            self.flushed = min(self.flushed, ready.truncate_to)
        for entry in ready.append:
            self._write(entry)
        assert ready.install is None, ready  # there are no snapshots here
        assert ready.chunk is None, ready
        self.answers += [(cast(Route, answer.reply_to), self._filled(answer)) for answer in ready.answers]
        for send in ready.requests:
            token = cast(int, send.request.reply_to)
            if isinstance(send.request, ControllerPresenceRequest):
                self._acknowledge(send.to, token, send.request)
            else:
                self.requests.append((send.to, token, send.request))

    def _acknowledge(self, leader_id: NodeId, token: int, report: ControllerPresenceRequest) -> None:
        """Answers a report of controller presence in the leader's place: all controllers are present, as it assumes."""
        assert report.is_present, report
        answer = ControllerPresenceResponse(
            epoch=report.epoch, leader_id=leader_id, sequence=report.sequence, is_present=True, reply_to=token
        )
        self.raft.step(answer, NOW_MS)

    def persist(self, state: ElectionState) -> None:
        """Writes the election state, and waits until it is on stable storage."""
        require(state.epoch >= self.durable.epoch, "I-03 the durable epoch does not fall", self.durable, state)
        self.durable = state

    def _write(self, entry: BatchInfo | LeaderChange | VotersChange) -> None:
        assert entry.base_offset == len(self.log), (entry, len(self.log))
        last_epoch = self.log[-1][0] if self.log else 0
        require(last_epoch <= entry.epoch, "I-09 epochs do not fall along a log", last_epoch, entry)
        match entry:
            case BatchInfo(data=data):
                change: BatchInfo | VotersChange | None = entry
            case LeaderChange(leader_id=leader_id, change=change):
                data = ("leader", leader_id)
            case VotersChange():
                data, change = ("voters",), entry
        brought = None if change is None or change.voters is None else freeze(change.voters)
        self.log.append((entry.epoch, freeze(data), brought, None if change is None else change.kraft_version))
        self.log += [(entry.epoch, REST, None, None)] * (entry.end_offset - entry.base_offset - 1)

    def _filled(self, answer: Response) -> Message:
        if isinstance(answer, VoteResponse) and answer.granted:
            self._judge_grant(cast(VoteRequest, self.request))
        if not isinstance(answer, FetchResponse) or answer.read is None:
            return answer
        batches = tuple(batches_of(self.log, answer.read.offset))
        return replace(answer, read=None, batches=batches)

    def _judge_grant(self, request: VoteRequest) -> None:
        """I-04: one vote an epoch, over all lives, and on disk before it is sent."""
        if request.pre_vote:
            return
        grant = (request.epoch, request.replica)
        if self.grant is not None and self.grant[0] == request.epoch:
            require(self.grant == grant, "I-04 one vote an epoch", self.raft.node.id, self.grant, grant)
        self.grant = grant
        state = self.durable
        is_durable = state.epoch > request.epoch or (state.epoch == request.epoch and state.voted == request.replica)
        require(is_durable, "I-04 a vote is durable before it is sent", self.raft.node.id, grant, state)

    def _retry(self) -> bool:
        """Ends every pause after a failed request at once. True if there was one."""
        pauses = self.raft._requests._retry_at_ms
        if not pauses:
            return False
        pauses.clear()
        self.raft.tick(NOW_MS)
        return True

    def _win_pre_votes(self) -> bool:
        """If pre-votes are free, has every voter grant one at once. True if one was asked for."""
        role = self.raft.role
        if not self.setting.is_pre_vote_free or not isinstance(role, Prospective):
            return False
        asked = [(to, token) for to, token, message in self.requests if _is_pre_vote(message)]
        self.requests = [sent for sent in self.requests if not _is_pre_vote(sent[2])]
        for _, token in asked:
            if self.raft.role is role:
                answer = VoteResponse(epoch=role.epoch, leader_id=role.leader_id, granted=True, reply_to=token)
                self.raft.step(answer, NOW_MS)
        return bool(asked)

    # Which requests are under way.

    def waits(self) -> dict[Slot, int]:
        """Under which token an answer is waited for."""
        return {slot_of(flight): token for token, flight in self.raft._requests._flights.items()}

    def give_up(self, slot: Slot) -> None:
        """The request in `slot` is late."""
        flights = self.raft._requests._flights
        token = slot_token(slot)
        flights[token] = replace(flights[token], deadline_ms=NOW_MS)


def is_of_voters(name: str) -> bool:
    """Is a message of class `name` one of those that do not wait for the others to the same peer?"""
    return name.startswith(("ApiVersions", "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter"))


def slot_of(flight: InFlightRequest) -> Slot:
    return flight.to, is_of_voters(type(flight.request).__name__)


def slot_token(slot: Slot) -> int:
    """The token that a request has between steps: it says no more than the slot, in which there is but one."""
    return -slot[0] if slot[1] else slot[0]


def bases(log: Sequence[Entry]) -> list[Offset]:
    """Where each batch begins."""
    return [offset for offset, entry in enumerate(log) if entry[1] != REST]


def batches_of(log: Sequence[Entry], start: Offset) -> Iterator[BatchInfo]:
    """The batches from `start` on."""
    found = bases(log)
    for base, end in zip(found, [*found[1:], len(log)], strict=True):
        epoch, data, voters, kraft_version = log[base]
        if base >= start:
            yield BatchInfo(
                base_offset=base,
                last_offset=end - 1,
                epoch=epoch,
                data=thaw(data),
                voters=None if voters is None else cast(VoterSet, thaw(voters)),
                kraft_version=kraft_version,
            )


def _is_pre_vote(message: Message) -> bool:
    return isinstance(message, VoteRequest) and message.pre_vote


def _forget_dead(raft: Raft) -> None:
    """Clears what only tells how long to wait, and what is only shown to operators."""
    raft._handover.reported_epoch, raft._handover.reported_present = 0, None  # every report has been acknowledged
    role = raft.role
    match role:
        case Candidate():
            role.retries = 1
            if role.retry_at_ms is not None:
                role.election_deadline_ms = NOW_MS
        case Prospective():
            role.retries = 1
            role.lost_rounds = None
        case Leader():
            role.fetched.clear()
            for key, progress in role.replicas.items():
                progress.leader_leo = 0
                if raft.log.voters.latest.has(key):  # only of others does the leader ask whether they have caught up
                    progress.last_fetch_at_ms = progress.last_caught_up_at_ms = None
        case Follower():
            role.is_lost = role.is_caught_up = False
            role.lost_rounds = 0


def _name_tokens(requests: Requests) -> None:
    """Gives each request under way the token of its slot."""
    flights = requests._flights
    requests._tokens = {key: slot_token(slot_of(flights[token])) for key, token in requests._tokens.items()}
    requests._flights = {slot_token(slot_of(flight)): _unnumbered(flight) for flight in flights.values()}
    requests._token = TOKENS_FROM
    requests._failures.clear()  # how many there were only says how long to pause


def _unnumbered(flight: InFlightRequest) -> InFlightRequest:
    return replace(flight, request=replace(flight.request, reply_to=None, cluster_id=None), deadline_ms=LATER_MS)
