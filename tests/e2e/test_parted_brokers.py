"""A leader of ours that a network parts from its followers, and then from the controllers, too (R62, R70).

With min ISR 2 it acknowledges nothing; with min ISR 1, where unclean elections are allowed, what is lost: KIP-966.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Final

import pytest
import pytest_asyncio

from deploy.local.processes import ROOT
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from quorate.errors import ErrorCode
from quorate.nouns import NodeId
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane
from tests.e2e.network import CLIENT, HOW_TO_GET, Network, is_possible, network
from tests.e2e.own_brokers import OwnBrokers
from tests.e2e.parted_client import written
from tests.e2e.records import stored

pytestmark = [pytest.mark.e2e, pytest.mark.netns, pytest.mark.asyncio(loop_scope="module")]

LEADER: Final = 101
OTHERS: Final = (102, 103)
IDS: Final = (LEADER, *OTHERS)
MIN_ISR: Final = {"two": "2", "one": "1"}
"""By topic."""
LAG_MS: Final = "1000"
TIMEOUT_MS: Final = 30_000


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    if not is_possible():
        pytest.skip(HOW_TO_GET)
    with network((*VOTERS, *IDS)) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(net: Network, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with control_plane(
        tmp_path_factory.mktemp("cluster"),
        network=net,
        session_timeout_ms=3_000,
        quorum_settings=PATIENT,
        with_stand_ins=False,
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def brokers(cluster: Cluster, net: Network) -> OwnBrokers:
    brokers = OwnBrokers(cluster, ids=IDS, settings={"replica.lag.time.max.ms": LAG_MS}, place=net.place)
    await brokers.start()
    return brokers


async def create(cluster: Cluster) -> None:
    """The topics; both begin with the same leader."""
    request = CreateTopicsRequest(timeout_ms=TIMEOUT_MS)
    for topic, least in MIN_ISR.items():
        asked = request.topics.add(name=topic, num_partitions=-1, replication_factor=-1)
        asked.assignments.add(partition_index=0, broker_ids=IDS)
        asked.configs.add(name="min.insync.replicas", value=least)
        asked.configs.add(name="unclean.leader.election.enable", value="true" if least == "1" else "false")
    answer = await call_with_retries(cluster.controller_stub(1).CreateTopics, request)
    assert {ErrorCode.NONE} == {each.error_code for each in answer.response.topics}, answer.response


async def partitions(cluster: Cluster, leaders: tuple[NodeId, ...], isr: set[NodeId] | None = None) -> dict[str, Any]:
    """Both partitions, once each is led by one of these and has that ISR."""

    async def found() -> dict[str, Any]:
        described = await cluster.topics(at=1)
        return {topic: described[topic].partitions[0] for topic in MIN_ISR if topic in described}

    def is_so(seen: dict[str, Any]) -> bool:
        fits = [each.leader_id in leaders and isr in (None, set(each.isr_nodes)) for each in seen.values()]
        return len(fits) == len(MIN_ISR) and all(fits)

    return await eventually(found, is_so)


async def written_to_all(brokers: OwnBrokers, leaders: dict[str, Any], value: int, acks: int) -> set[ErrorCode]:
    """What the leaders say; one that does not know yet that it leads is asked again, and no other one."""
    return {
        await eventually(
            partial(written, brokers[each.leader_id].kafka_address, topic, value, acks=acks),
            lambda code: code is not ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
        for topic, each in leaders.items()
    }


async def written_there(net: Network, brokers: OwnBrokers, value: str) -> dict[str, str]:
    """What the parted leader says to a client that is parted with it, by topic."""
    client = await asyncio.create_subprocess_exec(
        *(*net.place(LEADER).enter, sys.executable, "-m", "tests.e2e.parted_client"),
        *(brokers[LEADER].kafka_address, value, *MIN_ISR),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await client.communicate()
    return dict(zip(MIN_ISR, said.decode().split(), strict=True))


async def values(brokers: OwnBrokers, topic: str) -> list[list[bytes]]:
    """What is in the log of each replica."""
    return [[value for _, value in stored(brokers.disks(each)[0] / f"{topic}-0")] for each in brokers.ids]


async def test_a_parted_leader_acknowledges_nothing_with_min_isr_2_and_what_is_lost_with_1(
    cluster: Cluster, brokers: OwnBrokers, net: Network
) -> None:
    await create(cluster)
    whole = await partitions(cluster, (LEADER,), set(IDS))
    together = await written_to_all(brokers, whole, 1, -1)
    with net.parted([LEADER], OTHERS):
        # Who has all of a log stays in its ISR: something has to be missed.
        missed = await written_to_all(brokers, whole, 2, 1)
        await partitions(cluster, (LEADER,), {LEADER})
        at = brokers[LEADER].kafka_address
        without_followers = {topic: (await written(at, topic, 3)).name for topic in MIN_ISR}
        with net.parted([LEADER], (*VOTERS, CLIENT)):
            successors = await partitions(cluster, OTHERS)
            alone = await written_there(net, brokers, "4")  # it does not know of the others
        was_there = {topic: (await values(brokers, topic))[0] for topic in MIN_ISR}
    await partitions(cluster, IDS, set(IDS))
    after = await written_to_all(brokers, successors, 5, -1)

    assert [{ErrorCode.NONE}] * 3 == [together, missed, after]
    assert {"two": "NOT_ENOUGH_REPLICAS", "one": "NONE"} == without_followers == alone
    assert {"two": [b"1", b"2"], "one": [b"1", b"2", b"3", b"4"]} == was_there
    for topic in MIN_ISR:
        logs = await eventually(lambda of=topic: values(brokers, of), lambda seen: [[b"1", b"5"]] * len(IDS) == seen)
        assert [[b"1", b"5"]] * len(IDS) == logs
