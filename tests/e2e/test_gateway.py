"""Gateways beside real nodes: clients of Kafka's own wire, whatever they send, and what is behind a gateway fails."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.protocol.default_principal_data import DefaultPrincipalData
from quorate.errors import ErrorCode
from quorate.network.client import Connection, Disconnected, connect
from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId
from quorate.protocol.apis import api_of
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.wire.codec import encode
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.cluster import VOTERS, Cluster, others

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

WITH_GATEWAYS: Final = True
IDLE: Final = 1_000
BUFFER_BYTES: Final = 4 << 10
UNREAD_MAX: Final = 16 << 20
"""Above what the buffers of the gateway's socket have room for."""
A_WHILE: Final = 50
"""Requests of another client, during which a gateway that reads takes what was sent."""
ANOTHER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
CONTROLLERS: Final = DescribeClusterRequest(endpoint_type=2)
QUORUM: Final = DescribeQuorumRequest(
    (DescribeQuorumRequest.TopicData(METADATA_TOPIC, (DescribeQuorumRequest.TopicData.PartitionData(0),)),)
)
Topic = CreateTopicsRequest.CreatableTopic


def address(cluster: Cluster, node_id: NodeId) -> tuple[str, int]:
    host, _, port = cluster.plan.bootstrap_controllers.split(",")[node_id - 1].rpartition(":")
    return host, int(port)


@asynccontextmanager
async def client(cluster: Cluster, node_id: NodeId) -> AsyncIterator[Connection]:
    async with await connect(*address(cluster, node_id)) as connection:
        yield connection


async def create(connection: Connection, *names: str, version: int = 7) -> list[int]:
    topics = tuple(Topic(name, 1, 3) for name in names)
    answer = await connection.ask_for(CreateTopicsResponse, CreateTopicsRequest(topics, 10_000), version=version)
    return [each.error_code for each in answer.topics]


async def test_every_gateway_knows_where_all_are(cluster: Cluster) -> None:
    expected = {node_id: address(cluster, node_id) for node_id in VOTERS}
    leader_id = await cluster.active()
    for node_id in VOTERS:
        async with client(cluster, node_id) as connection:
            told = await connection.ask_for(DescribeClusterResponse, CONTROLLERS)
            quorum = await connection.ask_for(DescribeQuorumResponse, QUORUM)

        assert (cluster.plan.cluster_id, leader_id) == (told.cluster_id, told.controller_id)
        assert expected == {each.broker_id: (each.host, each.port) for each in told.brokers}
        assert expected == {each.node_id: (each.listeners[0].host, each.listeners[0].port) for each in quorum.nodes}
        assert leader_id == quorum.topics[0].partitions[0].leader_id


async def test_a_write_at_any_gateway_in_an_old_version_and_a_new_one(cluster: Cluster) -> None:
    standby, other = others(await cluster.active())
    async with client(cluster, standby) as connection:
        assert [0, 0] == await create(connection, "old", "older", version=2)
        assert [ErrorCode.TOPIC_ALREADY_EXISTS, 0] == await create(connection, "old", "new")
    async with client(cluster, other) as connection:
        request = DeleteTopicsRequest(topic_names=("older", "none"), timeout_ms=10_000)
        deleted = await connection.ask_for(DeleteTopicsResponse, request, version=5)

    assert {"older": 0, "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} == {
        each.name: each.error_code for each in deleted.responses
    }
    assert {"old", "new"} <= (await cluster.topics(at=standby)).keys()


async def test_the_log_is_read_through_them(cluster: Cluster) -> None:
    """`quorate image show` begins at a follower, which says where the leader's gateway is."""
    follower = others(await cluster.active())[0]
    name = f"seen-{secrets.token_hex(4)}"
    async with client(cluster, follower) as connection:
        assert [0] == await create(connection, name)
    host, port = address(cluster, follower)
    command = ("-m", "quorate.cli", "image", "show", "--bootstrap-controller", f"{host}:{port}", "--json")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()

    assert 0 == process.returncode, errors.decode()
    assert name in json.dumps(json.loads(output))


