"""What a leader answers to requests about voters, one by one; the stories are in `scenarios/` (KIP-853)."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.nouns import OffsetAndEpoch, ReplicaKey
from quorate.raft import RaftSettings, VoterSet
from quorate.raft.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    RemoveRaftVoterRequest,
    Request,
    Response,
    TransferLeadershipRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
    Worded,
)
from quorate.raft.ready import Ready
from quorate.raft.voters import ListenerEndpoint, VersionRange
from tests.raft.cluster import Node
from tests.raft.telling import voter_on

ONE, TWO, THREE = voter_on("1a"), voter_on("2a"), voter_on("3a")
ADD = AddRaftVoterRequest(voter=TWO, timeout_ms=1_000)
REMOVE = RemoveRaftVoterRequest(voter=TWO.key)
UPDATE = UpdateRaftVoterRequest(epoch=1, voter=ONE)
TRANSFER = TransferLeadershipRequest(timeout_ms=1_000)


def carry_out(node: Node, now_ms: int = 0) -> Ready:
    """The driver's turn, with an instant disk."""
    ready = node.core.ready()
    for _ in node.carry_out(ready):
        pass
    if node.disk.flushed < node.disk.leo:
        node.disk.flushed = node.disk.leo
        node.core.flushed(node.disk.leo, now_ms)
    return ready


@pytest.fixture
def leader() -> Node:
    """The only voter of its quorum, at kraft.version 1: it leads epoch 1, and its first batch is committed."""
    node = Node(ONE.key, VoterSet((ONE,)), RaftSettings(), Random(1), kraft_version=1, endpoints=ONE.endpoints)
    node.start(0)
    carry_out(node)
    carry_out(node)
    assert node.core.log.high_watermark == 3
    return node


