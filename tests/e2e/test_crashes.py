"""Processes are killed, stopped and restarted under a writer: no acknowledged topic is lost, none is there twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle

import pytest
import pytest_asyncio

from kraft.service.quorum_pb2 import ListenRequest, ListenResponse, ResignRequest
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.errors import ApiError, ErrorCode
from quorate.raft.roles import Leader
from tests.e2e.cluster import VOTERS, Cluster, attempt, eventually, stored_batches, stored_leaders, stored_topics

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ALONE, OTHERS = 1, (2, 3)
QUORUM_SETTINGS = {
    ALONE: {"controller.absence.timeout.ms": "500"},
    **{node_id: {"controller.absence.timeout.ms": "0"} for node_id in OTHERS},
}
"""One node is the hero of the story of absence; on the others nothing may hang on that timeout."""
MORE = 5
"""So many writes show that writes go on."""
PAUSE_S = 5.0


class Writer:
    """Creates topics one after the other, at one controller after the other, and notes which are acknowledged.

    What failed is not tried again under the same name, so a topic that is there twice was written twice.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.tried: list[str] = []
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self._cluster = cluster

    async def run(self, prefix: str) -> None:
        doors = cycle(VOTERS)
        door = next(doors)
        while True:
            name = f"{prefix}-{len(self.tried)}"
            self.tried.append(name)
            try:
                answer = await self._cluster.create(name, at=door, deadline_ms=3_000)
                code = ErrorCode(answer.topics[0].error_code)
                (self.refused if code else self.acknowledged).append(f"{name}: {code.name}" if code else name)
            except ApiError:
                door = next(doors)
                await asyncio.sleep(0.05)

    async def goes_on(self) -> None:
        """Until some more are acknowledged."""
        count = len(self.acknowledged) + MORE
        await eventually(self._count, lambda acknowledged: acknowledged >= count)

    async def _count(self) -> int:
        return len(self.acknowledged)


@pytest.fixture(scope="module")
def writer(cluster: Cluster) -> Writer:
    """One for all stories: what was acknowledged in an earlier one must outlive the later ones, too."""
    return Writer(cluster)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def healed(cluster: Cluster) -> None:
    await cluster.heal()


@asynccontextmanager
async def writing(writer: Writer, prefix: str) -> AsyncIterator[None]:
    """Writes go on for the length of the block, and do so at its end."""
    work = asyncio.ensure_future(writer.run(prefix))
    try:
        await writer.goes_on()
        yield
        await writer.goes_on()
    finally:
        work.cancel()
        await asyncio.wait([work])


async def caught_up(cluster: Cluster) -> None:
    """Every voter has all that the leader knows to be committed, and all name the same leader."""
    door = await cluster.active()

    async def behind() -> list[int]:
        quorum = await cluster.describe_quorum(door)
        return [each.replica_id for each in quorum.current_voters if each.log_end_offset < quorum.high_watermark]

    async def leaders() -> set[tuple[int, int]]:
        views = [await cluster.find(node_id) for node_id in VOTERS]
        return {(view.leader_id, view.leader_epoch) for view in views}

    await eventually(behind, lambda those: not those)
    await eventually(leaders, lambda named: len(named) == 1 and named.pop()[0] in VOTERS)
    leading = [node_id for node_id in VOTERS if (await cluster.find(node_id)).role == Leader.__name__]

    assert 1 == len(leading)


async def check(cluster: Cluster, writer: Writer) -> None:
    """Everybody tells of each acknowledged topic, and of none that nobody asked for."""
    for door in VOTERS:
        told = await cluster.topics(at=door)

        assert set() == set(writer.acknowledged) - told.keys()
        assert set() == told.keys() - set(writer.tried)
    await eventually(cluster.topics, lambda told: set(writer.acknowledged) <= told.keys())

    assert [] == writer.refused


@pytest.mark.parametrize("who", ["leader", "follower"])
async def test_writes_survive_kill_9_of_a_voter(cluster: Cluster, writer: Writer, who: str) -> None:
    leader = await cluster.active()
    victim = cluster.quorum(leader if who == "leader" else next(each for each in VOTERS if each != leader))
    async with writing(writer, f"kill-{who}"):
        await cluster.kill(victim)
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


async def test_a_node_without_its_controller_does_not_keep_the_leadership(cluster: Cluster, writer: Writer) -> None:
    """It may be elected; then it gives up after `controller.absence.timeout.ms`, and another one can write."""
    active = await cluster.pass_leadership(to=OTHERS)
    first = (await cluster.find(active)).leader_epoch
    await cluster.kill(cluster.controller(ALONE))
    stub = RaftClientStub(cluster.channel(cluster.quorum(active)))
    await stub.Resign(ResignRequest(epoch=first), timeout=5)  # the first of its successors is the lowest id

    assert await cluster.active() in OTHERS

    async with writing(writer, "alone"):
        leaders = stored_leaders(cluster.plan.log_dir(active))
    await cluster.heal()
    await caught_up(cluster)

    assert ALONE in [leader_id for epoch, leader_id in leaders if epoch > first]
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
    cluster: Cluster, writer: Writer
) -> None:
    leader = await cluster.active()
    async with writing(writer, "stopped"):
        async with cluster.stopped(cluster.quorum(leader)):
            await asyncio.sleep(PAUSE_S)
            await writer.goes_on()
        await caught_up(cluster)
    await caught_up(cluster)

    await check(cluster, writer)


async def test_all_voters_killed_at_once_come_back_with_all_that_was_acknowledged(
    cluster: Cluster, writer: Writer
) -> None:
    async with writing(writer, "kill-all"):
        async with asyncio.TaskGroup() as killing:
            for voter in cluster.plan.quorum:
                killing.create_task(cluster.kill(voter))
        assert all([await attempt(cluster.find(node_id)) is None for node_id in VOTERS])
        await cluster.heal()
    await caught_up(cluster)

    await check(cluster, writer)


async def test_a_leader_that_is_asked_to_stop_hands_over_first(cluster: Cluster, writer: Writer) -> None:
    leader = await cluster.active()
    epoch = (await cluster.find(leader)).leader_epoch
    async with writing(writer, "sigterm"):
        code = await cluster.kill(cluster.quorum(leader), signal.SIGTERM)
        successor = await cluster.leader()

        assert 0 == code
        assert successor != leader
        assert epoch + 1 == (await cluster.find(successor)).leader_epoch
    await cluster.heal()
    await caught_up(cluster)

    await check(cluster, writer)


async def test_in_the_end_every_disk_has_the_same_log_with_each_topic_once(cluster: Cluster, writer: Writer) -> None:
    """The last story: what the logs themselves say, with nobody to tell it."""
    await caught_up(cluster)
    for voter in cluster.plan.quorum:
        await cluster.kill(voter)
    log_dirs = [cluster.plan.log_dir(node_id) for node_id in VOTERS]
    logs = [stored_batches(log_dir) for log_dir in log_dirs]
    common = min(map(len, logs))

    assert all(log[:common] == logs[0][:common] for log in logs)
    for log_dir in log_dirs:
        stored = stored_topics(log_dir)

        assert sorted(set(stored)) == sorted(stored)
        assert set() == set(writer.acknowledged) - set(stored)
