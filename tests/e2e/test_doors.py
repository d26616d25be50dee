"""Every RPC of every service, called by those who have no business with it: refused rightly, and nothing changed.

The table has a row for each RPC in the descriptors, so a new one is looked at before it is served.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio
from google.protobuf.message_factory import GetMessageClass

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls, Process
from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.api.broker_registration_pb2 import BrokerRegistrationRequest
from kraft.api.create_acls_pb2 import CreateAclsRequest
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.delete_acls_pb2 import DeleteAclsRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.multiplexed_pb2 import CallBatch
from kraft.service.multiplexed_pb2_grpc import MultiplexedStub
from kraft.service.observer_pb2 import ListTracesRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.authorizer import CLUSTER_NAME, STANDARD_AUTHORIZER
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.network.client import connect
from quorate.nouns import NodeId
from quorate.runtime.access.claims import CLAIMS
from quorate.runtime.access.passing_on import CLIENT_HOST, CLIENT_PRINCIPAL, FORWARDED, PASSED_ON
from quorate.runtime.access.process_rights import CALLS
from tests.e2e.calls import DEADLINE_MS, WITHIN_S, call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane, topics_request
from tests.e2e.doors import (
    DENIED,
    DENIED_CODE,
    MULTIPLEXED,
    OF_ITS_CONTROLLER,
    OF_NO_NODE,
    OPERATOR,
    OTHER,
    OWN,
    REQUESTS,
    ROWS,
    RPCS,
    STATUSES,
    TOPIC_DENIED,
    Rpc,
    speaking_for,
)
from tests.e2e.secured import PATIENCE
from tests.network.certificates import Authority, authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

AUDITED: Final = "operation=ClusterAction host=127.0.0.1 resource=Cluster:LITERAL:kafka-cluster request=kraft.service"
RULES: Final = r"RULE:^CN=(.*?),O=cluster$/$1/L,DEFAULT"
UNFENCED_MS: Final = 600_000
"""A broker's session timeout: no broker is fenced while the log is compared."""
NODE_RULES: Final = r"RULE:^(quorum|controller|observer|operator)-([0-9]+)$/$2/,RULE:^(heartbeat|gateway|clients).*$/*/"
"""The plan's clients are all three brokers, so they speak for each."""
PROCESS_RULES: Final = r"RULE:^(quorum|controller|gateway|heartbeat|placer|observer)-[0-9]{1,3}$/$1/"
NOT_ACTIVE: Final = "UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class Plane:
    """The control plane, and who issues its certificates."""

    cluster: Cluster
    issuer: Authority

    def server(self, rpc: Rpc) -> Process:
        plan, service = self.cluster.plan, rpc.name.partition("/")[0]
        return {
            "Quorum": plan.quorum[0],
            "RaftClient": plan.quorum[0],
            "Controller": plan.controllers[0],
            "Heartbeat": plan.heartbeat,
            "Placer": plan.placer,
            "Observer": plan.observer,
            "TraceService": plan.observer,
        }[service]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    issuer = authority(tmp_path_factory.mktemp("certificates"))

    def certificates(plan: ClusterPlan) -> PlanTls:
        names = [*(each.name for each in plan.processes), CLIENTS]
        for process in plan.processes:
            if process.service != "gateway":
                process.settings["authorizer.class.name"] = STANDARD_AUTHORIZER
                process.settings["super.users"] = f"User:{CLIENTS};User:{OPERATOR}"
                process.settings["principal.process.mapping.rules"] = PROCESS_RULES
                process.settings["ssl.principal.mapping.rules"] = RULES
            if process.service in ("quorum", "controller", "heartbeat"):
                process.settings["principal.node.id.mapping.rules"] = NODE_RULES
        stores = {name: issuer.issue(name, f"/O=cluster/CN={name}") for name in names}
        return PlanTls(stores={name: (store, issuer.certificate) for name, store in stores.items()})

    async with control_plane(
        tmp_path_factory.mktemp("doors"),
        session_timeout_ms=UNFENCED_MS,
        quorum_settings=PATIENT,
        with_gateways=True,
        tls=certificates,
    ) as cluster:
        yield Plane(cluster, issuer)


