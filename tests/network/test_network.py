"""The server and the client on loopback: answers, TLS, logins, and clients that misbehave."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import Disconnected, Timeouts, connect
from quorate.network.connections import ConnectionCounts
from quorate.network.listening import ConnectedClient, Listening
from quorate.network.server import KafkaServer, serving
from quorate.nouns import Principal
from quorate.protocol import ClientSettings, Request, ServerSettings, api_of
from quorate.protocol.messages import decode_body
from quorate.protocol.sasl.client import Begin
from quorate.protocol.sasl.mechanism import Answered, Login, ServerMechanism
from quorate.protocol.sasl.server import Mechanisms
from tests.protocol.pair import SERVED, describe
from tests.protocol.test_connection import DESCRIBE_CLUSTER, raw
from tests.protocol.test_sasl import CLIENTS, FALSE_CLIENTS, MECHANISMS, USER

LOOPBACK = "127.0.0.1"
HOUR_NS = 3_600_000_000_000
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE
GREEDY = "test"  # the client id of `raw`


class Handler:
    """Answers DescribeCluster with its number, and Fetch on command."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.clients: list[ConnectedClient] = []
        self.released = asyncio.Event()
        self.ended = 0

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        self.requests.append(request)
        self.clients.append(client)
        match request.message:
            case DescribeClusterRequest() if request.header.client_id == GREEDY:
                return DescribeClusterResponse(cluster_id="x" * 30_000)
            case DescribeClusterRequest():
                return DescribeClusterResponse(cluster_id=f"{len(self.requests)}")
            case FetchRequest():
                try:
                    await self.released.wait()
                finally:
                    self.ended += 1
                return FetchResponse(session_id=7)
        raise RuntimeError("a fault of the handler")


