"""A secret that goes through every API which takes one is in nothing that a control plane writes or answers.

The log itself has what has to be kept, as Kafka's has; so have the files of settings. Tables of the pipeline are looked
at in tests/pipeline/test_audit.py and test_report.py.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as altered
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from deploy.local.plan import CLIENTS, PlanTls, Process, make_plan, secured
from deploy.local.ports import HOST, free_ports
from deploy.local.processes import Running
from kraft.api.alter_configs_pb2 import AlterConfigsRequest
from kraft.api.alter_user_scram_credentials_pb2 import AlterUserScramCredentialsRequest
from kraft.api.create_delegation_token_pb2 import CreateDelegationTokenRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.api.describe_user_scram_credentials_pb2 import DescribeUserScramCredentialsRequest
from kraft.api.expire_delegation_token_pb2 import ExpireDelegationTokenRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from kraft.api.renew_delegation_token_pb2 import RenewDelegationTokenRequest
from kraft.api.sasl_authenticate import SaslAuthenticateRequest
from kraft.api.sasl_handshake import SaslHandshakeRequest
from kraft.service import controller_pb2
from kraft.service.admin_pb2 import AdminRequest, AdminRequests
from kraft.service.controller_pb2 import AuthenticateRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.observer_pb2 import (
    DiffImagesRequest,
    GetTraceRequest,
    ListChangesRequest,
    ListTracesRequest,
    QueryRequest,
    WatchImageRequest,
)
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.controller.access.scram_keys import ITERATIONS_MIN, salted_password
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import BROKER
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId
from quorate.protocol.apis import api_of
from quorate.protocol.messages import encode_request
from quorate.protocol.sasl.client import Begin
from quorate.wire.protobuf import to_struct
from tests.e2e.calls import WITHIN_S, call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster
from tests.e2e.secured import PATIENCE, by
from tests.e2e.test_secrets import leaks
from tests.network.certificates import Authority, authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

KEY: Final = "canary of the key of all tokens"
KEY_PASSWORD: Final = "canary that opens the key of a gateway"
ROOT_PASSWORD: Final = "canary of root"
"""In a gateway's settings."""
GATEWAYS: Final = ("PLAIN", "SCRAM-SHA-512")
"""The mechanisms of a gateway."""
PASSWORD: Final = "canary of alice"
SALTED: Final = b"canary, salted and 32 bytes long"
SALT: Final = b"canary of a salt"
PLUGIN: Final = "my.plugin.api.key"
SENT: Final = {
    "AlterConfigs": "canary of a config that is replaced",
    "IncrementalAlterConfigs": "canary of a config that is set",
    "refused": "canary of a config that is refused",
    "Submit": "canary of a config in an envelope",
    "AdminStream": "canary of a config in a stream",
    "wrong password": "canary of mallory",
    "no base64": "Y2FuYXJ5IG9mIG5vIGJhc2U2NA",
    "no scheme": "canary-of-a-bearer",
    "guessed": "canary of an hmac that was guessed, in 64 bytes as the real ones.",
    "on Kafka's wire": "canary of a config by a tool of Kafka's",
    "wrong by PLAIN": "canary of a password that is not root's",
    "wrong by SCRAM": "canary of a password that is not alice's",
    "no message of PLAIN": "canary in place of three texts",
}
PAST: Final = (("history",), ("history", "--json"), ("image", "diff", "0.."), ("image", "diff", "0..", "--json"))
WITH_SECRETS: Final = ("configs", "scram_users", "delegation_tokens")
TRACES: Final = 1_000
"""More than there are."""
REFLECTED: Final = ("kraft.service.Observer", "kraft.service.Controller")
COVERED: Final = {
    "AlterConfigsRequest",
    "AlterUserScramCredentialsRequest",
    "AuthenticateRequest",
    "ExpireDelegationTokenRequest",
    "IncrementalAlterConfigsRequest",
    "RenewDelegationTokenRequest",
}
"""The requests below that take a secret: those whose schema says so must all be here."""

