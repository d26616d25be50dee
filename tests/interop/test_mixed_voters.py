"""A Kafka controller votes in a quorum of ours, and a node of ours in a quorum of Kafka controllers, by SASL."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from deploy.kafka.node import tool
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import METADATA_TOPIC_ID, NodeId
from quorate.protocol.sasl.plain import PLAIN
from tests.e2e.calls import eventually
from tests.interop.kafka.release import absent
from tests.interop.mixed_plan import PATIENT, Peers
from tests.interop.mixed_quorum import QUORUM_TOOL, MixedQuorum, kafkas_alone, ours_first, restarted, static_quorum
from tests.network.certificates import authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]

OURS: Final = (1, 2)
KAFKA: Final = 3
KAFKAS: Final = (2, 3)
CUT_BYTES: Final = 1_000
ELECTIONS_MAX: Final = 12
"""The other Kafka controller and our node stand for election at once: each wins about as often."""


async def test_a_kafka_joins_two_of_ours_votes_leads_loses_and_leaves(tmp_path: Path) -> None:
    """By TLS, with passwords in the configuration."""
    peers = Peers(issuer=authority(tmp_path), mechanism=PLAIN)
    async with ours_first(tmp_path / "quorum", ours=2, kafkas=1, peers=peers) as quorum:
        await quorum.start_kafka(KAFKA)
        await quorum.create_by_wire("before-it-votes", at=1)

        assert (OURS, (KAFKA,)) == await eventually(lambda: replicas(quorum), lambda seen: KAFKA in seen[1])

        await quorum.change_voters("add-controller", KAFKA)

        assert ((*OURS, KAFKA), ()) == await eventually(lambda: replicas(quorum), lambda seen: KAFKA in seen[0])

        await quorum.create_by_wire("while-ours-leads", at=2)
        await it_tells_tools_of_our_gateways(quorum)
        epoch = await quorum.transfer(to=KAFKA)
        await quorum.create_by_wire("while-a-kafka-leads", at=KAFKA)
        await they_stand_by(quorum)
        await quorum.stop_kafka(KAFKA)
        epoch = (await quorum.led_by(OURS, after=epoch)).leader_epoch
        await quorum.create_by_wire("while-it-is-gone", at=1)
        await quorum.start_kafka(KAFKA)
        await it_votes(quorum, after=epoch)
        await quorum.led_by(OURS)
        await quorum.change_voters("remove-controller", KAFKA)

        assert OURS == (await eventually(lambda: replicas(quorum), lambda seen: KAFKA not in seen[0]))[0]

        await quorum.create_by_wire("after-it-has-left", at=2)
        committed = await quorum.stop_all()

    made = ["before-it-votes", "while-ours-leads", "while-a-kafka-leads", "while-it-is-gone", "by-its-vote"]
    assert [*made, "after-it-has-left"] == quorum.topics_in(1)
    assert KAFKA in quorum.leaders_in(1)
    for node_id in (2, KAFKA):
        assert quorum.log_of(1, below=committed) == quorum.log_of(node_id, below=committed), node_id


async def test_a_kafka_puts_voters_into_the_log_and_ours_joins_votes_leads_and_loses(tmp_path: Path) -> None:
    """At kraft.version 0 voters are configured; ours is one, and is removed at 1. Its log names a wrong password."""
    async with static_quorum(tmp_path, ours=1, kafkas=2, peers=Peers(mechanism=PLAIN)) as quorum:
        if await leads(quorum) == 1:
            await quorum.transfer(to=2)
        leader = (await quorum.led_by(KAFKAS)).leader_id
        await quorum.put_voters_into_log()
        await quorum.change_voters("remove-controller", 1, by=KAFKAS)
        await quorum.is_to_join(1)
        before = quorum.log_of(1, below=sys.maxsize)
        said = await quorum.refuse_ours(quorum.quorum(1))

        assert "SASL_AUTHENTICATION_FAILED: Authentication failed: Invalid username or password" in said
        assert before == quorum.log_of(1, below=sys.maxsize)
        assert KAFKAS == (await eventually(lambda: replicas(quorum, at=leader), lambda seen: seen[0]))[0]

        await quorum.restart(quorum.quorum(1))
        await eventually(lambda: replicas(quorum, at=leader), lambda seen: seen[0] == (1, *KAFKAS))
        await quorum.create_by_wire("by-a-kafka", at=leader)
        epoch = await ours_leads(quorum)
        await quorum.create_by_wire("by-ours", at=1)
        async with restarted(quorum, 1):
            await quorum.create_by_one_of("while-ours-is-gone", KAFKAS)
        leader = (await quorum.led_by([1, *KAFKAS], after=epoch)).leader_id
        await quorum.create_by_wire("after-it-has-come-back", at=leader)
        committed = await quorum.stop_all()

    made = ["by-a-kafka", "by-ours", "while-ours-is-gone", "after-it-has-come-back"]
    assert made == quorum.topics_in(1)
    assert 1 in quorum.leaders_in(1)
    for node_id in KAFKAS:
        assert quorum.log_of(1, below=committed) == quorum.log_of(node_id, below=committed), node_id


async def test_ours_puts_voters_into_the_log_among_them_a_kafka_that_is_removed_and_added(tmp_path: Path) -> None:
    """With passwords in the log. A Kafka controller with a wrong one is refused, and its log says why."""
    async with static_quorum(tmp_path, ours=2, kafkas=1, peers=Peers(mechanism="SCRAM-SHA-512")) as quorum:
        await quorum.create_by_one_of("at-0", (*OURS, KAFKA))
        epoch = await quorum.transfer(to=KAFKA) if (await leads(quorum)) in OURS else -1
        await quorum.create_by_wire("while-a-kafka-leads", at=KAFKA)
        await they_stand_by(quorum)
        await quorum.stop_kafka(KAFKA)
        await quorum.led_by(OURS, after=epoch)
        await quorum.create_by_wire("while-it-is-gone", at=2)
        before = quorum.log_of(KAFKA, below=sys.maxsize)
        said = await quorum.refuse_kafka(KAFKA)

        assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in said
        assert before == quorum.log_of(KAFKA, below=sys.maxsize)

        await quorum.start_kafka(KAFKA)
        await quorum.led_by(OURS)
        await quorum.put_voters_into_log()
        await quorum.change_voters("remove-controller", KAFKA)

        assert OURS == (await eventually(lambda: replicas(quorum), lambda seen: KAFKA not in seen[0]))[0]

        await quorum.change_voters("add-controller", KAFKA)

        assert (*OURS, KAFKA) == (await eventually(lambda: replicas(quorum), lambda seen: KAFKA in seen[0]))[0]

        await quorum.create_by_wire("at-1", at=1)
        committed = await quorum.stop_all()

    assert ["at-0", "while-a-kafka-leads", "while-it-is-gone", "at-1"] == quorum.topics_in(1)
    for node_id in (2, KAFKA):
        assert quorum.log_of(1, below=committed) == quorum.log_of(node_id, below=committed), node_id


async def test_ours_follows_a_kafka_whose_answers_are_cut_in_a_batch(tmp_path: Path) -> None:
    """A Kafka leader fills each answer up to the limit, and so cuts its last batch."""
    settings = PATIENT | {"controller.quorum.fetch.max.bytes": CUT_BYTES}
    async with kafkas_alone(tmp_path, ours=1, kafkas=1, settings=settings) as quorum:
        topics = [f"before-{number}" for number in range(10)]
        for topic in topics:
            await quorum.create_by_wire(topic, at=2)
        await quorum.start_ours()
        await eventually(lambda: replicas(quorum, at=2), lambda seen: seen[0] == (1, 2))
        await quorum.create_by_wire("by-both", at=2)
        committed = await quorum.stop_all()

    assert [*topics, "by-both"] == quorum.topics_in(1)
    assert (log := quorum.log_of(2, below=committed)) == quorum.log_of(1, below=committed)
    assert sum(len(batch) for *_, batch in log) > 2 * CUT_BYTES


async def leads(quorum: MixedQuorum) -> NodeId:
    return (await quorum.led_by([*quorum.ours, *quorum.kafkas])).leader_id


async def ours_leads(quorum: MixedQuorum) -> int:
    """The Kafka that leads is stopped and started, until ours is elected in its place; the epoch."""
    for _ in range(ELECTIONS_MAX):
        view = await quorum.led_by([1, *KAFKAS])
        if view.leader_id == 1:
            return view.leader_epoch
        await quorum.stop_kafka(view.leader_id)
        await quorum.led_by([1, *KAFKAS], after=view.leader_epoch)
        await quorum.start_kafka(view.leader_id)
    raise AssertionError(f"in {ELECTIONS_MAX} elections ours was never elected")


async def replicas(quorum: MixedQuorum, *, at: NodeId = 1) -> tuple[tuple[NodeId, ...], tuple[NodeId, ...]]:
    """The voters and the observers that have a directory, as the active controller tells them on Kafka's wire."""
    try:
        told = await quorum.described(at=at)
    except (ApiError, OSError):
        return (), ()  # it leads no more, or not yet
    voters = tuple(sorted(each.replica_id for each in told.current_voters))
    return voters, tuple(sorted(each.replica_id for each in told.observers if each.replica_id == KAFKA))


