"""Processes are killed, stopped and restarted under a writer: no acknowledged topic is lost, none is there twice."""

from __future__ import annotations

import asyncio
import signal

import pytest
import pytest_asyncio

from kraft.service.quorum_pb2 import ListenRequest, ListenResponse
from kraft.service.quorum_pb2_grpc import RaftClientStub
from tests.e2e.calls import DEADLINE_MS, attempt, eventually
from tests.e2e.cluster import VOTERS, Cluster, others, stored_leaders
from tests.e2e.conftest import Measure
from tests.e2e.writer import MORE, NEXT_COMMIT, Writer, caught_up, check, writing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ALONE, OTHERS = 1, (2, 3)
QUORUM_SETTINGS = {
    ALONE: {"controller.absence.timeout.ms": "500"},
    **{node_id: {"controller.absence.timeout.ms": "0"} for node_id in OTHERS},
}
"""One node is the hero of the story of absence; on the others it does not matter whether a controller is there."""
PAUSE_S = 5.0


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def healed(cluster: Cluster) -> None:
    await cluster.heal()


@pytest.mark.parametrize("who", ["leader", "follower"])
async def test_writes_survive_kill_9_of_a_voter(cluster: Cluster, writer: Writer, measured: Measure, who: str) -> None:
    leader = await cluster.active()
    victim = cluster.quorum(leader if who == "leader" else next(each for each in VOTERS if each != leader))
    async with writing(writer, f"kill-{who}"):
        await cluster.kill(victim)
        measured(NEXT_COMMIT, await writer.next_commit_s(writer.now_s))
        await writer.goes_on()
        await cluster.restart(victim)
    await caught_up(cluster)

    await check(cluster, writer)


async def test_writes_survive_kill_9_of_the_active_controller(cluster: Cluster, writer: Writer) -> None:
    """Its quorum node lives and led: it has to let another lead, since nobody beside it can write."""
    active = await cluster.pass_leadership(to=OTHERS)
    async with writing(writer, "kill-controller"):
        await cluster.kill(cluster.controller(active))
        await writer.goes_on()

        assert active != await cluster.active()

        await cluster.restart(cluster.controller(active))
    await caught_up(cluster)

    await check(cluster, writer)


async def test_a_voter_without_its_controller_is_not_elected(cluster: Cluster, writer: Writer) -> None:
    """Another one, which has its controller, can write."""
    active = await cluster.pass_leadership(to=OTHERS)
    first = (await cluster.find(active)).leader_epoch
    await cluster.kill(cluster.controller(ALONE))
    await eventually(lambda: cluster.find(ALONE), lambda view: not view.controller_present)
    await cluster.resign(active, epoch=first)  # of equals the lowest id would be first

    assert await cluster.active() in OTHERS

    async with writing(writer, "alone"):
        leaders = stored_leaders(cluster.plan.log_dir(active))
    await cluster.heal()
    await caught_up(cluster)

    after = {leader_id for epoch, leader_id in leaders if epoch > first}
    assert after
    assert ALONE not in after
    await check(cluster, writer)


async def test_an_epoch_has_one_active_controller(cluster: Cluster, writer: Writer) -> None:
    """A second one on the same node would not know what the first has written last."""
    active = await cluster.active()
    epoch = (await cluster.find(active)).leader_epoch
    told: list[ListenResponse] = []

    async def listen() -> None:
        async for event in RaftClientStub(cluster.channel(cluster.quorum(active))).Listen(ListenRequest(next_offset=0)):
            told.append(event)

    listening = asyncio.ensure_future(listen())
    async with writing(writer, "second"):
        stored = len(told)
        await writer.goes_on()
    listening.cancel()
    await asyncio.wait([listening])

    assert len(told) > stored
    assert {"batches"} == {event.WhichOneof("event") for event in told}
    assert (active, epoch) == (await cluster.active(), (await cluster.find(active)).leader_epoch)


