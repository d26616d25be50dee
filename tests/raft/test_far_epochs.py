"""A later epoch that is not entered: one far ahead on a request's word, and that of a pre-vote beside a live leader."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.nouns import EPOCHS_END, OffsetAndEpoch, ReplicaKey
from quorate.raft import ElectionState
from quorate.raft.fencing import EPOCHS_AHEAD_MAX
from quorate.raft.messages import EndQuorumEpochRequest, FetchResponse, Request, VoteRequest, VoteResponse
from tests.raft.test_messages import BEGIN, VOTE, ask, follower, leader, node, take


@pytest.mark.parametrize(
    "request_",
    [
        replace(VOTE, epoch=EPOCHS_END - 1),
        replace(VOTE, epoch=5 + EPOCHS_AHEAD_MAX + 1, pre_vote=True),
        replace(BEGIN, epoch=EPOCHS_END - 1),
        EndQuorumEpochRequest(epoch=5 + EPOCHS_AHEAD_MAX + 1, leader_id=2),
    ],
)
def test_an_epoch_far_ahead_in_a_request_is_not_entered(request_: Request) -> None:
    target = node()
    answer, ready = ask(target, request_)

    assert (5, None) == (answer.epoch, answer.leader_id)
    assert (None, 5) == (ready.election, target.core.role.epoch)


@pytest.mark.parametrize("epoch", [5 + EPOCHS_AHEAD_MAX + 1, EPOCHS_END - 1])
def test_an_epoch_far_ahead_is_learnt_from_the_answer_to_our_own_pre_vote(epoch: int) -> None:
    """So a voter that was away for long is not deaf: who refused to enter an epoch asks the voters by itself."""
    target = node()
    ask(target, replace(VOTE, epoch=epoch))
    now_ms = target.core.deadline
    assert now_ms is not None
    target.core.tick(now_ms)
    pre_vote = next(sent.request for sent in take(target).requests if sent.to == 2)
    assert isinstance(pre_vote, VoteRequest), pre_vote
    told = VoteResponse(epoch=epoch, error=ErrorCode.FENCED_LEADER_EPOCH, reply_to=pre_vote.reply_to)
    target.core.step(told, now_ms)

    assert ElectionState(epoch=epoch) == take(target).election
    assert ask(target, replace(VOTE, epoch=epoch), now_ms)[0].granted  # type: ignore[union-attr]


@pytest.mark.parametrize("pre_vote", [True, False])
def test_a_pre_vote_of_a_later_epoch_does_not_unseat_a_live_leader(pre_vote: bool) -> None:
    """It is only a question (KIP-996). A vote is not: its epoch is entered, as Raft §5.1 has it."""
    following, fetch = follower()
    following.core.step(FetchResponse(epoch=5, leader_id=2, high_watermark=10, reply_to=fetch.reply_to), 10)
    far = replace(VOTE, epoch=9, replica=ReplicaKey(3), last=OffsetAndEpoch(epoch=3, offset=99), pre_vote=pre_vote)
    for made, epoch, now_ms in ((leader(), 6, 3_000), (following, 5, 10)):
        led_by = made.core.role.leader_id
        answer, ready = ask(made, far, now_ms)

        assert ((epoch, led_by) if pre_vote else (9, None)) == (made.core.role.epoch, made.core.role.leader_id)
        assert (not pre_vote, ErrorCode.NONE) == (ready.election is not None, answer.error)

    following.core.peer_lost(2, 10)
    ask(following, far, 10)

    assert 9 == following.core.role.epoch
