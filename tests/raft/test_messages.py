"""One node and one message: what is refused with which code, and who gets a vote (KIP-595, KIP-996)."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from kraft import Uuid
from quorate.errors import ErrorCode
from quorate.nouns import EPOCHS_END, ZERO_UUID, OffsetAndEpoch, ReplicaKey
from quorate.raft import BatchInfo, ElectionState, RaftSettings, Ready, Voter, VoterSet
from quorate.raft.fencing import EPOCHS_AHEAD_MAX
from quorate.raft.invariants import check
from quorate.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Read,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from tests.raft.cluster import CLUSTER_ID, Node

VOTERS = VoterSet.of(1, 2, 3)
LONG = [BatchInfo(base_offset=0, last_offset=4, epoch=1), BatchInfo(base_offset=5, last_offset=9, epoch=3)]
"""A log of ten records: 0..4 in epoch 1, 5..9 in epoch 3."""


def node(id: int = 1, *, election: ElectionState | None = None, voters: VoterSet = VOTERS) -> Node:
    """A started node with the long log."""
    made = Node(ReplicaKey(id), voters, RaftSettings(), Random(id))
    made.disk.batches = list(LONG)
    made.disk.flushed = 10
    made.disk.election = election or ElectionState(epoch=5)
    made.start(now_ms=0)
    take(made)
    return made


def take(target: Node) -> Ready:
    """What there is to do, done."""
    ready = target.core.ready()
    for _ in target.carry_out(ready):
        pass
    check(target.core)
    return ready


def flush(target: Node, now_ms: int = 0) -> None:
    target.disk.flushed = target.disk.leo
    target.core.flushed(target.disk.leo, now_ms)


def ask(target: Node, request: Request, now_ms: int = 0) -> tuple[Response, Ready]:
    """The answer to `request`, and all that comes with it."""
    target.core.step(replace(request, reply_to="asker"), now_ms)
    ready = take(target)
    (answer,) = (answer for answer in ready.answers if answer.reply_to == "asker")
    return answer, ready


def leader() -> Node:
    """Node 1, leading epoch 6 by the vote of 2; its log ends at 11, flushed."""
    made = node(election=ElectionState(epoch=5))
    now_ms = made.core.deadline
    assert now_ms is not None
    made.core.tick(now_ms)
    for _ in range(2):  # pre-vote, then vote
        request = next(sent.request for sent in take(made).requests if sent.to == 2)
        assert isinstance(request, VoteRequest), request
        made.core.step(VoteResponse(epoch=request.epoch, granted=True, reply_to=request.reply_to), now_ms)
    take(made)
    flush(made, now_ms)
    take(made)
    return made


def follower(leader_id: int = 2) -> tuple[Node, FetchRequest]:
    """Node 1 following in epoch 5, and the fetch it has sent."""
    made = Node(ReplicaKey(1), VOTERS, RaftSettings(), Random(1))
    made.disk.batches, made.disk.flushed = list(LONG), 10
    made.disk.election = ElectionState(epoch=5, leader_id=leader_id)
    made.start(now_ms=0)
    (sent,) = (each for each in take(made).requests if isinstance(each.request, FetchRequest))
    return made, sent.request


VOTE = VoteRequest(epoch=5, replica=ReplicaKey(2), last=OffsetAndEpoch(epoch=3, offset=10))
FETCH = FetchRequest(
    epoch=6, replica=ReplicaKey(2), fetch_offset=10, last_fetched_epoch=3, max_bytes=1, max_wait_ms=500
)
BEGIN = BeginQuorumEpochRequest(epoch=5, leader_id=2)
SNAPSHOT = OffsetAndEpoch(epoch=1, offset=5)
CHUNK = FetchSnapshotRequest(epoch=6, replica=ReplicaKey(2), snapshot_id=SNAPSHOT, position=0, max_bytes=10)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (replace(VOTE, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (replace(VOTE, cluster_id=CLUSTER_ID), ErrorCode.NONE),
        (replace(VOTE, epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(VOTE, last=OffsetAndEpoch(epoch=3, offset=-1)), ErrorCode.INVALID_REQUEST),
        (replace(VOTE, last=OffsetAndEpoch(epoch=-1, offset=1)), ErrorCode.INVALID_REQUEST),
        (replace(VOTE, last=OffsetAndEpoch(epoch=5, offset=20)), ErrorCode.INVALID_REQUEST),
        (replace(VOTE, last=OffsetAndEpoch(epoch=5, offset=20), pre_vote=True), ErrorCode.NONE),
        (replace(VOTE, voter=ReplicaKey(3)), ErrorCode.INVALID_VOTER_KEY),
        (replace(VOTE, voter=ReplicaKey(1, Uuid(b"x" * 16))), ErrorCode.INVALID_VOTER_KEY),
        (replace(VOTE, epoch=EPOCHS_END), ErrorCode.INVALID_REQUEST),
        (replace(VOTE, epoch=EPOCHS_END, pre_vote=True), ErrorCode.INVALID_REQUEST),
        (replace(VOTE, epoch=EPOCHS_END - 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replace(VOTE, epoch=EPOCHS_END - 1, pre_vote=True), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replace(VOTE, epoch=5 + EPOCHS_AHEAD_MAX + 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replace(VOTE, epoch=5 + EPOCHS_AHEAD_MAX), ErrorCode.NONE),
        (replace(VOTE, replica=ReplicaKey(1)), ErrorCode.INVALID_REQUEST),  # our own id: there is a twin
        (replace(VOTE, replica=ReplicaKey(1, Uuid(b"x" * 16))), ErrorCode.INVALID_REQUEST),
        (replace(VOTE, replica=ReplicaKey(1), pre_vote=True, epoch=9), ErrorCode.INVALID_REQUEST),
        (replace(FETCH, epoch=5, replica=ReplicaKey(1)), ErrorCode.INVALID_REQUEST),
        (replace(CHUNK, epoch=5, replica=ReplicaKey(1)), ErrorCode.INVALID_REQUEST),
        (replace(BEGIN, epoch=EPOCHS_END), ErrorCode.INVALID_REQUEST),
        (replace(BEGIN, epoch=EPOCHS_END - 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replace(BEGIN, epoch=5 + EPOCHS_AHEAD_MAX), ErrorCode.NONE),
        (EndQuorumEpochRequest(epoch=EPOCHS_END, leader_id=2), ErrorCode.INVALID_REQUEST),
        (EndQuorumEpochRequest(epoch=EPOCHS_END - 1, leader_id=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replace(FETCH, epoch=EPOCHS_END), ErrorCode.INVALID_REQUEST),
        (replace(CHUNK, epoch=EPOCHS_END), ErrorCode.INVALID_REQUEST),
        (replace(BEGIN, epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(BEGIN, leader_id=1), ErrorCode.INVALID_REQUEST),  # we know that we do not lead
        (replace(BEGIN, leader_id=-1), ErrorCode.INVALID_REQUEST),
        (replace(BEGIN, voter=ReplicaKey(3)), ErrorCode.INVALID_VOTER_KEY),
        (replace(FETCH, epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(FETCH, epoch=6), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replace(FETCH, epoch=5), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (replace(FETCH, epoch=5, last_fetched_epoch=6), ErrorCode.INVALID_REQUEST),
        (replace(FETCH, epoch=5, fetch_offset=-1), ErrorCode.INVALID_REQUEST),
        (replace(FETCH, epoch=5, max_wait_ms=-1), ErrorCode.INVALID_REQUEST),
        (replace(CHUNK, epoch=6), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replace(CHUNK, epoch=5), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_node_without_a_leader_in_epoch_5_answers(request_: Request, expected: ErrorCode) -> None:
    answer, _ = ask(node(), request_)

    assert expected == answer.error


def test_a_wrong_voter_key_is_refused_only_after_the_epoch_has_been_heard() -> None:
    answer, ready = ask(node(), replace(VOTE, epoch=8, voter=ReplicaKey(3)))

    assert ErrorCode.INVALID_VOTER_KEY == answer.error
    assert ElectionState(epoch=8) == ready.election


def test_one_epoch_has_one_leader() -> None:
    made, _ = follower(leader_id=2)
    answer, ready = ask(made, replace(BEGIN, leader_id=3))

    assert (ErrorCode.INVALID_REQUEST, 2) == (answer.error, answer.leader_id)
    assert ready.election is None


def granted(target: Node, request: VoteRequest) -> bool:
    answer, _ = ask(target, request)
    assert isinstance(answer, VoteResponse)
    return answer.granted


@pytest.mark.parametrize(
    ("election", "vote", "pre_vote"),
    [
        (ElectionState(epoch=5), True, True),
        (ElectionState(epoch=5, voted=ReplicaKey(2)), True, True),  # asked twice
        (ElectionState(epoch=5, voted=ReplicaKey(3)), False, True),
        (ElectionState(epoch=5, leader_id=3), False, True),  # a follower that has not heard its leader
        (ElectionState(epoch=5, leader_id=3, voted=ReplicaKey(2)), False, True),
        (ElectionState(epoch=5, voted=ReplicaKey(1)), False, True),  # a candidate
        (ElectionState(epoch=5, leader_id=1, voted=ReplicaKey(1)), False, True),  # resigned
    ],
)
def test_one_vote_an_epoch_and_any_number_of_pre_votes(election: ElectionState, vote: bool, pre_vote: bool) -> None:
    assert vote == granted(node(election=election), VOTE)
    assert pre_vote == granted(node(election=election), replace(VOTE, pre_vote=True))


def test_a_leader_grants_nothing_in_its_epoch() -> None:
    made = leader()
    request = replace(VOTE, epoch=6, last=OffsetAndEpoch(epoch=5, offset=99))

    assert not ask(made, request, 3_000)[0].granted  # type: ignore[union-attr]


@pytest.mark.parametrize(("epoch", "offset", "expected"), [(3, 10, True), (3, 9, False), (2, 99, False), (4, 1, True)])
@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize("voted", [None, ReplicaKey(2)])
def test_only_a_log_at_least_as_far_gets_a_vote(
    epoch: int, offset: int, expected: bool, pre_vote: bool, voted: ReplicaKey | None
) -> None:
    """Also the second time: a candidate that has crashed in between may have lost what it had not flushed."""
    target = node(election=ElectionState(epoch=5, voted=voted))
    request = replace(VOTE, last=OffsetAndEpoch(epoch=epoch, offset=offset), pre_vote=pre_vote)

    assert expected == granted(target, request)


def test_a_vote_is_persisted_with_the_answer_and_a_pre_vote_is_not() -> None:
    _, pre_vote = ask(node(), replace(VOTE, pre_vote=True))
    _, vote = ask(node(), VOTE)

    assert pre_vote.election is None
    assert ElectionState(epoch=5, voted=ReplicaKey(2)) == vote.election


def test_a_follower_that_has_heard_its_leader_wants_no_election_until_the_stream_is_reset() -> None:
    made, fetch = follower()
    made.core.step(FetchResponse(epoch=5, leader_id=2, high_watermark=10, reply_to=fetch.reply_to), 10)
    request = replace(VOTE, replica=ReplicaKey(3), pre_vote=True)

    assert not ask(made, request, 10)[0].granted  # type: ignore[union-attr]

    made.core.peer_lost(2, 10)

    assert ask(made, request, 10)[0].granted  # type: ignore[union-attr]


def test_votes_of_a_node_on_another_disk_do_not_count() -> None:
    disk = Uuid(b"a" * 16)
    voters = VoterSet((Voter(key=ReplicaKey(1, disk)), Voter(key=ReplicaKey(2, disk))))
    made = Node(ReplicaKey(1, disk), voters, RaftSettings(), Random(1))
    made.start(0)
    made.core.tick(2_000)
    (sent,) = take(made).requests

    assert isinstance(sent.request, VoteRequest)
    assert ReplicaKey(2, disk) == sent.request.voter

    answer = VoteResponse(epoch=0, error=ErrorCode.INVALID_VOTER_KEY, granted=True, reply_to=sent.request.reply_to)
    made.core.step(answer, 2_000)

    assert "Prospective" == type(made.core.role).__name__


# The leader's answers to fetches; its log is the long one and a leader change at 10, in epoch 6.


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (10, 3, FetchResponse(epoch=6, read=Read(offset=10, max_bytes=1))),
        (5, 1, FetchResponse(epoch=6, read=Read(offset=5, max_bytes=1))),
        (0, 0, FetchResponse(epoch=6, read=Read(offset=0, max_bytes=1))),
        (6, 1, FetchResponse(epoch=6, diverging=OffsetAndEpoch(epoch=1, offset=5))),
        (9, 2, FetchResponse(epoch=6, diverging=OffsetAndEpoch(epoch=1, offset=5))),
        (12, 3, FetchResponse(epoch=6, diverging=OffsetAndEpoch(epoch=3, offset=10))),
        (12, 5, FetchResponse(epoch=6, diverging=OffsetAndEpoch(epoch=3, offset=10))),
        (12, 6, FetchResponse(epoch=6, diverging=OffsetAndEpoch(epoch=6, offset=11))),
    ],
)
def test_a_leader_sends_records_or_says_where_the_logs_part(offset: int, epoch: int, expected: FetchResponse) -> None:
    answer, _ = ask(leader(), replace(FETCH, fetch_offset=offset, last_fetched_epoch=epoch), 3_000)

    assert isinstance(answer, FetchResponse)
    assert (expected.read, expected.diverging) == (answer.read, answer.diverging)
    assert (ErrorCode.NONE, 6, 1) == (answer.error, answer.epoch, answer.leader_id)


def leader_with_snapshot() -> Node:
    """The leader has cut its log at 5, behind a snapshot of 30 bytes."""
    made = leader()
    caught_up = replace(FETCH, fetch_offset=11, last_fetched_epoch=6, max_wait_ms=0)
    ask(made, caught_up, 3_000)
    made.disk.snapshots[SNAPSHOT] = b"[" + b" " * 28 + b"]"
    made.core.snapshot_taken(SNAPSHOT, 30)
    made.disk.cut_prefix(SNAPSHOT)
    made.core.log_started(SNAPSHOT)
    return made


@pytest.mark.parametrize(
    ("offset", "epoch", "needs_snapshot"),
    [(0, 0, True), (3, 1, True), (5, 1, False), (5, 0, True), (5, 3, True), (7, 0, True), (7, 3, False)],
)
def test_a_leader_names_the_snapshot_where_its_log_is_cut(offset: int, epoch: int, needs_snapshot: bool) -> None:
    answer, _ = ask(leader_with_snapshot(), replace(FETCH, fetch_offset=offset, last_fetched_epoch=epoch), 3_000)

    assert isinstance(answer, FetchResponse)
    assert (SNAPSHOT if needs_snapshot else None) == answer.snapshot_id
    assert needs_snapshot != (answer.read is not None)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (CHUNK, ErrorCode.NONE),
        (replace(CHUNK, position=29), ErrorCode.NONE),
        (replace(CHUNK, position=30), ErrorCode.POSITION_OUT_OF_RANGE),
        (replace(CHUNK, position=-1), ErrorCode.POSITION_OUT_OF_RANGE),
        (replace(CHUNK, snapshot_id=OffsetAndEpoch(epoch=1, offset=4)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (replace(CHUNK, snapshot_id=OffsetAndEpoch(epoch=0, offset=0)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (replace(CHUNK, max_bytes=-1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_leader_serves_the_snapshots_it_has(request_: FetchSnapshotRequest, expected: ErrorCode) -> None:
    answer, _ = ask(leader_with_snapshot(), request_, 3_000)

    assert expected == answer.error


def test_the_newer_fetch_of_a_replica_takes_the_place_of_the_older() -> None:
    made = leader()
    at_end = replace(FETCH, fetch_offset=11, last_fetched_epoch=6, high_watermark=11)
    made.core.step(replace(at_end, reply_to="older"), 3_000)
    assert () == take(made).answers

    made.core.step(replace(at_end, reply_to="newer"), 3_000)

    assert ["older"] == [answer.reply_to for answer in take(made).answers]


def test_a_held_fetch_is_refused_when_the_leader_resigns_and_dropped_when_its_asker_is_gone() -> None:
    at_end = replace(FETCH, fetch_offset=11, last_fetched_epoch=6, high_watermark=11, reply_to="held")
    resigns, loses = leader(), leader()
    for made in (resigns, loses):
        made.core.step(at_end, 3_000)
    resigns.core.resign(3_000)
    loses.core.peer_lost(2, 3_000)
    loses.core.resign(3_000)

    assert [ErrorCode.NOT_LEADER_OR_FOLLOWER] == [answer.error for answer in take(resigns).answers]
    assert () == take(loses).answers


def test_fetches_of_nobody_are_held_like_others_and_not_listed() -> None:
    """A reader that has no id and is answered at once asks again at once, and keeps the leader busy."""
    made = leader()
    at_end = replace(FETCH, fetch_offset=11, last_fetched_epoch=6, high_watermark=11)
    for name, directory_id in (("one", ZERO_UUID), ("two", ZERO_UUID), ("three", ZERO_UUID), ("4", Uuid(b"4" * 16))):
        nobody = replace(at_end, replica=ReplicaKey(-1, directory_id), reply_to=name)
        made.core.step(nobody, 3_000)

        assert () == take(made).answers

    made.core.peer_lost(-2, 3_000)  # a peer that is known by its address only

    assert () == made.core.describe(3_000).observers

    made.core.tick(3_000 + FETCH.max_wait_ms)

    assert {"one", "two", "three", "4"} == {answer.reply_to for answer in take(made).answers}


# The leader's own appends.


@pytest.mark.parametrize(
    ("base_offset", "epoch", "expected"),
    [
        (11, 6, None),
        (11, 5, ErrorCode.FENCED_LEADER_EPOCH),
        (11, 7, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (10, 6, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_an_append_is_taken_at_the_end_and_in_the_epoch_or_not_at_all(
    base_offset: int, epoch: int, expected: ErrorCode | None
) -> None:
    made = leader()
    refusal = made.core.append([BatchInfo(base_offset=base_offset, last_offset=base_offset + 1, epoch=epoch)], 3_000)

    assert expected == (refusal and refusal.error)
    if refusal is not None:
        assert (11, 6, 1) == (refusal.wanted_offset, refusal.epoch, refusal.leader_id)
        assert () == take(made).append


# What a follower makes of answers.


def answered(**fields: object) -> tuple[Node, Ready]:
    made, fetch = follower()
    made.core.step(FetchResponse(epoch=5, leader_id=2, reply_to=fetch.reply_to, **fields), 10)  # type: ignore[arg-type]
    return made, take(made)


def test_a_follower_commits_no_further_than_its_own_log() -> None:
    made, ready = answered(batches=(BatchInfo(base_offset=10, last_offset=10, epoch=4),), high_watermark=99)

    assert 11 == ready.high_watermark == made.core.log.leo
    assert () == ready.requests  # not before the flush
    flush(made, 10)
    (sent,) = take(made).requests
    assert isinstance(sent.request, FetchRequest)
    assert (11, 4) == (sent.request.fetch_offset, sent.request.last_fetched_epoch)


@pytest.mark.parametrize(
    "batches",
    [
        (BatchInfo(base_offset=11, last_offset=11, epoch=4),),  # a gap
        (BatchInfo(base_offset=9, last_offset=10, epoch=4),),  # what we have
        (BatchInfo(base_offset=10, last_offset=10, epoch=2),),  # an epoch that falls
        (BatchInfo(base_offset=10, last_offset=10, epoch=6),),  # an epoch that is not yet
        (BatchInfo(base_offset=10, last_offset=10, epoch=4), BatchInfo(base_offset=12, last_offset=12, epoch=4)),
    ],
)
def test_records_that_do_not_continue_the_log_change_nothing(batches: tuple[BatchInfo, ...]) -> None:
    made, ready = answered(batches=batches, high_watermark=99)

    assert ((), None) == (ready.append, ready.high_watermark)
    made.core.tick(30)
    assert 1 == len(take(made).requests)  # asked again after a pause


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [
        (OffsetAndEpoch(epoch=3, offset=7), 7),
        (OffsetAndEpoch(epoch=2, offset=9), 5),
        (OffsetAndEpoch(epoch=1, offset=3), 3),
        (OffsetAndEpoch(epoch=3, offset=12), None),  # would cut nothing: senseless, so asked again
    ],
)
def test_a_follower_truncates_to_the_end_of_the_last_common_epoch(
    diverging: OffsetAndEpoch, expected: int | None
) -> None:
    made, fetch = follower()
    made.disk.batches = [BatchInfo(base_offset=o, last_offset=o, epoch=1 if o < 5 else 3) for o in range(10)]
    made.core.step(FetchResponse(epoch=5, leader_id=2, diverging=diverging, reply_to=fetch.reply_to), 10)

    assert expected == take(made).truncate_to


def test_a_leader_that_says_nothing_before_its_time_is_not_asked_at_once() -> None:
    made, fetch = follower()
    empty = FetchResponse(epoch=5, leader_id=2, high_watermark=1 << 62)
    made.core.step(replace(empty, reply_to=fetch.reply_to), 10)  # the first fetch does not ask to be held
    (held,) = take(made).requests
    made.core.step(replace(empty, reply_to=held.request.reply_to), 20)

    assert () == take(made).requests

    made.core.tick(40)
    (again,) = take(made).requests

    assert isinstance(again.request, FetchRequest)


def test_truncation_below_the_high_watermark_is_refused_and_named() -> None:
    made, ready = answered(high_watermark=8)
    (sent,) = ready.requests
    answer = FetchResponse(
        epoch=5, leader_id=2, diverging=OffsetAndEpoch(epoch=3, offset=7), reply_to=sent.request.reply_to
    )
    made.core.step(answer, 30)
    after = take(made)
    (why,) = after.refused

    assert (None, ()) == (after.truncate_to, after.requests)
    assert "epoch 3 ends at 7, so truncate to 7; the log is committed up to 8" in why


@pytest.mark.parametrize(
    ("snapshot_id", "expected"),
    [
        (OffsetAndEpoch(epoch=4, offset=20), True),
        (OffsetAndEpoch(epoch=3, offset=20), True),
        (OffsetAndEpoch(epoch=4, offset=8), True),
        (OffsetAndEpoch(epoch=1, offset=10), True),  # ours is of a later epoch and was never committed
        (OffsetAndEpoch(epoch=3, offset=9), False),  # we have all that
    ],
)
def test_a_log_gives_way_only_to_a_snapshot_beyond_it(snapshot_id: OffsetAndEpoch, expected: bool) -> None:
    _, ready = answered(snapshot_id=snapshot_id)

    assert expected == any(isinstance(sent.request, FetchSnapshotRequest) for sent in ready.requests)


def downloading() -> tuple[Node, FetchSnapshotRequest]:
    made, ready = answered(snapshot_id=OffsetAndEpoch(epoch=4, offset=20))
    (sent,) = ready.requests
    assert isinstance(sent.request, FetchSnapshotRequest)
    return made, sent.request


PIECE = FetchSnapshotResponse(
    epoch=5, leader_id=2, snapshot_id=OffsetAndEpoch(epoch=4, offset=20), size=4, position=0, data=b"[]"
)


@pytest.mark.parametrize(
    "answer",
    [
        replace(PIECE, error=ErrorCode.SNAPSHOT_NOT_FOUND),
        replace(PIECE, error=ErrorCode.POSITION_OUT_OF_RANGE),
        replace(PIECE, position=1),
        replace(PIECE, data=b""),
        replace(PIECE, data=b"12345"),
        replace(PIECE, snapshot_id=OffsetAndEpoch(epoch=4, offset=21)),
    ],
)
def test_a_download_that_fails_is_begun_anew_by_a_fetch(answer: FetchSnapshotResponse) -> None:
    made, request = downloading()
    made.core.step(replace(answer, reply_to=request.reply_to), 20)
    assert take(made).chunk is None

    made.core.tick(40)

    assert [FetchRequest] == [type(sent.request) for sent in take(made).requests]


def test_a_download_that_cannot_be_read_is_begun_anew_by_a_fetch() -> None:
    made, request = downloading()
    made.core.step(replace(PIECE, size=2, reply_to=request.reply_to), 20)
    ready = take(made)
    assert ready.chunk is not None
    assert ready.chunk.is_last
    made.core.snapshot_failed(ready.chunk.snapshot_id, 20)
    made.core.tick(40)

    assert [FetchRequest] == [type(sent.request) for sent in take(made).requests]


def test_a_snapshot_replaces_the_log_and_its_voters_once_it_is_whole_on_disk() -> None:
    made, request = downloading()
    voters = VoterSet.of(1, 2, 3, 4)
    made.core.step(replace(PIECE, reply_to=request.reply_to), 20)
    (sent,) = take(made).requests
    assert isinstance(sent.request, FetchSnapshotRequest)
    assert 2 == sent.request.position
    assert not made.core.snapshot_complete(PIECE.snapshot_id, voters, 20)  # type: ignore[arg-type]

    made.core.step(replace(PIECE, position=2, reply_to=sent.request.reply_to), 20)
    ready = take(made)
    assert ready.chunk is not None
    assert ready.chunk.is_last
    assert () == ready.requests

    assert made.core.snapshot_complete(ready.chunk.snapshot_id, voters, 20)
    ready = take(made)
    log = made.core.log
    assert (PIECE.snapshot_id, 20) == (ready.install, ready.high_watermark)
    assert (20, 20, 20, 20) == (log.start, log.flushed, log.leo, log.high_watermark)
    assert voters == log.voters.latest
    (sent,) = ready.requests
    assert isinstance(sent.request, FetchRequest)
    assert (20, 4) == (sent.request.fetch_offset, sent.request.last_fetched_epoch)


def test_an_answer_to_an_earlier_role_or_a_second_answer_is_dropped() -> None:
    made, fetch = follower()
    batch = BatchInfo(base_offset=10, last_offset=10, epoch=5)
    answer = FetchResponse(epoch=5, leader_id=2, batches=(batch,), reply_to=fetch.reply_to)
    made.core.step(answer, 10)
    made.core.step(answer, 10)

    assert (batch,) == take(made).append

    made, fetch = follower()
    made.core.step(replace(BEGIN, epoch=6, leader_id=3), 10)
    take(made)
    made.core.step(answer, 10)

    assert () == take(made).append


def test_a_failed_request_is_asked_again_after_a_pause() -> None:
    made, fetch = follower()
    made.core.request_failed(fetch.reply_to, 10)
    assert () == take(made).requests
    assert 30 == made.core.deadline

    made.core.tick(30)

    assert 1 == len(take(made).requests)


def test_the_end_of_an_epoch_is_taken_without_waiting_by_the_first_successor() -> None:
    made, _ = follower()
    end = EndQuorumEpochRequest(epoch=5, leader_id=2, preferred_successors=(ReplicaKey(1), ReplicaKey(3)))
    answer, ready = ask(made, end, 10)

    assert ErrorCode.NONE == answer.error
    assert ["Prospective"] == [transition.after for transition in ready.transitions]
