"""A control plane whose processes speak TLS with certificates on both sides, and what happens when these change."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import pytest
import pytest_asyncio
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from deploy.local.plan import ClusterPlan, PlanTls
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import connect
from quorate.records import RegisterControllerRecord
from quorate.runtime.requests.statuses import is_retriable
from tests.e2e.calls import DEADLINE_MS, WITHIN_S, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane, stored_records
from tests.e2e.secured import PATIENCE
from tests.e2e.test_run import grpcurl as grpcurl  # a fixture
from tests.network.certificates import Authority, authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SSL: Final = 1
"""The security protocol in the log."""
STILL: Final = {
    node_id: {
        **PATIENT[node_id],
        "controller.absence.timeout.ms": "10000",
        "controller.presence.timeout.ms": "0",
    }
    for node_id in VOTERS
}
"""A leader is hardly ever replaced for being slow."""
CREATED: Final = '{"topics": [{"name": "by-grpcurl", "num_partitions": 2, "replication_factor": 3}]}'
TAKEN: Final = "took a new certificate"
MORE: Final = 10
"""So many writes at each door between two changes."""


@dataclass(frozen=True, slots=True)
class Issued:
    """All key stores and trust stores, one directory for each process, so that each can be replaced by itself."""

    directory: Path

    def keystore(self, name: str) -> Path:
        return self.directory / name / "keystore.pem"

    def truststore(self, name: str) -> Path:
        return self.directory / name / "truststore.pem"

    def replace(self, file: Path, content: str) -> None:
        beside = file.with_suffix(".new")
        beside.write_text(content)
        os.replace(beside, file)

    def issue(self, issuer: Authority, name: str) -> None:
        self.replace(self.keystore(name), issuer.issue(name, f"/O=cluster/CN={name}").read_text())

    def trust(self, name: str, *issuers: Authority) -> None:
        self.replace(self.truststore(name), "".join(each.certificate.read_text() for each in issuers))


@dataclass(frozen=True, slots=True)
class Secured:
    """The control plane, who issues its certificates, and where they are."""

    cluster: Cluster
    issuer: Authority
    issued: Issued

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.cluster.plan.processes]

    def log(self, name: str) -> str:
        return (self.cluster.plan.directory / f"{name}.log").read_text()

    async def taken(self, count: int) -> None:
        """Waits until every process has taken so many certificates, and the clients of the test take theirs."""

        async def behind() -> dict[str, int]:
            found = {name: self.log(name).count(TAKEN) for name in self.names}
            return {name: told for name, told in found.items() if told < count}

        await eventually(behind, lambda late: not late)
        self.cluster.plan.transport.look()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    directory = tmp_path_factory.mktemp("certificates")
    issuer, issued = authority(directory), Issued(directory)

    def certificates(plan: ClusterPlan) -> PlanTls:
        names = [*(each.name for each in plan.processes), "clients"]
        for name in names:
            (directory / name).mkdir()
            issued.issue(issuer, name)
            issued.trust(name, issuer)
        return PlanTls(stores={name: (issued.keystore(name), issued.truststore(name)) for name in names})

    async with control_plane(
        tmp_path_factory.mktemp("plane"), quorum_settings=STILL, with_gateways=True, tls=certificates
    ) as cluster:
        yield Secured(cluster, issuer, issued)


async def asked(grpcurl: str, *arguments: str) -> tuple[int, str]:
    """grpcurl's exit code, and what it printed."""
    child = await asyncio.create_subprocess_exec(grpcurl, *arguments, stdout=PIPE, stderr=asyncio.subprocess.STDOUT)
    async with asyncio.timeout(WITHIN_S):
        printed, _ = await child.communicate()
    return child.returncode or 0, printed.decode()


async def test_every_controller_serves_and_says_in_the_log_that_it_speaks_tls(plane: Secured) -> None:
    """A standby registers with the active controller, and passes calls on to it."""
    for node_id in VOTERS:
        answer = await plane.cluster.create(f"at-{node_id}", at=node_id)
        assert [ErrorCode.NONE] == [topic.error_code for topic in answer.topics]

    async def registered() -> dict[int, list[int]]:
        records = stored_records(plane.cluster.plan.log_dir(1))
        found = [each for each in records if isinstance(each, RegisterControllerRecord)]
        return {each.controller_id: [end.security_protocol for end in each.end_points] for each in found}

    assert {node_id: [SSL] for node_id in VOTERS} == await eventually(
        registered, lambda found: len(found) == len(VOTERS)
    )


async def test_in_the_clear_there_is_health_at_a_gateway_and_nothing_else(plane: Secured) -> None:
    async def is_heard(address: str) -> bool:
        async with grpc.aio.insecure_channel(address) as channel:
            try:
                await HealthStub(channel).Check(HealthCheckRequest(), timeout=DEADLINE_MS / 1000)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE, error
                return False
            return True

    heard = {each.name: await is_heard(each.address) for each in plane.cluster.plan.processes}

    assert {each.name: each.service == "gateway" for each in plane.cluster.plan.processes} == heard