Metadata = tuple[tuple[str, str], ...]


class Spoken(Running):
    """Processes that write all they have to say, each with a page of metrics."""

    pages: dict[str, str]

    async def spawn(self, process: Process, *, environ: Mapping[str, str] | None = None) -> None:
        (port,) = free_ports(1)
        self.__dict__.setdefault("pages", {})[process.name] = f"http://{HOST}:{port}/metrics"
        spoken = {
            "QUORATE_LOG_LEVEL": "debug",
            "OTEL_METRICS_EXPORTER": "prometheus",
            "OTEL_EXPORTER_PROMETHEUS_HOST": HOST,
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
        }
        await super().spawn(process, environ={**spoken, **(environ or {})})


@dataclass
class Plane:
    """A control plane by TLS whose admins log in, and all that it has answered so far."""

    cluster: Cluster
    spoken: Spoken
    credentials: grpc.ChannelCredentials
    issuer: Authority
    answers: list[str] = field(default_factory=list)

    async def ask(self, rpc: str, request: Message, metadata: Metadata = (), *, at: NodeId = 1) -> Any:
        """The answer, or the ApiError with which it was refused."""
        async with grpc.aio.secure_channel(self.cluster.controller(at).address, self.credentials) as channel:
            method = getattr(ControllerStub(channel), rpc)

            def call(request: Message, timeout: float) -> Any:
                return method(request, timeout=timeout, metadata=metadata)

            try:
                answer = (await call_with_retries(call, request)).response
            except ApiError as refusal:
                self.answers.append(repr((refusal.code.name, refusal, refusal.message, refusal.metadata)))
                return refusal
        if rpc != "CreateDelegationToken":  # the one answer that has it
            self.answers.append(f"{answer!r} {answer.SerializeToString()!r}")
        return answer

    def spans(self) -> bytes:
        """The observer's database, with what it has not moved into its main file yet."""
        return b"".join(path.read_bytes() for path in sorted(self.cluster.plan.directory.glob("observer.db*")))

    async def written(self) -> dict[str, bytes]:
        """By name: what processes have logged, spans, metrics, dumps of the log, all answers."""
        plan = self.cluster.plan
        found = {path.name: path.read_bytes() for path in plan.directory.glob("*.log")}
        found["spans"] = self.spans()
        found["state"] = b"".join(path.read_bytes() for path in sorted(plan.directory.glob("state.db*")))
        for name, page in self.spoken.pages.items():
            found[f"metrics of {name}"] = await asyncio.to_thread(_read, page)
        (segment, *_) = sorted(plan.log_dir(1).rglob("*.log"))
        image = ("image", "show", "--json", "--offline", segment.parent)
        for command in (("log", "dump", segment), ("log", "dump", "--json", segment), image):
            found[" ".join(map(str, command[:-1]))] = await _told(*command)
        for past in PAST:
            found[" ".join(past)] = await _told(*past, "--offline", segment.parent)
        found |= await self._observed()
        found["answers"] = "\n".join(self.answers).encode()
        return found

    async def _observed(self) -> dict[str, bytes]:
        """By name: what the observer answers of each table by SQL, of all changes and of all traces, and reflection."""
        found: dict[str, bytes] = {}
        async with grpc.aio.secure_channel(self.cluster.plan.observer.address, self.credentials) as channel:
            stub = ObserverStub(channel)
            for noun in WITH_SECRETS:
                asked = QueryRequest(sql=f"SELECT * FROM {noun}")
                found[f"SQL of {noun}"] = b"".join([each.SerializeToString() async for each in stub.Query(asked)])
            changes = await stub.ListChanges(ListChangesRequest(), timeout=WITHIN_S)
            found["changes"] = changes.SerializeToString() + repr(changes).encode()
            between = stub.DiffImages(DiffImagesRequest(), timeout=WITHIN_S)
            found["diff"] = b"".join([each.SerializeToString() async for each in between])
            found["watch"] = b""
            watch = stub.WatchImage(WatchImageRequest(from_offset=0), timeout=WITHIN_S)
            async for part in watch:
                found["watch"] += part.SerializeToString()
                if part.next_offset >= changes.to_offset:
                    break
            watch.cancel()
            found["traces"] = b""
            for trace in (await stub.ListTraces(ListTracesRequest(limit=TRACES), timeout=WITHIN_S)).traces:
                told = await stub.GetTrace(GetTraceRequest(trace_id=trace.trace_id), timeout=WITHIN_S)
                found["traces"] += told.SerializeToString()
            reflected = [ServerReflectionRequest(list_services="")]
            reflected += [ServerReflectionRequest(file_containing_symbol=name) for name in REFLECTED]
            told_of = ServerReflectionStub(channel).ServerReflectionInfo(iter(reflected), timeout=WITHIN_S)
            found["reflection"] = b"".join([each.SerializeToString() async for each in told_of])
        return found