class Reports:
    """Why connections were ended, and a way to wait for one more."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._came = asyncio.Event()

    def __call__(self, reason: str, _: ConnectedClient) -> None:
        self.reasons.append(reason)
        self._came.set()

    async def next(self) -> str:
        await self._came.wait()
        return self.reasons[-1]


@asynccontextmanager
async def served(handler: Handler, **more: object) -> AsyncIterator[KafkaServer]:
    listening = Listening(**{"handle": handler, "served": SERVED, "describe_versions": describe, **more})
    async with asyncio.timeout(120), serving(listening, LOOPBACK) as server:
        yield server


async def test_several_tasks_ask_at_once_and_each_gets_its_answer() -> None:
    handler = Handler()
    async with served(handler) as server, await connect(LOOPBACK, server.port) as client:
        waiting = asyncio.create_task(client.ask(FetchRequest()))
        asked = [asyncio.create_task(client.ask(DescribeClusterRequest())) for _ in range(20)]
        await until(lambda: len(handler.requests) >= 5)
        assert not any(task.done() for task in asked)  # answers keep the order of requests
        handler.released.set()

        assert await waiting == FetchResponse(session_id=7)
        numbers = [int((await task).cluster_id) for task in asked]
        assert sorted(numbers) == list(range(2, 22))
        assert handler.clients[-1].software == ("quorate", "0.1.0")


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_login_over_the_socket(name: str) -> None:
    handler = Handler()
    async with (
        served(handler, mechanisms=MECHANISMS) as server,
        await connect(LOOPBACK, server.port, begin=CLIENTS[name]) as client,
    ):
        await client.ask(DescribeClusterRequest())

    assert [Principal("User", USER)] == [request.principal for request in handler.requests]


@pytest.mark.parametrize(
    ("host", "port"), [("ctl-3..example.com", 9093), ("x" * 64, 9093), ("x\0y", 9093), (LOOPBACK, 70_000)]
)
async def test_what_is_no_address_is_not_reached_and_named(host: str, port: int) -> None:
    with pytest.raises(OSError, match=f"{re.escape(repr(host))}, port {port}, is no address: "):
        await connect(host, port)


async def test_a_wrong_password_is_told_and_the_connection_ends() -> None:
    reports = Reports()
    async with served(Handler(), mechanisms=MECHANISMS, report=reports) as server:
        with pytest.raises(ApiError, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
            await connect(LOOPBACK, server.port, begin=FALSE_CLIENTS["SCRAM-SHA-256"])
        assert (await reports.next()).startswith("authentication with SCRAM-SHA-256 failed")
        await until(lambda: len(server) == 0)


async def test_a_session_is_renewed_while_requests_go_on() -> None:
    handler, now, begun = Handler(), [0], [0]

    def counted() -> ServerMechanism:
        begun[0] += 1
        return MECHANISMS["SCRAM-SHA-512"]()

    settings = ServerSettings(reauth_ms_max=1500)
    async with (
        served(handler, mechanisms={"SCRAM-SHA-512": counted}, settings=settings, now_ms=lambda: now[0]) as server,
        await connect(LOOPBACK, server.port, begin=CLIENTS["SCRAM-SHA-512"]) as client,
    ):
        await client.ask(DescribeClusterRequest())
        now[0] = 1400
        while begun[0] < 2:
            await client.ask(DescribeClusterRequest())
        await client.ask(DescribeClusterRequest())  # it waits until the renewal is done
        now[0] = 2000  # beyond the first session, within the second
        assert await client.ask(DescribeClusterRequest())


async def test_a_wall_clock_that_is_set_ends_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.time_ns
    async with (
        served(Handler(), mechanisms=MECHANISMS, settings=ServerSettings(reauth_ms_max=600_000)) as server,
        await connect(LOOPBACK, server.port, begin=CLIENTS["PLAIN"]) as client,
    ):
        monkeypatch.setattr(time, "time_ns", lambda: before() + HOUR_NS)

        assert await client.ask(DescribeClusterRequest())


async def test_tls_and_a_client_that_does_not_speak_it(tmp_path: Path) -> None:
    handler = Handler()
    server_side, client_side = contexts(tmp_path)
    async with served(handler, tls=lambda: server_side) as server:
        async with await connect("localhost", server.port, tls=client_side) as client:
            await client.ask(DescribeClusterRequest())
        assert handler.clients[0].is_tls
        with pytest.raises((Disconnected, TimeoutError)):
            await connect(LOOPBACK, server.port, timeouts=Timeouts(connect_ms=2000))
        with pytest.raises(ssl.SSLError):
            await connect("localhost", server.port, tls=ssl.create_default_context())


async def test_a_node_that_does_not_answer_in_time_is_left() -> None:
    handler = Handler()
    async with served(handler) as server:
        client = await connect(LOOPBACK, server.port, timeouts=Timeouts(request_ms=50))
        with pytest.raises(ApiError, match="FetchRequest: no answer within 50 ms") as refusal:
            await client.ask(FetchRequest())
        assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert not client.is_open
        with pytest.raises(Disconnected):
            await client.ask(DescribeClusterRequest())
        await until(lambda: handler.ended == 1)  # the handler of a client that is gone is cancelled


async def test_a_request_that_is_cancelled_leaves_the_connection_whole() -> None:
    handler = Handler()
    async with served(handler) as server, await connect(LOOPBACK, server.port) as client:
        for _ in range(5):
            task = asyncio.create_task(client.ask(FetchRequest()))
            await until(lambda: len(handler.requests) > 0)
            task.cancel()
        was_silent = client.silent_since is not None
        handler.released.set()
        await until(lambda: client.silent_since is None)  # though nobody waits for these answers

        assert was_silent
        assert await client.ask(DescribeClusterRequest())


async def test_a_version_that_the_node_lacks_is_refused_before_anything_is_sent() -> None:
    handler = Handler()
    async with served(handler) as server, await connect(LOOPBACK, server.port) as client:
        with pytest.raises(ApiError, match="needs one of 99 to"):
            await client.ask(DescribeClusterRequest(), version=99)
        assert await client.ask(DescribeClusterRequest())
    assert len(handler.requests) == 1


async def test_bad_bytes_end_one_connection_and_no_other() -> None:
    handler, reports = Handler(), Reports()
    async with served(handler, report=reports) as server, await connect(LOOPBACK, server.port) as other:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(b"GET / HTTP/1.1\r\n")

        assert await reader.read() == b""
        assert await reports.next() == "frame size is 1195725856; it must be from 1 to 104857600"
        assert await other.ask(DescribeClusterRequest())
        writer.close()


@pytest.mark.parametrize("size", [10, 40_000], ids=["small", "large"])
async def test_what_a_connection_answers_by_itself_it_answers_at_any_size(size: int) -> None:
    """A large request is decoded in steps; its answer is the connection's all the same, and keeps its place."""
    handler, many = Handler(), tuple((tag, b"") for tag in range(10, 10 + size))
    asked = [
        raw(api_of(SaslHandshakeRequest), SaslHandshakeRequest("P" * min(size, 30_000)), 1, 1),
        raw(DESCRIBE_CLUSTER, DescribeClusterRequest(), 1, 2),
        raw(api_of(SaslAuthenticateRequest), SaslAuthenticateRequest(bytes(size)), 2, 3),
        raw(api_of(ApiVersionsRequest), ApiVersionsRequest("test", "1", unknown_tags=many), 3, 4),
    ]
    async with served(handler) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(b"".join(asked))
        answers = [await reader.readexactly(int.from_bytes(await reader.readexactly(4))) for _ in asked]
        writer.close()

    assert [1, 2, 3, 4] == [int.from_bytes(answer[:4]) for answer in answers]
    assert ILLEGAL == decode_body(SaslHandshakeResponse, answers[0], 4, 1).error_code
    assert ILLEGAL == decode_body(SaslAuthenticateResponse, answers[2], 5, 2).error_code
    assert decode_body(ApiVersionsResponse, answers[3], 4, 3).api_keys
    assert [2] == [request.header.correlation_id for request in handler.requests]


