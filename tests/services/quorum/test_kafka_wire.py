"""Requests of a quorum node to a peer that speaks Kafka's wire, against the project's own server of that wire."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from socket import socket
from typing import Any

import pytest

from kraft import Message
from kraft.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft.api.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from kraft.api.controller_registration_pb2 import ControllerRegistrationRequest as RegistrationMessage
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.vote import VoteRequest, VoteResponse
from quorate.errors import ApiError, ErrorCode
from quorate.network.client_config import ClientConfig
from quorate.network.listening import ConnectedClient, Listening
from quorate.network.server import serving
from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId, OffsetAndEpoch, ReplicaKey
from quorate.protocol import Request, ServerSettings
from quorate.protocol.api_versions import Versions
from quorate.protocol.apis import api_of
from quorate.raft import messages as raft
from quorate.raft.history import History
from quorate.raft.ready import Send
from quorate.raft.voters import ListenerEndpoint, VersionRange, Voter, VoterSet
from quorate.runtime.logging.logs import start_logs
from quorate.runtime.settings.named_endpoints import NamedVoter
from quorate.runtime.settings.setting_types import Endpoint
from quorate.wire.batch import data_batch
from services.quorum.endpoints import NodeEndpoints
from services.quorum.kafka_wire import KafkaWire
from services.quorum.listeners import ListenerProtocols
from services.quorum.peers import Peers
from services.quorum.reachability import Reachability
from services.quorum.translate import Address

WITHIN_S = 120
LOOPBACK = "127.0.0.1"
PLAINTEXT = "PLAINTEXT"
PROTOCOLS = ListenerProtocols({"CONTROLLER": PLAINTEXT})
PEER = 2
ASKED = (
    FetchRequest,
    VoteRequest,
    BeginQuorumEpochRequest,
    ApiVersionsRequest,
    ControllerRegistrationRequest,
    AddRaftVoterRequest,
)
ALL: Versions = {api_of(each).key: api_of(each).versions for each in ASKED}
VOTE = raft.VoteRequest(
    epoch=4, replica=ReplicaKey(1), last=OffsetAndEpoch(epoch=3, offset=17), pre_vote=True, voter=ReplicaKey(PEER)
)
FETCH = raft.FetchRequest(
    epoch=4, replica=ReplicaKey(1), fetch_offset=17, last_fetched_epoch=3, max_bytes=99, max_wait_ms=9, high_watermark=5
)


class Kafka:
    """A controller that leads epoch 4 as node 3; it answers fetches on command."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Message]] = []
        self.fetches = asyncio.Event()
        self.fetches.set()
        self.records = b""

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        self.asked.append((request.header.request_api_version, request.message))
        match request.message:
            case VoteRequest():
                voted = VoteResponse.TopicData.PartitionData(leader_id=3, leader_epoch=4, vote_granted=True)
                return VoteResponse(
                    topics=(VoteResponse.TopicData(METADATA_TOPIC, (voted,)),),
                    node_endpoints=(VoteResponse.NodeEndpoint(3, "three", 9093),),
                )
            case BeginQuorumEpochRequest():
                begun = BeginQuorumEpochResponse.TopicData.PartitionData(leader_id=1, leader_epoch=4)
                return BeginQuorumEpochResponse(topics=(BeginQuorumEpochResponse.TopicData(METADATA_TOPIC, (begun,)),))
            case FetchRequest():
                await self.fetches.wait()
                topic = FetchResponse.FetchableTopicResponse
                part = topic.PartitionData(
                    high_watermark=17,
                    records=self.records,
                    current_leader=topic.PartitionData.LeaderIdAndEpoch(leader_id=PEER, leader_epoch=4),
                )
                return FetchResponse(responses=(topic(topic_id=METADATA_TOPIC_ID, partitions=(part,)),))
            case AddRaftVoterRequest():
                return AddRaftVoterResponse()
            case ControllerRegistrationRequest():
                return ControllerRegistrationResponse(error_message=f"for {request.message.controller_id}")
        raise AssertionError(request.message)


def described(known: Versions) -> ApiVersionsResponse:
    """What it says of itself: its APIs, and kraft.version 0 to 1."""
    feature = ApiVersionsResponse.SupportedFeatureKey("kraft.version", 0, 1)
    keys = tuple(ApiVersionsResponse.ApiVersion(key, each[0], each[-1]) for key, each in known.items())
    return ApiVersionsResponse(api_keys=keys, supported_features=(feature,))


