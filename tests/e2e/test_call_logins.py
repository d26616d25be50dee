"""Admins who log in over gRPC, with a password or a delegation token in the metadata of their calls."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls
from kraft.api.alter_user_scram_credentials_pb2 import AlterUserScramCredentialsRequest
from kraft.api.create_acls_pb2 import CreateAclsRequest
from kraft.api.create_delegation_token_pb2 import CreateDelegationTokenRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.api.expire_delegation_token_pb2 import ExpireDelegationTokenRequest
from kraft.service.admin_pb2 import AdminRequest, AdminRequests
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.controller.access.scram_keys import ITERATIONS_MIN, salted_password
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.nouns import NodeId
from tests.e2e.calls import DEADLINE_MS, WITHIN_S, call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane, topics_request
from tests.e2e.commanded import commanded, controllers
from tests.e2e.test_run import grpcurl as grpcurl  # a fixture
from tests.network.certificates import Authority, authority, openssl_says

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PASSWORD: Final = "correct horse battery"
WRONG: Final = "wrong horse battery"
ROOT: Final = Path(__file__).resolve().parents[2]
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN: Final = ErrorCode.SASL_AUTHENTICATION_FAILED
REVOKED: Final = "revoked"
"""The file of what every controller refuses."""

Metadata = tuple[tuple[str, str], ...]


def by_password(password: str = PASSWORD, user: str = "alice") -> Metadata:
    return (("authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()),)


@dataclass(frozen=True, slots=True)
class Admins:
    """The control plane, and who issues certificates: all admins have one, which gives no right."""

    cluster: Cluster
    issuer: Authority

    def credentials(self, name: str = "admins") -> grpc.ChannelCredentials:
        pem = (self.issuer.directory / f"{name}.pem").read_bytes()
        return grpc.ssl_channel_credentials(self.issuer.certificate.read_bytes(), pem, pem)

    async def ask(self, node_id: NodeId, rpc: str, request: Any, metadata: Metadata = ()) -> Any:
        """Raises ApiError."""
        async with grpc.aio.secure_channel(self.cluster.controller(node_id).address, self.credentials()) as channel:
            method = getattr(ControllerStub(channel), rpc)

            def call(request: Any, timeout: float) -> Any:
                return method(request, timeout=timeout, metadata=metadata)

            return (await call_with_retries(call, request)).response

    async def create(self, node_id: NodeId, name: str, metadata: Metadata = ()) -> ErrorCode:
        """How it ends to create a topic; that it is there already is as good."""
        try:
            answer = await self.ask(node_id, "CreateTopics", topics_request((name,), timeout_ms=DEADLINE_MS), metadata)
        except ApiError as refusal:
            return refusal.code
        code = ErrorCode(answer.topics[0].error_code)
        return ErrorCode.NONE if code is ErrorCode.TOPIC_ALREADY_EXISTS else code

    async def ends(self, end: Callable[[NodeId], Any], wanted: ErrorCode) -> dict[NodeId, ErrorCode]:
        """How something ends at each controller, once it has replayed what was written before."""
        return {
            node_id: await eventually(lambda node_id=node_id: end(node_id), lambda code: code is wanted)  # type: ignore[misc]
            for node_id in VOTERS
        }

    def written(self) -> str:
        return "".join(path.read_text() for path in sorted(self.cluster.plan.directory.glob("*.log")))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admins(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Admins]:
    issuer = authority(tmp_path_factory.mktemp("certificates"))

    def certificates(plan: ClusterPlan) -> PlanTls:
        names = [*(each.name for each in plan.processes), CLIENTS]
        stores = {name: (issuer.issue(name, f"/CN={name}"), issuer.certificate) for name in names}
        for controller in plan.controllers:
            controller.settings["super.users"] = ";".join(f"User:CN={name}" for name in names)
        return PlanTls(stores=stores)

    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "delegation.token.secret.key": "of this cluster",
        "ssl.revoked.certificates.location": str(issuer.directory / REVOKED),
    }
    issuer.issue("admins", "/CN=admins")
    (issuer.directory / REVOKED).write_text("# nobody yet\n")
    async with control_plane(
        tmp_path_factory.mktemp("logins"), quorum_settings=PATIENT, controller_settings=settings, tls=certificates
    ) as cluster:
        made = Admins(cluster, issuer)
        await _alice(made)
        yield made


async def _has_password(admins: Admins, user: str, password: str) -> None:
    salt = secrets.token_bytes(16)
    upsert = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=2,
        iterations=ITERATIONS_MIN,
        salt=salt,
        salted_password=salted_password(2, password.encode(), salt, ITERATIONS_MIN),
    )
    done = await call_with_retries(
        admins.cluster.controller_stub(1).AlterUserScramCredentials,
        AlterUserScramCredentialsRequest(upsertions=[upsert]),
    )
    assert [ErrorCode.NONE] == [each.error_code for each in done.response.results]


async def _alice(admins: Admins) -> None:
    """She has a password, and may create topics that begin with her name."""
    stub = admins.cluster.controller_stub(1)
    await _has_password(admins, "alice", PASSWORD)
    entry = CreateAclsRequest.AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="alice-",
        resource_pattern_type=PatternType.PREFIXED,
        principal="User:alice",
        host="127.0.0.1",
        operation=AclOperation.CREATE,
        permission_type=AclPermission.ALLOW,
    )
    made = await call_with_retries(stub.CreateAcls, CreateAclsRequest(creations=[entry]))
    assert [ErrorCode.NONE] == [each.error_code for each in made.response.results]


async def test_a_password_gives_its_users_rights_at_every_controller(admins: Admins) -> None:
    """A standby passes the call on in the user's name, and not the password."""

    async def hers(node_id: NodeId) -> ErrorCode:
        return await admins.create(node_id, f"alice-{node_id}", by_password())

    assert dict.fromkeys(VOTERS, ErrorCode.NONE) == await admins.ends(hers, ErrorCode.NONE)
    for node_id in VOTERS:
        assert DENIED == await admins.create(node_id, f"bobs-{node_id}", by_password())
        assert DENIED == await admins.create(node_id, f"alice-also-{node_id}")  # by the certificate
        assert UNKNOWN == await admins.create(node_id, f"alice-also-{node_id}", by_password(WRONG))