def answers(node: Node, request: Request) -> tuple[Response, ...]:
    node.core.step(request, 0)
    return carry_out(node).answers


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (replace(ADD, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (replace(ADD, voter=replace(TWO, key=ReplicaKey(-1, TWO.key.directory_id))), ErrorCode.INVALID_REQUEST),
        (replace(ADD, voter=replace(TWO, key=ReplicaKey(2))), ErrorCode.INVALID_REQUEST),
        (replace(ADD, voter=replace(TWO, endpoints=())), ErrorCode.INVALID_REQUEST),
        (replace(ADD, timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (replace(ADD, voter=voter_on("1b")), ErrorCode.DUPLICATE_VOTER),
        (replace(REMOVE, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (replace(REMOVE, voter=ReplicaKey(-1)), ErrorCode.INVALID_REQUEST),
        (replace(REMOVE, voter=ReplicaKey(2)), ErrorCode.INVALID_REQUEST),  # without a directory id
        (REMOVE, ErrorCode.VOTER_NOT_FOUND),
        (replace(REMOVE, voter=ONE.key), ErrorCode.VOTER_NOT_FOUND),  # the only one
        (replace(UPDATE, epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(UPDATE, epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (
            replace(UPDATE, voter=replace(ONE, endpoints=(ListenerEndpoint("OTHER", "h", 1),))),
            ErrorCode.INVALID_REQUEST,
        ),
        (replace(UPDATE, voter=replace(ONE, kraft_versions=VersionRange(0, 0))), ErrorCode.INVALID_REQUEST),
        (replace(UPDATE, voter=TWO), ErrorCode.VOTER_NOT_FOUND),
        (replace(UPDATE, voter=voter_on("1b")), ErrorCode.VOTER_NOT_FOUND),
        (UPDATE, ErrorCode.NONE),  # as the voter set has it: nothing is written
    ],
)
def test_what_needs_no_change_is_answered_at_once(leader: Node, request_: Request, expected: ErrorCode) -> None:
    (answer,) = answers(leader, request_)

    assert expected == answer.error
    assert 3 == leader.core.log.leo


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (replace(ADD, cluster_id="other"), "the request is for cluster 'other'; this node is of cluster 'simulated'"),
        (
            replace(REMOVE, cluster_id="other"),
            "the request is for cluster 'other'; this node is of cluster 'simulated'",
        ),
        (
            replace(TRANSFER, cluster_id="other"),
            "the request is for cluster 'other'; this node is of cluster 'simulated'",
        ),
        (replace(ADD, voter=replace(TWO, key=ReplicaKey(-1, TWO.key.directory_id))), "voter id -1 is not possible"),
        (replace(REMOVE, voter=ReplicaKey(-1)), "voter id -1 is not possible"),
        (replace(TRANSFER, timeout_ms=-1), "the timeout is -1 ms; it must be at least 1 ms"),
    ],
)
def test_an_administrator_is_told_why_nothing_was_heard(leader: Node, request_: Request, words: str) -> None:
    (answer,) = answers(leader, request_)

    assert isinstance(answer, Worded)
    assert words in answer.message


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            replace(ADD, cluster_id="other"),
            "AddRaftVoterRequest: INCONSISTENT_CLUSTER_ID: the request is for cluster 'other'",
        ),
        (replace(ADD, voter=voter_on("1b")), "AddRaftVoterRequest: DUPLICATE_VOTER: voter 1"),
        (replace(ADD, voter=replace(TWO, key=ReplicaKey(2))), "AddRaftVoterRequest: INVALID_REQUEST: voter 2"),
    ],
)
def test_what_no_node_of_the_quorum_asks_is_told_for_the_log(leader: Node, request_: Request, words: str) -> None:
    leader.core.step(request_, 0)
    (told,) = leader.core.ready().misconfigured

    assert told.startswith(words)


@pytest.mark.parametrize(("replica", "told"), [(ONE.key, 0), (ReplicaKey(1), 1), (voter_on("1b").key, 1)])
def test_a_node_that_asks_itself_is_no_second_process_with_its_id(leader: Node, replica: ReplicaKey, told: int) -> None:
    """Who joins asks all bootstrap servers, itself among them. Another disk with its id is another process."""
    last = OffsetAndEpoch(epoch=1, offset=3)
    leader.core.step(VoteRequest(epoch=1, replica=replica, last=last, reply_to="asker"), 0)
    ready = leader.core.ready()

    assert (told, [ErrorCode.INVALID_REQUEST]) == (len(ready.misconfigured), [each.error for each in ready.answers])


def test_an_update_is_written_and_answered_before_it_is_committed(leader: Node) -> None:
    moved = replace(ONE, endpoints=(ListenerEndpoint("CONTROLLER", "elsewhere", 1),))
    leader.core.step(replace(UPDATE, voter=moved), 0)
    ready = leader.core.ready()

    assert [ErrorCode.NONE] == [answer.error for answer in ready.answers]
    assert [4] == [entry.end_offset for entry in ready.append]
    assert (moved,) == leader.core.log.voters.latest.voters


def test_the_new_voter_is_asked_at_the_address_in_the_request(leader: Node) -> None:
    leader.core.step(ADD, 0)
    ready = carry_out(leader)

    assert () == ready.answers
    (sent,) = ready.requests
    assert isinstance(sent.request, ApiVersionsRequest)
    assert (2, TWO.endpoints) == (sent.to, sent.endpoints)


def test_a_node_that_says_too_late_with_what_it_works_changes_nothing(leader: Node) -> None:
    leader.core.step(ADD, 0)
    (sent,) = carry_out(leader).requests
    leader.core.tick(1_000)
    (answer,) = carry_out(leader, 1_000).answers
    assert isinstance(answer, AddRaftVoterResponse)
    assert ErrorCode.REQUEST_TIMED_OUT == answer.error

    leader.core.step(replace(ADD, voter=THREE), 1_000)
    leader.core.step(ApiVersionsResponse(reply_to=sent.request.reply_to), 1_000)

    ready = carry_out(leader, 1_000)
    assert ((), [3]) == (ready.answers, [sent.to for sent in ready.requests])


def test_a_probe_that_fails_is_repeated_after_a_pause(leader: Node) -> None:
    leader.core.step(ADD, 0)
    (sent,) = carry_out(leader).requests
    leader.core.request_failed(sent.request.reply_to, 0)
    assert () == carry_out(leader).requests

    pause_ms = leader.core.deadline
    assert pause_ms is not None
    leader.core.tick(pause_ms)

    assert [2] == [again.to for again in carry_out(leader, pause_ms).requests]


@pytest.mark.parametrize("supported", [VersionRange(0, 1), VersionRange(0, 0)])
def test_any_node_says_with_what_it_works(supported: VersionRange) -> None:
    node = Node(TWO.key, VoterSet((ONE,)), RaftSettings(), Random(1), kraft_versions=supported)
    node.start(0)
    (answer,) = answers(node, ApiVersionsRequest())

    assert isinstance(answer, ApiVersionsResponse)
    assert supported == answer.kraft_versions


def test_an_upgrade_is_for_the_leader_of_the_epoch_that_is_meant(leader: Node) -> None:
    other = leader.core.upgrade_kraft_version(1, 0, epoch=2)
    same = leader.core.upgrade_kraft_version(1, 0, epoch=1)

    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, 3) == (other.error, other.end_offset)
    assert (ErrorCode.NONE, 3) == (same.error, same.end_offset)


def test_readers_without_an_id_wait_on_through_an_upgrade_and_are_not_listed() -> None:
    node = Node(ONE.key, VoterSet.of(1), RaftSettings(), Random(1), endpoints=ONE.endpoints)
    node.start(0)
    carry_out(node)
    carry_out(node)
    end, high_watermark = node.core.log.leo, node.core.log.high_watermark
    held = FetchRequest(
        epoch=1,
        replica=ReplicaKey(-1),
        fetch_offset=end,
        last_fetched_epoch=1,
        max_bytes=1_000,
        max_wait_ms=500,
        high_watermark=high_watermark,
    )
    for name in ("one", "two"):
        assert () == answers(node, replace(held, reply_to=name))
    upgrade = node.core.upgrade_kraft_version(1, 0, epoch=1)
    found = list(carry_out(node).answers)
    node.core.tick(500)
    found += carry_out(node, 500).answers

    assert (ErrorCode.NONE, "") == (upgrade.error, upgrade.message)
    assert {"one", "two"} == {answer.reply_to for answer in found}
    assert () == node.core.describe(500).observers