def ends(plane: Plane, credentials: grpc.ChannelCredentials) -> dict[str, str | tuple[str | ErrorCode, ...]]:
    """How each RPC ends for who has these credentials."""
    found = {}
    for process in {plane.server(rpc).name: plane.server(rpc) for rpc in RPCS}.values():
        with grpc.secure_channel(process.address, credentials) as channel:
            found |= {rpc.name: rpc.end(channel) for rpc in RPCS if plane.server(rpc) is process}
    return found


def shown(issuer: Authority, keystore: Path | None) -> grpc.ChannelCredentials:
    pem = None if keystore is None else keystore.read_bytes()
    return grpc.ssl_channel_credentials(issuer.certificate.read_bytes(), pem, pem)


async def written(plane: Plane) -> Counter[str]:
    """The records in the log, each with how often it is there."""
    return Counter(map(repr, await plane.cluster.settled_records()))


async def allow(
    plane: Plane,
    principal: str,
    operation: AclOperation,
    kind: ResourceType = ResourceType.CLUSTER,
    name: str = CLUSTER_NAME,
    pattern: PatternType = PatternType.LITERAL,
) -> None:
    """An entry in the log, by a super user."""
    entry = CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="127.0.0.1",
        operation=operation,
        permission_type=AclPermission.ALLOW,
    )
    made = await call_with_retries(plane.cluster.controller_stub(1).CreateAcls, CreateAclsRequest(creations=[entry]))
    assert [ErrorCode.NONE] == [result.error_code for result in made.response.results]


async def take_back(plane: Plane, principal: str) -> None:
    """All entries of a principal."""
    wanted = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        principal_filter=principal,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    done = await call_with_retries(plane.cluster.controller_stub(1).DeleteAcls, DeleteAclsRequest(filters=[wanted]))
    assert [ErrorCode.NONE] == [result.error_code for result in done.response.filter_results]


async def test_every_rpc_has_a_row() -> None:
    assert [rpc.name for rpc in RPCS] == list(ROWS)
    assert set() == REQUESTS.keys() - ROWS.keys()
    assert sorted(ROWS) == sorted([*speaking_for(OTHER), *OF_ITS_CONTROLLER, *OF_NO_NODE])
    assert CLAIMS.keys() == {name.partition("/")[2] for name in speaking_for(OTHER)}


async def test_who_has_no_right_gets_nowhere(plane: Plane) -> None:
    before = await written(plane)
    keystore = plane.issuer.issue("mallory", "/O=cluster/CN=mallory")
    found = await asyncio.to_thread(ends, plane, shown(plane.issuer, keystore))

    assert found == ROWS
    assert before == await written(plane)
    told = (plane.cluster.plan.directory / "quorum-1.log").read_text()
    refused = [rpc for rpc in RPCS if plane.server(rpc).name == "quorum-1"]
    assert [] == [rpc.name for rpc in refused if f"principal=User:mallory {AUDITED}.{rpc.name} " not in told]


def ends_in_streams(plane: Plane, credentials: grpc.ChannelCredentials) -> dict[str, str | tuple[str | ErrorCode, ...]]:
    """How each unary RPC ends, called in a stream of calls."""
    found = {}
    unary = [rpc for rpc in RPCS if not rpc.method.client_streaming and not rpc.method.server_streaming]
    for process in {plane.server(rpc).name: plane.server(rpc) for rpc in unary}.values():
        if process.service not in MULTIPLEXED:
            continue
        there = {number: rpc for number, rpc in enumerate(unary) if plane.server(rpc) is process}
        batch = CallBatch()
        for number, rpc in there.items():
            method, request = f"{rpc.service}/{rpc.method.name}", rpc.request().SerializeToString()
            batch.calls.add(id=number, method=method, request=request, timeout_ms=round(WITHIN_S * 1000))
        with grpc.secure_channel(process.address, credentials) as channel:
            for results in MultiplexedStub(channel).Calls(iter([batch]), timeout=WITHIN_S):
                for result in results.results:
                    rpc = there.pop(result.id)
                    response = GetMessageClass(rpc.method.output_type)
                    found[rpc.name] = (
                        STATUSES[result.status] if result.status else rpc.end_of(response.FromString(result.response))
                    )
        assert not there, there
    return found


