"""A login of the command's calls by `--command-config`: SASL_SSL as for Kafka's tools, at controllers alone."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.cli.directories import run
from tests.network.certificates import authority

MECHANISM = "sasl.mechanism=SCRAM-SHA-512"
ALICE = 'sasl.jaas.config=…ScramLoginModule required username="alice" password="pä:ss";'
TOKEN = 'sasl.jaas.config=…ScramLoginModule required username="id-1" password="aG1hYw==" tokenauth="true";'
TLS = "ssl.keystore.location=/k.pem\nssl.truststore.location=/t.pem"


def config(place: Path, *lines: str) -> Path:
    file = place / "client.properties"
    file.write_text("\n".join(lines) + "\n")
    return file


class Told:
    """A server that notes what stands beside each call, and answers with an empty message."""

    def __init__(self) -> None:
        self.authorization: list[Any] = []
        self.port = 0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        self.authorization.append(dict(details.invocation_metadata).get("authorization"))
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """Behind TLS that asks for certificates; the client's are beside it."""
    issuer = authority(tmp_path)
    own = issuer.issue("server", "/CN=server").read_bytes()
    issuer.issue("client", "/CN=client")
    credentials = grpc.ssl_server_credentials([(own, own)], issuer.certificate.read_bytes(), require_client_auth=True)
    handler = Told()
    server = grpc.server(ThreadPoolExecutor(1), handlers=(handler,))
    handler.port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield handler
    server.stop(None).wait()


@pytest.mark.parametrize(
    ("jaas", "expected"),
    [
        (ALICE, "Basic " + base64.b64encode("alice:pä:ss".encode()).decode()),
        (TOKEN, "DelegationToken id-1:aG1hYw=="),
    ],
    ids=["password", "token"],
)
def test_a_controller_gets_the_login_with_the_call(told: Told, tmp_path: Path, jaas: str, expected: str) -> None:
    tls = f"ssl.keystore.location={tmp_path}/client.pem\nssl.truststore.location={tmp_path}/authority.pem"
    asked = ("call", "DescribeQuorum", "--controller", f"127.0.0.1:{told.port}", "--seconds-max", 20)
    by_login = run(*asked, "--command-config", config(tmp_path, "security.protocol=SASL_SSL", MECHANISM, jaas, tls))
    by_certificate = run(*asked, "--command-config", config(tmp_path, "security.protocol=SSL", tls))

    assert (0, 0) == (by_login.code, by_certificate.code), (by_login, by_certificate)
    assert [expected, None] == told.authorization


def test_the_line_of_grpcurl_has_no_secret(tmp_path: Path) -> None:
    given = config(tmp_path, "security.protocol=SASL_SSL", MECHANISM, ALICE, TLS)
    ran = run("topics", "delete", "a", "--controller", "h:1", "--command-config", given, "--print-grpcurl")

    assert ["-expand-headers", "-H", "authorization: ${AUTHORIZATION}"] == shlex.split(ran.out)[7:10]
    assert base64.b64encode(b"alice")[:-2].decode() not in ran.out


@pytest.mark.parametrize(
    ("lines", "option", "words"),
    [
        ((MECHANISM, ALICE, TLS), "--observer", "a login is for controllers, and --observer calls none"),
        (("sasl.mechanism=PLAIN", ALICE, TLS), "--controller", "sasl.mechanism is 'PLAIN'; over gRPC it is one of"),
        ((ALICE, TLS), "--controller", "sasl.mechanism is 'GSSAPI'; it is one of"),
        ((MECHANISM, TLS), "--controller", "sasl.jaas.config has no username and no password"),
        ((MECHANISM, ALICE.replace("alice", "a:b"), TLS), "--controller", "has a username with a colon"),
        ((MECHANISM, ALICE), "--controller", "ssl.keystore.location is missing"),
    ],
    ids=["observer", "PLAIN", "no mechanism", "no user", "colon", "no files"],
)
def test_a_login_that_cannot_be_is_refused_before_any_call(
    tmp_path: Path, lines: tuple[str, ...], option: str, words: str
) -> None:
    api = {"--observer": "Query", "--controller": "DescribeQuorum"}[option]
    given = config(tmp_path, "security.protocol=SASL_SSL", *lines)
    ran = run("call", api, option, "127.0.0.1:1", "--command-config", given)

    assert (2, "") == (ran.code, ran.out)
    assert words in ran.err
    assert "pä:ss" not in ran.err
