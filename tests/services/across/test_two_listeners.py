"""Two listeners, one in the clear and one with TLS: what their names mean, who a caller is, and its answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from kraft import Uuid
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub, add_QuorumServicer_to_server
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import ReplicaKey
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.raft.history import History
from quorate.raft.messages import BeginQuorumEpochRequest
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet
from quorate.runtime.access.guard import guard_of
from quorate.runtime.access.passing_on import LISTENER
from quorate.runtime.calls.server import Server
from quorate.runtime.calls.transport_settings import transport_of
from quorate.runtime.clients.client import call, open_channel
from quorate.runtime.connections.transport import Transport
from quorate.runtime.settings.config import ConfigError, load
from services.controller.config import ControllerConfig
from services.quorum.config import QuorumConfig
from services.quorum.endpoints import NodeEndpoints
from services.quorum.listeners import ListenerProtocols
from services.quorum.servicer import PeerServicer
from services.quorum.translate import Address
from services.quorum.translate.asking import to_begin
from tests.network.certificates import authority
from tests.services.nodes import Silent, driver_of, open_disk

BOTH: Final = {
    "node.id": "1",
    "metadata.log.dir": "data",
    "listeners": "CONTROLLER://127.0.0.1:0,SECURE://127.0.0.1:0",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SECURE:SSL",
    "ssl.keystore.location": "keystore.pem",
    "ssl.truststore.location": "truststore.pem",
}
CALLS_SECURE: Final = {"controller.listener.names": "SECURE,CONTROLLER"}
CONTROLLER: Final = {"quorum.endpoint": "one:9093", "placer.endpoints": "p:1"}
PATIENCE_S: Final = 120
PATIENCE_MS: Final = PATIENCE_S * 1000


def config(kind: type[Any], tmp_path: Path, settings: Mapping[str, str]) -> Any:
    file = tmp_path / "node.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in (BOTH | settings).items() if value))
    return load(kind, ["--config", str(file)], {})


def quorum(tmp_path: Path, **settings: str) -> QuorumConfig:
    found: QuorumConfig = config(QuorumConfig, tmp_path, {name.replace("_", "."): settings[name] for name in settings})
    return found


def test_a_node_calls_others_at_the_first_of_the_controller_listeners(tmp_path: Path) -> None:
    first, second = config(QuorumConfig, tmp_path, {}), config(QuorumConfig, tmp_path, CALLS_SECURE)

    assert ("CONTROLLER", {"SECURE"}) == (first.controller_listener, first.other_listeners)
    assert ("SECURE", {"CONTROLLER"}) == (second.controller_listener, second.other_listeners)
    assert ("CONTROLLER", "SECURE") == (first.raft.listener_name, second.raft.listener_name)


def test_one_listener_alone_is_not_asked_for_by_its_name(tmp_path: Path) -> None:
    """It may be advertised by another name."""
    assert quorum(tmp_path, listeners="SECURE://one:1").raft.listener_name is None


def test_of_wildcard_addresses_the_host_is_that_of_the_configured_voter(tmp_path: Path) -> None:
    """The port is each listener's own: the configuration has that of one of them."""
    settings = {"listeners": "CONTROLLER://:9093,SECURE://:9094", "controller.quorum.voters": "1@one.example:9094"}
    found = config(QuorumConfig, tmp_path, settings)

    assert ["CONTROLLER://one.example:9093", "SECURE://one.example:9094"] == [str(each) for each in found.announced]


def test_a_controller_registers_each_listener_with_its_security_protocol(tmp_path: Path) -> None:
    advertised = {"advertised.listeners": "CONTROLLER://c:1,SECURE://c:2,GATEWAY://c:3"}
    own = config(ControllerConfig, tmp_path, CONTROLLER)
    told = config(ControllerConfig, tmp_path, CONTROLLER | CALLS_SECURE | advertised)

    assert [("CONTROLLER://127.0.0.1:7", "PLAINTEXT"), ("SECURE://127.0.0.1:8", "SSL")] == [
        (str(each), protocol) for each, protocol in own.registered([7, 8])
    ]
    assert [("CONTROLLER", "PLAINTEXT"), ("SECURE", "SSL"), ("GATEWAY", "SSL")] == [
        (each.name, protocol) for each, protocol in told.registered([7, 8])
    ]
    assert ("CONTROLLER", "SECURE") == (own.listener_name, told.listener_name)