async def test_which_voters_can_be_restarted_is_said_through_them(cluster: Cluster) -> None:
    leader, follower = await cluster.active(), others(await cluster.active())[0]
    host, port = address(cluster, follower)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.cli", "restart-safe", "--controllers", "--json"),
        *("--bootstrap-controller", f"{host}:{port}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()

    assert (0, b"") == (process.returncode, errors), errors
    said = json.loads(output)
    assert [*others(leader), leader] == [each["controller"] for each in said["restarts"]]
    assert (leader, 2, []) == (said["leader"], said["majority"], said["behind"])


async def test_an_envelope_is_carried_out(cluster: Cluster) -> None:
    """As a broker passes on what a client of its own asks."""
    name = f"enclosed-{secrets.token_hex(4)}"
    api, request = api_of(CreateTopicsRequest), CreateTopicsRequest((Topic(name, 1, 3),), 10_000)
    inside = encode_request(api, request, version=7, correlation_id=5, client_id="app")
    principal = bytes(2) + encode(DefaultPrincipalData("User", "alice"), 0)
    async with client(cluster, others(await cluster.active())[0]) as connection:
        answer = await connection.ask_for(EnvelopeResponse, EnvelopeRequest(inside, principal, bytes([10, 0, 0, 1])))

    assert ErrorCode.NONE == answer.error_code
    _, position = decode_response_header(api, 7, answer.response_data or b"")
    (created,) = decode_body(CreateTopicsResponse, answer.response_data or b"", position, 7).topics
    assert (name, 0, 1) == (created.name, created.error_code, created.num_partitions)


async def test_bytes_as_kafkas_own_client_sends_them(cluster: Cluster) -> None:
    """DescribeCluster v1 by hand, beside the codec: header 2, then the endpoint type for controllers."""
    body = struct.pack(">hhih", 60, 1, 9, 4) + b"tool" + b"\0" + b"\0\2" + b"\0"
    reader, writer = await asyncio.open_connection(*address(cluster, 1))
    writer.write(struct.pack(">i", len(body)) + body)
    size, correlation_id = struct.unpack(">ii", await reader.readexactly(8))
    answer = await reader.readexactly(size - 4)
    writer.close()

    assert (9, b"\0\0\0\0\0\0\0\0\2") == (correlation_id, answer[:9])  # no throttle, no error, no message, controllers
    assert cluster.plan.cluster_id.encode() in answer


async def test_an_unknown_version_of_apiversions_is_answered_in_version_0(cluster: Cluster) -> None:
    reader, writer = await asyncio.open_connection(*address(cluster, 1))
    writer.write(struct.pack(">ihhihb", 11, 18, 99, 3, -1, 0))
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    answer = await reader.readexactly(size)
    writer.close()
    told = decode_body(ApiVersionsResponse, answer, 4, 0)

    assert (ErrorCode.UNSUPPORTED_VERSION, [18]) == (told.error_code, [each.api_key for each in told.api_keys])


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", (4 << 20) + 1),
        struct.pack(">ih", 2, 60),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 12, 1, -1),
        struct.pack(">ihhih", 10, 60, 9, 1, -1),
        struct.pack(">ihhih", 10, 60, 1, 1, -7),
        struct.pack(">ihhih", 10, 60, 1, 1, 500),
        struct.pack(">ihhihbbb", 13, 19, 7, 1, -1, 0, 127, 1),
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    ],
    ids=[
        "negative size", "no size", "largest size", "above the limit", "no header", "no such API", "a broker's API",
        "no such version", "negative length", "client id is cut off", "body is cut off", "HTTP", "TLS",
    ],
)  # fmt: skip
async def test_what_is_no_request_ends_its_connection(cluster: Cluster, sent: bytes) -> None:
    """And no other one: as Kafka's SocketServer does."""
    async with client(cluster, 1) as beside:
        reader, writer = await asyncio.open_connection(*address(cluster, 1))
        writer.write(sent)
        assert b"" == await ended(reader)
        writer.close()

        assert ErrorCode.NONE == (await beside.ask_for(DescribeClusterResponse, CONTROLLERS)).error_code


async def test_a_thousand_idle_connections_and_half_frames_disturb_nobody(cluster: Cluster) -> None:
    opened = []
    half = encode_request(
        api_of(ApiVersionsRequest), ApiVersionsRequest("a", "1"), version=3, correlation_id=1, client_id="half"
    )
    for number in range(IDLE):
        opened.append((await asyncio.open_connection(*address(cluster, 2)))[1])
        if number % 2:
            opened[-1].write(struct.pack(">i", len(half)) + half[:-3])
    async with client(cluster, 2) as connection:
        assert [0] == await create(connection, f"beside-{secrets.token_hex(4)}")
    for writer in opened:
        writer.close()


