"""Our client speaks to the controllers of Kafka releases: every version that both know, and every way to log in."""

from __future__ import annotations

import asyncio
import base64
import secrets
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from deploy.kafka.node import Node
from deploy.kafka.release import POM, version
from deploy.local.ports import free_ports
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import Connection, Disconnected, Timeouts, connect
from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID
from quorate.protocol import all_apis
from quorate.protocol.sasl.client import Begin
from quorate.protocol.sasl.plain import PlainClient
from quorate.protocol.sasl.scram import ScramClient
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.network.test_network import contexts

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=absent() or "")]

CLUSTER_ID: Final = "b2FzZXMgaW4gdGhlIGRlcw"
LOOPBACK: Final = "127.0.0.1"
PASSWORD: Final = "pässword"  # not ASCII: neither side prepares it
SESSION_MS: Final = 6_000
ASK_CONTROLLERS: Final = DescribeClusterRequest(endpoint_type=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A Kafka controller with three listeners."""

    plaintext: int
    sasl: int
    tls: int
    trust: ssl.SSLContext


@pytest.fixture(scope="module", params=[POM, OPERATIONS_POM], ids=version)
def controller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    scratch = tmp_path_factory.mktemp("wire")
    _, trust = contexts(scratch)
    (scratch / "both.pem").write_text((scratch / "key.pem").read_text() + (scratch / "certificate.pem").read_text())
    plaintext, sasl, tls = free_ports(3)
    with Node(scratch / "node", properties(scratch, plaintext, sasl, tls), pom=request.param) as node:
        scram = [f"SCRAM-SHA-{bits}=[name=alice,password={PASSWORD}]" for bits in (256, 512)]
        node.format(CLUSTER_ID, *(part for each in scram for part in ("--add-scram", each)))
        node.start().wait_ready()
        yield Controller(plaintext=plaintext, sasl=sasl, tls=tls, trust=trust)


def properties(scratch: Path, plaintext: int, sasl: int, tls: int) -> Mapping[str, object]:
    jaas = "org.apache.kafka.common.security"
    return {
        "process.roles": "controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{plaintext}",
        "controller.listener.names": "CONTROLLER,SASL,TLS",
        "listeners": f"CONTROLLER://{LOOPBACK}:{plaintext},SASL://{LOOPBACK}:{sasl},TLS://{LOOPBACK}:{tls}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": f'{jaas}.plain.PlainLoginModule required user_bob="secret";',
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{jaas}.scram.ScramLoginModule required;",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{jaas}.scram.ScramLoginModule required;",
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": scratch / "both.pem",
        "delegation.token.secret.key": "secret-key",
        "connections.max.reauth.ms": SESSION_MS,
        "log.dirs": scratch / "node" / "data",
    }


def nonce() -> str:
    return secrets.token_hex(16)


LOGINS: Final[Mapping[str, Begin]] = {
    "PLAIN": lambda: PlainClient("bob", "secret"),
    "SCRAM-SHA-256": lambda: ScramClient(1, "alice", PASSWORD, nonce=nonce),
    "SCRAM-SHA-512": lambda: ScramClient(2, "alice", PASSWORD, nonce=nonce),
}
NO_LOGINS: Final[Mapping[str, Begin]] = {
    "PLAIN": lambda: PlainClient("bob", "guess"),
    "SCRAM-SHA-256": lambda: ScramClient(1, "alice", "guess", nonce=nonce),
    "SCRAM-SHA-512": lambda: ScramClient(2, "nobody", PASSWORD, nonce=nonce),
}


@pytest.mark.parametrize("asked", [0, 1, 2, 3, 4, 5])
async def test_it_is_asked_for_its_versions_in_every_version_of_that(controller: Controller, asked: int) -> None:
    """4.3.1 does not know version 5: it says so in version 0, and our client asks again."""
    async with await connect(LOOPBACK, controller.plaintext, api_versions_version=asked) as client:
        listed = {each.api_key: range(each.min_version, each.max_version + 1) for each in client.node.api_keys}

    assert len(listed) >= 40
    for key, versions in listed.items():
        assert key in all_apis(), f"API {key} is not in the schema"
        ours = all_apis()[key].versions
        assert versions[0] >= ours[0], key
        assert versions[-1] <= ours[-1], key


async def test_every_request_is_answered_in_every_version_that_both_know(controller: Controller) -> None:
    """Describe, read, create: what each version says is the same, as far as it can say it."""
    async with await connect(LOOPBACK, controller.plaintext) as client:
        await settled(client)
        for version in spoken(client, DescribeClusterRequest)[1:]:  # version 0 has no endpoint type: it asks a broker
            cluster = await client.ask_for(DescribeClusterResponse, ASK_CONTROLLERS, version=version)
            assert (CLUSTER_ID, 1) == (cluster.cluster_id, cluster.controller_id)

        for version in spoken(client, DescribeQuorumRequest):
            partition = DescribeQuorumRequest.TopicData.PartitionData(0)
            request = DescribeQuorumRequest((DescribeQuorumRequest.TopicData(METADATA_TOPIC, (partition,)),))
            quorum = await client.ask_for(DescribeQuorumResponse, request, version=version)
            assert quorum.topics[0].partitions[0].leader_id == 1
            epoch = quorum.topics[0].partitions[0].leader_epoch

        logs = [await fetched(client, version, epoch) for version in spoken(client, FetchRequest) if version >= 13]
        assert len({log[:200] for log in logs}) == 1
        assert len(logs[0]) > 200

        for version in spoken(client, CreateTopicsRequest):
            topic = CreateTopicsRequest.CreatableTopic(name=f"topic-{version}", num_partitions=1, replication_factor=1)
            created = await client.ask_for(
                CreateTopicsResponse, CreateTopicsRequest((topic,), 5_000, validate_only=True), version=version
            )
            # There is no broker: Kafka's own refusal.
            assert [ErrorCode.INVALID_REPLICATION_FACTOR] == [each.error_code for each in created.topics]


async def settled(client: Connection) -> None:
    """Waits until the controller leads and has registered itself."""
    async with asyncio.timeout(30):
        while True:
            cluster = await client.ask_for(DescribeClusterResponse, ASK_CONTROLLERS)
            if [1] == [each.broker_id for each in cluster.brokers]:
                return
            await asyncio.sleep(0.05)


async def fetched(client: Connection, version: int, epoch: int) -> bytes:
    """The beginning of the log, as an observer that is nobody reads it. Raft wants the topic's id: version 13 on."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=0, last_fetched_epoch=0, partition_max_bytes=1 << 20
    )
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=(FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )
    found = await client.ask_for(FetchResponse, request, version=version)
    assert found.error_code == ErrorCode.NONE
    (answer,) = found.responses[0].partitions
    assert answer.error_code == ErrorCode.NONE, answer
    return answer.records or b""


