"""Gateways with four listeners each, one for every security protocol: what each tells, and who its clients are."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import pytest_asyncio

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls
from deploy.local.ports import HOST, free_ports
from kraft.api.create_acls import CreateAclsRequest, CreateAclsResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.envelope import EnvelopeResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.network.client import Connection, connect
from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId
from quorate.protocol.sasl.plain import PLAIN
from quorate.runtime.event_loop.loop import ExitCode
from tests.e2e.calls import eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane, others
from tests.e2e.kafka_listeners import KafkaListeners
from tests.e2e.secured import PATIENCE, by, enclosed
from tests.e2e.starting import said, start
from tests.network.certificates import Authority, authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PROTOCOLS: Final = {"OPEN": "PLAINTEXT", "SHOWN": "SSL", "NAMED": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}
"""The listeners, each with its security protocol."""
PASSWORDS: Final = {"NAMED": "of named", "SECURE": "of secure"}
"""Everybody's password, which is another one at each listener."""
USERS: Final = ("admin", "alice", "broker")
NAMED_MAX: Final = 4
"""Connections at the listener NAMED."""
NONE, REFUSED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
CONTROLLERS: Final = DescribeClusterRequest(endpoint_type=2)
QUORUM: Final = DescribeQuorumRequest(
    (DescribeQuorumRequest.TopicData(METADATA_TOPIC, (DescribeQuorumRequest.TopicData.PartitionData(0),)),)
)
FETCH: Final = FetchRequest(
    topics=(
        FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(FetchRequest.FetchTopic.FetchPartition(),)),
    )
)


class Plane(NamedTuple):
    """The control plane, its listeners, and who issues certificates."""

    cluster: Cluster
    listeners: KafkaListeners
    issuer: Authority

    async def connect(self, listener: str, node_id: NodeId, user: str, password: str = "") -> Connection:
        """A client as the listener wants it: nobody at OPEN, with a certificate or a password elsewhere."""
        protocol = PROTOCOLS[listener]
        shown = self.issuer.directory / f"{user}.pem" if protocol == "SSL" else None
        tls = self.issuer.client(shown) if protocol.endswith("SSL") else None
        begin = by(PLAIN, user, password or PASSWORDS[listener]) if protocol.startswith("SASL") else None
        return await connect(*self.listeners.addresses[listener][node_id], timeouts=PATIENCE, tls=tls, begin=begin)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    directory = tmp_path_factory.mktemp("listeners")
    issuer = authority(directory)
    keystore = issuer.issue("gateway", "/O=cluster/CN=localhost")
    for user in USERS:
        issuer.issue(user, f"/O=cluster/CN={user}")

    def tls(plan: ClusterPlan) -> PlanTls:
        names = [*(each.name for each in plan.processes), CLIENTS]
        stores = {name: (issuer.issue(name, f"/O=cluster/CN={name}"), issuer.certificate) for name in names}
        return PlanTls(stores=stores)

    names = [f"{service}-{node_id}" for service in ("controller", "gateway", "quorum") for node_id in VOTERS]
    own = [f"User:CN={name},O=cluster" for name in (*names, "heartbeat-1", "observer-201", "placer-1", CLIENTS)]
    rights = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ";".join((*own, "User:admin"))}
    listeners = KafkaListeners(VOTERS, PROTOCOLS)
    shared = {
        **rights,
        "ssl.keystore.location": str(keystore),
        "ssl.principal.mapping.rules": r"RULE:^CN=(.*?),O=cluster$/$1/",
        "listener.name.shown.ssl.truststore.location": str(issuer.certificate),
        "listener.name.shown.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": PLAIN,
        "listener.name.named.max.connections": str(NAMED_MAX),
        **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas(name) for name in PASSWORDS},
    }
    settings = {node_id: {**shared, **listeners.settings(node_id, *PROTOCOLS)} for node_id in VOTERS}
    made = control_plane(
        directory / "plane",
        quorum_settings=PATIENT,
        controller_settings=rights,
        with_gateways=True,
        gateway_settings=settings,
        tls=tls,
    )
    async with made as cluster:
        yield Plane(cluster, listeners, issuer)


def jaas(listener: str) -> str:
    users = " ".join(f'user_{user}="{PASSWORDS[listener]}"' for user in USERS)
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"


async def allow(plane: Plane, user: str, *rights: tuple[AclOperation, ResourceType, str]) -> None:
    """Entries, which each gateway's controller has replayed once this has ended."""
    entries = tuple(
        CreateAclsRequest.AclCreation(
            kind,
            name,
            PatternType.PREFIXED if kind is ResourceType.TOPIC else PatternType.LITERAL,
            user,
            "*",
            operation,
            AclPermission.ALLOW,
        )
        for operation, kind, name in rights
    )
    async with await plane.connect("SHOWN", 1, "admin") as admin:
        answer = await admin.ask_for(CreateAclsResponse, CreateAclsRequest(entries))
    assert {NONE} == {each.error_code for each in answer.results}