async def test_a_fault_of_the_handler_ends_the_connection_and_no_other() -> None:
    reports = Reports()
    async with served(Handler(), report=reports) as server, await connect(LOOPBACK, server.port) as other:
        client = await connect(LOOPBACK, server.port)
        with pytest.raises(Disconnected):
            await client.ask(DescribeQuorumRequest())
        assert "DescribeQuorum: the handler failed: RuntimeError" in await reports.next()
        assert await other.ask(DescribeClusterRequest())


async def test_an_answer_that_the_version_cannot_carry_ends_the_connection_and_no_other() -> None:
    async def too_large(request: Request, _: ConnectedClient) -> Message:
        return DescribeClusterResponse(controller_id=1 << 40 if request.header.client_id == "large" else 1)

    reports = Reports()
    listening = Listening(handle=too_large, served=SERVED, describe_versions=describe, report=reports)
    async with asyncio.timeout(120), serving(listening, LOOPBACK) as server:
        other = await connect(LOOPBACK, server.port)
        client = await connect(LOOPBACK, server.port, settings=ClientSettings(client_id="large"))
        with pytest.raises(Disconnected):
            await client.ask(DescribeClusterRequest())
        assert "DescribeCluster: the handler failed: ValueError" in await reports.next()
        assert "controller_id: 1099511627776 does not fit int32" in reports.reasons[-1]
        assert await other.ask(DescribeClusterRequest())
        await other.close()


class Named:
    """A login that another process answers: a client is whom it names in its only message."""

    def name_in(self, response: bytes) -> str:
        return response.decode()

    async def ask(self, response: bytes) -> Answered:
        return Answered(message=b"", login=Login(principal=Principal("User", response.decode())))


