"""A listener with TLS: who its clients are by their certificates, and what is no TLS, or not of this authority."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from kraft.api.describe_cluster import DescribeClusterRequest
from quorate.network.client import Connection, Disconnected, Timeouts, connect
from quorate.network.connections import ConnectionCounts
from quorate.network.server import KafkaServer
from quorate.network.tls import TlsError, TlsServer
from quorate.nouns import ANONYMOUS, Principal
from quorate.protocol import ServerSettings
from quorate.tls.listener_tls import listener_tls
from quorate.tls.ssl_principals import SslPrincipals, parse_rules
from tests.network.certificates import Authority, authority
from tests.network.test_network import LOOPBACK, Handler, Reports, served, until

ALICE: Final = Principal("User", "alice")
RULES: Final = r"RULE:^CN=(.*?),.*$/$1/L,DEFAULT"
CLIENT_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def tls_server(
    issuer: Authority, reports: Reports, *, client_auth: str = "none", rules: str = RULES, **settings: int
) -> AsyncIterator[tuple[KafkaServer, Handler]]:
    handler = Handler()
    tls = listener_tls(
        keystore=issuer.issue("server", "/CN=localhost"), truststore=issuer.certificate, client_auth=client_auth
    )
    principals = SslPrincipals(parse_rules(rules))
    listening = {"tls": lambda: tls, "certified": principals, "report": reports, "settings": ServerSettings(**settings)}
    async with served(handler, **listening) as server:
        yield server, handler


async def asked(server: KafkaServer, context: ssl.SSLContext) -> None:
    patience = Timeouts(connect_ms=120_000, request_ms=120_000)
    async with await connect(LOOPBACK, server.port, tls=context, timeouts=patience) as client:
        await client.ask(DescribeClusterRequest())


async def ended(reader: asyncio.StreamReader) -> None:
    """Waits until the other side has ended the connection; an alert may come before."""
    with suppress(ConnectionResetError):
        await reader.read()


async def test_a_client_is_who_its_certificate_names(issuer: Authority) -> None:
    reports = Reports()
    async with tls_server(issuer, reports, client_auth="requested") as (server, handler):
        await asked(server, issuer.client(issuer.issue("alice", "/O=x/CN=Alice")))
        await asked(server, issuer.client(issuer.issue("plain", "/CN=Alice")))
        await asked(server, issuer.client())

    assert [ALICE, Principal("User", "CN=Alice"), ANONYMOUS] == [request.principal for request in handler.requests]
    assert all(client.is_tls for client in handler.clients)


async def test_a_certificate_is_not_asked_for_unless_the_listener_says_so(issuer: Authority) -> None:
    async with tls_server(issuer, Reports()) as (server, handler):
        await asked(server, issuer.client(issuer.issue("alice", "/O=x/CN=Alice")))

    assert [ANONYMOUS] == [request.principal for request in handler.requests]


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (None, "peer did not return a certificate"),
        ("other", "the client's certificate is refused: "),
        ("unmapped", "ssl.principal.mapping.rules: no rule is for the certificate of 'CN=nobody'"),
    ],
)
async def test_who_shows_no_fitting_certificate_is_sent_away(
    issuer: Authority, tmp_path: Path, shown: str | None, why: str
) -> None:
    reports = Reports()
    stores = {"other": authority(tmp_path, "other").issue("mallory", "/O=x/CN=alice")} if shown == "other" else {}
    if shown == "unmapped":
        stores["unmapped"] = issuer.issue("nobody", "/CN=nobody")
    rules = r"RULE:^CN=(.*?),.*$/$1/L"
    async with tls_server(issuer, reports, client_auth="required", rules=rules) as (server, handler):
        with pytest.raises(OSError, match=r".*"):
            await asked(server, issuer.client(stores.get(shown or "")))
        await asked(server, issuer.client(issuer.issue("alice", "/O=x/CN=Alice")))

    assert 1 == len(reports.reasons), reports.reasons
    assert why in reports.reasons[0]
    assert [ALICE] == [request.principal for request in handler.requests]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (struct.pack(">ihhih", 10, 18, 3, 1, -1), "the TLS handshake failed: wrong version number"),
        (b"GET / HTTP/1.1\r\n\r\n", "the TLS handshake failed: http request"),
        (bytes(64), "the TLS handshake failed: "),
        (CLIENT_HELLO + bytes(600), "the TLS handshake failed: "),
    ],
    ids=["Kafka in clear text", "HTTP", "zeros", "a hello of zeros"],
)
async def test_what_is_no_tls_ends_its_connection(issuer: Authority, sent: bytes, why: str) -> None:
    reports = Reports()
    async with tls_server(issuer, reports) as (server, _):
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(sent)
        await ended(reader)
        writer.close()
        await asked(server, issuer.client())

    assert 1 == len(reports.reasons)
    assert why in reports.reasons[0]


async def test_a_handshake_that_goes_no_further_ends_with_its_idle_time(issuer: Authority) -> None:
    reports = Reports()
    async with tls_server(issuer, reports, idle_ms_max=200) as (server, _):
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(CLIENT_HELLO[:7])
        await ended(reader)
        writer.close()

    assert ["no traffic for connections.max.idle.ms"] == reports.reasons


async def test_a_connection_counts_before_its_handshake_is_over(issuer: Authority) -> None:
    """And is the first to go for another: connections that only stay open take no place from clients."""
    handler, reports = Handler(), Reports()
    tls = listener_tls(keystore=issuer.issue("server", "/CN=localhost"))
    async with served(handler, tls=lambda: tls, report=reports, counts=ConnectionCounts(limit=1)) as server:
        reader, silent = await asyncio.open_connection(LOOPBACK, server.port)
        await until(lambda: len(server) == 1)
        await asked(server, issuer.client())
        await ended(reader)
        silent.close()

    full = "1 connections are open, as many as max.connections allows"
    assert [f"{full}; of those that have not logged in this one is the oldest"] == reports.reasons


async def test_a_client_that_says_it_has_ended_is_let_go(issuer: Authority) -> None:
    reports = Reports()
    async with tls_server(issuer, reports) as (server, handler):
        client: Connection = await connect(LOOPBACK, server.port, tls=issuer.client())
        await client.ask(DescribeClusterRequest())
        await client.close()
        await until(lambda: len(server) == 0)
        with pytest.raises(Disconnected):
            await client.ask(DescribeClusterRequest())

    assert ([], 1) == (reports.reasons, len(handler.requests))


def test_a_handshake_byte_by_byte_and_records_of_any_size(issuer: Authority) -> None:
    """The server's side alone, against OpenSSL's client."""
    server = TlsServer(listener_tls(keystore=issuer.issue("server", "/CN=localhost")))
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = issuer.client().wrap_bio(received, sent, server_hostname="localhost")
    heard = b""
    while True:
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            break
        for byte in sent.read():
            heard += server.receive_data(bytes([byte]))
        received.write(server.data_to_send())
    large = bytes(range(256)) * 4_000
    client.write(large)
    heard += server.receive_data(sent.read())
    received.write(server.data_to_send())
    server.send(large)
    received.write(server.data_to_send())
    told = b""
    while len(told) < len(large):
        told += client.read(1 << 20)

    assert (large, large, True) == (heard, told, server.is_ready)
    changed = bytearray(b"")
    client.write(b"more")
    changed += sent.read()
    changed[-1] ^= 1
    with pytest.raises(TlsError, match="TLS failed"):
        server.receive_data(bytes(changed))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory; it must have, as PEM, a private key"),
        ("", "it must have, as PEM, a private key"),
        ("certificate", "it must have, as PEM, a private key"),
        ("locked", "it must have, as PEM, a private key that ssl.key.password opens"),
    ],
)
def test_a_key_store_that_is_none_is_named(issuer: Authority, tmp_path: Path, content: str | None, why: str) -> None:
    keystore = tmp_path / "store.pem"
    if content == "certificate":
        keystore.write_text(issuer.certificate.read_text())
    elif content == "locked":
        keystore = issuer.issue("locked", "/CN=x", password="secret")
        listener_tls(keystore=keystore, key_password="secret")
    elif content is not None:
        keystore.write_text(content)

    with pytest.raises(ValueError, match=r"ssl\.keystore\.location") as refused:
        listener_tls(keystore=keystore, key_password="wrong" if content == "locked" else "")
    assert why in str(refused.value)
    assert str(keystore) in str(refused.value)


def test_a_trust_store_that_is_none_is_named(issuer: Authority, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")

    with pytest.raises(ValueError, match=r"ssl.truststore.location = .*empty.pem: .*it must have certificates, as PEM"):
        listener_tls(keystore=issuer.issue("server", "/CN=localhost"), truststore=empty)