async def test_grpcurl_with_a_certificate_creates_a_topic_and_without_one_does_not(
    plane: Secured, grpcurl: str, tmp_path: Path
) -> None:
    controller = plane.cluster.controller(1).address
    trusting = ("-cacert", str(plane.issuer.certificate), "-max-time", str(WITHIN_S))
    own = str(plane.issuer.issue("admin", "/O=cluster/CN=admin"))
    foreign = str(authority(tmp_path, "other").issue("mallory", "/O=cluster/CN=admin"))
    call = ("-d", CREATED, controller, "kraft.service.Controller/CreateTopics")
    short = ("-connect-timeout", "2")
    plain, _ = await asked(grpcurl, "-plaintext", *short, *call)
    nobody, _ = await asked(grpcurl, *trusting, *short, *call)
    stranger, _ = await asked(grpcurl, *trusting, "-cert", foreign, "-key", foreign, *short, *call)
    none = "by-grpcurl" in await plane.cluster.topics(at=1)

    async def created() -> tuple[int, str]:
        return await asked(grpcurl, *trusting, "-cert", own, "-key", own, *call)

    code, printed = await eventually(created, lambda answer: "Code: Unavailable" not in answer[1])

    assert 0 not in (plain, nobody, stranger)
    assert not none
    assert 0 == code, printed
    assert ["by-grpcurl"] == [topic["name"] for topic in json.loads(printed)["topics"]]
    assert "by-grpcurl" in await plane.cluster.topics(at=1)


async def test_kafkas_wire_at_a_gateway_is_passed_on_by_tls(plane: Secured) -> None:
    host, _, port = plane.cluster.plan.bootstrap_controllers.split(",")[1].rpartition(":")
    topic = CreateTopicsRequest.CreatableTopic("at-a-gateway", 1, 3)
    async with await connect(host, int(port), timeouts=PATIENCE) as kafka:
        answer = await kafka.ask_for(CreateTopicsResponse, CreateTopicsRequest((topic,), 60_000))

    assert [ErrorCode.NONE] == [each.error_code for each in answer.topics]


async def test_certificates_and_authorities_change_under_writes_of_which_none_fails(
    plane: Secured, tmp_path: Path
) -> None:
    """Trust in both, certificates of the new authority, trust in it alone; and then a node comes back with them."""
    cluster, issued, new = plane.cluster, plane.issued, authority(tmp_path, "new")
    names = [*plane.names, "clients"]
    written: dict[int, list[str]] = {node_id: [] for node_id in VOTERS}
    failed: list[ApiError] = []

    async def write(node_id: int) -> None:
        while True:
            name = f"rotated-{node_id}-{len(written[node_id])}-{len(failed)}"
            try:
                answer = await cluster.create_once(name, at=node_id, deadline_ms=int(WITHIN_S * 1000))
            except ApiError as error:
                failed.append(error)
                await asyncio.sleep(0.05)
                continue
            assert [ErrorCode.NONE] == [topic.error_code for topic in answer.topics], name
            written[node_id].append(name)

    async def more() -> None:
        before = {node_id: len(done) for node_id, done in written.items()}
        for writer in writers:
            assert not writer.done(), writer

        async def least() -> int:
            return min(len(done) - before[node_id] for node_id, done in written.items())

        await eventually(least, lambda count: count >= MORE)

    epoch = (await cluster.find(await cluster.active())).leader_epoch
    async with asyncio.TaskGroup() as writing:
        writers = [writing.create_task(write(node_id)) for node_id in VOTERS]
        await more()
        for name in names:
            issued.trust(name, plane.issuer, new)
        await plane.taken(1)
        await more()
        for name in names:
            issued.issue(new, name)
        await plane.taken(2)
        await more()
        for name in names:
            issued.trust(name, new)
        await plane.taken(3)
        await more()
        for writer in writers:
            writer.cancel()
    leader = await cluster.leader()
    if (await cluster.find(leader)).leader_epoch == epoch:  # a busy machine may have replaced the leader
        assert [] == failed
    assert [] == [error for error in failed if not is_retriable(error)]
    back = next(node_id for node_id in VOTERS if node_id != leader)
    for process in (cluster.controller(back), cluster.quorum(back)):
        await cluster.kill(process, signal.SIGTERM)
    for process in (cluster.quorum(back), cluster.controller(back)):
        await cluster.restart(process)
    answer = await cluster.create("after-the-restart", at=back)

    assert [ErrorCode.NONE] == [topic.error_code for topic in answer.topics]
    known = await cluster.topics(at=back)
    assert [] == [name for done in written.values() for name in done if name not in known]
    assert [] == [name for name in plane.names if "is not taken" in plane.log(name)]


async def test_a_new_certificate_that_does_not_fit_changes_nothing(plane: Secured, tmp_path: Path) -> None:
    """After the changes above, if they were made; a file that does not fit has a line in the log, with its reason."""
    cluster, issued = plane.cluster, plane.issued
    name = cluster.controller(1).name
    good = issued.keystore(name).read_text()
    issued.issue(authority(tmp_path, "foreign"), name)

    async def refused() -> list[str]:
        return [line for line in plane.log(name).splitlines() if "the new certificate is not taken" in line]

    (line,) = await eventually(refused)
    answer = await cluster.create("with-the-old-one", at=1)
    issued.replace(issued.keystore(name), good)

    assert str(issued.keystore(name)) in line
    assert "self-signed certificate in certificate chain" in line
    assert [ErrorCode.NONE] == [topic.error_code for topic in answer.topics]
