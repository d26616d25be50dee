"""Links are cut, both ways or one way, or slow: a majority goes on, a minority promises nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from quorate.nouns import NodeId
from tests.e2e.calls import eventually
from tests.e2e.cluster import VOTERS, Cluster, control_plane, others
from tests.e2e.conftest import Measure
from tests.e2e.network import HOW_TO_GET, Network, is_possible, network
from tests.e2e.writer import MORE, NEXT_COMMIT, Writer, caught_up, check, writing

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.netns,
    pytest.mark.asyncio(loop_scope="module"),
]

CUT_S = 4.0
"""Longer than a follower waits for its leader (2 s), and a leader for a majority (3 s)."""


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    if not is_possible():
        pytest.skip(HOW_TO_GET)
    with network(VOTERS) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(net: Network, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Each quorum node is alone with its controller; all else is at home."""
    async with control_plane(tmp_path_factory.mktemp("cluster"), network=net) as running:
        yield running


async def epoch_of(cluster: Cluster) -> tuple[NodeId, int]:
    """The leader and its epoch, once all are agreed."""
    await caught_up(cluster)
    leader = await cluster.active()
    return leader, (await cluster.find(leader)).leader_epoch


async def behind(cluster: Cluster, node_id: NodeId) -> int:
    """How many committed offsets a voter does not know of."""
    leader = await cluster.leader()
    return (await cluster.find(leader)).high_watermark - (await cluster.find(node_id)).high_watermark


async def test_a_leader_in_the_minority_acknowledges_nothing_and_the_majority_goes_on(
    cluster: Cluster, writer: Writer, net: Network, measured: Measure
) -> None:
    leader, epoch = await epoch_of(cluster)
    alone = Writer(cluster)
    async with writing(writer, "minority-leader"):
        with net.parted([leader], others(leader)):
            cut_s = writer.now_s
            trying = asyncio.ensure_future(alone.run("alone", leader))
            await asyncio.sleep(CUT_S)
            measured(NEXT_COMMIT, await writer.next_commit_s(cut_s))
            await writer.goes_on()
            trying.cancel()
            await asyncio.wait([trying])
            await eventually(lambda: cluster.find(leader), lambda old: old.role != "Leader")
    writer.tried += alone.tried
    new_leader, new_epoch = await epoch_of(cluster)

    assert [] == alone.acknowledged
    assert [] == alone.refused
    assert leader != new_leader
    assert epoch < new_epoch
    await check(cluster, writer)


async def test_a_follower_that_comes_back_from_a_minority_disturbs_nobody(
    cluster: Cluster, writer: Writer, net: Network, measured: Measure
) -> None:
    """I-72: with pre-vote, it has raised no epoch meanwhile."""
    before = await epoch_of(cluster)
    follower = others(before[0])[0]
    async with writing(writer, "minority-follower"):
        with net.parted([follower], others(follower)):
            await asyncio.sleep(CUT_S)
            await writer.goes_on()

            assert await behind(cluster, follower) >= MORE
        healed_s = writer.now_s
        await caught_up(cluster)
        measured("s from the healing to the last voter's catching up", writer.now_s - healed_s)

    assert before == await epoch_of(cluster)
    await check(cluster, writer)


@pytest.mark.parametrize("deaf", ["the follower", "the leader"])
async def test_a_follower_cut_off_one_way_disturbs_nobody(
    cluster: Cluster, writer: Writer, net: Network, deaf: str
) -> None:
    before = await epoch_of(cluster)
    leader, follower = before[0], others(before[0])[0]
    ends = ([leader], [follower]) if deaf == "the follower" else ([follower], [leader])
    async with writing(writer, "one-way"):
        with net.cut(from_=ends[0], to=ends[1]):
            await asyncio.sleep(CUT_S)
            await writer.goes_on()

            assert await behind(cluster, follower) >= MORE

    assert before == await epoch_of(cluster)
    await check(cluster, writer)


async def test_a_leader_whom_nobody_hears_is_replaced_by_one_who_stays(
    cluster: Cluster, writer: Writer, net: Network, measured: Measure
) -> None:
    """It hears the others well; they do not hear it, and elect another one, once."""
    leader, epoch = await epoch_of(cluster)
    async with writing(writer, "unheard"):
        with net.cut(from_=[leader], to=others(leader)):
            cut_s = writer.now_s
            await asyncio.sleep(CUT_S)
            measured(NEXT_COMMIT, await writer.next_commit_s(cut_s))
            successor = await cluster.leader()
            elected = (await cluster.find(successor)).leader_epoch
            await writer.goes_on()
    after = await epoch_of(cluster)

    assert leader != successor
    assert epoch < elected
    assert (successor, elected) == after
    await check(cluster, writer)


async def test_two_that_do_not_hear_each_other_do_not_part_the_three(
    cluster: Cluster, writer: Writer, net: Network
) -> None:
    """I-73: one in the middle hears both, and one end leads. The other end cannot follow it, and cannot unseat it."""
    before = await epoch_of(cluster)
    end, _ = others(before[0])
    async with writing(writer, "bridge"):
        with net.parted([before[0]], [end]):
            await asyncio.sleep(CUT_S)
            await writer.goes_on()

            assert await behind(cluster, end) >= MORE

    assert before == await epoch_of(cluster)
    await check(cluster, writer)


async def test_a_slow_and_lossy_network_has_a_leader_all_the_same(
    cluster: Cluster, writer: Writer, net: Network, measured: Measure
) -> None:
    _, epoch = await epoch_of(cluster)
    async with net.slow("--delay-ms", "100", "--jitter-ms", "50", "--loss", "0.05", "--mbit", "3"):
        async with writing(writer, "slow"):
            begun_s, count = writer.now_s, len(writer.acknowledged)
            await asyncio.sleep(CUT_S)
            await writer.goes_on()
            measured("commits a second", (len(writer.acknowledged) - count) / (writer.now_s - begun_s))
        _, slow_epoch = await epoch_of(cluster)
    measured("elections", slow_epoch - epoch)

    assert slow_epoch - epoch <= 1
    await check(cluster, writer)