def test_a_controller_registers_its_gateways_listeners_with_what_is_spoken_there(tmp_path: Path) -> None:
    advertised = "CONTROLLER://c:1,SECURE://c:2,GATEWAY://c:3,LOGINS://c:4,MORE://c:5"
    spoken = {"kafka.listener.security.protocol.map": "GATEWAY:PLAINTEXT,LOGINS:SASL_SSL"}
    settings = CONTROLLER | CALLS_SECURE | spoken | {"advertised.listeners": advertised}
    told = config(ControllerConfig, tmp_path, settings).registered([7, 8])

    assert {"CONTROLLER": 0, "SECURE": 1, "GATEWAY": 0, "LOGINS": 3, "MORE": 1} == {
        each.name: SECURITY_PROTOCOLS[protocol].id for each, protocol in told
    }


def test_each_controller_finds_the_active_one_while_their_listener_is_renamed(tmp_path: Path) -> None:
    """The stages of services/quorum/MIXED.md: a rolling restart has controllers of two that follow each other."""
    own = CONTROLLER | {"listeners": "ADMIN://c:1", "listener.security.protocol.map": "ADMIN:PLAINTEXT"}
    before = {"listeners": "CONTROLLER://c:1", "listener.security.protocol.map": "CONTROLLER:PLAINTEXT"}
    names = {"advertised.listeners": "ADMIN://c:1,CONTROLLER://c:2"}
    stages = [
        CONTROLLER | before,
        own | {"advertised.listeners": "CONTROLLER://c:1,ADMIN://c:1"},
        own | {"advertised.listeners": "ADMIN://c:1,CONTROLLER://c:1"},
        own | names | {"kafka.listener.security.protocol.map": "CONTROLLER:PLAINTEXT"},
    ]
    configs = [config(ControllerConfig, tmp_path, stage) for stage in stages]

    for earlier, later in pairwise(configs):
        for standby, active in permutations((earlier, later)):
            registered = {each.name: each.endpoint.port for each, _ in active.registered([1])}
            assert 1 == registered[standby.listener_name]