@pytest.mark.parametrize("mechanism", LOGINS)
async def test_a_login(controller: Controller, mechanism: str) -> None:
    async with await connect(LOOPBACK, controller.sasl, begin=LOGINS[mechanism]) as client:
        cluster = await client.ask_for(DescribeClusterResponse, ASK_CONTROLLERS)
        assert cluster.cluster_id == CLUSTER_ID


@pytest.mark.parametrize("mechanism", NO_LOGINS)
async def test_a_login_that_fails_is_told_in_the_words_that_our_server_has(
    controller: Controller, mechanism: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        await connect(LOOPBACK, controller.sasl, begin=NO_LOGINS[mechanism])

    assert refusal.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refusal.value.message == (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )


async def test_a_session_is_renewed_before_the_node_ends_it(controller: Controller) -> None:
    loop = asyncio.get_running_loop()
    async with await connect(LOOPBACK, controller.sasl, begin=LOGINS["SCRAM-SHA-512"]) as client:
        until = loop.time() + 1.2 * SESSION_MS / 1000
        while loop.time() < until:
            await client.ask(ASK_CONTROLLERS)
            await asyncio.sleep(0.1)
        assert client.is_open


async def test_a_delegation_token_logs_in(controller: Controller) -> None:
    async with await connect(LOOPBACK, controller.sasl, begin=LOGINS["SCRAM-SHA-256"]) as client:
        made = await client.ask_for(CreateDelegationTokenResponse, CreateDelegationTokenRequest(max_lifetime_ms=60_000))
    assert made.error_code == ErrorCode.NONE
    password = base64.b64encode(made.hmac).decode()
    begin: Begin = lambda: ScramClient(2, made.token_id, password, nonce=nonce, is_token=True)  # noqa: E731
    async with await known(controller.sasl, begin) as client:
        again = await client.ask_for(
            CreateDelegationTokenResponse, CreateDelegationTokenRequest(max_lifetime_ms=60_000)
        )

    # who has logged in with a token may not make another
    assert again.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def known(port: int, begin: Begin) -> Connection:
    """A connection with a token that the controller may not have heard of yet: its own log tells it."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await connect(LOOPBACK, port, begin=begin)
            except ApiError as refusal:
                assert refusal.code is ErrorCode.SASL_AUTHENTICATION_FAILED, refusal
                await asyncio.sleep(0.1)


async def test_tls(controller: Controller) -> None:
    async with await connect("localhost", controller.tls, tls=controller.trust) as client:
        assert client.node.error_code == ErrorCode.NONE
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect("localhost", controller.tls, tls=ssl.create_default_context())


async def test_what_does_not_match_is_an_error_and_no_wait_for_ever(controller: Controller) -> None:
    short = Timeouts(connect_ms=5_000)
    with pytest.raises((Disconnected, TimeoutError)):
        await connect(LOOPBACK, controller.tls, timeouts=short)  # plain text to TLS
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connect("localhost", controller.plaintext, tls=controller.trust, timeouts=short)
    with pytest.raises(ApiError, match="ILLEGAL_SASL_STATE: the node does not accept PLAIN"):
        await connect(LOOPBACK, controller.plaintext, begin=LOGINS["PLAIN"], timeouts=short)


def spoken(client: Connection, request: type) -> range:
    """The versions that both sides know."""
    api = next(api for api in all_apis().values() if api.request is request)
    (listed,) = (each for each in client.node.api_keys if each.api_key == api.key)
    return range(max(listed.min_version, api.versions[0]), min(listed.max_version, api.versions[-1]) + 1)