def _read(page: str) -> bytes:
    with urllib.request.urlopen(page, timeout=60) as answer:
        text: bytes = answer.read()
    return text


async def _told(*command: object) -> bytes:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "quorate.cli", *map(str, command),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(WITHIN_S):
        told, _ = await child.communicate()
    assert child.returncode == 0, told
    return told


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    issuer = authority(tmp_path_factory.mktemp("certificates"))
    plan = make_plan(tmp_path_factory.mktemp("plane") / "plane", with_gateways=True)
    plan = altered(plan, gateways=plan.gateways[:1])
    names = [*(each.name for each in plan.processes), CLIENTS]
    stores = {name: (issuer.issue(name, f"/CN={name}"), issuer.certificate) for name in names}
    plan = altered(secured(plan, PlanTls(stores=stores)), brokers=())
    for controller in plan.controllers:
        controller.settings.update(
            {
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": ";".join((*(f"User:CN={name}" for name in names), "User:root")),
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "delegation.token.secret.key": KEY,
            }
        )
    for node_id in VOTERS:
        plan.quorum[node_id - 1].settings.update(PATIENT[node_id])
    plan.gateways[0].settings.update(
        {
            "listener.security.protocol.map": "CONTROLLER:SASL_SSL",
            "ssl.keystore.location": str(issuer.issue("listener", "/CN=localhost", password=KEY_PASSWORD)),
            "ssl.key.password": KEY_PASSWORD,
            "sasl.enabled.mechanisms": ",".join(GATEWAYS),
            "listener.name.controller.plain.sasl.jaas.config": (
                f'PlainLoginModule required user_root="{ROOT_PASSWORD}";'
            ),
        }
    )
    plan.observer.settings["observer.state.database.url"] = f"sqlite:///{plan.directory / 'state.db'}"
    cluster = Cluster(plan)
    cluster.running = spoken = Spoken(plan)
    keystore = stores[CLIENTS][0].read_bytes()
    credentials = grpc.ssl_channel_credentials(issuer.certificate.read_bytes(), keystore, keystore)
    try:
        await cluster.start()
        yield Plane(cluster, spoken, credentials, issuer)
    finally:
        await cluster.stop()


def basic(password: str, user: str = "alice") -> Metadata:
    return (("authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()),)


def setting(value: str, name: str = PLUGIN) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=BROKER)
    resource.configs.add(name=name, value=value)
    return IncrementalAlterConfigsRequest(resources=[resource])


def replacing(value: str) -> AlterConfigsRequest:
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=BROKER)
    resource.configs.add(name=PLUGIN, value=value)
    return AlterConfigsRequest(resources=[resource])


def scram(
    user: str, *, salt: bytes, salted: bytes, iterations: int = ITERATIONS_MIN
) -> AlterUserScramCredentialsRequest:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user, mechanism=2, iterations=iterations, salt=salt, salted_password=salted
    )
    return AlterUserScramCredentialsRequest(upsertions=[upsertion])