@pytest.mark.parametrize(
    ("kind", "settings", "why"),
    [
        (QuorumConfig, {"ssl.keystore.location": ""}, "ssl.keystore.location: is missing; the listener SECURE speaks"),
        (QuorumConfig, {"listeners": "A://h:1,A://h:2"}, "none twice"),
        (QuorumConfig, {"listeners": ""}, "listeners"),
        (QuorumConfig, {"controller.listener.names": "OTHER"}, "controller.listener.names = OTHER: must be among"),
        (
            QuorumConfig,
            {"kafka.listener.security.protocol.map": "SECURE:SSL"},
            "listeners = SECURE://127.0.0.1:0: this",
        ),
        (QuorumConfig, {"principal.node.id.mapping.rules": "RULE:^a$/1/"}, "needs a listener with certificates"),
        (ControllerConfig, CONTROLLER | {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}, "all listeners must speak SSL"),
        (ControllerConfig, CONTROLLER | {"controller.listener.names": "OTHER"}, "must be among listeners"),
        (
            ControllerConfig,
            CONTROLLER | {"kafka.listener.security.protocol.map": "CONTROLLER:PLAINTEXT"},
            "listeners = CONTROLLER://127.0.0.1:0: this controller speaks gRPC there",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, kind: type[Any], settings: Mapping[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(kind, tmp_path, settings)

    assert why in str(refused.value)


def moving(*names: str) -> NodeEndpoints:
    """Node 2 votes and has listeners of these names; this node calls at SECURE, and CONTROLLER is in the clear."""
    listeners = tuple(ListenerEndpoint(name, "two", port) for port, name in enumerate(names, 1))
    voter = Voter(key=ReplicaKey(2, Uuid(b"1" * 16)), endpoints=listeners)
    protocols = ListenerProtocols({}, "SECURE", frozenset({"CONTROLLER"}))
    return NodeEndpoints((), (), History(VoterSet((voter,))), protocols)


def test_a_peer_is_called_at_the_listener_of_the_name_and_never_in_another_security_protocol() -> None:
    assert Address("two", 2) == moving("CONTROLLER", "SECURE")[2]
    assert Address("two", 2) == moving("ANOTHER", "SECURE")[2]
    assert Address("two", 1) == moving("ANOTHER")[2]
    assert 2 not in moving("CONTROLLER")


@asynccontextmanager
async def node(tmp_path: Path, **settings: str) -> AsyncIterator[dict[str, grpc.aio.Channel]]:
    """A quorum node's door with both listeners, and a channel to each by its name; by TLS the caller is `CN=node`."""
    issuer = authority(tmp_path)
    keystore, truststore = issuer.issue("node", "/CN=node"), issuer.certificate
    stores = {"ssl.keystore.location": str(keystore), "ssl.truststore.location": str(truststore)}
    found: QuorumConfig = config(QuorumConfig, tmp_path, stores | settings)
    driver = driver_of(open_disk(tmp_path, voters=3))
    driver.start(Silent(), pytest.fail)  # type: ignore[arg-type]  # what of Peers is used here
    endpoints = NodeEndpoints(found.voters, (), driver.core.log.voters, found.listener_protocols)
    transport = transport_of(found)
    server = Server(transport=transport, guard=guard_of(found, transport))
    peer = PeerServicer(driver, endpoints, cluster_id="c", node_id=1, transport=transport)
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
    plain, secure = server.listen_as(found)
    await server.start()
    tls = Transport(keystore=keystore, truststore=truststore)
    async with open_channel(f"127.0.0.1:{plain}") as clear, open_channel(f"localhost:{secure}", tls) as safe:
        yield {"CONTROLLER": clear, "SECURE": safe}
    await server.stop(grace_s=0)
    driver.stop()


@pytest.mark.parametrize("called", ["CONTROLLER", "SECURE"])
async def test_who_calls_in_another_security_protocol_is_told_no_address(tmp_path: Path, called: str) -> None:
    """It gets the leader's id, and has an address of its own for that."""
    announced = [ListenerEndpoint("CONTROLLER", "two", 1), ListenerEndpoint("SECURE", "two", 2)]
    leads = BeginQuorumEpochRequest(epoch=7, leader_id=2, voter=ReplicaKey(1), cluster_id="c", reply_to=1)
    request = to_begin(leads, announced)
    async with node(tmp_path, **{"controller.listener.names": called}) as channels:
        answers = {
            name: await QuorumStub(channel).BeginQuorumEpoch(request, timeout=PATIENCE_S)
            for name, channel in channels.items()
        }

    assert {2} == {answer.topics[0].partitions[0].leader_id for answer in answers.values()}
    assert {"CONTROLLER": [], "SECURE": []} | {called: [("two", 1 if called == "CONTROLLER" else 2)]} == {
        name: [(each.host, each.port) for each in answer.node_endpoints] for name, answer in answers.items()
    }


async def test_a_gateway_is_told_where_its_listener_is_whatever_it_speaks_to_the_node(tmp_path: Path) -> None:
    leads = BeginQuorumEpochRequest(epoch=7, leader_id=2, voter=ReplicaKey(1), cluster_id="c", reply_to=1)
    request = to_begin(leads, [ListenerEndpoint("GATEWAY", "two", 3)])
    async with node(tmp_path, **{"kafka.listener.security.protocol.map": "GATEWAY:PLAINTEXT"}) as channels:
        answers = [
            await QuorumStub(channel).BeginQuorumEpoch(request, timeout=PATIENCE_S, metadata=((LISTENER, "GATEWAY"),))
            for channel in channels.values()
        ]

    assert [[("two", 3)], [("two", 3)]] == [
        [(each.host, each.port) for each in answer.node_endpoints] for answer in answers
    ]


async def test_a_caller_in_the_clear_has_no_name_and_with_an_authorizer_no_right(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:CN=node"}
    async with node(tmp_path, **settings) as channels:
        found = await call(QuorumStub(channels["SECURE"]).FindQuorum, FindQuorumRequest(), deadline_ms=PATIENCE_MS)
        with pytest.raises(ApiError) as refused:
            await call(QuorumStub(channels["CONTROLLER"]).FindQuorum, FindQuorumRequest(), deadline_ms=PATIENCE_MS)

    assert 1 == found.node_id
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED is refused.value.code
    assert "User:ANONYMOUS" in refused.value.message


@pytest.mark.parametrize("called", ["CONTROLLER", "SECURE"])
async def test_a_static_voters_listener_has_the_name_of_the_one_at_which_voters_are_called(
    tmp_path: Path, called: str
) -> None:
    """As in Kafka the first of controller.listener.names; here an entry may name its own."""
    voters = {
        "controller.quorum.voters": "1@one:1,2@two:2,3@KAFKA://three:3",
        "kafka.listener.security.protocol.map": "KAFKA:SSL",
        "controller.listener.names": called,
    }
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[{}])
    async with node(tmp_path, **voters) as channels:
        answer = await QuorumStub(channels["SECURE"]).DescribeQuorum(
            DescribeQuorumRequest(topics=[topic]), timeout=PATIENCE_S
        )

    assert {1: [(called, "one", 1)], 2: [(called, "two", 2)], 3: [("KAFKA", "three", 3)]} == {
        each.node_id: [(at.name, at.host, at.port) for at in each.listeners] for each in answer.nodes
    }