async def test_a_stream_has_the_login_with_which_it_was_opened(admins: Admins) -> None:
    request = AdminRequest(correlation_id=1, create_topics=topics_request(("alice-streams",), timeout_ms=DEADLINE_MS))
    address = admins.cluster.controller(1).address

    async def ends(metadata: Metadata) -> str | ErrorCode:
        async with grpc.aio.secure_channel(address, admins.credentials()) as channel:
            call = ControllerStub(channel).AdminStream(
                iter([AdminRequests(requests=[request])]), timeout=WITHIN_S, metadata=metadata
            )
            try:
                answer: Any = await anext(aiter(call))
            except grpc.aio.AioRpcError as error:
                return str(error.code().name)
        response = answer.responses[0]
        if response.HasField("error"):
            return response.error.message
        code = ErrorCode(response.create_topics.topics[0].error_code)
        return ErrorCode.NONE if code is ErrorCode.TOPIC_ALREADY_EXISTS else code

    for metadata, end in (((), DENIED), (by_password(WRONG), "UNAUTHENTICATED"), (by_password(), ErrorCode.NONE)):

        async def ended(metadata: Metadata = metadata) -> str | ErrorCode:
            return await ends(metadata)

        assert end == await eventually(ended, end.__eq__)


async def test_a_stream_ends_with_the_password_that_it_was_opened_with(admins: Admins) -> None:
    """At a standby, too: each judges by what it has replayed."""
    first, second = "the first password", "the second password"
    await _has_password(admins, "bob", first)
    request = AdminRequest(correlation_id=1, create_topics=topics_request(("bobs",), timeout_ms=DEADLINE_MS))
    envelope = AdminRequests(requests=[request])

    async def ends(stream: Any) -> str:
        await stream.write(envelope)
        (response,) = (await stream.read()).responses
        return str(response.error.message) if response.HasField("error") else "heard"

    async def logs_in(node_id: NodeId, password: str) -> bool:
        return await admins.create(node_id, "bobs", by_password(password, "bob")) is DENIED

    for node_id in VOTERS:
        await eventually(lambda node_id=node_id: logs_in(node_id, first))  # type: ignore[misc]
    address = {node_id: admins.cluster.controller(node_id).address for node_id in VOTERS}
    async with AsyncExitStack() as stack:
        streams = {}
        for node_id in VOTERS:
            channel = await stack.enter_async_context(grpc.aio.secure_channel(address[node_id], admins.credentials()))
            metadata = by_password(first, "bob")
            streams[node_id] = ControllerStub(channel).AdminStream(timeout=WITHIN_S, metadata=metadata)
        assert {"heard"} == {
            await eventually(lambda each=each: ends(each), "heard".__eq__) for each in streams.values()
        }  # type: ignore[misc]
        await _has_password(admins, "bob", second)
        over = "the password was changed or taken away since the login"
        assert {over} == {await eventually(lambda each=each: ends(each), over.__eq__) for each in streams.values()}  # type: ignore[misc]


