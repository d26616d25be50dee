"""What no controller answers takes CLUSTER_ACTION at a gateway: who is asked, who is let in, and without whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from kraft import Message
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.api_versions import ApiVersionsResponse
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.envelope import EnvelopeRequest
from kraft.api.fetch import FetchRequest
from kraft.service.controller_pb2 import AuthorizeResponse
from quorate.authorizer import StandardAuthorizer
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import Connection, Disconnected, connect
from quorate.network.listening import Listening
from quorate.network.server import serving
from quorate.nouns import ANONYMOUS, Principal
from quorate.protocol import all_apis
from quorate.protocol.sasl.plain import PlainClient, PlainServer
from quorate.runtime.access.passing_on import CLIENT_HOST, CLIENT_PRINCIPAL, PASSED_ON
from quorate.runtime.requests.statuses import trailing_metadata
from quorate.tls.node_ids import NodeIds
from quorate.wire.protobuf import to_protobuf
from services.controller.authorizing import AT_OTHER_SERVICES
from services.gateway.apis import ROUTES, SERVED, Backend
from services.gateway.guard import ClusterActionGuard
from services.gateway.handler import Gateway
from tests.services.controllers import NOWHERE, controller
from tests.services.scripted import LOOPBACK, failed

ALICE = Principal("User", "alice")
SUPER = {"User:root"}
REFUSAL = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")


class Controller:
    """Answers Authorize by a script, and counts."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.refusal = refusal
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def Authorize(self, request: Any, *, metadata: Any, **_: Any) -> AuthorizeResponse:
        self.asked.append((request.api, dict(metadata)))
        if self.refusal is not None:
            raise self.refusal
        return AuthorizeResponse()

    async def ApiVersions(self, *_: Any, **__: Any) -> Any:
        return to_protobuf(ApiVersionsResponse())


class Others:
    """A service that answers everything with an empty response."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, rpc: str) -> Any:
        async def method(*_: Any, **__: Any) -> Any:
            self.asked.append(rpc)
            return to_protobuf(next(api for api in all_apis().values() if api.name == rpc).response())

        return method


@asynccontextmanager
async def as_user(
    user: str, controller: Controller, others: Others, *, guarded: bool = True, nodes: NodeIds | None = None
) -> AsyncIterator[Connection]:
    """A user's connection to a gateway before these."""
    stubs = {Backend.QUORUM: others, Backend.HEARTBEAT: others, Backend.CONTROLLER: controller}
    guard = ClusterActionGuard(controller, SUPER) if guarded else None
    made = Gateway(stubs, {"KAFKA": {}}, guard=guard, nodes=nodes)
    await made.features.refresh()
    mechanisms = {"PLAIN": lambda: PlainServer(lambda *_: True)}
    listening = Listening(
        name="KAFKA", handle=made, served=SERVED, describe_versions=made.features.describe, mechanisms=mechanisms
    )
    async with (
        serving(listening, LOOPBACK) as server,
        await connect(LOOPBACK, server.port, begin=lambda: PlainClient(user, "x")) as client,
    ):
        yield client


def test_the_controller_is_asked_for_each_api_that_another_service_answers() -> None:
    elsewhere = {all_apis()[key].name for key, backend in ROUTES.items() if backend is not Backend.CONTROLLER}

    assert elsewhere | {"Envelope"} == AT_OTHER_SERVICES


@pytest.mark.parametrize("name", sorted(AT_OTHER_SERVICES - {"Envelope"}))
async def test_who_may_not_act_for_the_cluster_is_refused_before_the_service_is_asked(name: str) -> None:
    api = next(api for api in all_apis().values() if api.name == name)
    refusing, others = Controller(failed(grpc.StatusCode.PERMISSION_DENIED, trailing_metadata(REFUSAL), "no")), Others()
    async with as_user("alice", refusing, others) as client:
        refused: Any = await client.ask(api.request())
        refusing.refusal = None
        let_in: Any = await client.ask(api.request())

    assert (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE) == (refused.error_code, let_in.error_code)
    assert [name] == others.asked
    told = {PASSED_ON: "1", CLIENT_HOST: LOOPBACK, CLIENT_PRINCIPAL: str(ALICE)}
    assert [name, name] == [asked for asked, _ in refusing.asked]
    assert all(told.items() <= metadata.items() for _, metadata in refusing.asked)


