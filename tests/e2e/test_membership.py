"""Voters come and go while the quorum works (KIP-853): by RPC, by themselves, one by one or by a target set."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kraft.service.quorum_pb2 import (
    TransferLeadershipRequest,
)
from quorate.errors import ErrorCode
from quorate.storage.failpoints import ENVIRONMENT as FAILPOINTS
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.voters import Nodes, named_steps, planned, three

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]


@pytest_asyncio.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = planned(tmp_path, count=4)
    try:
        yield nodes
    finally:
        await nodes.stop()


async def test_a_quorum_grows_from_one_to_three_and_outlives_its_first(nodes: Nodes) -> None:
    await three(nodes)

    assert [1, 2, 3] == await nodes.voters(1)
    assert 1 == (await nodes.find(1)).kraft_version

    await nodes.running.kill(nodes[1])
    await eventually(lambda: nodes.leader(2, 3), lambda leader: leader in (2, 3))

    assert [1, 2, 3] == await nodes.voters(2)

    await nodes.start(1)
    assert await nodes.leader(1, 2, 3) in (2, 3)


@pytest.mark.parametrize("died_at", ["append.before_write", "log.before_fsync"])
async def test_a_joiner_that_died_at_its_first_record_goes_on(nodes: Nodes, died_at: str) -> None:
    """It knows epoch and leader, and no voter: only by a bootstrap server can it learn where the leader listens."""
    await nodes.start(1)
    await nodes.leader(1)
    joiner = nodes[2]
    joiner.settings["controller.quorum.bootstrap.servers"] = nodes[1].address
    await nodes.format(2)
    await nodes.running.spawn(joiner, environ={FAILPOINTS: f"{died_at}:kill"})

    assert -signal.SIGKILL == await nodes.running.ended(joiner, within_s=WITHIN_S)

    await nodes.start(2)
    end = (await nodes.find(1)).high_watermark

    assert end > 0
    await eventually(lambda: nodes.find(2), lambda view: view.high_watermark >= end)


async def test_a_leader_removes_itself_and_another_leads(nodes: Nodes) -> None:
    await three(nodes)

    assert ErrorCode.NONE == await nodes.remove(1, 1)

    leader = await eventually(lambda: nodes.leader(2, 3), lambda leader: leader in (2, 3))
    assert [2, 3] == await nodes.voters(leader)

    async def follows() -> tuple[str, int]:
        view = await nodes.find(1)
        return view.role, view.leader_id

    assert ("Follower", leader) == await eventually(follows, lambda seen: seen == ("Follower", leader))


async def test_leadership_goes_to_the_voter_that_is_named(nodes: Nodes) -> None:
    await three(nodes)
    for voter in (3, 2):
        leader = await nodes.leader(1, 2, 3)
        answer = await nodes.stub(leader).TransferLeadership(
            TransferLeadershipRequest(voter_id=voter), timeout=WITHIN_S
        )

        assert ErrorCode.NONE == answer.error_code, answer
        assert voter == answer.leader_id
        assert voter == await nodes.leader(1, 2, 3)

    refused = await nodes.stub(1).TransferLeadership(TransferLeadershipRequest(voter_id=3), timeout=WITHIN_S)
    unknown = await nodes.stub(2).TransferLeadership(TransferLeadershipRequest(voter_id=9), timeout=WITHIN_S)

    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == refused.error_code
    assert ErrorCode.VOTER_NOT_FOUND == unknown.error_code


async def test_a_disk_that_is_wiped_is_another_voter(nodes: Nodes) -> None:
    """The old key stays in the set and does not count; the new one joins by itself. KIP-1186."""
    await three(nodes)
    old = nodes.directory_id(3)
    await nodes.running.kill(nodes[3])
    wipe(nodes.plan.log_dir(3))
    await nodes.start(3, controller_quorum_auto_join_enable="true")

    assert old != nodes.directory_id(3)

    async def keys() -> list[tuple[int, str]]:
        return [(voter.id, voter.directory_id) for voter in (await nodes.find(await nodes.leader(1, 2))).voters]

    wanted = [(node_id, nodes.directory_id(node_id)) for node_id in (1, 2, 3)]
    assert wanted == await eventually(keys, lambda seen: seen == wanted)


async def test_a_target_set_is_reached_voter_by_voter_from_any_node(nodes: Nodes) -> None:
    await three(nodes)
    await nodes.start(4)
    await nodes.heard_of(1, 4)
    plan = named_steps(await nodes.alter(2, (2, 3, 4), validate_only=True))

    assert [("STEP_ADDING", 4), ("STEP_REMOVING", 1), ("STEP_DONE", -1)] == plan
    assert [1, 2, 3] == await nodes.voters(1)

    steps = [step for step in named_steps(await nodes.alter(2, (2, 3, 4))) if step[0] != "STEP_WAITING"]

    assert [
        ("STEP_ADDING", 4),
        ("STEP_ADDED", 4),
        ("STEP_REMOVING", 1),
        ("STEP_REMOVED", 1),
        ("STEP_DONE", -1),
    ] == steps
    assert [2, 3, 4] == await nodes.voters(await nodes.leader(2, 3, 4))
    assert [("STEP_DONE", -1)] == named_steps(await nodes.alter(4, (2, 3, 4)))


def wipe(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()