@dataclass
class Told:
    """The inputs of the core."""

    heard: list[Any] = field(default_factory=list)
    failed: list[object] = field(default_factory=list)
    lost: list[NodeId] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():  # noqa: ASYNC110  # the callbacks are the core's
            await asyncio.sleep(0.01)


@asynccontextmanager
async def served(kafka: Kafka, versions: Versions = ALL) -> AsyncIterator[int]:
    listening = Listening(
        handle=kafka, served=versions, describe_versions=lambda *_: described(versions), settings=ServerSettings()
    )
    async with serving(listening, LOOPBACK) as server:
        yield server.port


@asynccontextmanager
async def asking(port: int) -> AsyncIterator[tuple[Peers, NodeEndpoints, Told]]:
    """Node 1, whose peer 2 listens there for Kafka's wire."""
    told = Told()
    voter = NamedVoter(PEER, Endpoint(LOOPBACK, port), "CONTROLLER")
    endpoints = NodeEndpoints((voter,), (), History(VoterSet.of(1, PEER)), PROTOCOLS)
    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        listeners = (ListenerEndpoint("CONTROLLER", "one", 1), ListenerEndpoint("QUORUM", "one", 2))
        peers = Peers(
            endpoints,
            tasks,
            heard=told.heard.append,
            failed=told.failed.append,
            lost=told.lost.append,
            refused=told.refused.append,
            request_timeout_ms=60_000,
            listeners=listeners,
            kafka={PLAINTEXT: KafkaWire(ClientConfig(), timeout_ms=60_000)},
            reachability=Reachability(ReplicaKey(1), listeners, after_s=0),
        )
        yield peers, endpoints, told
        await peers.close()


async def test_a_kafkas_controller_answers_what_is_not_of_raft_and_ours_is_not_asked() -> None:
    kafka = Kafka()
    async with served(kafka) as port, asking(port) as (peers, endpoints, _):
        answer = await peers.ask_kafka_leader(PEER, RegistrationMessage(controller_id=1))
        endpoints.hear(3, Address("three", 9090))
        why = "node 3 leads, and is not a Kafka controller: it listens at three:9090"
        with pytest.raises(ApiError, match=why) as refused:
            await peers.ask_kafka_leader(3, RegistrationMessage(controller_id=1))

    assert answer.error_message == "for 1"
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert len(kafka.asked) == 1


async def test_a_vote_is_asked_for_and_the_leader_that_the_answer_names_is_found_there() -> None:
    kafka = Kafka()
    async with served(kafka) as port, asking(port) as (peers, endpoints, told):
        peers.send(Send(to=PEER, request=raft.VoteRequest(**_fields(VOTE), reply_to=7)))
        await told.until(lambda: told.heard)
        leader = endpoints.peer(3)

    ((version, asked),) = kafka.asked
    assert isinstance(asked, VoteRequest)
    partition = asked.topics[0].partitions[0]
    assert (2, PEER, 4, 17, True) == (
        version,
        asked.voter_id,
        partition.replica_epoch,
        partition.last_offset,
        partition.pre_vote,
    )
    assert [raft.VoteResponse(epoch=4, leader_id=3, granted=True, reply_to=7)] == told.heard
    assert leader is not None
    assert (Address("three", 9093), PLAINTEXT) == (leader.address, leader.protocol)


async def test_a_pre_vote_is_not_sent_as_a_vote_to_a_kafka_that_knows_none() -> None:
    """Vote has pre-votes from version 2 on (KIP-996)."""
    kafka = Kafka()
    versions = {**ALL, api_of(VoteRequest).key: range(2)}
    async with served(kafka, versions) as port, asking(port) as (peers, _, told):
        peers.send(Send(to=PEER, request=raft.VoteRequest(**_fields(VOTE), reply_to=7)))
        await told.until(lambda: told.failed)

    assert ([], [7]) == (kafka.asked, told.failed)
    assert "it was not sent: " in told.refused[0]
    assert "pre_vote" in told.refused[0]


