"""Planted in replication and commit: M1, M2, M7, M9, M20 … M22, M33, and words of followers taken for more."""

from __future__ import annotations

from quorate.nouns import Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import LogView, Raft, following, parked_fetches, progress, serving
from quorate.raft.messages import FetchRequest, FetchResponse
from quorate.raft.roles import Follower, Leader, Role
from quorate.raft.step_context import StepContext
from tests.seeds.planting import Mutant, Patch
from tests.sim.content import image_after
from tests.sim.listener import Listener
from tests.sim.mutants.base import replace_row


def _m1(patch: Patch) -> None:
    patch.setattr(progress, "own_end", lambda log: log.leo)


def _unflushed(patch: Patch) -> None:
    patch.setattr(LogView, "flushed", property(lambda log: log.leo, lambda log, value: None))


def _m2(patch: Patch) -> None:
    patch.setattr(progress, "may_commit", lambda role, end: True)


def _m7(patch: Patch) -> None:
    def fork(log: LogView, diverging: OffsetAndEpoch) -> Offset:
        return min(log.leo, diverging.offset)

    patch.setattr(following, "fork", fork)


def _m9(patch: Patch) -> None:
    right = progress.voter_end

    def voter_end(context: StepContext, role: Leader, voter: ReplicaKey) -> Offset | None:
        """The replica that has come furthest speaks for the voters that have not."""
        own = right(context, role, voter)
        ends = [
            state.leo for key, state in role.replicas.items() if not context.voters.has(key) and state.leo is not None
        ]
        return max([*ends, -1 if own is None else own]) if ends else own

    patch.setattr(progress, "voter_end", voter_end)


def _m20(patch: Patch) -> None:
    def state(listener: Listener, raft: Raft) -> tuple[Offset, bytes]:
        log = listener._node.disk.log
        start = max(listener.next, log.floor.offset)
        return log.leo, image_after(listener.image, log.between(start, log.leo))

    patch.setattr(Listener, "state", state)


def _m21(patch: Patch) -> None:
    patch.setattr(Listener, "readable", lambda listener, log: log.leo)


def _m22(patch: Patch) -> None:
    patch.setattr(Listener, "is_due", lambda listener, leadership: leadership.epoch_start_offset is not None)


def _m33(patch: Patch) -> None:
    right = parked_fetches.release_parked

    def release(context: StepContext, role: Leader | Follower, after: Role) -> None:
        for parked in role.parked.values() if isinstance(role, Leader) else ():
            answer = FetchResponse(epoch=role.epoch, leader_id=role.leader_id, high_watermark=context.log.leo)
            context.answer(parked.request, answer)
        if isinstance(role, Leader):
            role.parked.clear()
        right(context, role, after)

    patch.setattr(parked_fetches, "release_parked", release)


def _foreign_logs(patch: Patch) -> None:
    right = serving.serve_fetch

    def serve_fetch(context: StepContext, role: Leader, request: FetchRequest) -> None:
        key = progress.tracked_key(context, request.replica)
        progress.take_fetch_offset(context, role, key, min(request.fetch_offset, context.log.leo))
        right(context, role, request)

    replace_row(patch, FetchRequest, right, serve_fetch)


MUTANTS = (
    Mutant("M1", "the leader counts itself by what is written, not flushed", _m1),
    Mutant("M1f", "a follower acknowledges what is written, not flushed", _unflushed),
    Mutant("M2", "a leader commits records of older epochs by counting", _m2),
    Mutant("M7", "a follower truncates by offset, whatever the epochs", _m7),
    Mutant("M9", "an observer's fetch counts for a voter", _m9),
    Mutant("M20", "a read shows what is not committed", _m20),
    Mutant("M21", "the controller is handed what is not committed", _m21),
    Mutant("M22", "the controller leads before it has applied all of before", _m22),
    Mutant("M33", "a held fetch is answered as if we still led", _m33),
    Mutant("E3", "a fetch counts although its log is not ours", _foreign_logs),
)
