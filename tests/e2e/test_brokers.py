"""Brokers come, fall silent, come back and leave: what the cluster says of them and of their partitions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

from deploy.local.broker import stand_in
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from kraft.service.heartbeat_pb2 import DescribeSessionsRequest, DescribeSessionsResponse
from quorate.errors import ApiError, ErrorCode
from tests.cli.directories import run
from tests.e2e.calls import WITHIN_S, call_with_retries, eventually
from tests.e2e.cluster import PATIENT, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

SESSION_TIMEOUT_MS = 9_000
TOPIC = "orders"

Row = dict[str, object]


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def everybody_is_there(cluster: Cluster) -> None:
    """Three brokers, unfenced, and a topic whose partitions have them all in their ISR."""
    assert [101, 102, 103] == await eventually(lambda: unfenced(cluster), lambda those: len(those) == 3)


async def unfenced(cluster: Cluster) -> list[int]:
    answer = await call_with_retries(
        cluster.controller_stub(1).DescribeCluster, DescribeClusterRequest(endpoint_type=1)
    )
    return [broker.broker_id for broker in answer.response.brokers]


async def sessions(cluster: Cluster) -> dict[int, DescribeSessionsResponse.Session]:
    answer = await call_with_retries(cluster.heartbeat_stub.DescribeSessions, DescribeSessionsRequest())
    return {session.broker_id: session for session in answer.response.sessions}


async def partition(cluster: Cluster, topic: str) -> Row:
    """The first partition of a topic: leader, leader epoch, ISR."""
    told = (await cluster.topics(at=1))[topic].partitions[0]
    return {"leader": told.leader_id, "epoch": told.leader_epoch, "isr": sorted(told.isr_nodes)}


async def test_a_broker_that_is_alive_is_not_registered_twice(cluster: Cluster) -> None:
    second = stand_in(cluster.plan, 101)
    epoch = (await sessions(cluster))[101].broker_epoch
    try:
        with pytest.raises(ApiError) as refused:
            await second.start()
    finally:
        await second.close()

    assert ErrorCode.DUPLICATE_BROKER_REGISTRATION == refused.value.code
    assert epoch == (await sessions(cluster))[101].broker_epoch
    assert [101, 102, 103] == await unfenced(cluster)


async def test_an_observer_says_which_cluster_it_is_of_and_who_is_active(cluster: Cluster) -> None:
    """It says what it has read, and may be behind."""
    told = (cluster.plan.cluster_id, await cluster.active())

    async def tells() -> tuple[str, int]:
        method, request = cluster.observer_stub.DescribeCluster, DescribeClusterRequest(endpoint_type=1)
        answer = (await call_with_retries(method, request)).response
        return answer.cluster_id, answer.controller_id

    assert told == await eventually(tells, lambda seen: seen == told)


async def test_a_broker_of_another_cluster_is_not_registered(cluster: Cluster) -> None:
    stranger = stand_in(replace(cluster.plan, cluster_id="somebody-elses-cluster"), 101)
    try:
        with pytest.raises(ApiError) as refused:
            await stranger.start()
    finally:
        await stranger.close()

    assert ErrorCode.INCONSISTENT_CLUSTER_ID == refused.value.code


async def test_a_silent_broker_is_fenced_and_another_leads_for_it(cluster: Cluster) -> None:
    await cluster.create("silence", at=1)
    before = await partition(cluster, "silence")
    silent = int(str(before["leader"]))
    others = [each for each in (101, 102, 103) if each != silent]
    epoch = (await sessions(cluster))[silent].broker_epoch
    log_dir = cluster.plan.log_dir(1)
    foretold = run("what-if", "--broker", silent, "--offline", log_dir, "--json").document["partitions"]
    of_rack = run("what-if", "--rack", cluster.plan.racks[silent], "--offline", log_dir, "--json").document
    is_safe = 0 == run("restart-safe", "--broker", silent, "--offline", log_dir).code
    await cluster.brokers[silent].fall_silent()

    assert others == await eventually(lambda: unfenced(cluster), lambda those: silent not in those)

    after = await partition(cluster, "silence")

    assert after["leader"] in others
    assert {"epoch": int(str(before["epoch"])) + 1, "isr": others} == {key: after[key] for key in ("epoch", "isr")}
    rows = run("sql", "SELECT * FROM partitions", "--offline", log_dir, "--json").document["rows"]
    found = {(row["topic"], row["topic_id"], row["partition_id"]): row for row in rows}
    assert "silence" in {row["key"]["topic"] for row in foretold}
    assert foretold == of_rack["partitions"]
    assert is_safe == all(row["leader"] != -1 for row in rows)
    for row in foretold:
        there = found[tuple(row["key"].values())]
        assert row["after"] == {name: there[name] for name in row["after"]}

    await cluster.brokers[silent].close()
    back = await cluster.join(silent)

    assert [101, 102, 103] == await eventually(lambda: unfenced(cluster), lambda those: len(those) == 3)
    assert back.epoch > epoch
    assert back.epoch == (await sessions(cluster))[silent].broker_epoch
    assert after == await partition(cluster, "silence")  # the ISR is for the leader to widen, by AlterPartition


async def test_a_broker_that_wants_to_go_gives_its_leaderships_away_first(cluster: Cluster) -> None:
    await cluster.create("leaving", at=1)
    before = await partition(cluster, "leaving")
    going = int(str(before["leader"]))
    others = [each for each in (101, 102, 103) if each != going]
    await asyncio.wait_for(cluster.brokers[going].shut_down(), WITHIN_S)
    after = await partition(cluster, "leaving")

    assert after["leader"] in others
    assert {"epoch": int(str(before["epoch"])) + 1, "isr": others} == {key: after[key] for key in ("epoch", "isr")}
    assert others == await eventually(lambda: unfenced(cluster), lambda those: going not in those)

    await cluster.join(going)


async def test_a_new_heartbeat_service_gives_every_broker_a_full_session(cluster: Cluster) -> None:
    """It must not count against a broker that it does not remember it."""
    epochs = {broker_id: session.broker_epoch for broker_id, session in (await sessions(cluster)).items()}
    await cluster.kill(cluster.plan.heartbeat)
    await asyncio.sleep(SESSION_TIMEOUT_MS / 1000 + 0.5)  # longer than a session: nobody was there to hear

    assert [101, 102, 103] == await unfenced(cluster)

    await cluster.restart(cluster.plan.heartbeat)
    known = await eventually(
        lambda: sessions(cluster), lambda heard: all(each.last_contact_ms_ago >= 0 for each in heard.values())
    )

    assert epochs == {broker_id: session.broker_epoch for broker_id, session in known.items()}
    assert [101, 102, 103] == await unfenced(cluster)


async def test_a_broker_that_died_while_nobody_listened_is_fenced_by_the_next_tracker(cluster: Cluster) -> None:
    await cluster.kill(cluster.plan.heartbeat)
    await cluster.brokers[103].fall_silent()
    await cluster.restart(cluster.plan.heartbeat)

    assert [101, 102] == await eventually(lambda: unfenced(cluster), lambda those: 103 not in those)

    await cluster.brokers[103].close()
    await cluster.join(103)