async def test_a_delegation_token_gives_its_owners_rights_and_no_other_token(admins: Admins) -> None:
    asked = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    token = await admins.ask(1, "CreateDelegationToken", asked, by_password())
    assert (ErrorCode.NONE, "alice") == (token.error_code, token.principal_name)
    hmac = base64.b64encode(token.hmac).decode()
    with_token: Metadata = (("authorization", f"DelegationToken {token.token_id}:{hmac}"),)

    async def hers(node_id: NodeId) -> ErrorCode:
        return await admins.create(node_id, f"alice-by-token-{node_id}", with_token)

    assert dict.fromkeys(VOTERS, ErrorCode.NONE) == await admins.ends(hers, ErrorCode.NONE)
    for node_id in VOTERS:
        assert DENIED == await admins.create(node_id, f"bobs-{node_id}", with_token)
        code = await _token_end(admins, node_id, with_token)
        assert ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED == code

    over = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    await admins.ask(1, "ExpireDelegationToken", over, by_password())
    assert dict.fromkeys(VOTERS, UNKNOWN) == await admins.ends(hers, UNKNOWN)


async def _token_end(admins: Admins, node_id: NodeId, metadata: Metadata) -> ErrorCode:
    """How it ends to ask for a token; a refusal of the whole call or in its answer."""
    try:
        answer = await admins.ask(
            node_id, "CreateDelegationToken", CreateDelegationTokenRequest(max_lifetime_ms=-1), metadata
        )
    except ApiError as refusal:
        return refusal.code
    return ErrorCode(answer.error_code)


async def test_who_gets_a_password_and_a_right_by_the_command_has_them(admins: Admins, tmp_path: Path) -> None:
    """By TLS, as a super user. The user that the command has removed is gone, and a token's HMAC is used from a
    file."""
    config, password, hmac = tmp_path / "client.properties", tmp_path / "password", tmp_path / "hmac"
    stores = {"keystore": admins.issuer.directory / f"{CLIENTS}.pem", "truststore": admins.issuer.certificate}
    lines = ["security.protocol=SSL", *(f"ssl.{store}.location={file}" for store, file in stores.items())]
    config.write_text("\n".join(lines))
    password.write_text(f"{PASSWORD}\n")
    doors = (*controllers(admins.cluster), "--command-config", config)
    acl = ("--principal", "User:carol", "--operation", "create", "--topic", "carol-")

    async def hers(node_id: NodeId) -> ErrorCode:
        return await admins.create(node_id, "carol-1", by_password(user="carol"))

    tried = await commanded("acls", "add", *acl, "--prefixed", *doors, "--dry-run", "--json")
    done = [
        await commanded("users", "set", "carol", "--mechanism", "SCRAM-SHA-512", "--password-file", password, *doors),
        await commanded("acls", "add", *acl, "--prefixed", *doors),
    ]
    allowed = await admins.ends(hers, ErrorCode.NONE)
    unfit = await commanded("acls", "remove", *acl, *doors)
    removed = await commanded("acls", "remove", *acl, "--pattern", "any", *doors)
    gone = await commanded("users", "delete", "carol", "--mechanism", "SCRAM-SHA-512", *doors)
    token = await commanded("tokens", "create", "--max-lifetime-ms", 60_000, *doors, "--json")
    hmac.write_text(token.document["results"][0]["hmac"])
    renewed = await commanded("tokens", "renew", "--hmac-file", hmac, *doors)
    ended = [await commanded("tokens", "expire", "--hmac-file", hmac, *doors) for _ in range(2)]

    assert ["ACCESS_CONTROL_ENTRY_RECORD"] == [each["type"] for each in tried.document["records"]]
    assert [0, 0] == [each.code for each in done], done
    assert dict.fromkeys(VOTERS, ErrorCode.NONE) == allowed
    assert "nothing fits" in unfit.out
    assert "  User:carol CREATE TOPIC PREFIXED carol- from *  removed\n" == removed.out
    assert (0, "  carol  deleted\n") == (gone.code, gone.out)
    assert dict.fromkeys(VOTERS, UNKNOWN) == await admins.ends(hers, UNKNOWN)
    assert (0, True) == (renewed.code, renewed.out.startswith("  token  renewed  expiry_timestamp_ms="))
    assert [(0, True), (1, True)] == [
        (ended[0].code, "expires" in ended[0].out),
        (ended[1].code, "DELEGATION_TOKEN_NOT_FOUND" in ended[1].out + ended[1].err),
    ]