async def test_an_active_controller_that_comes_back_at_once_knows_all_that_was_written(
    cluster: Cluster, writer: Writer
) -> None:
    active = await cluster.pass_leadership(to=OTHERS)
    async with writing(writer, "comes-back"):
        await cluster.kill(cluster.controller(active))
        await cluster.restart(cluster.controller(active))
    await caught_up(cluster)

    await check(cluster, writer)


async def test_a_leader_that_was_stopped_for_a_while_has_acknowledged_nothing_wrong(
    cluster: Cluster, writer: Writer, measured: Measure
) -> None:
    """Its controller was not, and goes on to be asked meanwhile."""
    leader = await cluster.active()
    async with writing(writer, "stopped"):
        stopped_s = writer.now_s
        async with cluster.stopped(cluster.quorum(leader)):
            await asyncio.sleep(PAUSE_S)
            measured(NEXT_COMMIT, await writer.next_commit_s(stopped_s))
        await caught_up(cluster)

    assert leader != await cluster.active()
    await check(cluster, writer)


async def test_a_leader_that_wakes_up_promises_nothing_and_tells_nothing_old(cluster: Cluster, writer: Writer) -> None:
    """It was stopped with its controller, and finds what it was asked meanwhile, when others lead already."""
    leader = await cluster.active()
    async with writing(writer, "asleep"):
        async with cluster.stopped(cluster.quorum(leader), cluster.controller(leader)):
            await asyncio.sleep(PAUSE_S)
            await writer.goes_on()
            names = writer.acknowledged[-MORE:]
            held = [f"held-{number}" for number in range(MORE)]
            reads = [
                asyncio.ensure_future(attempt(cluster.known(names, at=leader, deadline_ms=DEADLINE_MS))) for _ in names
            ]
            writes = [asyncio.ensure_future(attempt(cluster.create_once(name, at=leader))) for name in held]
            await writer.goes_on()  # the calls have reached the sleeper's socket
        told = [answer for answer in await asyncio.gather(*reads) if answer is not None]
        created = [answer for answer in await asyncio.gather(*writes) if answer is not None]
    writer.tried += held
    writer.acknowledged += [topic.name for answer in created for topic in answer.topics if not topic.error_code]
    await caught_up(cluster)

    assert [set(names)] * len(told) == told
    assert leader != await cluster.active()
    await check(cluster, writer)


async def test_all_voters_killed_at_once_come_back_with_all_that_was_acknowledged(
    cluster: Cluster, writer: Writer
) -> None:
    async with writing(writer, "kill-all"):
        async with asyncio.TaskGroup() as killing:
            for voter in cluster.plan.quorum:
                killing.create_task(cluster.kill(voter))
        assert all([await attempt(cluster.find_once(node_id)) is None for node_id in VOTERS])
        await cluster.heal()
    await caught_up(cluster)

    await check(cluster, writer)


async def test_a_leader_that_is_asked_to_stop_hands_over_first(
    cluster: Cluster, writer: Writer, measured: Measure
) -> None:
    leader = await cluster.active()
    epoch = (await cluster.find(leader)).leader_epoch
    async with writing(writer, "sigterm"):
        asked_s = writer.now_s
        code = await cluster.kill(cluster.quorum(leader), signal.SIGTERM)
        measured("s to its end", writer.now_s - asked_s)
        measured(NEXT_COMMIT, await writer.next_commit_s(asked_s))
        successor = await cluster.leader()

        assert 0 == code
        assert successor != leader
        assert epoch + 1 == (await cluster.find(successor)).leader_epoch
    await cluster.heal()
    await caught_up(cluster)

    await check(cluster, writer)


async def test_all_nodes_are_restarted_one_after_the_other(cluster: Cluster, writer: Writer) -> None:
    """A node is a quorum node and its controller; the leader's comes last."""
    leader = await cluster.active()
    async with writing(writer, "rolling"):
        for node_id in (*others(leader), leader):
            node = (cluster.controller(node_id), cluster.quorum(node_id))

            assert [0, 0] == [await cluster.kill(process, signal.SIGTERM) for process in node]

            for process in reversed(node):
                await cluster.restart(process)
            await caught_up(cluster)

    await check(cluster, writer)
