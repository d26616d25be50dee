"""Quorum nodes that are restarted one after the other: when each counts again, and to whom a leader hands over."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from deploy.local.plan import make_plan
from quorate.nouns import NodeId
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.nodes import Nodes

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

VOTERS = (1, 2, 3)
ELECTION_TIMEOUT_MS = 500
PATIENCE = {"controller.quorum.fetch.timeout.ms": "15000"}
"""So that a busy machine elects nobody in between."""


@pytest_asyncio.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    plan = make_plan(tmp_path)
    made = Nodes(plan)
    await made.format(*VOTERS)
    for each in plan.quorum:
        # Without controllers beside them, and none counts as absent.
        each.settings["controller.absence.timeout.ms"] = "0"
        each.settings["controller.quorum.election.timeout.ms"] = str(ELECTION_TIMEOUT_MS)
    yield made
    await made.stop()


async def spawn(nodes: Nodes, *node_ids: NodeId) -> None:
    those = [nodes.plan.quorum[node_id - 1] for node_id in node_ids]
    for each in those:
        await nodes.running.spawn(each)
    await nodes.running.ready(those)


async def is_ready(nodes: Nodes, node_id: NodeId) -> bool:
    """The present answer to a probe for readiness."""
    async with grpc.aio.insecure_channel(nodes.plan.quorum[node_id - 1].address) as channel:
        asked = HealthCheckRequest(service="readiness")
        answer = await HealthStub(channel).Check(asked, timeout=WITHIN_S, wait_for_ready=True)
    return bool(answer.status == HealthCheckResponse.SERVING)


async def are_ready(nodes: Nodes, *node_ids: NodeId) -> set[NodeId]:
    return {node_id for node_id in node_ids if await is_ready(nodes, node_id)}


async def test_a_node_is_ready_while_it_has_what_its_quorum_has_committed(nodes: Nodes) -> None:
    """One of three elects nobody, so it is not; with another both are; and the last of a dead quorum is not again."""
    await spawn(nodes, 3)

    assert not await is_ready(nodes, 3)

    await spawn(nodes, 1, 2)
    await eventually(lambda: are_ready(nodes, *VOTERS), set(VOTERS).__eq__)
    for node_id in (1, 2):
        await nodes.running.kill(nodes.plan.quorum[node_id - 1])
    await eventually(lambda: is_ready(nodes, 3), lambda ready: not ready)
    await spawn(nodes, 1)
    await eventually(lambda: are_ready(nodes, 1, 3), {1, 3}.__eq__)


@pytest.mark.parametrize("first", [2, 1])
async def test_a_leader_that_stops_hands_over_to_the_voter_that_was_restarted_last(nodes: Nodes, first: NodeId) -> None:
    """A StatefulSet restarts 3, 2, 1: one hand-over is enough, as it goes to one that does not have to go again."""
    for each in nodes.plan.quorum:
        each.settings.update(PATIENCE)
    await spawn(nodes, *VOTERS)
    leader, epoch = await nodes.leader(of=VOTERS)
    while leader != first:
        await nodes.resign(leader, epoch)
        leader, epoch = await nodes.leader(of=VOTERS, above=epoch)
    leaders = [leader]
    for node_id in reversed(VOTERS):
        await eventually(lambda: are_ready(nodes, *VOTERS), set(VOTERS).__eq__)
        # A pod takes longer to come back: only a voter that comes long enough after the election was away.
        await asyncio.sleep(2 * ELECTION_TIMEOUT_MS / 1000)
        await nodes.running.kill(nodes.plan.quorum[node_id - 1], signal.SIGTERM)
        await nodes.leader(of=[each for each in VOTERS if each != node_id])
        await spawn(nodes, node_id)
        leaders.append((await nodes.leader(of=VOTERS))[0])

    assert [first] * (4 - first) + [first + 1] * first == leaders