async def test_a_client_that_never_reads_is_not_read_from_and_disturbs_nobody(cluster: Cluster) -> None:
    """Its bytes stay in the sockets' buffers, which are full some time, and not in the gateway's memory."""
    request = encode_request(
        api_of(ApiVersionsRequest), ApiVersionsRequest("a", "1"), version=3, correlation_id=1, client_id="greedy"
    )
    many = (struct.pack(">i", len(request)) + request) * 1_000
    loop, sent = asyncio.get_running_loop(), 0
    with socket.socket() as greedy:
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            greedy.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
        greedy.setblocking(False)
        await loop.sock_connect(greedy, address(cluster, 2))
        async with client(cluster, 2) as beside:
            while True:
                sending = loop.create_task(loop.sock_sendall(greedy, many))
                for _ in range(A_WHILE):
                    assert ErrorCode.NONE == (await beside.ask_for(DescribeClusterResponse, CONTROLLERS)).error_code
                if not sending.done():
                    break
                sent += len(many)
                assert sent < UNREAD_MAX
            assert [0] == await create(beside, f"beside-{secrets.token_hex(4)}")
        sending.cancel()
        await asyncio.wait([sending])


async def test_what_is_set_up_for_another_cluster_is_refused_with_one_line_in_the_log(cluster: Cluster) -> None:
    """A broker and an observer, which ask again and again."""
    active = await cluster.active()
    registration = BrokerRegistrationRequest(broker_id=999, cluster_id=ANOTHER, log_dirs=(secrets.token_bytes(16),))
    fetch = FetchRequest(
        cluster_id=ANOTHER,
        topics=(
            FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(FetchRequest.FetchTopic.FetchPartition(),)),
        ),
    )
    async with client(cluster, active) as connection:
        for _ in range(3):
            registered = await connection.ask_for(BrokerRegistrationResponse, registration)
            fetched = await connection.ask_for(FetchResponse, fetch)

            assert {ErrorCode.INCONSISTENT_CLUSTER_ID} == {registered.error_code, fetched.error_code}

    for process, what in ((cluster.controller(active), "BrokerRegistration"), (cluster.quorum(active), "Fetch")):
        log = (cluster.plan.directory / f"{process.name}.log").read_text()
        (line,) = [each for each in log.splitlines() if ANOTHER in each]

        assert "level=warning" in line
        assert what in line
        assert cluster.plan.cluster_id in line


async def test_what_is_gone_behind_it_looks_like_a_node_that_is_gone(cluster: Cluster) -> None:
    """The connection ends, no other gateway is concerned, and what comes back serves the next one."""
    standby = others(await cluster.active())[0]
    async with client(cluster, standby) as before:
        await cluster.kill(cluster.controller(standby))
        with pytest.raises(Disconnected):
            await before.ask(CONTROLLERS)
    async with client(cluster, others(standby)[0]) as elsewhere:
        assert ErrorCode.NONE == (await elsewhere.ask_for(DescribeClusterResponse, CONTROLLERS)).error_code
    await cluster.restart(cluster.controller(standby))

    assert await eventually(lambda: answers(cluster, standby))


async def answers(cluster: Cluster, node_id: NodeId) -> bool:
    try:
        async with client(cluster, node_id) as connection:
            answer: Any = await connection.ask(CONTROLLERS)
    except OSError:
        return False
    return bool(answer.error_code == ErrorCode.NONE)


async def test_a_gateway_ends_in_good_order_and_comes_back(cluster: Cluster) -> None:
    gateway = cluster.plan.gateways[2]
    async with client(cluster, 3) as connection:
        assert 0 == await cluster.kill(gateway, signal.SIGTERM)
        with pytest.raises(Disconnected):
            await connection.ask(CONTROLLERS)
    await cluster.restart(gateway)

    assert await answers(cluster, 3)


async def test_it_keeps_the_limits_that_it_is_given_under_kafkas_names(cluster: Cluster) -> None:
    """Idle connections are closed, and those with too large a request; for one connection too many the oldest that has
    asked nothing."""
    gateway = cluster.plan.gateways[2]
    given = {"connections.max.idle.ms": "1000", "max.connections.per.ip": "2", "socket.request.max.bytes": "1000"}
    await cluster.kill(gateway, signal.SIGTERM)
    gateway.settings.update(given)
    await cluster.restart(gateway)
    try:
        async with client(cluster, 3) as busy:
            idle, _ = await asyncio.open_connection(*address(cluster, 3))
            beyond, _ = await asyncio.open_connection(*address(cluster, 3))
            assert b"" == await ended(idle)
            end = asyncio.create_task(ended(beyond))
            while not end.done():
                assert ErrorCode.NONE == (await busy.ask_for(DescribeClusterResponse, CONTROLLERS)).error_code
            assert b"" == end.result()
            with pytest.raises(Disconnected):
                await create(busy, "a" * 1_000)
    finally:
        await cluster.kill(gateway, signal.SIGTERM)
        for name in given:
            del gateway.settings[name]
        await cluster.restart(gateway)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What comes before the end of a connection."""
    try:
        async with asyncio.timeout(WITHIN_S):
            return await reader.read()
    except ConnectionResetError:
        return b""
