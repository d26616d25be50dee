"""Planted in membership: M11 … M15, M32."""

from __future__ import annotations

from quorate.nouns import Offset, ReplicaKey
from quorate.raft import Voter, VoterSet, membership, membership_faults, progress, quorum
from quorate.raft.history import History
from quorate.raft.roles import Leader
from quorate.raft.step_context import StepContext
from tests.seeds.planting import Mutant, Patch
from tests.sim.faults import MEMBERSHIP
from tests.sim.mutants.base import replace_pursuit


def _nothing(*_: object) -> None:
    return None


def _m11(patch: Patch) -> None:
    right = progress.advance

    def advance(context: StepContext, role: Leader) -> None:
        """Ourselves in the place of one of those whom we have left."""
        ends = [progress.voter_end(context, role, voter) for voter in context.voters.keys]
        if not context.is_voter:
            ends = [*ends, context.log.flushed][-len(ends) :]
        end = quorum.agreed_end(ends)
        if end is not None and progress.may_commit(role, end) and end > (role.high_watermark or 0):
            role.high_watermark = end
            context.commit(end)

    patch.setattr(progress, "advance", advance)
    replace_pursuit(patch, right, advance)


def _m12(patch: Patch) -> None:
    patch.setattr(membership_faults, "_uncommitted_fault", _nothing)
    patch.setattr(membership_faults, "_pending_fault", _nothing)


def _m13(patch: Patch) -> None:
    patch.setattr(membership_faults, "commit_fault", _nothing)
    patch.setattr(membership, "commit_fault", _nothing)
    patch.setattr(membership_faults, "_uncommitted_fault", _nothing)


def _m14(patch: Patch) -> None:
    patch.setattr(
        StepContext, "voters", property(lambda context: context.log.voters.before(context.log.high_watermark))
    )


def _m15(patch: Patch) -> None:
    right = History.truncate

    def truncate(history: History[object], *, to: Offset) -> None:
        if not isinstance(history.latest, VoterSet):
            right(history, to=to)

    patch.setattr(History, "truncate", truncate)


def _m32(patch: Patch) -> None:
    def with_voter(voters: VoterSet, voter: Voter) -> VoterSet:
        twice = VoterSet.__new__(VoterSet)
        all = sorted((*voters.voters, voter), key=lambda each: each.key.id)
        keys: tuple[ReplicaKey, ...] = tuple(each.key for each in all)
        object.__setattr__(twice, "voters", tuple(all))
        object.__setattr__(twice, "ids", frozenset(key.id for key in keys))
        object.__setattr__(twice, "keys", keys)
        object.__setattr__(twice, "_by_id", {voter.key.id: voter, **voters._by_id})
        return twice

    patch.setattr(membership, "duplicate_fault", _nothing)
    patch.setattr(VoterSet, "with_voter", with_voter)


MUTANTS = (
    Mutant("M11", "a leader counts itself while it removes itself", _m11, MEMBERSHIP),
    Mutant("M12", "a second change before the first is committed", _m12, MEMBERSHIP),
    Mutant("M13", "a change before a commit of the leader's own epoch", _m13, MEMBERSHIP),
    Mutant("M14", "voters are in force only once committed", _m14, MEMBERSHIP),
    Mutant("M15", "a truncated voter set stays in force", _m15, MEMBERSHIP),
    Mutant("M32", "a voter that is there already is added again", _m32, MEMBERSHIP),
)