async def it_tells_tools_of_our_gateways(quorum: MixedQuorum) -> None:
    """Its clients find the leader, which is ours, at an address on which Kafka's wire is spoken."""
    of = quorum.kafkas[KAFKA].directory / "server.properties"
    asked = ("--bootstrap-controller", quorum.kafka_address(KAFKA), "--command-config", of, "describe", "--status")
    said = await asyncio.to_thread(tool, QUORUM_TOOL, *asked)
    cluster: DescribeClusterResponse = await quorum.ask(KAFKA, DescribeClusterRequest(endpoint_type=2))

    assert f"LeaderId: {await leads(quorum)}" in " ".join(said.split())
    assert {node_id: quorum.kafka_address(node_id) for node_id in (*OURS, KAFKA)} == {
        each.broker_id: f"{each.host}:{each.port}" for each in cluster.brokers
    }


async def they_stand_by(quorum: MixedQuorum) -> None:
    """While a Kafka controller leads, our gateways name it and forward nothing, and our nodes replicate its log."""
    host, _, port = quorum.kafka_address(KAFKA).rpartition(":")
    topic = CreateTopicsRequest.CreatableTopic(name="refused", num_partitions=1, replication_factor=1)
    partition = FetchRequest.FetchTopic.FetchPartition(current_leader_epoch=0, last_fetched_epoch=0)
    fetched = FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    for node_id in OURS:
        created: CreateTopicsResponse = await quorum.ask(node_id, CreateTopicsRequest(topics=(topic,)))
        followed: FetchResponse = await quorum.ask(node_id, FetchRequest(topics=(fetched,)))
        cluster: DescribeClusterResponse = await quorum.ask(node_id, DescribeClusterRequest(endpoint_type=2))

        assert [ErrorCode.NOT_CONTROLLER] == [each.error_code for each in created.topics]
        assert [(KAFKA, host, int(port))] == [(each.node_id, each.host, each.port) for each in followed.node_endpoints]
        assert (KAFKA, [*OURS, KAFKA]) == (cluster.controller_id, [each.broker_id for each in cluster.brokers])
        await eventually(partial(topics_stored, quorum, node_id), lambda topics: "while-a-kafka-leads" in topics)


async def topics_stored(quorum: MixedQuorum, node_id: NodeId) -> list[str]:
    try:
        return quorum.topics_in(node_id)
    except Corrupt:
        return []  # in the middle of a write


async def it_votes(quorum: MixedQuorum, *, after: int) -> None:
    """One of our two is killed: who is elected needs the Kafka controller's vote, and what is written its copy."""
    leader = (await quorum.led_by(OURS)).leader_id
    async with restarted(quorum, leader):
        elected = await quorum.led_by([*OURS, KAFKA], after=after)
        await quorum.create_by_wire("by-its-vote", at=elected.leader_id)
    if (await quorum.led_by([*OURS, KAFKA])).leader_id == KAFKA:
        await quorum.stop_kafka(KAFKA)
        await quorum.led_by(OURS)
        await quorum.start_kafka(KAFKA)