async def send_configs(plane: Plane) -> None:
    """Each way in which a config is set; the last is refused by the authorizer, for who has no right."""
    for at, rpc, request in (
        (1, "AlterConfigs", replacing(SENT["AlterConfigs"])),
        (2, "IncrementalAlterConfigs", setting(SENT["IncrementalAlterConfigs"])),
        (3, "IncrementalAlterConfigs", setting(SENT["refused"], name="listener.name.secure.ssl.key.password")),
        (1, "Submit", AdminRequest(incremental_alter_configs=setting(SENT["Submit"]), validate_only=True)),
    ):
        await plane.ask(rpc, request, at=at)
    address = plane.cluster.controller(2).address
    asked = AdminRequest(correlation_id=1, incremental_alter_configs=setting(SENT["AdminStream"]))
    async with grpc.aio.secure_channel(address, plane.credentials) as channel:
        call = ControllerStub(channel).AdminStream(iter([AdminRequests(requests=[asked])]), timeout=WITHIN_S)
        plane.answers.append(repr(await anext(aiter(call))))
    described = DescribeConfigsRequest(resources=[DescribeConfigsRequest.DescribeConfigsResource(resource_type=BROKER)])
    await plane.ask("DescribeConfigs", described)


async def send_logins(plane: Plane) -> None:
    """At the active controller and at standbys, which pass on who it is."""
    wanted = DescribeUserScramCredentialsRequest()
    for at in VOTERS:

        async def logged_in(at: NodeId = at) -> bool:
            answer = await plane.ask("DescribeUserScramCredentials", wanted, basic(PASSWORD), at=at)
            return getattr(answer, "code", None) is not ErrorCode.SASL_AUTHENTICATION_FAILED

        await eventually(logged_in)
        for text in (basic(SENT["wrong password"])[0][1], "Basic " + SENT["no base64"], SENT["no scheme"]):
            refused = await plane.ask("DescribeUserScramCredentials", wanted, (("authorization", text),), at=at)
            assert ErrorCode.SASL_AUTHENTICATION_FAILED is refused.code, (at, refused)
    first = f"n,,n=alice,r={SENT['no scheme']}".encode()
    await plane.ask("Authenticate", AuthenticateRequest(mechanism="SCRAM-SHA-512", messages=[first, SALTED]))


async def send_tokens(plane: Plane) -> bytes:
    """The HMAC of a token that was made, used in each way, and ended."""
    token = await plane.ask("CreateDelegationToken", CreateDelegationTokenRequest(max_lifetime_ms=-1), basic(PASSWORD))
    hmac: bytes = token.hmac
    assert 64 == len(hmac), token
    text = f"DelegationToken {token.token_id}:{base64.b64encode(hmac).decode()}"
    for at in VOTERS:
        for value in (text, text[:-8] + "AAAAAA=="):
            await plane.ask("DescribeUserScramCredentials", DescribeUserScramCredentialsRequest(),
                            (("authorization", value),), at=at)  # fmt: skip
        for known in (hmac, SENT["guessed"].encode()):
            renewing = RenewDelegationTokenRequest(hmac=known, renew_period_ms=-1)
            await plane.ask("RenewDelegationToken", renewing, basic(PASSWORD), at=at)
    for known in (SENT["guessed"].encode(), hmac, hmac):
        ending = ExpireDelegationTokenRequest(hmac=known, expiry_time_period_ms=-1)
        await plane.ask("ExpireDelegationToken", ending, basic(PASSWORD))
    return hmac