@pytest.mark.parametrize(("known", "waits"), [(range(2), False), (range(1), True)], ids=["4.3", "4.0"])
async def test_a_kafka_that_can_answer_only_once_a_voter_is_committed_may(known: range, waits: bool) -> None:
    """AddRaftVoter says from version 1 on whether its answer waits (KIP-1186); Kafka 4.0 has version 0 alone."""
    kafka = Kafka()
    voter = Voter(key=ReplicaKey(1), endpoints=(ListenerEndpoint("CONTROLLER", "one", 1),))
    request = raft.AddRaftVoterRequest(voter=voter, timeout_ms=1_000, ack_when_committed=False, reply_to=6)
    async with served(kafka, {**ALL, api_of(AddRaftVoterRequest).key: known}) as port, asking(port) as (peers, _, told):
        peers.send(Send(to=PEER, request=request))
        await told.until(lambda: told.heard or told.failed)

    assert ([], []) == (told.failed, told.refused)
    ((version, asked),) = kafka.asked
    assert isinstance(asked, AddRaftVoterRequest)
    assert (known[-1], waits, 1) == (version, asked.ack_when_committed, asked.voter_id)


async def test_the_leader_says_all_its_listeners() -> None:
    kafka = Kafka()
    request = raft.BeginQuorumEpochRequest(epoch=4, leader_id=1, voter=ReplicaKey(PEER), reply_to=8)
    async with served(kafka) as port, asking(port) as (peers, _, told):
        peers.send(Send(to=PEER, request=request))
        await told.until(lambda: told.heard)

    ((_, asked),) = kafka.asked
    assert isinstance(asked, BeginQuorumEpochRequest)
    assert [("CONTROLLER", 1), ("QUORUM", 2)] == [(each.name, each.port) for each in asked.leader_endpoints]


async def test_no_vote_waits_behind_a_fetch() -> None:
    kafka = Kafka()
    kafka.fetches.clear()
    async with served(kafka) as port, asking(port) as (peers, _, told):
        peers.send(Send(to=PEER, request=raft.FetchRequest(**_fields(FETCH), reply_to=1)))
        await told.until(lambda: kafka.asked)
        peers.send(Send(to=PEER, request=raft.VoteRequest(**_fields(VOTE), reply_to=2)))
        await told.until(lambda: told.heard)

        assert [2] == [each.reply_to for each in told.heard]

        kafka.fetches.set()
        await told.until(lambda: len(told.heard) > 1)

    version, fetched = kafka.asked[0]
    assert isinstance(fetched, FetchRequest)
    assert (18, 5, 17) == (version, fetched.topics[0].partitions[0].high_watermark, told.heard[1].high_watermark)
    assert (1, PEER) == (told.heard[1].reply_to, told.heard[1].leader_id)


async def test_of_a_fetch_answer_that_a_kafka_has_cut_the_whole_batches_are_heard() -> None:
    kafka = Kafka()
    first, second = (
        data_batch(base_offset=at, epoch=4, timestamp_ms=0, values=[b"value" * 9, b"more"]) for at in (17, 19)
    )
    kafka.records = first + second[:-1]
    async with served(kafka) as port, asking(port) as (peers, _, told):
        peers.send(Send(to=PEER, request=raft.FetchRequest(**_fields(FETCH), reply_to=1)))
        await told.until(lambda: told.heard or told.failed)

    assert ([], []) == (told.failed, told.refused)
    assert [first] == [each.data for each in told.heard[0].batches]


async def test_a_kafka_older_than_a_field_that_it_may_ignore_is_asked_without_it() -> None:
    kafka = Kafka()
    versions = {**ALL, api_of(FetchRequest).key: range(18)}
    async with served(kafka, versions) as port, asking(port) as (peers, _, told):
        peers.send(Send(to=PEER, request=raft.FetchRequest(**_fields(FETCH), reply_to=1)))
        await told.until(lambda: told.heard)

    assert [17] == [version for version, _ in kafka.asked]


