"""A node that gets no answer waits before it asks again: longer each time, and after a success as at first."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest

from quorate.errors import ErrorCode
from quorate.nouns import ReplicaKey
from quorate.raft import ElectionState, RaftSettings, VoterSet
from quorate.raft.messages import EPOCH_UNKNOWN, FetchRequest, FetchResponse, VoteRequest, VoteResponse
from tests.raft.cluster import Node

FIRST_STRANGER = 1_000
STRANGERS = 3_000
PATIENT = RaftSettings(fetch_timeout_ms=10**9, request_timeout_ms=10**9)


class Asker:
    """An observer that fetches from node 1, and its clock."""

    def __init__(self, seed: int) -> None:
        self.node = Node(ReplicaKey(4), VoterSet.of(1, 2, 3), PATIENT, Random(seed))
        self.node.disk.election = ElectionState(epoch=1, leader_id=1)
        self.node.start(0)
        self.now_ms = 0

    def asked(self) -> FetchRequest:
        (sent,) = self.node.core.ready().requests
        assert isinstance(sent.request, FetchRequest)
        return sent.request

    def fail(self) -> int:
        """The request fails; the answer is how long it takes until the next one."""
        self.node.core.request_failed(self.asked().reply_to, self.now_ms)
        failed_ms = self.now_ms
        assert self.node.core.deadline is not None
        self.now_ms = self.node.core.deadline
        self.node.core.tick(self.now_ms)
        return self.now_ms - failed_ms

    def succeed(self) -> None:
        answer = FetchResponse(epoch=1, leader_id=1, high_watermark=0, reply_to=self.asked().reply_to)
        self.node.core.step(answer, self.now_ms)


@pytest.mark.parametrize("seed", range(5))
def test_each_pause_is_twice_the_last_one_and_up_to_a_fifth_more_until_the_longest(seed: int) -> None:
    asker = Asker(seed)
    pauses = [asker.fail() for _ in range(9)]

    assert 20 == pauses[0]
    for failures, pause_ms in enumerate(pauses):
        least_ms = min(1_000, 20 << failures)
        assert least_ms <= pause_ms <= min(1_000, least_ms * 6 // 5), pauses


def test_nodes_that_fail_together_do_not_ask_together() -> None:
    askers = [Asker(seed) for seed in range(20)]

    assert 5 < len({sum(asker.fail() for _ in range(4)) for asker in askers})


def test_a_good_answer_makes_the_next_failure_the_first() -> None:
    asker = Asker(1)
    for _ in range(5):
        asker.fail()
    asker.succeed()

    assert 20 == asker.fail()


def test_an_answer_with_an_error_is_a_failure() -> None:
    asker = Asker(1)
    for _ in range(3):
        error = FetchResponse(
            epoch=1, leader_id=1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, reply_to=asker.asked().reply_to
        )
        asker.node.core.step(error, asker.now_ms)
        assert asker.node.core.deadline is not None
        asker.now_ms = asker.node.core.deadline
        asker.node.core.tick(asker.now_ms)

    assert 160 <= asker.fail()


def test_a_voter_that_knows_no_vote_at_all_is_not_asked_in_a_loop() -> None:
    node = Node(ReplicaKey(1), VoterSet.of(1, 2), PATIENT, Random(1))
    node.start(0)
    assert node.core.deadline is not None
    now_ms, asked_count = node.core.deadline, 0
    node.core.tick(now_ms)
    end_ms = now_ms + 4_000
    while now_ms < end_ms:
        while requests := node.core.ready().requests:
            (sent,) = requests
            assert isinstance(sent.request, VoteRequest)
            asked_count += 1
            answer = VoteResponse(
                epoch=EPOCH_UNKNOWN, error=ErrorCode.UNSUPPORTED_VERSION, reply_to=sent.request.reply_to
            )
            node.core.step(answer, now_ms)
        assert node.core.deadline is not None
        now_ms = node.core.deadline
        node.core.tick(now_ms)

    assert 2 < asked_count < 60


def test_strangers_whose_streams_end_leave_nothing_behind() -> None:
    """Anybody may open a stream under any id, and end it."""
    node = Asker(1).node
    tracemalloc.start()
    try:
        node.core.peer_lost(FIRST_STRANGER, 0)
        before, _ = tracemalloc.get_traced_memory()
        for stranger in range(FIRST_STRANGER, FIRST_STRANGER + STRANGERS):
            node.core.peer_lost(stranger, 0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert after - before < 10 * STRANGERS