async def test_a_call_in_a_stream_of_calls_is_judged_as_one_by_itself(plane: Plane) -> None:
    before = await written(plane)
    keystore = plane.issuer.issue("trudy", "/O=cluster/CN=trudy")
    found = await asyncio.to_thread(ends_in_streams, plane, shown(plane.issuer, keystore))

    assert {"Quorum/Vote", "RaftClient/Resign", "Controller/CreateTopics", "Heartbeat/BrokerHeartbeat"} <= found.keys()
    assert {name: ROWS[name] for name in found} == found
    assert before == await written(plane)


def ends_speaking_for(
    plane: Plane, asked: Mapping[str, Mapping[str, Any]], credentials: grpc.ChannelCredentials
) -> dict[str, str | tuple[str | ErrorCode, ...]]:
    """How these requests end for who has these credentials."""
    found = {}
    chosen = [rpc for rpc in RPCS if rpc.name in asked]
    for process in {plane.server(rpc).name: plane.server(rpc) for rpc in chosen}.values():
        with grpc.secure_channel(process.address, credentials) as channel:
            found |= {rpc.name: rpc.end(channel, asked[rpc.name]) for rpc in chosen if plane.server(rpc) is process}
    return found


async def test_a_node_speaks_for_no_other_one(plane: Plane) -> None:
    """A super user everywhere, with the certificate of another node; under its own id it is heard."""
    other = {**speaking_for(OTHER), **{name: {} for name in OF_ITS_CONTROLLER}}
    own = speaking_for(OWN)
    del own["Controller/ControllerRegistration"]  # it would be one
    certificate = shown(plane.issuer, plane.issuer.issue("one", f"/O=cluster/CN={OPERATOR}"))
    before = await written(plane)
    refused = await asyncio.to_thread(ends_speaking_for, plane, other, certificate)

    assert dict.fromkeys(other, DENIED) == refused
    assert before == await written(plane)
    heard = await asyncio.to_thread(ends_speaking_for, plane, own, certificate)
    assert {} == {name: end for name, end in heard.items() if end == DENIED}
    told = (plane.cluster.plan.directory / "quorum-1.log").read_text().splitlines()
    audited = f"principal=User:{OPERATOR} {AUDITED}"
    for name in [name for name in other if not name.startswith(("Controller/", "Heartbeat/"))]:
        lines = [line for line in told if f"{audited}.{name} rule=NodeIdMismatch claimed={OTHER}" in line]
        assert 1 == len(lines), name


async def test_a_broker_cannot_register_as_another_one_through_a_standby_either(plane: Plane) -> None:
    certificate = shown(plane.issuer, plane.issuer.issue("broker", f"/O=cluster/CN=observer-{OWN}0{OWN}"))
    await allow(plane, f"User:observer-{OWN}0{OWN}", AclOperation.CLUSTER_ACTION)
    found: dict[int, list[ErrorCode]] = {}
    for node_id in VOTERS:
        address = plane.cluster.controller(node_id).address
        async with grpc.aio.secure_channel(address, certificate) as channel:
            found[node_id] = []
            for broker_id in (101, OWN * 101):
                request = BrokerRegistrationRequest(broker_id=broker_id, cluster_id="another")
                with pytest.raises(ApiError) as refused:
                    await call_with_retries(ControllerStub(channel).BrokerRegistration, request)
                found[node_id].append(refused.value.code)

    denied, misled = DENIED_CODE, ErrorCode.INCONSISTENT_CLUSTER_ID
    assert {node_id: [denied, misled] for node_id in VOTERS} == found