@pytest.mark.parametrize(
    ("mechanisms", "begin", "sent"),
    [
        (None, None, [DescribeClusterRequest()]),
        (
            {**MECHANISMS, "NAMED": Named},
            CLIENTS["PLAIN"],
            [SaslHandshakeRequest("NAMED"), SaslAuthenticateRequest(b"alice")],
        ),
    ],
    ids=["after an answer", "after a login"],
)
async def test_a_fault_in_what_follows_ends_its_connection_only(
    mechanisms: Mechanisms | None, begin: Begin | None, sent: list[Message]
) -> None:
    def failing(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        if version == 0:
            raise RuntimeError("no versions")
        return describe(request, version)

    reports, settings = Reports(), ServerSettings(in_flight_max=1)
    more = {"mechanisms": mechanisms, "settings": settings, "report": reports, "describe_versions": failing}
    async with served(Handler(), **more) as server, await connect(LOOPBACK, server.port, begin=begin) as other:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        for each in (*sent, ApiVersionsRequest()):
            writer.write(raw(api_of(type(each)), each, 0 if isinstance(each, ApiVersionsRequest) else 1))
        await reader.read()
        writer.close()

        assert "RuntimeError('no versions')" in reports.reasons[-1]
        assert await other.ask(DescribeClusterRequest())


async def test_a_renewal_as_another_user_is_refused_however_long_their_names_are() -> None:
    now, reports = [0], Reports()
    settings = ServerSettings(reauth_ms_max=10_000)
    more = {"mechanisms": {"NAMED": Named}, "settings": settings, "report": reports, "now_ms": lambda: now[0]}
    async with served(Handler(), **more) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        for user in (b"a" * 20_000, b"b" * 20_000):
            for each in (SaslHandshakeRequest("NAMED"), SaslAuthenticateRequest(user)):
                writer.write(raw(api_of(type(each)), each, 1))
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            now[0] += 5_000
        writer.close()

        assert b"Cannot change principals during re-authentication from User.aaa" in answer
        assert (await reports.next()).startswith("re-authentication with NAMED failed: ")


async def test_a_client_that_never_reads_is_not_read_from_and_disturbs_nobody() -> None:
    handler = Handler()
    settings = ServerSettings(in_flight_max=4)
    async with served(handler, settings=settings) as server, await connect(LOOPBACK, server.port) as other:
        greedy = socket.create_connection((LOOPBACK, server.port))
        greedy.setblocking(False)
        request = raw(DESCRIBE_CLUSTER, DescribeClusterRequest(), 0)
        sent_bytes, settled = 0, False
        while not settled:
            sent_bytes += fill(greedy, request * 100, sent_bytes % len(request))
            assert sent_bytes < READ_BYTES_MAX
            taken = len(handler.requests)
            for _ in range(20):
                assert await other.ask(DescribeClusterRequest())
            settled = len(handler.requests) == taken + 20

        assert len(handler.requests) * len(request) < sent_bytes  # some of it lies unread
        assert len(server) == 2
        greedy.close()


async def test_idle_connections_are_ended_and_many_of_them_disturb_nobody() -> None:
    now, reports = [0], Reports()
    settings = ServerSettings(idle_ms_max=300)
    handler = Handler()
    async with served(handler, settings=settings, report=reports, now_ms=lambda: now[0]) as server:
        silent = [await asyncio.open_connection(LOOPBACK, server.port) for _ in range(300)]
        client = await connect(LOOPBACK, server.port)
        await until(lambda: len(server) == 301)
        assert await client.ask(DescribeClusterRequest())
        now[0] = 301
        assert await client.ask(DescribeClusterRequest())
        await until(lambda: len(server) == 1)

        assert set(reports.reasons) == {"no traffic for connections.max.idle.ms"}
        assert await client.ask(DescribeClusterRequest())
        for _, writer in silent:
            writer.close()
        await client.close()


@pytest.mark.parametrize(
    ("cap", "says"),
    [
        (
            {"connections_max": 2, "name": "CONTROLLER"},
            "2 connections are open at CONTROLLER, as many as its max.connections allows",
        ),
        ({"counts": ConnectionCounts(limit=2)}, "2 connections are open, as many as max.connections allows"),
        (
            {"counts": ConnectionCounts(limit_per_ip=2)},
            "2 connections from 127.0.0.1 are open, as many as max.connections.per.ip allows",
        ),
    ],
)
async def test_beyond_the_cap_a_connection_is_closed(cap: dict[str, object], says: str) -> None:
    reports = Reports()
    async with served(Handler(), report=reports, **cap) as server:
        kept = [await connect(LOOPBACK, server.port) for _ in range(2)]
        with pytest.raises(Disconnected):
            await connect(LOOPBACK, server.port)
        assert await reports.next() == says
        await kept[0].close()
        await until(lambda: len(server) == 1)
        again = await connect(LOOPBACK, server.port)
        assert await again.ask(DescribeClusterRequest())
        for client in (again, kept[1]):
            await client.close()


async def test_listeners_share_the_count_of_connections_and_each_tells_its_name() -> None:
    """Kafka's max.connections is of the process, and what is closed at one listener is free at the other."""
    handler, counts = Handler(), ConnectionCounts(limit=2)
    async with (
        served(handler, name="PLAIN", counts=counts) as plain,
        served(handler, name="SECURE", counts=counts) as secure,
    ):
        first, second = await connect(LOOPBACK, plain.port), await connect(LOOPBACK, secure.port)
        with pytest.raises(Disconnected):
            await connect(LOOPBACK, plain.port)
        assert (1, 1) == (len(plain), len(secure))
        await first.ask(DescribeClusterRequest())
        await second.ask(DescribeClusterRequest())
        await first.close()
        await until(lambda: len(plain) == 0)
        third = await connect(LOOPBACK, secure.port)
        await third.ask(DescribeClusterRequest())
        for client in (second, third):
            await client.close()

    assert ["PLAIN", "SECURE", "SECURE"] == [client.listener for client in handler.clients]


async def test_when_the_server_ends_its_clients_hear_it() -> None:
    handler = Handler()
    async with served(handler) as server:
        client = await connect(LOOPBACK, server.port)
        asked = asyncio.create_task(client.ask(FetchRequest()))
        await until(lambda: len(handler.requests) == 1)
    with pytest.raises(Disconnected):
        await asked
    assert handler.ended == 1


async def until(holds: Callable[[], bool]) -> None:
    """Lets the others run until it holds; the test's own limit ends a wait in vain."""
    while not holds():  # noqa: ASYNC110  # nobody tells of it
        await asyncio.sleep(0.001)


def fill(greedy: socket.socket, requests: bytes, begun: int) -> int:
    """Sends until the kernel takes no more, the rest of a request that has begun first; returns how many it took."""
    taken, one = 0, len(requests) // 100
    while taken < READ_BYTES_MAX:
        try:
            taken += greedy.send(requests[(begun + taken) % one :])
        except BlockingIOError:
            break
    return taken


READ_BYTES_MAX = 32 << 20
"""More than all buffers on the way hold, so that it is never reached where reading stops."""


def contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for a server called localhost, with a certificate of its own, and for a client that trusts it."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=str(certificate))
