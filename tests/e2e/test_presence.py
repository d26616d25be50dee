"""Controllers that are away, stopped or only slow: writes go on where a voter has its controller."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from quorate.nouns import NodeId
from tests.e2e.calls import eventually
from tests.e2e.cluster import VOTERS, Cluster, others, stored_leaders
from tests.e2e.conftest import Measure
from tests.e2e.writer import NEXT_COMMIT, Writer, caught_up, check, writing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SILENT_MS = 4_000
QUORUM_SETTINGS = {node_id: {"controller.presence.timeout.ms": str(SILENT_MS)} for node_id in VOTERS}
HELD_S = 0.6
"""For so long a busy controller's loop is held at a time: a hundred times what was measured of any work in it."""
RUNS_S = 0.1
BUSY_S = 3 * SILENT_MS / 1000


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def healed(cluster: Cluster) -> None:
    await cluster.heal()


async def test_one_controller_of_three_is_enough(cluster: Cluster, writer: Writer, measured: Measure) -> None:
    """All quorum nodes live. Those without a controller do not hand leadership to each other: 3 leads, and stays."""
    await cluster.pass_leadership(to=(1, 2))
    begun_s = writer.now_s
    for node_id in (1, 2):
        await cluster.kill(cluster.controller(node_id))

    assert 3 == await leads_with_its_controller(cluster)

    first = await epoch_of(cluster)
    async with writing(writer, "one-of-three"):
        measured(NEXT_COMMIT, await writer.next_commit_s(begun_s))

    assert (3, first) == (await cluster.leader(), await epoch_of(cluster))
    found = [leader_id for epoch, leader_id in stored_leaders(cluster.plan.log_dir(3)) if epoch == first]
    assert [3] == found


async def test_without_any_controller_the_quorum_has_one_leader_that_stays(cluster: Cluster, writer: Writer) -> None:
    """It cannot write; but nobody is better off, so the epochs stand still, and writes go on when one comes back."""
    for node_id in VOTERS:
        await cluster.kill(cluster.controller(node_id))
    await eventually(lambda: present(cluster), lambda those: not those)
    leader = await cluster.leader()
    first = await epoch_of(cluster)
    await cluster.kill(cluster.quorum(leader))
    after = await eventually(cluster.leader, lambda found: found != leader)
    await cluster.restart(cluster.quorum(leader))
    elected = await epoch_of(cluster)

    assert elected > first

    last = next(each for each in others(leader) if each != after)
    await cluster.running.spawn(cluster.controller(last))

    assert last == await leads_with_its_controller(cluster)

    await cluster.heal()
    async with writing(writer, "none"):
        pass


async def test_a_stopped_controller_is_deposed(cluster: Cluster, writer: Writer, measured: Measure) -> None:
    """SIGSTOP: it ends no stream, and all that waits for it would wait as long as it is stopped."""
    active = await cluster.active()
    async with writing(writer, "stopped"):
        async with cluster.stopped(cluster.controller(active)):
            measured(NEXT_COMMIT, await writer.next_commit_s(writer.now_s))

            assert active != await leads_with_its_controller(cluster)
            assert active not in await present(cluster)
        await eventually(lambda: present(cluster), lambda those: those == set(VOTERS))
    await caught_up(cluster)
    await check(cluster, writer)


async def test_a_busy_controller_stays(cluster: Cluster, writer: Writer) -> None:
    """Its loop is held for 600 ms, again and again, for three times the timeout."""
    active, epoch = await cluster.active(), await epoch_of(cluster)
    async with writing(writer, "busy"):
        end_s = writer.now_s + BUSY_S
        while writer.now_s < end_s:
            async with cluster.stopped(cluster.controller(active)):
                await asyncio.sleep(HELD_S)
            await asyncio.sleep(RUNS_S)

    assert (active, epoch) == (await cluster.active(), await epoch_of(cluster))


async def test_a_stopped_leader_is_replaced(cluster: Cluster, writer: Writer, measured: Measure) -> None:
    """SIGSTOP of a quorum node: its followers notice after `controller.quorum.fetch.timeout.ms`."""
    active = await cluster.active()
    async with writing(writer, "stopped-leader"), cluster.stopped(cluster.quorum(active)):
        measured(NEXT_COMMIT, await writer.next_commit_s(writer.now_s))
    await caught_up(cluster)
    await check(cluster, writer)


async def epoch_of(cluster: Cluster) -> int:
    """The epoch of the leader."""
    return (await cluster.find(await cluster.leader())).leader_epoch


async def present(cluster: Cluster) -> set[NodeId]:
    """The voters that have their controllers, as they say themselves."""
    return {node_id for node_id in VOTERS if (await cluster.find(node_id)).controller_present}


async def leads_with_its_controller(cluster: Cluster) -> NodeId:
    """The leader, once it is one that has its controller."""

    async def found() -> NodeId | None:
        leader = await cluster.leader()
        return leader if (await cluster.find(leader)).controller_present else None

    leader = await eventually(found)
    assert leader is not None
    return leader
