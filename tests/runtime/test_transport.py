"""gRPC by TLS 1.3: who gets in, and what happens to calls when certificates change. Real servers on loopback."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer, HeartbeatStub, add_HeartbeatServicer_to_server
from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Principal
from quorate.runtime.access.guard import Guard
from quorate.runtime.calls.server import OTLP, Server
from quorate.runtime.clients.client import Client, call, open_channel
from quorate.runtime.clients.multiplexed_channel import MultiplexedChannel
from quorate.runtime.connections import transport
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.logging.logs import start_logs
from quorate.runtime.settings.config import ConfigError
from quorate.runtime.telemetry.tracing import Telemetry
from quorate.tls import key_stores
from tests.e2e.calls import eventually
from tests.network.certificates import Authority, authority

PATIENCE_MS: Final = 60_000
"""Against hanging alone."""
HOST: Final = "127.0.0.1"


class Node(PlacerServicer, HeartbeatServicer):
    """Answers, and counts what reached it."""

    def __init__(self, transport: Transport) -> None:
        self.calls = 0
        self.subjects: list[bytes] = []
        self.principals: list[Principal] = []
        self._transport = transport

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        self.calls += 1
        self.principals.append(self._transport.principal(context))
        self.subjects += context.auth_context().get("x509_subject", [])
        return PlaceResponse()

    async def BrokerHeartbeatStream(
        self, request_iterator: AsyncIterator[BrokerHeartbeatRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatResponse]:
        async for request in request_iterator:
            yield BrokerHeartbeatResponse(throttle_time_ms=request.broker_id)


class Files:
    """The key store and the trust store of one process, which may be replaced."""

    def __init__(self, directory: Path, issuer: Authority, keystore: Path) -> None:
        directory.mkdir()
        self.keystore, self.truststore = directory / "keystore.pem", directory / "truststore.pem"
        shutil.copy(keystore, self.keystore)
        shutil.copy(issuer.certificate, self.truststore)

    def transport(self, **options: bool) -> Transport:
        return Transport(keystore=self.keystore, truststore=self.truststore, **options)

    def replace(self, file: Path, content: str) -> None:
        """As Kubernetes and everybody else should: written beside it, and renamed."""
        beside = file.with_suffix(".new")
        beside.write_text(content)
        os.replace(beside, file)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("another"), "another")


@pytest.fixture
def node(tmp_path: Path, issuer: Authority) -> Files:
    return Files(tmp_path / "node", issuer, issuer.issue("node", "/O=cluster/CN=node"))


@pytest.fixture
def caller(tmp_path: Path, issuer: Authority) -> Files:
    return Files(tmp_path / "caller", issuer, issuer.issue("caller", "/O=cluster/CN=caller"))


@pytest.fixture
def log() -> io.StringIO:
    written = io.StringIO()
    start_logs({}, written)
    return written


@asynccontextmanager
async def serving(transport: Transport, guard: Guard | None = None) -> AsyncIterator[tuple[Node, str]]:
    server, node = Server(transport=transport, guard=guard), Node(transport)
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, node)
    server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, node)
    server.multiplex()
    port = server.listen(f"{HOST}:0")
    await server.start()
    try:
        yield node, f"{HOST}:{port}"
    finally:
        await server.stop(grace_s=0)


async def ask(address: str, transport: Transport) -> None:
    """One call over a channel of its own. Raises ApiError."""
    async with open_channel(address, transport) as channel:
        await call(PlacerStub(channel).Place, PlaceRequest(), deadline_ms=PATIENCE_MS)


async def refusal(address: str, transport: Transport) -> str:
    with pytest.raises(ApiError) as refused:
        await ask(address, transport)

    assert ErrorCode.NETWORK_EXCEPTION is refused.value.code, refused.value
    return str(refused.value)


def established(port: int) -> int:
    """How many connections the server on this port has."""
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return len([row for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"])


def shown(issuer: Authority, name: str, *more: str, **kind: str) -> grpc.ChannelCredentials:
    store = issuer.issue(name, f"/CN={name}", *more, **kind).read_bytes()
    return grpc.ssl_channel_credentials(issuer.certificate.read_bytes(), store, store)


async def test_both_sides_show_their_certificates(node: Files, caller: Files) -> None:
    async with serving(node.transport()) as (served, address):
        await ask(address, caller.transport())

    assert [b"CN=caller,O=cluster"] == served.subjects


@pytest.mark.parametrize("who", ["nobody", "a foreigner", "one that has expired", "a server alone"])
async def test_who_shows_no_fitting_certificate_reaches_nothing(
    node: Files, issuer: Authority, another: Authority, who: str
) -> None:
    trust = issuer.certificate.read_bytes()
    foreign = another.issue("mallory", "/O=cluster/CN=caller").read_bytes()
    credentials = {
        "nobody": lambda: grpc.ssl_channel_credentials(trust),
        "a foreigner": lambda: grpc.ssl_channel_credentials(trust, foreign, foreign),
        "one that has expired": lambda: shown(issuer, "old", days="-1"),
        "a server alone": lambda: shown(issuer, "server", "-addext", "extendedKeyUsage=serverAuth"),
    }[who]()
    async with (
        serving(node.transport()) as (served, address),
        grpc.aio.secure_channel(address, credentials) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await PlacerStub(channel).Place(PlaceRequest(), timeout=PATIENCE_MS / 1000)

    assert grpc.StatusCode.UNAVAILABLE is refused.value.code()
    assert 0 == served.calls


async def test_a_listener_may_do_without_certificates_of_callers(node: Files, issuer: Authority) -> None:
    credentials = grpc.ssl_channel_credentials(issuer.certificate.read_bytes())
    async with (
        serving(node.transport(requires_certificate=False)) as (served, address),
        grpc.aio.secure_channel(address, credentials) as channel,
    ):
        await PlacerStub(channel).Place(PlaceRequest(), timeout=PATIENCE_MS / 1000)

    assert (1, []) == (served.calls, served.subjects)


async def test_who_speaks_in_the_clear_and_who_does_not_are_strangers(node: Files, caller: Files) -> None:
    async with serving(node.transport()) as (secured, address):
        await refusal(address, PLAIN)
    async with serving(PLAIN) as (plain, address):
        await refusal(address, caller.transport())

    assert (0, 0) == (secured.calls, plain.calls)


async def test_a_server_of_another_authority_or_another_name_is_not_spoken_to(
    tmp_path: Path, issuer: Authority, another: Authority, caller: Files
) -> None:
    foreign = Files(tmp_path / "foreign", another, another.issue("foreign", "/CN=foreign"))
    elsewhere = Files(tmp_path / "else", issuer, issuer.issue("elsewhere", "/CN=elsewhere", at="DNS:node-2.example"))
    async with serving(foreign.transport()) as (one, address):
        assert "CERTIFICATE_VERIFY_FAILED" in await refusal(address, caller.transport())
    async with serving(elsewhere.transport()) as (two, address):
        assert "verification check" in await refusal(address, caller.transport())

    assert (0, 0) == (one.calls, two.calls)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_1_3_alone_is_spoken_by_a_server(node: Files, caller: Files, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(caller.truststore))
    context.load_cert_chain(caller.keystore)
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version

    def connects(port: int) -> str | None:
        with socket.create_connection((HOST, port), timeout=PATIENCE_MS / 1000) as connection:
            try:
                with context.wrap_socket(connection, server_hostname=HOST) as secure:
                    return secure.version()
            except (ssl.SSLError, ConnectionError):
                return None

    async with serving(node.transport()) as (_, address):
        found = await asyncio.to_thread(connects, int(address.rpartition(":")[2]))

    assert ("TLSv1.3" if version is ssl.TLSVersion.TLSv1_3 else None) == found


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_1_3_alone_is_spoken_by_a_client(node: Files, caller: Files, version: ssl.TLSVersion) -> None:
    """The server is OpenSSL's, and says nothing after the handshake."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(node.keystore)
    context.set_alpn_protocols(["h2"])
    context.maximum_version = version
    spoken: list[str | None] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        spoken.append(writer.get_extra_info("ssl_object").version())
        writer.close()

    async with await asyncio.start_server(note, HOST, 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        await refusal(f"{HOST}:{port}", caller.transport())

    assert ({"TLSv1.3"} if version is ssl.TLSVersion.TLSv1_3 else set()) == set(spoken)


async def test_a_new_authority_is_taken_without_a_restart(
    node: Files, caller: Files, another: Authority, issuer: Authority, log: io.StringIO
) -> None:
    """First both are trusted everywhere, then certificates are of the new one, then it alone is trusted."""
    both = issuer.certificate.read_text() + another.certificate.read_text()
    server, client = node.transport(), caller.transport()
    async with serving(server) as (served, address), open_channel(address, client) as channel:
        stub = PlacerStub(channel)

        async def step() -> None:
            for each in (server, client):
                each.look()
            await call(stub.Place, PlaceRequest(), deadline_ms=PATIENCE_MS)
            await ask(address, client)

        await step()
        for files in (node, caller):
            files.replace(files.truststore, both)
        await step()
        node.replace(node.keystore, another.issue("node", "/O=cluster/CN=node").read_text())
        await step()
        caller.replace(caller.keystore, another.issue("newcomer", "/O=cluster/CN=newcomer").read_text())
        await step()
        for files in (node, caller):
            files.replace(files.truststore, another.certificate.read_text())
        await step()
        credentials = shown(issuer, "late")
        async with grpc.aio.secure_channel(address, credentials) as late:
            with pytest.raises(grpc.aio.AioRpcError):
                await PlacerStub(late).Place(PlaceRequest(), timeout=PATIENCE_MS / 1000)

    assert [b"CN=caller,O=cluster"] * 6 + [b"CN=newcomer,O=cluster"] * 4 == served.subjects
    assert 6 == log.getvalue().count("took a new certificate"), log.getvalue()


async def test_calls_that_share_a_stream_show_the_certificate_of_their_time(
    node: Files, caller: Files, issuer: Authority
) -> None:
    client = caller.transport()
    async with (
        serving(node.transport()) as (served, address),
        MultiplexedChannel(open_channel(address, client)) as channel,
    ):
        stub = PlacerStub(channel)
        for _ in range(2):
            await call(stub.Place, PlaceRequest(), deadline_ms=PATIENCE_MS)
        caller.replace(caller.keystore, issuer.issue("newcomer", "/O=cluster/CN=newcomer").read_text())
        client.look()
        await call(stub.Place, PlaceRequest(), deadline_ms=PATIENCE_MS)

    assert [b"CN=caller,O=cluster"] * 2 + [b"CN=newcomer,O=cluster"] == served.subjects


async def test_a_stream_outlives_its_certificate_and_its_connection_ends_with_it(
    node: Files, caller: Files, issuer: Authority
) -> None:
    client = caller.transport()
    async with serving(node.transport()) as (served, address), open_channel(address, client) as channel:
        streams = [HeartbeatStub(channel).BrokerHeartbeatStream()]

        async def beat(number: int) -> int:
            await streams[0].write(BrokerHeartbeatRequest(broker_id=number))
            answer: Any = await streams[0].read()
            return int(answer.throttle_time_ms)

        async def connections() -> int:
            return established(int(address.rpartition(":")[2]))

        before = await beat(1)
        caller.replace(caller.keystore, issuer.issue("newcomer", "/O=cluster/CN=newcomer").read_text())
        client.look()
        watching = asyncio.ensure_future(client.watch())
        await call(PlacerStub(channel).Place, PlaceRequest(), deadline_ms=PATIENCE_MS)
        between = await beat(2)
        while_open = await connections()
        await streams[0].done_writing()
        ended = await streams[0].read()
        streams.clear()  # a call that is over holds its connection as long as somebody holds the call
        afterwards = await eventually(connections, lambda count: count == 1)
        watching.cancel()

    assert (1, 2, grpc.aio.EOF) == (before, between, ended)
    assert (2, 1) == (while_open, afterwards)
    assert [b"CN=newcomer,O=cluster"] == served.subjects


@pytest.mark.parametrize("what", ["rubbish", "cut short", "foreign", "expired", "gone"])
async def test_what_does_not_fit_is_not_taken_and_the_old_one_stays(
    node: Files, caller: Files, issuer: Authority, another: Authority, log: io.StringIO, what: str
) -> None:
    good = node.keystore.read_text()
    bad = {
        "rubbish": lambda: "rubbish",
        "cut short": lambda: good[: len(good) // 2],
        "foreign": lambda: another.issue("node", "/O=cluster/CN=node").read_text(),
        "expired": lambda: issuer.issue("old", "/O=cluster/CN=node", days="-1").read_text(),
        "gone": lambda: None,
    }[what]()
    server = node.transport()
    async with serving(server) as (served, address):
        if bad is None:
            node.keystore.unlink()
        else:
            node.replace(node.keystore, bad)
        for _ in range(3):
            server.look()
        await ask(address, caller.transport())
        told = log.getvalue().count("the new certificate is not taken, and the old one stays")
        node.replace(node.keystore, issuer.issue("node", "/O=cluster/CN=node-again").read_text())
        server.look()
        await ask(address, caller.transport())

    assert 1 == told, log.getvalue()
    assert str(node.keystore) in log.getvalue()
    assert "commonName=node-again" in log.getvalue()
    assert 2 == served.calls


@pytest.mark.parametrize("emptied", ["keystore", "truststore"])
def test_a_file_that_is_written_in_place_while_it_is_read_is_not_taken_until_it_is_whole(
    node: Files, issuer: Authority, log: io.StringIO, emptied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = node.transport()
    newer = issuer.issue("node", "/O=cluster/CN=node-again").read_text()
    node.replace(node.keystore, newer)
    file = getattr(node, emptied)
    whole = file.read_text()

    def listener_tls(**files: Any) -> ssl.SSLContext:
        read = tls(**files)
        file.write_text("")  # and now its writer is slow
        return read

    tls = key_stores.listener_tls
    with monkeypatch.context() as patch:
        patch.setattr(key_stores, "listener_tls", listener_tls)
        server.look()
    told = log.getvalue()
    file.write_text(whole)
    server.look()

    assert "was written while they were read" in told
    assert "commonName=node-again" not in told
    assert "commonName=node-again" in log.getvalue()


def test_a_file_that_is_gone_once_it_was_read_is_not_taken(
    node: Files, issuer: Authority, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = node.transport()
    node.replace(node.keystore, issuer.issue("node", "/O=cluster/CN=node-again").read_text())
    read_bytes = Path.read_bytes

    def read_once(file: Path) -> bytes:
        content = read_bytes(file)
        if file == node.truststore:  # the last file that is read for its bytes
            monkeypatch.setattr(Path, "read_bytes", lambda file: read_bytes(file.with_suffix(".gone")))
        return content

    monkeypatch.setattr(Path, "read_bytes", read_once)
    server.look()

    assert "was written while they were read" in log.getvalue()


def test_a_file_that_may_be_read_only_later_is_taken_then(
    node: Files, issuer: Authority, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mode or owner is set after it was written: neither changes inode, size or time of change."""
    server = node.transport()
    node.replace(node.keystore, issuer.issue("node", "/O=cluster/CN=node-again").read_text())

    def refused(*files: Path) -> Any:
        raise ValueError("permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(transport, "read_stores", refused)
        server.look()
        server.look()
    assert 1 == log.getvalue().count("permission denied")
    server.look()

    assert "commonName=node-again" in log.getvalue()


def test_a_certificate_that_has_expired_is_no_start(tmp_path: Path, issuer: Authority) -> None:
    old = Files(tmp_path / "old", issuer, issuer.issue("old", "/CN=old", days="-1"))

    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location = .*: certificate has expired$"):
        old.transport()


class Clock(SystemClock):
    """The machine's, and later."""

    __slots__ = ("later_ms",)

    def __init__(self) -> None:
        self.later_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.later_ms


def test_a_certificate_that_expires_is_told_of_once(node: Files, issuer: Authority, log: io.StringIO) -> None:
    clock = Clock()
    server = Transport(keystore=node.keystore, truststore=node.truststore, clock=clock)
    server.look()
    before = log.getvalue()
    clock.later_ms = 3 * 24 * 3600 * 1000
    for _ in range(3):
        server.look()

    assert "" == before
    assert 1 == log.getvalue().count("the certificate has expired"), log.getvalue()
    assert "commonName=node" in log.getvalue()


RULES: Final = r"RULE:^spiffe:\/\/cluster\/(.*)$/$1/,RULE:^CN=(.*?),O=cluster$/$1/L"


@pytest.mark.parametrize(
    ("subject", "at", "rules", "principal"),
    [
        ("/O=cluster/CN=Alice", "DNS:localhost", "DEFAULT", "User:CN=Alice,O=cluster"),
        ("/O=cluster/CN=Alice", "DNS:localhost", RULES, "User:alice"),
        ("/O=cluster/CN=Alice", "DNS:localhost,URI:spiffe://cluster/ns/node", RULES, "User:ns/node"),
        ("/O=cluster/CN=Alice", "URI:spiffe://elsewhere/ns/node", RULES, "User:alice"),
        ("/O=cluster/CN=Alice", "URI:spiffe://elsewhere/ns/node", "DEFAULT", "User:spiffe://elsewhere/ns/node"),
        ("/O=cluster/CN=Alice", "URI:https://cluster/ns/node", "DEFAULT", "User:CN=Alice,O=cluster"),
    ],
)
async def test_a_caller_is_who_its_certificate_names(
    node: Files, issuer: Authority, subject: str, at: str, rules: str, principal: str
) -> None:
    server = Transport(keystore=node.keystore, truststore=node.truststore, principal_rules=rules)
    store = issuer.issue("alice", subject, at=at).read_bytes()
    credentials = grpc.ssl_channel_credentials(issuer.certificate.read_bytes(), store, store)
    async with serving(server) as (served, address), grpc.aio.secure_channel(address, credentials) as channel:
        for _ in range(2):
            await PlacerStub(channel).Place(PlaceRequest(), timeout=PATIENCE_MS / 1000)

    assert [principal] * 2 == list(map(str, served.principals))


async def test_who_shows_no_certificate_is_nobody(node: Files, issuer: Authority) -> None:
    credentials = grpc.ssl_channel_credentials(issuer.certificate.read_bytes())
    async with (
        serving(node.transport(requires_certificate=False)) as (served, address),
        grpc.aio.secure_channel(address, credentials) as channel,
    ):
        await PlacerStub(channel).Place(PlaceRequest(), timeout=PATIENCE_MS / 1000)

    assert ["User:ANONYMOUS"] == list(map(str, served.principals))


async def test_whom_no_rule_is_for_is_refused(node: Files, issuer: Authority) -> None:
    rules = r"RULE:^CN=(.*?),O=cluster$/$1/L"
    server = Transport(keystore=node.keystore, truststore=node.truststore, principal_rules=rules)
    async with (
        serving(server) as (served, address),
        grpc.aio.secure_channel(address, shown(issuer, "other")) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await PlacerStub(channel).Place(PlaceRequest(), timeout=PATIENCE_MS / 1000)

    assert [] == served.principals
    assert grpc.StatusCode.UNAUTHENTICATED is refused.value.code()
    assert "no rule is for the certificate of 'CN=other'" in str(refused.value.details())


async def test_a_guard_lets_in_the_super_users_and_tells_of_everybody_else(
    node: Files, caller: Files, issuer: Authority, log: io.StringIO
) -> None:
    server = node.transport()
    guard = Guard(server.principal, frozenset({"User:CN=caller,O=cluster"}))
    mallory = shown(issuer, "mallory")
    async with serving(server, guard) as (served, address):
        await ask(address, caller.transport())
        async with grpc.aio.secure_channel(address, mallory) as channel:
            stream = HeartbeatStub(channel).BrokerHeartbeatStream()
            for refusing in (PlacerStub(channel).Place(PlaceRequest(), timeout=PATIENCE_MS / 1000), stream.read()):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await refusing
                assert grpc.StatusCode.PERMISSION_DENIED is refused.value.code()
            health = await HealthStub(channel).Check(HealthCheckRequest(service="liveness"), timeout=PATIENCE_MS / 1000)

    assert 1 == served.calls
    assert HealthCheckResponse.SERVING == health.status
    for method in ("Placer/Place", "Heartbeat/BrokerHeartbeatStream"):
        assert f'event=denied principal="User:CN=mallory" operation=ClusterAction host={HOST}' in log.getvalue()
        assert f"request=kraft.service.{method} rule=DefaultDeny" in log.getvalue()


async def test_a_client_with_a_leader_speaks_as_its_transport_does(node: Files, caller: Files) -> None:
    async with serving(node.transport()) as (served, address):
        client = Client((address,), PlacerStub, transport=caller.transport())
        await client.call(lambda stub: stub.Place, PlaceRequest(), deadline_ms=PATIENCE_MS)
        await client.close()

    assert 1 == served.calls


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector: the names of spans, with the subject of who has sent them."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []

    async def Export(self, request: Any, context: Any) -> ExportTraceServiceResponse:
        subject = context.auth_context()["x509_subject"][0]
        scopes = (scope for resource in request.resource_spans for scope in resource.scope_spans)
        self.got += [(span.name, subject) for scope in scopes for span in scope.spans]
        return ExportTraceServiceResponse()


async def test_spans_go_by_tls_and_with_the_certificate_of_the_time(
    node: Files, caller: Files, issuer: Authority
) -> None:
    server, traces, client = Server(transport=node.transport()), Traces(), caller.transport()
    server.add(OTLP, trace_service_pb2_grpc.add_TraceServiceServicer_to_server, traces)
    port = server.listen(f"{HOST}:0")
    await server.start()
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"https://{HOST}:{port}"}
    telemetry = Telemetry.start(service="test", instance="test-1", environ=environ, transport=client)

    async def got(name: str) -> list[bytes]:
        return [subject for span, subject in traces.got if span == name]

    with telemetry.span("first"):
        pass
    first = await eventually(lambda: got("first"))
    caller.replace(caller.keystore, issuer.issue("newcomer", "/O=cluster/CN=newcomer").read_text())
    client.look()
    with telemetry.span("second"):
        pass
    second = await eventually(lambda: got("second"))
    await telemetry.close()
    await server.stop(grace_s=0)

    assert ([b"CN=caller,O=cluster"], [b"CN=newcomer,O=cluster"]) == (first, second)