@pytest.mark.parametrize("envelope", [EnvelopeRequest(), EnvelopeRequest(b"no request", b"\0\0", bytes(4))])
async def test_an_envelope_is_not_opened_for_who_may_not_pass_requests_on(envelope: EnvelopeRequest) -> None:
    """Kafka's ControllerApis.handleEnvelopeRequest: who has no CLUSTER_ACTION does not hear how it was read."""
    refusing, others = Controller(failed(grpc.StatusCode.PERMISSION_DENIED, trailing_metadata(REFUSAL), "no")), Others()
    async with as_user("alice", refusing, others) as client:
        refused: Any = await client.ask(envelope)
        refusing.refusal = None
        opened: Any = await client.ask(envelope)

    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == refused.error_code
    assert ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE == opened.error_code
    assert ["Envelope"] * 2 == [asked for asked, _ in refusing.asked]
    assert str(ALICE) == refusing.asked[0][1][CLIENT_PRINCIPAL]


async def test_super_users_do_not_depend_on_the_controller() -> None:
    """A voter goes on while a controller is gone; another user's connection ends, as with a node that is gone."""
    gone, others = Controller(failed(grpc.StatusCode.UNAVAILABLE)), Others()
    async with as_user("root", gone, others) as client:
        answer: Any = await client.ask(FetchRequest())
    assert (ErrorCode.NONE, ["Fetch"], []) == (answer.error_code, others.asked, gone.asked)

    async with as_user("alice", gone, others) as client:
        with pytest.raises(Disconnected):
            await client.ask(FetchRequest())
    assert ["Fetch"] == others.asked


@pytest.mark.parametrize("super_users", [set(), {str(ANONYMOUS)}], ids=["the gateway is asked for", "its client is"])
async def test_a_controller_that_has_not_loaded_its_state_denies_nothing(super_users: set[str]) -> None:
    """A broker or a voter of Kafka ends at CLUSTER_AUTHORIZATION_FAILED, and asks again at any other error."""
    metadata = ((PASSED_ON, "1"), (CLIENT_HOST, "10.1.2.3"), (CLIENT_PRINCIPAL, str(ALICE)))
    async with controller(NOWHERE, authorizer=StandardAuthorizer(super_users=frozenset(super_users))) as made:
        with pytest.raises(ApiError) as refused:
            await ClusterActionGuard(made.stub, SUPER).check("Fetch", ALICE, metadata)

    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS == refused.value.code


async def test_without_an_authorizer_nobody_is_asked() -> None:
    controller, others = Controller(), Others()
    async with as_user("alice", controller, others, guarded=False) as client:
        await client.ask(BrokerHeartbeatRequest())

    assert (["BrokerHeartbeat"], []) == (others.asked, controller.asked)


async def test_what_a_controller_answers_it_authorizes_itself() -> None:
    controller, others = Controller(), Others()
    controller.CreateTopics = others.CreateTopics  # type: ignore[attr-defined]
    async with as_user("alice", controller, others) as client:
        answered: Message = await client.ask(CreateTopicsRequest())

    assert type(answered).__name__ == "CreateTopicsResponse"
    assert [] == controller.asked


async def test_a_client_speaks_for_no_other_node_where_the_service_knows_the_gateway_alone() -> None:
    controller, others = Controller(), Others()
    controller.AllocateProducerIds = others.AllocateProducerIds  # type: ignore[attr-defined]
    async with as_user("broker-2", controller, others, nodes=NodeIds(r"RULE:^broker-([0-9]+)$/$1/")) as client:
        refused: Any = await client.ask(BrokerHeartbeatRequest(broker_id=1))
        let_in: Any = await client.ask(BrokerHeartbeatRequest(broker_id=2))
        older: Any = await client.ask(FetchRequest(replica_id=1), version=12)
        left: Any = await client.ask(AllocateProducerIdsRequest(broker_id=1))

    denied, none = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE
    assert [denied, none, denied, none] == [each.error_code for each in (refused, let_in, older, left)]
    assert [
        "BrokerHeartbeat",
        "AllocateProducerIds",
    ] == others.asked  # the controller says so itself, by who has sent it
