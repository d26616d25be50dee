"""`quorate restart-safe --controllers`: a restart is safe exactly if the real protocol commits without that voter."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kraft import Message
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from quorate.errors import ErrorCode
from quorate.network.client_config import Endpoint
from quorate.network.listening import ConnectedClient
from quorate.nouns import METADATA_TOPIC
from quorate.protocol import Request
from quorate.raft.roles import Leader
from quorate.what_if import Quorum, VoterState, plan_voter_restarts
from tests.cli.directories import Ran, run
from tests.network.test_observer import LOOPBACK, Script, listening
from tests.raft.scenario import Script as Raft

Topic = DescribeQuorumResponse.TopicData
State = DescribeQuorumResponse.ReplicaState
Node = DescribeQuorumResponse.Node
NOW_MS = 1_700_000_000_000


def without(voters: Sequence[int], gone: Sequence[int]) -> Raft:
    """Node 1 leads, and these are down for longer than a voter may be silent; there is a record that they lack."""
    raft = Raft()
    raft.run(f"led voters={','.join(map(str, voters))}")
    for each in gone:
        stop(raft, each)
    raft.run("append 1 a")
    raft.run("advance 3000")
    return raft


def stop(raft: Raft, node_id: int) -> None:
    """The others notice that its connections are closed."""
    raft.run(f"crash {node_id}")
    raft.killed.add(node_id)
    for other, node in raft.nodes.items():
        if node.raft is not None:
            raft.run(f"lost {other} {node_id}")


def leader_of(raft: Raft) -> int | None:
    return next((each for each, node in raft.nodes.items() if node.raft and isinstance(node.raft.role, Leader)), None)


def seen(raft: Raft) -> Quorum:
    now_ms = raft.clocks[1]
    described = raft.nodes[1].core.describe(now_ms)
    return Quorum(
        leader_id=1,
        voters=[
            VoterState(
                id=each.key.id,
                log_end_offset=each.leo,
                fetched_ms=None if each.last_fetch_at_ms is None else now_ms - each.last_fetch_at_ms,
                caught_up_ms=None if each.last_caught_up_at_ms is None else now_ms - each.last_caught_up_at_ms,
            )
            for each in described.voters
        ],
    )


def commits_without(raft: Raft, node_id: int) -> bool:
    """Whether a record that is written while this node is down too is committed by a leader that there is."""
    if raft.nodes[node_id].raft is not None:
        stop(raft, node_id)
    raft.run("advance 4000")
    leader = leader_of(raft)
    if leader is None:
        return False
    raft.run(f"append {leader} b")
    raft.run("advance 1000")
    log = raft.nodes[leader].core.log
    return log.high_watermark == log.leo


@pytest.mark.parametrize(
    ("voters", "gone"),
    [((1,), ()), ((1, 2), ()), *(((1, 2, 3), gone) for gone in ((), (2,), (3,)))]
    + [((1, 2, 3, 4, 5), gone) for gone in ((), (2,), (2, 3), (3, 5))],
    ids=str,
)
def test_a_restart_is_safe_exactly_if_the_others_commit(voters: Sequence[int], gone: Sequence[int]) -> None:
    plan = plan_voter_restarts(seen(without(voters, gone)), ())
    first = {each: plan_voter_restarts(seen(without(voters, gone)), [each])[0].is_safe_now for each in voters}

    assert first == {each: commits_without(without(voters, gone), each) for each in voters}
    assert first == {each.voter_id: each.is_safe_now for each in plan}
    order = [each.voter_id for each in plan if each.has_place]
    assert sorted(order) == (sorted(voters) if len(voters) > 2 else [])  # those that are away come back first
    assert order[: len(gone)] == (list(gone) if order else [])
    assert order[-1:] == ([1] if order else [])


def test_each_step_of_the_order_commits() -> None:
    raft = without((1, 2, 3, 4, 5), (3, 5))
    for each in plan_voter_restarts(seen(raft)):
        assert commits_without(raft, each.voter_id)
        raft.killed.discard(each.voter_id)
        raft.run(f"restart {each.voter_id}")
        raft.run("advance 3000")


class Quorums(Script):
    """A controller with a scripted answer about the quorum."""

    def __init__(self, *voters: State, leader: int = 1, error: ErrorCode = ErrorCode.NONE) -> None:
        super().__init__()
        self.voters, self.leader, self.error = voters, leader, error
        self.elsewhere: Sequence[Endpoint] = ()

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        assert isinstance(request.message, DescribeQuorumRequest), request
        partition = Topic.PartitionData(
            leader_id=self.leader, error_code=self.error, high_watermark=9, current_voters=self.voters
        )
        return DescribeQuorumResponse(
            topics=(Topic(METADATA_TOPIC, (partition,)),),
            nodes=tuple(Node(self.leader, (Node.Listener("CONTROLLER", *each),)) for each in self.elsewhere),
        )


def state(node_id: int, end: int = 10, fetched_ms: int = 0, caught_up_ms: int = 0) -> State:
    return State(
        replica_id=node_id,
        log_end_offset=end,
        last_fetch_timestamp=NOW_MS - fetched_ms,
        last_caught_up_timestamp=NOW_MS - caught_up_ms,
    )


async def asked(*voters: State, options: Sequence[object] = ()) -> Ran:
    """What the command says that asks a follower; the follower names the leader."""
    leader, follower = Quorums(*voters), Quorums(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    async with listening(leader, follower) as endpoints:
        follower.elsewhere = endpoints[:1]
        where = f"{LOOPBACK}:{endpoints[1][1]}"
        return await asyncio.to_thread(run, "restart-safe", "--bootstrap-controller", where, *options)


async def test_it_asks_the_leader_and_says_who_does_not_keep_up() -> None:
    all_there = await asked(state(1), state(2), state(3, caught_up_ms=5_000), options=["--controllers", "--json"])
    assert (0, [2, 3, 1]) == (all_there.code, [each["controller"] for each in all_there.document["restarts"]])

    two_behind = [state(1), state(2, end=7, caught_up_ms=2_001), state(3, fetched_ms=9_000), state(4), state(5)]
    ran = await asked(*two_behind, options=["--controllers"])
    named = await asked(*two_behind, options=["--controller", 2, "--controller", 4, "--json"])
    assert (1, 0, "") == (ran.code, named.code, ran.err)
    assert [(2, True, [], [1, 4, 5]), (4, False, [2], [1, 5])] == [
        (each["controller"], each["safe"], each["after"], each["keepUpWithoutIt"])
        for each in named.document["restarts"]
    ]
    assert "5 voters, a majority is 3" in ran.out
    later = ", not before 2 keeps up"
    assert ["2", "3", f"4{later}", f"5{later}", f"1: the leader, an election follows{later}"] == [
        line.split("controller ")[1] for line in ran.out.splitlines() if ". controller" in line
    ]
    assert "controller 2 lags: its log ends at 7, the leader's at 10\n" in ran.out
    assert "controller 3 has not fetched for 9000 ms\n" in ran.out


async def test_the_quorum_is_described_with_the_lag_of_each() -> None:
    """`quorate quorum`, by Kafka's protocol; what is not known is null, and an empty cell."""
    leader = Quorums(state(1), state(2, end=7, fetched_ms=30, caught_up_ms=90), state(3, end=-1, fetched_ms=NOW_MS + 1))
    async with listening(leader) as (endpoint,):
        where = ("--bootstrap-controller", f"{LOOPBACK}:{endpoint[1]}")
        told, rows = [await asyncio.to_thread(run, "quorum", *where, "--output", each) for each in ("json", "csv")]

    assert {"leader": 1, "highWatermark": 9}.items() <= told.document.items()
    assert [
        (1, "leader", 10, 0, 0, 0),
        (2, "voter", 7, 3, 30, 90),
        (3, "voter", None, None, None, 0),
    ] == [tuple(each.values())[:6] for each in told.document["replicas"]]
    assert ["2,voter,7,3,30,90,", "3,voter,,,,0,"] == rows.out.splitlines()[2:]


async def test_what_stands_against_a_restart_is_named() -> None:
    voters = [state(1), state(2), state(3, end=4, fetched_ms=NOW_MS + 1)]
    ran = await asked(*voters, options=["--controller", 2, "--controller", 1])

    assert (1, "") == (ran.code, ran.err)
    assert "not safe: controller 2: without it 1 keep up, and a majority is 2" in ran.out
    assert "controller 3 has not fetched from this leader" in ran.out
    unknown = await asked(*voters, options=["--controller", 7])
    assert (1, True) == (unknown.code, "node 7 is no voter; the voters are: 1, 2, 3" in unknown.err)


def test_files_do_not_tell() -> None:
    ran = run("restart-safe", "--controllers", "--offline", ".")

    assert (2, True) == (ran.code, "only the leader knows which voters keep up" in ran.err)