@pytest.mark.parametrize("process", ["heartbeat", "observer", "controller"])
async def test_a_process_may_call_what_its_code_calls_and_nothing_else(plane: Plane, process: str) -> None:
    """By its certificate, of which nothing else is known: it is no super user, and there is no entry for it."""
    certificate = shown(plane.issuer, plane.issuer.issue(f"of-{process}", f"/O=cluster/CN={process}-7"))
    calls = {f"{rpc.service}/{rpc.method.name}": rpc for rpc in RPCS}
    its = {calls[f"{service}/{name}"].name for service, names in CALLS[process].items() for name in names}
    before = await written(plane)
    others = {rpc.name: REQUESTS.get(rpc.name, {}) for rpc in RPCS if rpc.name not in its}
    found = await asyncio.to_thread(ends_speaking_for, plane, others, certificate)

    assert {name: ROWS[name] for name in others} == found
    assert before == await written(plane)


def ends_naming(plane: Plane, node_id: NodeId, credentials: grpc.ChannelCredentials, mark: str) -> dict[str, str]:
    """How each request about a node ends at a controller for who says that it passes it on for another."""
    named = ((mark, "1"), (CLIENT_HOST, "10.0.0.1"), (CLIENT_PRINCIPAL, "User:heartbeat-9"))
    found = {}
    with grpc.secure_channel(plane.cluster.controller(node_id).address, credentials) as channel:
        for name, asked in speaking_for(OTHER).items():
            rpc = next(rpc for rpc in RPCS if rpc.name == name)
            if plane.server(rpc).service == "controller":
                found[name] = str(rpc.end(channel, asked, metadata=named))
    return found


@pytest.mark.parametrize("mark", [FORWARDED, PASSED_ON], ids=["as a standby", "as a gateway"])
async def test_a_broker_does_not_act_as_another_by_naming_a_principal(plane: Plane, mark: str) -> None:
    """It may act for the cluster, and the one that it names for every node."""
    await allow(plane, "User:observer-1001", AclOperation.CLUSTER_ACTION)
    certificate = shown(plane.issuer, plane.issuer.issue("forger", "/O=cluster/CN=observer-1001"))
    before = await written(plane)
    asked = {name for name in speaking_for(OTHER) if name.startswith("Controller/")}
    found = {node_id: await asyncio.to_thread(ends_naming, plane, node_id, certificate, mark) for node_id in VOTERS}

    for node_id, ends_there in found.items():
        # A standby says to who forwards to it that it is not active, before it looks at anything.
        assert asked == ends_there.keys()
        assert set(ends_there.values()) <= {DENIED, NOT_ACTIVE}, node_id
    assert dict.fromkeys(asked, DENIED) in found.values()
    assert before == await written(plane)


@pytest.mark.parametrize("who", ["nobody", "a foreigner", "one that has expired"])
async def test_who_shows_no_fitting_certificate_is_not_even_heard(plane: Plane, tmp_path: Path, who: str) -> None:
    """It would be a super user by its name."""
    name = f"/O=cluster/CN={plane.cluster.plan.controllers[0].name}"
    keystore = {
        "nobody": lambda: None,
        "a foreigner": lambda: authority(tmp_path, "foreign").issue("mallory", name),
        "one that has expired": lambda: plane.issuer.issue("old", name, days="-1"),
    }[who]()
    before = await written(plane)
    found = await asyncio.to_thread(ends, plane, shown(plane.issuer, keystore))

    assert dict.fromkeys(ROWS, "UNAVAILABLE") == found
    assert before == await written(plane)


async def test_entries_of_the_log_count_at_an_observer_as_it_has_applied_them(plane: Plane) -> None:
    """Without a controller: it has replayed them. A removed one counts no more once it has replayed that."""
    await plane.cluster.create("seen", "unseen", at=1)
    keystore = plane.issuer.issue("reader", "/O=cluster/CN=reader")
    async with grpc.aio.secure_channel(plane.cluster.plan.observer.address, shown(plane.issuer, keystore)) as channel:
        stub = ObserverStub(channel)

        async def topics() -> list[str]:
            asked = DescribeTopicPartitionsRequest(response_partition_limit=100)
            return [
                each.name for each in (await call_with_retries(stub.DescribeTopicPartitions, asked)).response.topics
            ]

        async def traces() -> ErrorCode:
            try:
                await call_with_retries(stub.ListTraces, ListTracesRequest(limit=1))
            except ApiError as refusal:
                return refusal.code
            return ErrorCode.NONE

        assert ([], DENIED_CODE) == (await topics(), await traces())
        await allow(plane, "User:reader", AclOperation.DESCRIBE, ResourceType.TOPIC, "seen")
        await allow(plane, "User:reader", AclOperation.DESCRIBE)
        assert ErrorCode.NONE == await eventually(traces, lambda code: code is ErrorCode.NONE)
        assert ["seen"] == await topics()
        await take_back(plane, "User:reader")
        assert DENIED_CODE == await eventually(traces, lambda code: code is DENIED_CODE)
        assert [] == await eventually(topics, lambda names: not names)