@pytest.mark.parametrize(
    ("request_", "versions"),
    [(FETCH, {**ALL, api_of(FetchRequest).key: range(13)}), (VOTE, {api_of(ApiVersionsRequest).key: range(4)})],
    ids=["no Fetch by topic id", "no Vote"],
)
async def test_a_kafka_too_old_to_be_asked_is_named_and_has_not_answered(
    request_: raft.Request, versions: Versions
) -> None:
    kafka = Kafka()
    async with served(kafka, versions) as port, asking(port) as (peers, _, told):
        peers.send(Send(to=PEER, request=type(request_)(**_fields(request_), reply_to=1)))
        await told.until(lambda: told.failed)

    (why,) = told.refused
    assert "node 2" in why
    assert "UNSUPPORTED_VERSION" in why
    assert [] == kafka.asked


async def test_a_leader_that_ends_is_lost_and_its_fetch_has_failed() -> None:
    kafka = Kafka()
    kafka.fetches.clear()
    async with AsyncExitStack() as running:
        port = await running.enter_async_context(served(kafka))
        async with asking(port) as (peers, _, told):
            peers.send(Send(to=PEER, request=raft.FetchRequest(**_fields(FETCH), reply_to=1)))
            await told.until(lambda: kafka.asked)
            await running.aclose()
            await told.until(lambda: told.failed)

    assert ([PEER], [1]) == (told.lost, told.failed)


@pytest.mark.parametrize("request_", [VOTE, FETCH], ids=["vote", "fetch"])
async def test_who_does_not_listen_has_not_answered(request_: raft.VoteRequest | raft.FetchRequest) -> None:
    with socket() as taken:
        taken.bind((LOOPBACK, 0))
        async with asking(taken.getsockname()[1]) as (peers, _, told):
            peers.send(Send(to=PEER, request=type(request_)(**_fields(request_), reply_to=1)))
            await told.until(lambda: told.failed)

    assert ([1], []) == (told.failed, told.refused)


@pytest.mark.parametrize("request_", [VOTE, FETCH], ids=["vote", "fetch"])
async def test_who_listens_at_no_host_has_not_answered(request_: raft.VoteRequest | raft.FetchRequest) -> None:
    """As may be in the log, or in a Kafka leader's answer."""
    async with asking(1) as (peers, endpoints, told):
        endpoints.hear(5, Address("ctl-3..example.com", 9093), PLAINTEXT)
        peers.send(Send(to=5, request=type(request_)(**_fields(request_), reply_to=1)))
        await told.until(lambda: told.failed)

    assert ([1], []) == (told.failed, told.refused)


async def test_what_a_kafka_supports_is_what_it_says_when_it_is_connected_to() -> None:
    """It is not asked twice: each connection begins with ApiVersions."""
    kafka = Kafka()
    async with served(kafka) as port, asking(port) as (peers, _, told):
        at = (ListenerEndpoint("CONTROLLER", LOOPBACK, port),)
        peers.send(Send(to=9, request=raft.ApiVersionsRequest(reply_to=1), endpoints=at))
        await told.until(lambda: told.heard)

    assert ([], VersionRange(0, 1)) == (kafka.asked, told.heard[0].kraft_versions)


async def test_no_kafka_is_told_of_a_controller_beside_a_node() -> None:
    """It knows no such request; the report counts as delivered."""
    kafka = Kafka()
    report = raft.ControllerPresenceRequest(epoch=4, replica=ReplicaKey(1), is_present=False, sequence=3, reply_to=1)
    async with served(kafka) as port, asking(port) as (peers, _, told):
        peers.send(Send(to=PEER, request=report))
        await told.until(lambda: told.heard)

    assert [] == kafka.asked
    assert [(4, PEER, 3, False)] == [
        (each.epoch, each.leader_id, each.sequence, each.is_present) for each in told.heard
    ]


async def test_a_protocol_that_no_listener_of_the_map_has_is_not_spoken(restored_logs: None) -> None:
    stream = io.StringIO()
    start_logs({"QUORATE_LOG_FORMAT": "json"}, stream)
    async with asking(1) as (peers, endpoints, told):
        endpoints.hear(5, Address("five", 1), "SSL")
        peers.send(Send(to=5, request=raft.VoteRequest(**_fields(VOTE), reply_to=1)))
        await told.until(lambda: told.failed)

    assert [] == told.refused
    assert "SSL at five:1" in json.loads(stream.getvalue())["error"]


def _fields(message: Any) -> dict[str, Any]:
    """The fields of a message, but for where its answer goes."""
    return {name: getattr(message, name) for name in message.__struct_fields__ if name != "reply_to"}
