"""Planted in elections: M3 … M6, M8, M10, M16, M34, and votes that are given too easily."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, ReplicaKey
from quorate.raft import ElectionState, fencing, progress, quorum, quorum_epoch, role_entry, voters, voting
from quorate.raft.messages import (
    EPOCH_UNKNOWN,
    RESPONSES,
    EpochlessResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.requests import InFlightRequest, Requests
from quorate.raft.roles import Candidate, Leader, Resigned, Role, known_leader
from quorate.raft.step_context import Refused, StepContext
from tests.seeds.planting import Mutant, Patch
from tests.sim.content import encode_election
from tests.sim.disk import STATE, TEMPORARY, Disk
from tests.sim.faults import MEMBERSHIP, REJOIN
from tests.sim.mutants.base import replace_pursuit, replace_row


def _persist_later(disk: Disk, state: ElectionState) -> Iterator[str]:
    disk.files.write(STATE + TEMPORARY, encode_election(state))
    disk.files.rename(STATE + TEMPORARY, STATE)
    yield "state.rename"


def _m3(patch: Patch) -> None:
    patch.setattr(Disk, "persist", _persist_later)


def _m4(patch: Patch) -> None:
    right = Disk.boot

    def boot(disk: Disk) -> object:
        view, election = right(disk)
        return view, None if election is None else replace(election, voted=None)

    patch.setattr(Disk, "boot", boot)


def _m5(patch: Patch) -> None:
    right = role_entry.first_role

    def first_role(context: StepContext, state: ElectionState) -> Role:
        role = right(context, state)
        if not isinstance(role, Resigned):
            return role
        granted = set(context.voters.ids)
        return Candidate(
            epoch=role.epoch,
            voted=context.node,
            election_deadline_ms=context.draw_election_deadline_ms(),
            granted=granted,
            retries=1,
        )

    patch.setattr(role_entry, "first_role", first_role)


def _m6(patch: Patch) -> None:
    """Questions outlive the role that asked them, and their answers are not fenced by epoch."""
    role_in_epoch = fencing.role_in_epoch

    def any_epoch(
        context: StepContext, role: Role, *, epoch: Epoch, leader_id: NodeId | None, source: str
    ) -> Role | None:
        return (
            None
            if epoch < role.epoch
            else role_in_epoch(context, role, epoch=epoch, leader_id=leader_id, source=source)
        )

    def take(requests: Requests, token: object) -> InFlightRequest | None:
        flight = requests._flights.pop(token, None) if isinstance(token, int) else None
        if flight is not None and requests._tokens.get((flight.to, flight.request_class)) == token:
            del requests._tokens[flight.to, flight.request_class]
        return flight

    patch.setattr(fencing, "is_believable", lambda context, role, response: True)
    patch.setattr(fencing, "role_in_epoch", any_epoch)
    patch.setattr(Requests, "take", take)
    patch.setattr(Requests, "clear", lambda requests: requests._tokens.clear())


def _m8(patch: Patch) -> None:
    patch.setattr(quorum, "majority", lambda count: max(1, count // 2))


def _m10(patch: Patch) -> None:
    def is_same(known: ReplicaKey, claimed: ReplicaKey) -> bool:
        return known.id == claimed.id

    for place in (voters, progress, fencing, voting):
        patch.setattr(place, "is_same", is_same)


def _m16(patch: Patch) -> None:
    def never(context: StepContext, role: Leader) -> None:
        return None

    replace_pursuit(patch, quorum_epoch.check_quorum, never)


def _m34(patch: Patch) -> None:
    def answer_vote(context: StepContext, role: Role, request: VoteRequest) -> Role | None:
        after = voting.answer_vote(context, role, request)
        answer = context.effects.answers[-1]
        if request.pre_vote and isinstance(answer, VoteResponse) and answer.granted:
            return role_entry.unattached(context, epoch=role.epoch + 1, voted=request.replica, reason="mutant")
        return after

    replace_row(patch, VoteRequest, voting.answer_vote, answer_vote)


def _shorter_log(patch: Patch) -> None:
    def answer_vote(context: StepContext, role: Role, request: VoteRequest) -> Role | None:
        return voting.answer_vote(context, role, replace(request, last=max(request.last, context.log.last)))

    replace_row(patch, VoteRequest, voting.answer_vote, answer_vote)


def _votes_twice(patch: Patch) -> None:
    patch.setattr(voting, "_may_vote", lambda role, request: role.leader_id is None)


def _hears_strangers(patch: Patch) -> None:
    def has_epoch(response: Response) -> bool:
        is_whole_error = response.epoch == EPOCH_UNKNOWN and response.error is not ErrorCode.NONE
        return not isinstance(response, EpochlessResponse) and not is_whole_error

    patch.setattr(fencing, "has_epoch", has_epoch)


def _tells_strangers(patch: Patch) -> None:
    def refuse(context: StepContext, role: Role, request: Request, fault: Refused) -> None:
        response = RESPONSES[type(request)](epoch=role.epoch, leader_id=known_leader(role), error=fault.error)
        context.answer(request, response)

    patch.setattr(StepContext, "refuse", refuse)


def _takes_any_epoch(patch: Patch) -> None:
    patch.setattr(fencing, "is_far_ahead", lambda role, request: False)


def _votes_for_twins(patch: Patch) -> None:
    patch.setattr(fencing, "claims_id", lambda request, node_id: False)


def _enters_what_is_asked(patch: Patch) -> None:
    patch.setattr(voting, "enters_epoch", lambda context, role, request: True)


MUTANTS = (
    Mutant("M3", "a vote is not synced before it leaves", _m3),
    Mutant("M4", "a restart forgets the vote", _m4),
    Mutant("M5", "a restart leads its epoch again", _m5),
    Mutant("M6", "an answer of an older epoch is believed", _m6),
    Mutant("M8", "half of the voters are a majority", _m8),
    Mutant("M10", "a voter goes by its id, whatever its disk", _m10, MEMBERSHIP),
    Mutant("M16", "a leader nobody hears stays", _m16),
    Mutant("M34", "a pre-vote raises the epoch", _m34),
    Mutant("E1", "a vote for a log behind the voter's", _shorter_log),
    Mutant("E2", "a second vote in one epoch", _votes_twice),
    Mutant("E10", "what a node of another cluster tells is believed", _hears_strangers),
    Mutant("E11", "a node of another cluster learns who leads", _tells_strangers),
    Mutant("E12", "an epoch far ahead is taken from a request", _takes_any_epoch),
    Mutant("E13", "a vote in the node's own id is given", _votes_for_twins),
    Mutant("E14", "the epoch of a pre-vote is entered beside a live leader", _enters_what_is_asked, REJOIN),
)