async def test_entries_of_the_log_count_at_the_heartbeat_service(plane: Plane) -> None:
    who = "observer-404"
    keystore = plane.issuer.issue("heart", f"/O=cluster/CN={who}")
    async with grpc.aio.secure_channel(plane.cluster.plan.heartbeat.address, shown(plane.issuer, keystore)) as channel:
        stub = HeartbeatStub(channel)

        async def end() -> ErrorCode:
            try:
                await call_with_retries(stub.BrokerHeartbeat, BrokerHeartbeatRequest(broker_id=404))
            except ApiError as refusal:
                return refusal.code
            return ErrorCode.NONE

        unregistered = ErrorCode.STALE_BROKER_EPOCH
        assert DENIED_CODE == await end()
        await allow(plane, f"User:{who}", AclOperation.CLUSTER_ACTION)
        assert unregistered == await eventually(end, lambda code: code is unregistered)
        await take_back(plane, f"User:{who}")
        assert DENIED_CODE == await eventually(end, lambda code: code is DENIED_CODE)


async def test_a_callers_rights_count_at_each_controller_as_its_certificate_names_it(plane: Plane) -> None:
    """A standby passes the call on in the caller's name, and the active one believes it for its own certificate."""
    await allow(plane, "User:alice", AclOperation.CREATE, ResourceType.TOPIC, "alices-", PatternType.PREFIXED)
    keystore = plane.issuer.issue("alice", "/O=cluster/CN=Alice")
    found: dict[int, list[int]] = {}
    for node_id in VOTERS:
        address = plane.cluster.controller(node_id).address
        async with grpc.aio.secure_channel(address, shown(plane.issuer, keystore)) as channel:
            names = (f"alices-{node_id}", f"others-{node_id}")
            answer = await call_with_retries(
                ControllerStub(channel).CreateTopics, topics_request(names, timeout_ms=DEADLINE_MS)
            )
            codes = {topic.name: topic.error_code for topic in answer.response.topics}
            # An earlier call of which no answer came may have made it.
            mine = ErrorCode.NONE if answer.is_retried else codes[names[0]]
            found[node_id] = [mine, codes[names[1]]]

    assert {node_id: [ErrorCode.NONE, TOPIC_DENIED] for node_id in VOTERS} == found


async def test_what_a_gateway_passes_on_is_its_clients_also_through_a_standby(plane: Plane) -> None:
    """The client is nobody. The gateway may pass its request on, by a certificate that the standby tells of."""
    found: dict[int, list[int]] = {}
    for node_id, at in enumerate(plane.cluster.plan.bootstrap_controllers.split(","), start=1):
        host, _, port = at.rpartition(":")
        topic = CreateTopicsRequest.CreatableTopic(f"by-a-gateway-{node_id}", 1, 3)
        async with await connect(host, int(port), timeouts=PATIENCE) as kafka:
            answer = await kafka.ask_for(CreateTopicsResponse, CreateTopicsRequest((topic,), 60_000))
        found[node_id] = [each.error_code for each in answer.topics]

    assert {node_id: [TOPIC_DENIED] for node_id in VOTERS} == found


async def test_no_process_of_the_plane_was_refused_anything_by_another(plane: Plane) -> None:
    """The last one here: all that they call is granted, without a super user or an entry among them."""
    own = {f"principal=User:{process.name} " for process in plane.cluster.plan.processes}
    denied = [
        line
        for process in plane.cluster.plan.processes
        for line in (plane.cluster.plan.directory / f"{process.name}.log").read_text().splitlines()
        if "kafka.authorizer.logger" in line and "denied" in line and any(each in line for each in own)
    ]

    assert [] == denied
