"""States that a controller holds for readers and for checkpoints: each is let go of, or memory only ever grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest

from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.service.admin_pb2 import AdminRequest, AdminResponse
from kraft.service.quorum_pb2 import ListenResponse
from kraft.service.quorum_pb2_grpc import add_RaftClientServicer_to_server
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Decision, Moment
from quorate.controller.engine.engine import Engine
from quorate.errors import ErrorCode
from quorate.metadata.state import ClusterState
from quorate.records import FeatureLevelRecord
from quorate.runtime.calls.server import Server
from quorate.runtime.requests.statuses import error_from_call
from services.controller import pages, snapshots
from services.controller.snapshots import Snapshots, StateLost
from services.quorum import driver as quorum_driver
from services.quorum.controller_presence import ControllerPresence
from services.quorum.servicer import RaftClientService
from tests.controller.clusters import Cluster
from tests.services.clocks import MovedClock
from tests.services.controllers import InProcess, controller
from tests.services.nodes import sole_leader
from tests.services.scripted import WITHIN_S, ScriptedQuorum, listening, nothing, quorum_at_work

NEVER_BY_SIZE = 1 << 60
INTERVAL_MS = 3_600_000


def write_a_level(_: ClusterState, __: Moment) -> Decision[None]:
    """A command; no snapshot is of an empty state."""
    return Decision(None, (FeatureLevelRecord(name="group.version", feature_level=1),))


@pytest.fixture
async def paged() -> AsyncIterator[tuple[InProcess, ScriptedQuorum]]:
    """An active controller with three topics, which tells of one partition a page."""
    cluster = Cluster().brokers(1, 2)
    for name in "abc":
        cluster.topic(name, [1, 2])
    async with quorum_at_work() as (quorum, address):
        engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
        async with controller(address, engine=engine, settings=ControllerSettings(partitions_per_page=1)) as here:
            quorum.lead(1, epoch=1, next_offset=cluster.next_offset)
            await here.until_active()
            quorum.commit(engine.next_offset)
            yield here, quorum


async def page(here: InProcess, token: str = "") -> AdminResponse:
    request = AdminRequest(describe_topic_partitions=DescribeTopicPartitionsRequest(), page_token=token)
    answer: AdminResponse = await here.stub.Submit(request, timeout=WITHIN_S)
    return answer


async def write(here: InProcess, quorum: ScriptedQuorum) -> None:
    """One record is written and committed."""
    written = asyncio.ensure_future(here.driver.write("test", write_a_level))
    await asyncio.sleep(0)  # it has begun
    quorum.commit(here.driver.engine.next_offset)
    async with asyncio.timeout(WITHIN_S):
        await written


async def until(holds: Callable[[], bool]) -> None:
    """Others have their turns until it is so."""
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0)


def names(answer: AdminResponse) -> list[str]:
    return [topic.name for topic in answer.describe_topic_partitions.topics]


async def test_pages_are_of_one_state_which_is_held_meanwhile(paged: tuple[InProcess, ScriptedQuorum]) -> None:
    here, _ = paged
    first = await page(here)
    second = await page(here, first.next_page_token)

    assert (["a"], ["b"]) == (names(first), names(second))
    assert here.driver.engine.state.registry.is_held(first.offset)


async def test_a_state_is_let_go_of_once_nobody_has_read_on(
    paged: tuple[InProcess, ScriptedQuorum], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = paged
    monkeypatch.setattr(pages, "KEPT_S", 0.0)
    first = await page(here)
    registry = here.driver.engine.state.registry
    await until(lambda: not registry.is_held(first.offset))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await page(here, first.next_page_token)

    assert ErrorCode.SNAPSHOT_NOT_FOUND is error_from_call(refused.value).code


async def test_the_state_that_was_read_longest_ago_makes_room(
    paged: tuple[InProcess, ScriptedQuorum], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, quorum = paged
    monkeypatch.setattr(pages, "KEPT_MAX", 1)
    first = await page(here)
    await write(here, quorum)
    second = await page(here)

    registry = here.driver.engine.state.registry
    assert [False, True] == [registry.is_held(each.offset) for each in (first, second)]


async def test_a_page_that_is_being_read_keeps_its_state(
    paged: tuple[InProcess, ScriptedQuorum], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A majority confirms the leader for longer than an unread state is kept, and a commit comes meanwhile."""
    here, quorum = paged
    first = await page(here)
    loop = asyncio.get_running_loop()
    time_s = loop.time

    async def confirm_late() -> None:
        monkeypatch.setattr(loop, "time", lambda: time_s() + pages.KEPT_S)
        await asyncio.sleep(0)  # what is due now is done in the next round
        await write(here, quorum)

    quorum.before_confirming = confirm_late
    second = await page(here, first.next_page_token)
    quorum.before_confirming = nothing
    third = await page(here, second.next_page_token)

    assert (["b"], ["c"]) == (names(second), names(third))
    assert first.offset == second.offset == third.offset


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_page_whose_state_is_lost_while_it_is_read_is_refused(
    paged: tuple[InProcess, ScriptedQuorum], is_first: bool
) -> None:
    """The node was confirmed, then lost its leadership, and its controller has to load a snapshot."""
    here, quorum = paged
    first = await page(here)
    registry = here.driver.engine.state.registry

    async def lose() -> None:
        quorum.lead(2, epoch=2, next_offset=first.offset)
        quorum.begin_snapshot()
        await until(lambda: not registry.is_held(first.offset))

    quorum.before_confirming = lose
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await page(here, "" if is_first else first.next_page_token)

    assert ErrorCode.SNAPSHOT_NOT_FOUND is error_from_call(refused.value).code


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[tuple[quorum_driver.QuorumDriver, InProcess]]:
    """A quorum node that leads, and the active controller beside it, whose activation is committed."""
    server = Server()
    async with sole_leader(tmp_path) as quorum:
        servicer = RaftClientService(quorum, ControllerPresence(quorum, absence_timeout_ms=0))
        server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, servicer)
        async with listening(server) as address, controller(address) as here:
            await here.until_active()
            await here.driver.write("test", write_a_level)
            yield quorum, here


