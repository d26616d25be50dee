"""AlterQuorum (KIP-595's first form): the target is in the log, and each leader walks there, asked or not."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from kraft.api.update_raft_voter_pb2 import UpdateRaftVoterRequest
from kraft.service.quorum_pb2 import AlterQuorumRequest, AlterQuorumResponse, SetTargetVotersResponse
from quorate.errors import ErrorCode
from quorate.runtime.clients.client import error_from_call
from tests.e2e.calls import WITHIN_S, call_once, call_with_retries, eventually
from tests.e2e.voters import Nodes, description, named_steps, planned, three

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

NOBODYS = "AAAAAAAAAAAAAAAAAAAAKg"
"""A directory id that no node has."""


@pytest_asyncio.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = planned(tmp_path, count=5)
    try:
        yield nodes
    finally:
        await nodes.stop()


async def three_and_observers(nodes: Nodes, *observers: int) -> None:
    """1, 2 and 3 vote, 1 leads, and has heard of these."""
    await three(nodes)
    for node_id in observers:
        await nodes.start(node_id)
    await nodes.heard_of(1, *observers)


async def quorum(nodes: Nodes, node_id: int) -> tuple[list[int], list[int]]:
    """Who votes and who is to vote, as one node has it."""
    view = await nodes.find(node_id)
    return [voter.id for voter in view.voters], [voter.id for voter in view.target_voters]


async def all_say(nodes: Nodes, node_ids: Iterable[int], voters: list[int], target: list[int]) -> None:
    """Every one of these nodes comes to say this."""
    for node_id in node_ids:
        await eventually(lambda at=node_id: quorum(nodes, at), lambda seen: seen == (voters, target))  # type: ignore[misc]


async def waits_for(call: AsyncIterable[AlterQuorumResponse], node_id: int) -> AlterQuorumResponse:
    """The first answer on a step that the leader cannot take."""
    async for step in call:
        if step.step == AlterQuorumResponse.STEP_WAITING and step.voter_id == node_id:
            return step
    raise AssertionError(f"nothing waits for {node_id}")


async def test_a_walk_outlives_its_asker_and_its_leader(nodes: Nodes) -> None:
    await three_and_observers(nodes, 4, 5)
    request, booted = nodes.target((1, 2, 3, 4, 5)), (await nodes.find(1)).boot_timestamp
    await nodes.running.kill(nodes[5])
    call = nodes.stub(2).AlterQuorum(request, timeout=WITHIN_S)
    waiting = await waits_for(call, 5)
    call.cancel()

    assert "REQUEST_TIMED_OUT" in waiting.reason
    await all_say(nodes, (1, 2, 3, 4), [1, 2, 3, 4], [1, 2, 3, 4, 5])
    failed = (await nodes.find(1)).failed_step
    assert (5, ErrorCode.REQUEST_TIMED_OUT) == (failed.voter_id, failed.error_code)
    assert not (await nodes.find(2)).HasField("failed_step")

    await nodes.running.kill(nodes[1])
    await nodes.leader(2, 3, 4)
    await all_say(nodes, (2, 3, 4), [1, 2, 3, 4], [1, 2, 3, 4, 5])
    await nodes.start(5)
    await nodes.start(1)

    await all_say(nodes, (1, 2, 3, 4, 5), [1, 2, 3, 4, 5], [])
    assert (await nodes.find(1)).boot_timestamp > booted > 0


async def test_a_second_target_replaces_the_first_and_none_takes_it_back(nodes: Nodes) -> None:
    await three_and_observers(nodes, 4)
    await nodes.running.kill(nodes[4])
    first = nodes.stub(2).AlterQuorum(nodes.target((1, 2, 3, 4)), timeout=WITHIN_S)
    await waits_for(first, 4)
    await all_say(nodes, (1, 2, 3), [1, 2, 3], [1, 2, 3, 4])

    second = named_steps(await nodes.alter(3, (2, 3)))

    assert [("STEP_REMOVED", 1), ("STEP_DONE", -1)] == second[-2:]
    assert ("STEP_REPLACED", -1) == named_steps([step async for step in first])[-1]
    await all_say(nodes, (1, 2, 3), [2, 3], [])

    await nodes.heard_of(await nodes.leader(2, 3), 1)
    await nodes.running.kill(nodes[1])
    third = nodes.stub(3).AlterQuorum(nodes.target((1, 2, 3)), timeout=WITHIN_S)
    await waits_for(third, 1)
    cancelled = named_steps(
        [step async for step in nodes.stub(2).AlterQuorum(AlterQuorumRequest(cancel=True), timeout=WITHIN_S)]
    )

    assert ("STEP_CANCELLED", -1) == cancelled[-1]
    assert ("STEP_CANCELLED", -1) == named_steps([step async for step in third])[-1]
    await all_say(nodes, (2, 3), [2, 3], [])


async def test_a_target_for_another_cluster_is_refused_and_changes_nothing(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.start(2)
    await nodes.heard_of(1, 2)
    request = nodes.target((1, 2))
    request.cluster_id = NOBODYS
    says = f"the request is for cluster {NOBODYS!r}; this node is of cluster {nodes.plan.cluster_id!r}"
    answered = await nodes.stub(1).SetTargetVoters(request, timeout=WITHIN_S)
    for door in (1, 2):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            assert not [step async for step in nodes.stub(door).AlterQuorum(request, timeout=WITHIN_S)]
        refused = error_from_call(caught.value)

        assert (ErrorCode.INCONSISTENT_CLUSTER_ID, says) == (refused.code, refused.message)
    assert SetTargetVotersResponse(error_code=refused.code, error_message=says, offset=-1) == answered  # type: ignore[arg-type]
    assert ([1], []) == await quorum(nodes, 1)

    request.cluster_id = nodes.plan.cluster_id
    steps = named_steps([step async for step in nodes.stub(2).AlterQuorum(request, timeout=WITHIN_S)])

    assert [("STEP_ADDED", 2), ("STEP_DONE", -1)] == steps[-2:]


async def described(nodes: Nodes, *, by: int = 1) -> dict[int, list[tuple[str, str, int]]]:
    """The listeners of each node, as DescribeQuorum of one of them has them, which leads."""
    answer = (await call_with_retries(nodes.stub(by).DescribeQuorum, description())).response
    assert ErrorCode.NONE == answer.topics[0].partitions[0].error_code
    return {node.node_id: [(each.name, each.host, each.port) for each in node.listeners] for node in answer.nodes}


def own(nodes: Nodes, node_id: int) -> tuple[str, str, int]:
    listener = nodes.listener(node_id)
    return listener.name, listener.host, listener.port


async def test_every_voter_is_described_with_the_listeners_of_the_voters_record(nodes: Nodes) -> None:
    """The record is changed for the leader, because a follower replaces listeners that are not its own at once."""
    await three(nodes)
    first, second = nodes.listener(1), nodes.listener(1)
    second.name = "SECOND"
    request = UpdateRaftVoterRequest(
        cluster_id=nodes.plan.cluster_id,
        current_leader_epoch=(await nodes.find(1)).leader_epoch,
        voter_id=1,
        voter_directory_id=nodes.directory_id(1),
        listeners=[
            UpdateRaftVoterRequest.Listener(name=each.name, host=each.host, port=each.port) for each in (first, second)
        ],
        k_raft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(max_supported_version=1),
    )

    assert ErrorCode.NONE == (await nodes.stub(1).UpdateRaftVoter(request, timeout=WITHIN_S)).error_code
    assert {
        1: [own(nodes, 1), (second.name, second.host, second.port)],
        2: [own(nodes, 2)],
        3: [own(nodes, 3)],
    } == await described(nodes)


async def test_a_voter_replaces_listeners_that_are_not_its_own(nodes: Nodes) -> None:
    """KIP-853: a voter whose entry in the voter set differs from its configuration sends UpdateRaftVoter."""
    await nodes.start(1)
    await nodes.start(2)
    await nodes.heard_of(1, 2)
    target = nodes.target((1, 2))
    another = nodes.listener(2)
    another.name = "ANOTHER"
    target.voters[1].listeners.append(another)

    assert [step async for step in nodes.stub(1).AlterQuorum(target, timeout=WITHIN_S)]
    await eventually(lambda: described(nodes), lambda seen: seen == {1: [own(nodes, 1)], 2: [own(nodes, 2)]})


def renamed(nodes: Nodes, node_id: int) -> list[dict[str, str]]:
    """What a node has in each rolling restart whose own listener was CONTROLLER, and whose gateway's is to be that."""
    at = nodes[node_id].address
    quorum = {"listeners": f"QUORUM://{at}", "listener.security.protocol.map": "QUORUM:PLAINTEXT"}
    both = {"advertised.listeners": f"CONTROLLER://{at},QUORUM://{at}"}
    gateway = {
        "advertised.listeners": f"QUORUM://{at},CONTROLLER://gateway:1",
        "kafka.listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    }
    return [quorum | both, quorum | gateway]


async def test_the_own_listener_is_renamed_and_its_name_given_to_the_gateway_without_a_stop(nodes: Nodes) -> None:
    """Both names at one address for a while, as services/quorum/MIXED.md has it; a voter is found by either."""
    await three(nodes)
    for stage in range(len(renamed(nodes, 1))):
        for node_id in (1, 2, 3):
            assert 0 == await nodes.running.kill(nodes[node_id], signal.SIGTERM)
            await nodes.start(node_id, **renamed(nodes, node_id)[stage])
            await nodes.leader(1, 2, 3)

    gateway = ("CONTROLLER", "gateway", 1)
    expected = {node_id: [gateway, ("QUORUM", *own(nodes, node_id)[1:])] for node_id in (1, 2, 3)}
    leader = await nodes.leader(1, 2, 3)
    await eventually(lambda: described(nodes, by=leader), lambda seen: seen == expected)


async def test_the_only_voter_is_renamed_at_once(nodes: Nodes) -> None:
    """As deploy/compose.yaml does it: there is no peer that knows another name."""
    await nodes.start(1)
    await nodes.leader(1)
    await nodes.running.kill(nodes[1])
    await nodes.start(1, **renamed(nodes, 1)[-1])

    expected = {1: [("CONTROLLER", "gateway", 1), ("QUORUM", *own(nodes, 1)[1:])]}
    assert expected == await eventually(lambda: described(nodes), lambda seen: seen == expected)


async def test_a_follower_says_why_it_cannot_describe_the_quorum(nodes: Nodes) -> None:
    await three(nodes)
    follows = (await call_once(nodes.stub(2).DescribeQuorum, description())).response
    refused = follows.topics[0].partitions[0]

    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == refused.error_code
    assert f"node 2 does not lead in epoch {(await nodes.find(1)).leader_epoch}" == refused.error_message


@pytest.mark.parametrize("validate_only", [True, False])
async def test_a_node_that_nobody_knows_is_refused(nodes: Nodes, validate_only: bool) -> None:
    """Another directory of a voter is such a node, too."""
    await three(nodes)
    for node_id in (9, 3):
        request = nodes.target((1, 2))
        request.validate_only = validate_only
        request.voters.add(id=node_id, directory_id=NOBODYS, listeners=[nodes.listener(3)])

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            [step async for step in nodes.stub(2).AlterQuorum(request, timeout=WITHIN_S)]

        error = error_from_call(refused.value)
        assert error.code is ErrorCode.VOTER_NOT_FOUND, error
        assert f"{node_id}-{NOBODYS}" in error.message or str(node_id) in error.message
        await all_say(nodes, (1, 2, 3), [1, 2, 3], [])
