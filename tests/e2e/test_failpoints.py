"""A voter dies between two steps of its disk, as leader and as follower: all that was acknowledged is there."""

from __future__ import annotations

import signal

import pytest
import pytest_asyncio

from quorate.nouns import NodeId
from tests.e2e.cluster import Cluster, others
from tests.e2e.conftest import Measure
from tests.e2e.writer import NEXT_COMMIT, Writer, caught_up, check, writing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

KILLED = -signal.SIGKILL
ENOUGH = 160
"""A flush so late is in the story: without writes there are two a second, for the controller's NoOpRecords."""


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def healed(cluster: Cluster) -> None:
    await cluster.heal()


async def restarted(cluster: Cluster, node_id: NodeId, failpoints: str) -> None:
    """The node dies there, some day."""
    await cluster.kill(cluster.quorum(node_id))
    await cluster.restart(cluster.quorum(node_id), failpoints=failpoints)
    await caught_up(cluster)


DEATHS = [
    *(
        ("Leader", place)
        for place in ("append.before_write", "append.after_write", "log.before_fsync", "log.after_fsync")
    ),
    *(("Follower", place) for place in ("append.after_write", "log.after_fsync")),
]


@pytest.mark.parametrize(("role", "place"), DEATHS)
async def test_writes_survive_a_voter_that_dies_at_a_step_of_its_log(
    cluster: Cluster, writer: Writer, measured: Measure, role: str, place: str
) -> None:
    """After the fsync and before anybody knows of it is before_reply, too."""
    victim = min(others(await cluster.active()))  # the first of its successors, if both are as far
    await restarted(cluster, victim, f"{place}:kill@{ENOUGH}")
    leader = await cluster.pass_leadership(to=[victim] if role == "Leader" else others(victim))
    epoch = (await cluster.find(leader)).leader_epoch
    async with writing(writer, place):
        assert KILLED == await cluster.ended(cluster.quorum(victim))
        dead_s = writer.now_s
        measured(NEXT_COMMIT, await writer.next_commit_s(dead_s))
        successor = await cluster.leader()

        assert (victim == leader) == (epoch < (await cluster.find(successor)).leader_epoch)

        await cluster.heal()
    await caught_up(cluster)
    await check(cluster, writer)


@pytest.mark.parametrize("place", ["state.before_rename", "state.after_rename"])
async def test_a_voter_that_dies_while_it_writes_down_its_vote_keeps_nobody_from_electing(
    cluster: Cluster, writer: Writer, place: str
) -> None:
    leader = await cluster.active()
    victim = min(others(leader))
    await restarted(cluster, victim, f"{place}:kill@1")
    epoch = (await cluster.find(leader)).leader_epoch
    async with writing(writer, place):
        await cluster.resign(leader, epoch=epoch)

        assert KILLED == await cluster.ended(cluster.quorum(victim))

        await writer.goes_on()
        await cluster.heal()
    await caught_up(cluster)
    await check(cluster, writer)