async def create(client: Connection, name: str) -> ErrorCode:
    request = CreateTopicsRequest((CreateTopicsRequest.CreatableTopic(name, 1, 3),), 10_000)
    (topic,) = (await client.ask_for(CreateTopicsResponse, request)).topics
    return ErrorCode(topic.error_code)


async def test_an_envelope_is_believed_by_the_right_of_who_has_sent_it_at_this_listener(plane: Plane) -> None:
    """In the clear nobody has CLUSTER_ACTION yet; a broker has it at each listener that knows its name. KIP-590."""
    prefix = f"enclosed-{secrets.token_hex(4)}"
    await allow(plane, "User:carol", (AclOperation.CREATE, ResourceType.TOPIC, prefix))

    async def passed_on(listener: str) -> ErrorCode:
        topic = CreateTopicsRequest.CreatableTopic(f"{prefix}-{listener}", 1, 3)
        envelope = enclosed(CreateTopicsRequest((topic,), 10_000), "carol")
        async with await plane.connect(listener, 1, "broker") as client:
            return ErrorCode((await client.ask_for(EnvelopeResponse, envelope)).error_code)

    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert {refused} == {await passed_on(listener) for listener in PROTOCOLS}
    await allow(plane, "User:broker", (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster"))
    for listener in ("SHOWN", "NAMED", "SECURE"):
        assert NONE is await eventually(lambda at=listener: passed_on(at), lambda code: code is not refused)
    assert refused is await passed_on("OPEN")


async def test_a_listener_that_is_full_takes_no_place_at_another(plane: Plane) -> None:
    log = plane.cluster.plan.directory / "gateway-3.log"
    async with AsyncExitStack() as life:
        for _ in range(NAMED_MAX):
            await life.enter_async_context(await plane.connect("NAMED", 3, "alice"))
        with pytest.raises((OSError, ApiError), match=r".*"):
            await plane.connect("NAMED", 3, "alice")
        assert any(f"{NAMED_MAX} connections are open at NAMED" in line for line in await closed_at(log, "NAMED"))
        for listener in ("OPEN", "SHOWN", "SECURE"):
            async with await plane.connect(listener, 3, "alice") as client:
                assert await client.ask(CONTROLLERS)


@pytest.mark.parametrize("listener", PROTOCOLS)
async def test_a_listener_tells_where_all_nodes_are_at_it(plane: Plane, listener: str) -> None:
    """DescribeCluster and raft answers have its own addresses alone; DescribeQuorum has those of all. KIP-919."""
    cluster = ResourceType.CLUSTER, "kafka-cluster"
    await allow(plane, "User:ANONYMOUS", *((right, *cluster) for right in (AclOperation.ALTER, AclOperation.DESCRIBE)))
    await allow(plane, "User:ANONYMOUS", (AclOperation.CLUSTER_ACTION, *cluster))
    expected = plane.listeners.addresses[listener]
    every = {node_id: {(name, *at[node_id]) for name, at in plane.listeners.addresses.items()} for node_id in VOTERS}
    leader_id = await plane.cluster.active()
    for node_id in VOTERS:
        async with await plane.connect(listener, node_id, "admin") as client:
            told = await eventually(
                lambda client=client: client.ask_for(DescribeClusterResponse, CONTROLLERS),
                lambda told: not told.error_code,
            )
            quorum = await client.ask_for(DescribeQuorumResponse, QUORUM)
            fetched = await eventually(
                lambda client=client: client.ask_for(FetchResponse, FETCH),
                lambda fetched: fetched.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            )

        assert expected == {each.broker_id: (each.host, each.port) for each in told.brokers}
        assert every == {each.node_id: {(at.name, at.host, at.port) for at in each.listeners} for each in quorum.nodes}
        if node_id != leader_id:
            assert [(leader_id, *expected[leader_id])] == [
                (each.node_id, each.host, each.port) for each in fetched.node_endpoints
            ]


async def test_who_a_client_is_goes_by_the_listener(plane: Plane) -> None:
    """Nobody in the clear, by the certificate, by the password of this listener: and each has the rights of that."""
    prefix = f"alices-{secrets.token_hex(4)}"
    await allow(plane, "User:alice", (AclOperation.CREATE, ResourceType.TOPIC, prefix))
    found = {}
    for listener, node_id in zip(PROTOCOLS, (*VOTERS, VOTERS[0]), strict=True):
        async with await plane.connect(listener, node_id, "alice") as client:
            found[listener] = [await create(client, f"{prefix}-{listener}"), await create(client, f"other-{listener}")]

    assert {name: [REFUSED if name == "OPEN" else NONE, REFUSED] for name in PROTOCOLS} == found


@pytest.mark.parametrize(("listener", "other"), [("NAMED", "SECURE"), ("SECURE", "NAMED")])
async def test_a_password_is_good_at_its_own_listener(plane: Plane, listener: str, other: str) -> None:
    with pytest.raises(ApiError) as refused:
        await plane.connect(listener, 1, "alice", PASSWORDS[other])

    assert ErrorCode.SASL_AUTHENTICATION_FAILED is refused.value.code


@pytest.mark.parametrize(
    ("spoken", "listener"), [("OPEN", "SHOWN"), ("OPEN", "SECURE"), ("OPEN", "NAMED"), ("NAMED", "SHOWN")]
)
async def test_who_speaks_another_listeners_protocol_is_sent_away(plane: Plane, spoken: str, listener: str) -> None:
    """And the gateway's log says at which listener."""
    addresses = {**plane.listeners.addresses, spoken: plane.listeners.addresses[listener]}
    elsewhere = plane._replace(listeners=KafkaListeners(VOTERS, PROTOCOLS, addresses))
    log = plane.cluster.plan.directory / "gateway-1.log"
    before = len(await closed_at(log, listener))
    with pytest.raises((OSError, ApiError), match=r".*"):
        async with await elsewhere.connect(spoken, 1, "alice") as client:
            await client.ask(CONTROLLERS)

    assert await eventually(lambda: closed_at(log, listener), lambda lines: len(lines) > before)


async def closed_at(log: Path, listener: str) -> list[str]:
    lines = said(log)
    return [line for line in lines if "was closed" in line and f"listener={listener}" in line]


@pytest.mark.parametrize("taken", ["OPEN", "SECURE"])
async def test_a_gateway_that_cannot_listen_at_one_does_not_start(plane: Plane, tmp_path: Path, taken: str) -> None:
    with socket.create_server((HOST, 0)) as occupied:
        at = occupied.getsockname()[:2]
        ended = await start("gateway", own_listeners(plane, {taken: {1: at}}), tmp_path)

    assert ExitCode.CANNOT_LISTEN is ended.code, ended
    (line,) = ended.fatal
    assert line.startswith(f"fatal: cannot listen on {taken}://{at[0]}:{at[1]}: ")


async def test_a_file_that_is_not_there_is_told_with_the_listener(plane: Plane, tmp_path: Path) -> None:
    settings = own_listeners(plane, {}) | {"listener.name.secure.ssl.keystore.location": str(tmp_path / "none.pem")}
    ended = await start("gateway", settings, tmp_path)

    assert ExitCode.MISCONFIGURED is ended.code, ended
    (line,) = ended.fatal
    assert f"ssl.keystore.location = {tmp_path / 'none.pem'}" in line
    assert line.endswith("(the listener SECURE)")


def own_listeners(plane: Plane, addresses: Mapping[str, dict[NodeId, tuple[str, int]]]) -> dict[str, str]:
    """Settings of another gateway beside node 1, on free ports but for `addresses`."""
    listeners = KafkaListeners([1], PROTOCOLS, dict(addresses))
    (health,) = free_ports(1)
    own = {"health.listeners": f"HEALTH://{HOST}:{health}", **listeners.settings(1, *PROTOCOLS)}
    return plane.cluster.plan.gateways[0].settings | own


async def test_a_new_certificate_is_shown_without_a_restart(plane: Plane) -> None:
    at = plane.listeners.addresses["SECURE"][1]

    async def shown() -> str:
        return await asyncio.to_thread(ssl.get_server_certificate, at)

    before = await shown()
    async with await plane.connect("SECURE", 1, "admin") as client:
        plane.issuer.issue("gateway", "/O=cluster/CN=localhost")
        await eventually(shown, lambda now: now != before)
        assert await client.ask(CONTROLLERS), "a connection that is open stays"
    async with await plane.connect("SECURE", 1, "admin") as client:
        assert await client.ask(CONTROLLERS)


async def test_a_gateway_that_comes_back_has_all_its_listeners(plane: Plane) -> None:
    """Meanwhile the others serve theirs, and still name it: it is in their settings."""
    name = f"on-{secrets.token_hex(4)}"
    for node_id in VOTERS:
        gateway = plane.cluster.plan.gateways[node_id - 1]
        await plane.cluster.kill(gateway)
        for listener in PASSWORDS:
            async with await plane.connect(listener, others(node_id)[0], "admin") as client:
                told = await client.ask_for(DescribeClusterResponse, CONTROLLERS)
                assert plane.listeners.addresses[listener].keys() == {each.broker_id for each in told.brokers}
                assert NONE is await create(client, f"{name}-{listener}-{node_id}")
        await plane.cluster.restart(gateway)
        for listener in PROTOCOLS:
            async with await plane.connect(listener, node_id, "admin") as client:
                assert client.node.api_keys


async def test_a_node_announces_listeners_with_logins_and_has_none_itself(plane: Plane) -> None:
    """For brokers, which find the voters in the log. It calls no peer there, so it needs no login of its own."""
    process = plane.cluster.quorum(3)
    before = dict(process.settings)
    own = [f"CONTROLLER://{process.address}"]
    own += [f"{name}://{HOST}:{at[3][1]}" for name, at in plane.listeners.addresses.items()]
    protocols = ",".join(map(":".join, PROTOCOLS.items()))
    announced = {"advertised.listeners": ",".join(own), "kafka.listener.security.protocol.map": protocols}
    for settings in (before | announced, before):
        process.settings.clear()
        process.settings.update(settings)
        await plane.cluster.kill(process)
        await plane.cluster.restart(process)
        assert await plane.cluster.active()