async def send_by_kafkas_wire(plane: Plane) -> None:
    """At the gateway: logins that succeed and fail, what is no login, and a config."""
    host, _, port = plane.cluster.plan.bootstrap_controllers.rpartition(":")
    tls = plane.issuer.client()

    async def connected(begin: Begin | None) -> Connection:
        return await connect(host, int(port), timeouts=PATIENCE, tls=tls, begin=begin)

    async with await connected(by("PLAIN", "root", ROOT_PASSWORD)) as root:
        plane.answers.append(repr(await root.ask(to_struct(setting(SENT["on Kafka's wire"])))))
    async with await connected(by("SCRAM-SHA-512", "alice", PASSWORD)) as alice:
        plane.answers.append(repr(await alice.ask(to_struct(setting(SENT["on Kafka's wire"])))))
    for begin in (
        by("PLAIN", "root", SENT["wrong by PLAIN"]),
        by("SCRAM-SHA-512", "alice", SENT["wrong by SCRAM"]),
    ):
        with pytest.raises(ApiError) as refused:
            await connected(begin)
        assert ErrorCode.SASL_AUTHENTICATION_FAILED is refused.value.code
        plane.answers.append(repr((refused.value, refused.value.message, refused.value.metadata)))
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    for request, version in (
        (SaslHandshakeRequest("PLAIN"), 1),
        (SaslAuthenticateRequest(SENT["no message of PLAIN"].encode()), 2),
    ):
        frame = encode_request(api_of(type(request)), request, version=version, correlation_id=1, client_id="canary")
        writer.write(len(frame).to_bytes(4, "big") + frame)
    plane.answers.append(repr(await reader.read()))
    writer.close()


async def test_no_secret_that_was_sent_is_in_anything_that_was_written(plane: Plane) -> None:
    salt = secrets.token_bytes(16)
    hers = salted_password(2, PASSWORD.encode(), salt, ITERATIONS_MIN)
    for at, request in (
        (1, scram("alice", salt=salt, salted=hers)),
        (2, scram("bob", salt=SALT, salted=SALTED)),
        (3, scram("carol", salt=SALT, salted=SALTED, iterations=1)),
    ):
        await plane.ask("AlterUserScramCredentials", request, at=at)
    await send_configs(plane)
    await send_logins(plane)
    await send_by_kafkas_wire(plane)
    hmac = await send_tokens(plane)
    secret = [
        KEY_PASSWORD.encode(),
        ROOT_PASSWORD.encode(),
        KEY.encode(),
        PASSWORD.encode(),
        SALTED,
        SALT,
        salt,
        hers,
        hmac,
        *(each.encode() for each in SENT.values()),
    ]

    async def spans() -> bool:
        return b"ExpireDelegationToken" in plane.spans()

    await eventually(spans)
    written = await plane.written()

    # It looks at the right things: what is no secret of the same requests is there.
    assert leaks(b"alice", {name: text for name, text in written.items() if name.startswith(("log dump", "image"))})
    assert leaks(PLUGIN.encode(), {name: text for name, text in written.items() if name.startswith("log dump")})
    assert {"SQL of scram_users", "changes", "diff", "watch", "history"} <= set(leaks(b"alice", written))
    assert "traces" in leaks(b"ExpireDelegationToken", written)
    assert "reflection" in leaks(b"ListChanges", written)
    assert all(b"kraft_" in text for name, text in written.items() if name.startswith("metrics of"))
    assert b"a login has failed" in written["controller-2.log"]
    assert all(f"authentication with {each} failed".encode() in written["gateway-1.log"] for each in GATEWAYS)
    assert ErrorCode.SASL_AUTHENTICATION_FAILED.name.encode() in written["answers"]
    assert {} == {each: where for each in secret if (where := leaks(each, written))}


async def test_every_request_whose_schema_names_a_secret_is_among_those_that_are_sent() -> None:
    service = controller_pb2.DESCRIPTOR.services_by_name["Controller"]
    taking = {rpc.input_type.name for rpc in service.methods if any(_secrets(rpc.input_type, set()))}

    assert COVERED | {"AdminRequest", "AdminRequests"} == taking | {"AuthenticateRequest"}


def _secrets(message: Descriptor, seen: set[str]) -> Iterator[str]:
    """The fields of a message, and of those in it, that the schema keeps out of what is written."""
    if message.full_name in seen:
        return
    seen.add(message.full_name)
    for each in message.fields:
        if each.GetOptions().debug_redact:
            yield each.full_name
        if each.message_type is not None:
            yield from _secrets(each.message_type, seen)
