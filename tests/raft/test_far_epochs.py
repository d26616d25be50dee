"""An epoch far ahead of a node: not entered on a request's word, and learnt from the voters' answers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.nouns import EPOCHS_END
from quorate.raft import ElectionState
from quorate.raft.fencing import EPOCHS_AHEAD_MAX
from quorate.raft.messages import EndQuorumEpochRequest, Request, VoteRequest, VoteResponse
from tests.raft.test_messages import BEGIN, VOTE, ask, node, take


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