async def test_no_password_is_written_anywhere(admins: Admins) -> None:
    assert UNKNOWN == await admins.create(1, "alice-no", by_password(WRONG))
    written = admins.written()

    assert "a login has failed" in written
    told = [value.removeprefix("Basic ") for ((_, value),) in (by_password(), by_password(WRONG))]
    assert [] == [secret for secret in (PASSWORD, WRONG, *told) if secret in written]


async def test_who_has_a_certificate_that_is_revoked_is_refused_at_once_and_nobody_else_is(admins: Admins) -> None:
    """Also on connections and streams that were open before; and no longer once the file lists it no more."""
    file = admins.issuer.directory / REVOKED
    store = admins.issuer.issue("stolen", "/CN=stolen")
    stolen = by_password()

    async def ends(stub: ControllerStub) -> str:
        try:
            asked = DescribeTopicPartitionsRequest()
            await stub.DescribeTopicPartitions(asked, timeout=DEADLINE_MS / 1000, metadata=stolen)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        return "OK"

    def write(text: str) -> None:
        beside = file.with_suffix(".new")
        beside.write_text(text)
        beside.replace(file)

    address = admins.cluster.controller(1).address
    async with grpc.aio.secure_channel(address, admins.credentials("stolen")) as channel:
        stub = ControllerStub(channel)
        stream = stub.AdminStream(timeout=WITHIN_S, metadata=stolen)
        assert "OK" == await eventually(lambda: ends(stub), "OK".__eq__)
        topics = topics_request(("alice-was-robbed",), timeout_ms=DEADLINE_MS)
        envelope = AdminRequests(requests=[AdminRequest(correlation_id=1, create_topics=topics)])
        await stream.write(envelope)
        answer: Any = await stream.read()
        assert 1 == len(answer.responses)

        write(
            f"# taken from a lost notebook\n{openssl_says('x509', '-noout', '-fingerprint', '-sha256', '-in', store)}"
        )
        refused = "UNAUTHENTICATED: the certificate of this caller is revoked"
        assert refused == await eventually(lambda: ends(stub), refused.__eq__)
        await stream.write(envelope)
        with pytest.raises(grpc.aio.AioRpcError) as over:
            await stream.read()
        assert grpc.StatusCode.UNAUTHENTICATED is over.value.code()
        assert ErrorCode.NONE == await admins.create(1, "alice-goes-on", by_password())  # by another certificate

        write("what is no fingerprint")
        told = "the new list of revoked certificates is not taken"
        await eventually(lambda: asyncio.to_thread(lambda: told in admins.written()))
        assert refused == await eventually(lambda: ends(stub), refused.__eq__)  # and the old one stays

        write("")
        assert "OK" == await eventually(lambda: ends(stub), "OK".__eq__)


async def test_grpcurl_logs_in_with_the_lines_of_the_readme(admins: Admins, grpcurl: str) -> None:
    """A password and a delegation token, each from the environment, so that no list of processes shows them."""
    token = await admins.ask(
        1, "CreateDelegationToken", CreateDelegationTokenRequest(max_lifetime_ms=-1), by_password()
    )
    environ = {
        "ALICE": base64.b64encode(f"alice:{PASSWORD}".encode()).decode(),
        "TOKEN_ID": token.token_id,
        "HMAC": base64.b64encode(token.hmac).decode(),
    }
    readme = (ROOT / "services" / "SECURITY.md").read_text()
    headers = re.findall(r"grpcurl -expand-headers -H '(authorization: [^']+)'", readme)
    store = str(admins.issuer.directory / "admins.pem")
    trusting = ("-cacert", str(admins.issuer.certificate), "-cert", store, "-key", store, "-max-time", str(WITHIN_S))
    address = admins.cluster.controller(2).address

    async def ends(header: str, name: str) -> str:
        topic = json.dumps({"topics": [{"name": name, "num_partitions": 1, "replication_factor": 3}]})
        call = ("-d", topic, address, "kraft.service.Controller/CreateTopics")
        child = await asyncio.create_subprocess_exec(
            grpcurl, "-expand-headers", "-H", header, *trusting, *call,
            env={**os.environ, **environ}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(WITHIN_S):
            printed, _ = await child.communicate()
        return printed.decode()

    assert ["authorization: Basic ${ALICE}", "authorization: DelegationToken ${TOKEN_ID}:${HMAC}"] == headers
    for number, header in enumerate(headers):

        async def created(header: str = header, name: str = f"alice-by-grpcurl-{number}") -> bool:
            await ends(header, name)
            return name in await admins.cluster.topics(at=1)

        assert await eventually(created)
        assert "Unauthenticated" in await ends(
            header.replace("${ALICE}", "YTpi").replace("${HMAC}", "AAAA"), "alice-no"
        )
    assert "alice-no" not in await admins.cluster.topics(at=1)