async def test_a_checkpoint_lets_go_of_its_state_when_it_is_made(
    node: tuple[quorum_driver.QuorumDriver, InProcess],
) -> None:
    quorum, here = node
    maker = Snapshots(here.driver, here.channel, MovedClock(), bytes_between=NEVER_BY_SIZE, interval_ms=INTERVAL_MS)
    made = await maker.make()

    assert made is not None
    assert made == quorum.core.log.latest_snapshot
    assert not here.driver.engine.state.registry.is_held(made.offset)


async def test_a_checkpoint_lets_go_of_its_state_when_it_is_refused(
    node: tuple[quorum_driver.QuorumDriver, InProcess],
) -> None:
    """The quorum node has one of this offset already."""
    _, here = node
    maker = Snapshots(here.driver, here.channel, MovedClock(), bytes_between=NEVER_BY_SIZE, interval_ms=INTERVAL_MS)
    made = await maker.make()
    assert made is not None
    with pytest.raises(grpc.aio.AioRpcError):
        await maker.make()

    assert not here.driver.engine.state.registry.is_held(made.offset)


async def test_a_checkpoint_ends_if_its_state_is_lost_while_it_begins(
    node: tuple[quorum_driver.QuorumDriver, InProcess],
) -> None:
    """This controller has to load a snapshot of another before the first piece of its own is made."""
    _, here = node
    maker = Snapshots(here.driver, here.channel, MovedClock(), bytes_between=NEVER_BY_SIZE, interval_ms=INTERVAL_MS)
    making = asyncio.ensure_future(maker.make())
    await asyncio.sleep(0)  # it has begun
    for event in (
        ListenResponse(leadership=ListenResponse.Leadership(leader_id=2, epoch=2)),
        ListenResponse(snapshot=ListenResponse.SnapshotChunk()),
    ):
        await here.driver.hear(event)
    with pytest.raises(StateLost):
        await making


async def test_a_checkpoint_is_made_when_its_time_has_come(
    node: tuple[quorum_driver.QuorumDriver, InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little was written: `metadata.log.max.snapshot.interval.ms`."""
    monkeypatch.setattr(snapshots, "LOOKS_S", 0.0)
    quorum, here = node
    clock = MovedClock()
    maker = Snapshots(here.driver, here.channel, clock, bytes_between=NEVER_BY_SIZE, interval_ms=INTERVAL_MS)
    running = asyncio.ensure_future(maker.run())
    clock.now_ms = INTERVAL_MS - 1
    for _ in range(100):
        await asyncio.sleep(0)

    assert quorum.core.log.latest_snapshot is None
    clock.now_ms = INTERVAL_MS
    await until(lambda: quorum.core.log.latest_snapshot is not None)
    running.cancel()
    await asyncio.wait([running])
