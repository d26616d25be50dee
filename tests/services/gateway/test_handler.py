"""A gateway in front of services that answer by a script: what it asks them, and the answers to Kafka clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.create_delegation_token import CreateDelegationTokenRequest
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.end_quorum_epoch import EndQuorumEpochRequest
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from kraft.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft.api.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft.protocol.default_principal_data import DefaultPrincipalData
from kraft.service import controller_pb2, heartbeat_pb2, quorum_pb2
from quorate.controller.engine.steps import finished
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import Connection, Disconnected, connect
from quorate.network.listening import Listening
from quorate.network.server import serving
from quorate.nouns import Principal
from quorate.protocol import ClientSettings, all_apis
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.protocol.sasl.plain import PlainClient, PlainServer
from quorate.runtime.access.passing_on import CLIENT_HOST, CLIENT_ID, CLIENT_PRINCIPAL, HOP, LISTENER
from quorate.runtime.requests.refusals import refused
from quorate.runtime.requests.statuses import trailing_metadata
from quorate.runtime.settings.setting_types import Endpoint
from quorate.wire.codec import encode
from quorate.wire.fitting import fitted
from quorate.wire.protobuf import json_form, to_protobuf
from quorate.wire.schema import FieldType, Layout, layout_of, struct_class
from services.gateway.apis import FORWARDABLE, ROUTES, SERVED, Backend
from services.gateway.features import ApiVersionsCache
from services.gateway.handler import Gateway
from services.gateway.heartbeats import HeartbeatServices
from services.gateway.metrics import ROWS
from services.gateway.older import answered_in, as_newest
from tests.services.scripted import LOOPBACK, failed

ELSEWHERE: Final = "grpc.example"
GATEWAYS: Final = {
    "KAFKA": {1: Endpoint("one.example", 9093), 2: Endpoint("two.example", 9093)},
    "SECURE": {1: Endpoint("one.example", 19093), 3: Endpoint("three.example", 19093)},
}
"""By listener; node 2 is about to get the other one, and node 3 has only that."""
APIS: Final = {api.name: api for api in all_apis().values()}
REFUSAL: Final = ApiError(ErrorCode.POLICY_VIOLATION, "not here")
BY_ITEM: Final = frozenset(
    {
        "AlterClientQuotas", "AlterConfigs", "AlterUserScramCredentials", "CreateAcls", "CreatePartitions",
        "CreateTopics", "DeleteAcls", "DeleteTopics", "DescribeConfigs", "IncrementalAlterConfigs",
    }
)  # fmt: skip
"""The answers without an error code of their own."""

FILL: Final[dict[FieldType, Any]] = {
    FieldType.BOOL: True,
    FieldType.STRING: "a",
    **dict.fromkeys((FieldType.BYTES, FieldType.RECORDS), b"b"),
    FieldType.UUID: b"0123456789abcdef",
    FieldType.FLOAT64: 2.5,
    **dict.fromkeys((FieldType.INT8, FieldType.INT16, FieldType.UINT16, FieldType.INT32), 7),
    **dict.fromkeys((FieldType.UINT32, FieldType.INT64), 7),
}
"""A value of each kind that is no field's default."""

Answer = Message | ApiError | grpc.StatusCode


class Services:
    """Every service: each RPC answers what `answers` has for it, else an empty response."""

    def __init__(self, **answers: Answer) -> None:
        self.answers: dict[str, Answer] = dict(answers)
        self.trailing: Any = ()
        self.asked: list[tuple[str, Any, dict[str, list[str]]]] = []
        self.given_s: list[float] = []
        """How long each call may take."""

    def __getattr__(self, rpc: str) -> Callable[..., Any]:
        async def method(request: Any, *, metadata: Any = None, **limits: Any) -> Any:
            told: dict[str, list[str]] = {}
            for key, value in metadata or ():
                told.setdefault(key, []).append(value)
            if rpc != "ApiVersions":
                self.asked.append((rpc, request, told))
                self.given_s.append(limits["timeout"])
            answer = self.answers.get(rpc, APIS[rpc].response())
            if isinstance(answer, ApiError):
                raise failed(grpc.StatusCode.FAILED_PRECONDITION, trailing_metadata(answer), answer.message)
            if isinstance(answer, grpc.StatusCode):
                raise failed(answer, self.trailing)
            return to_protobuf(answer)

        return method


@asynccontextmanager
async def gateway(
    services: Services,
    client_id: str = "tool",
    listener: str = "KAFKA",
    user: str | None = None,
    heartbeats: Sequence[Services] = (),
) -> AsyncIterator[Connection]:
    """A client's connection to a listener of a gateway before these services; a `user` logs in."""
    stubs: dict[Backend, Any] = dict.fromkeys(Backend, services)
    made = Gateway(stubs | ({Backend.HEARTBEAT: HeartbeatServices(heartbeats)} if heartbeats else {}), GATEWAYS)
    await made.features.refresh()
    mechanisms = None if user is None else {"PLAIN": lambda: PlainServer(lambda *_: True)}
    listening = Listening(
        name=listener,
        handle=made,
        served=SERVED,
        describe_versions=made.features.describe,
        mechanisms=mechanisms,
    )
    begin = None if user is None else lambda: PlainClient(user, "x")
    settings = ClientSettings(client_id=client_id)
    async with (
        serving(listening, LOOPBACK) as server,
        await connect(LOOPBACK, server.port, settings=settings, begin=begin) as client,
    ):
        yield client


def errors_in(answer: Any) -> list[int]:
    """Every error code of an answer, at whatever depth."""
    if isinstance(answer, dict):
        own = [answer["errorCode"]] if "errorCode" in answer else []
        return own + [code for value in answer.values() for code in errors_in(value)]
    return [code for item in answer for code in errors_in(item)] if isinstance(answer, list) else []


def one_of_each(message: type[Message]) -> Message:
    """A request with one item in each list of structs."""

    def made(shape: Layout) -> Any:
        lists: dict[str, Any] = {each.name: (made(each.struct),) for each in shape.fields if each.array and each.struct}
        plain = {each.name: (FILL[each.kind],) for each in shape.fields if each.array and not each.struct}
        return struct_class(shape)(**lists, **plain)

    found: Message = made(layout_of(message))
    return found


# What there is


def test_every_api_has_an_rpc_that_takes_its_request_and_gives_its_response() -> None:
    services = {
        Backend.CONTROLLER: controller_pb2.DESCRIPTOR.services_by_name["Controller"],
        Backend.HEARTBEAT: heartbeat_pb2.DESCRIPTOR.services_by_name["Heartbeat"],
        Backend.QUORUM: quorum_pb2.DESCRIPTOR.services_by_name["Quorum"],
    }
    for key, backend in ROUTES.items():
        api, method = all_apis()[key], services[backend].methods_by_name[all_apis()[key].name]

        assert layout_of(api.request).protobuf is GetMessageClass(method.input_type)
        assert layout_of(api.response).protobuf is GetMessageClass(method.output_type)


async def test_it_tells_its_apis_and_the_controllers_features() -> None:
    async with gateway(Services()) as client:
        assert {key: (each[0], each[-1]) for key, each in SERVED.items()} == {
            each.api_key: (each.min_version, each.max_version) for each in client.node.api_keys
        }


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [(None, -1, 0), ("abc", 1, 0), ("abc", -1, ErrorCode.INVALID_REQUEST), (None, 1, ErrorCode.INVALID_REQUEST)],
)
async def test_who_means_a_node_says_which_cluster(cluster_id: str | None, node_id: int, error: int) -> None:
    """KIP-1242; what a controller of Kafka 4.4.0 answers."""
    async with gateway(Services()) as client:
        request = ApiVersionsRequest("tool", "1", cluster_id, node_id)
        answer = await client.ask_for(ApiVersionsResponse, request, version=5)

    assert (error, error == 0) == (answer.error_code, bool(answer.api_keys))


@pytest.mark.parametrize("key", ROUTES, ids=lambda key: all_apis()[key].name)
async def test_every_request_is_passed_on_and_answered_in_every_version(key: int) -> None:
    """In the shape of the newest version, to the RPC of its name; and so is every refusal."""
    api, services = all_apis()[key], Services()
    request = one_of_each(api.request)
    if isinstance(request, DescribeClusterRequest):
        request = DescribeClusterRequest(endpoint_type=2)
    versions = [each for each in api.versions if not (api.name == "DescribeCluster" and each == 0)]
    async with gateway(services) as client:
        for version in versions:
            fitting = fitted(request, version)
            services.answers.pop(api.name, None)
            answer = await client.ask(fitting, version=version)
            assert type(answer) is api.response
            services.answers[api.name] = REFUSAL
            refusal = await client.ask(fitting, version=version)
            codes = set(errors_in(json_form(refusal)))
            assert {ErrorCode.POLICY_VIOLATION} <= codes <= {ErrorCode.POLICY_VIOLATION, ErrorCode.NONE}, refusal

    assert [api.name] * 2 * len(versions) == [rpc for rpc, _, _ in services.asked]


# Errors


@pytest.mark.parametrize("key", ROUTES, ids=lambda key: all_apis()[key].name)
def test_a_refusal_is_said_where_the_answer_has_a_place_for_it(key: int) -> None:
    api = all_apis()[key]
    answer = json_form(finished(refused(one_of_each(api.request), REFUSAL, api.versions[-1])))

    assert (api.name not in BY_ITEM) == ("errorCode" in answer)
    assert answer.get("errorCode", ErrorCode.POLICY_VIOLATION) == ErrorCode.POLICY_VIOLATION
    if api.name in BY_ITEM:
        assert [ErrorCode.POLICY_VIOLATION] == list(dict.fromkeys(errors_in(answer)))


def test_who_may_not_ask_for_tokens_hears_who_would_have_had_one() -> None:
    """Kafka's ControllerApis, and CreateDelegationTokenRequest.getErrorResponse for every other error."""
    barred = ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "not here")
    of_bob = CreateDelegationTokenRequest("User", "bob")
    alice = Principal("User", "alice")
    asked = [(CreateDelegationTokenRequest(), barred), (of_bob, barred), (of_bob, REFUSAL)]
    answers: list[Any] = [finished(refused(request, refusal, 3, alice)) for request, refusal in asked]
    owners = [(each.principal_type, each.principal_name) for each in answers]
    requesters = [(each.token_requester_principal_type, each.token_requester_principal_name) for each in answers]
    renew = RenewDelegationTokenRequest()
    renewed: list[Any] = [finished(refused(renew, each, 2, alice)) for each in (barred, REFUSAL)]

    assert [("User", "alice"), ("User", "bob"), ("User", "ANONYMOUS")] == owners
    assert [("User", "alice"), ("User", "alice"), ("User", "ANONYMOUS")] == requesters
    assert {(-1, -1, -1)} == {
        (each.issue_timestamp_ms, each.expiry_timestamp_ms, each.max_timestamp_ms) for each in answers
    }
    assert [-1, 0] == [each.expiry_timestamp_ms for each in renewed]


def test_a_refusal_names_each_item() -> None:
    """Kafka's admin client waits for each by its name."""
    deleted: Any = finished(refused(DeleteTopicsRequest(topic_names=("a", "b")), REFUSAL, 5))
    assert ["a", "b"] == [each.name for each in deleted.responses]
    elect = ElectLeadersRequest(0, (ElectLeadersRequest.TopicPartitions("a", (0, 2)),))
    elected: Any = finished(refused(elect, REFUSAL, 2))
    ((topic, partitions),) = [(each.topic, each.partition_result) for each in elected.replica_election_results]
    assert ("a", [0, 2]) == (topic, [each.partition_id for each in partitions])
    for version, count in ((12, 1), (13, 0)):
        fetched: Any = finished(refused(FetchRequest(topics=(FetchRequest.FetchTopic(),)), REFUSAL, version))
        assert count == len(fetched.responses)


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
async def test_a_service_that_is_gone_looks_like_a_node_that_is_gone(status: grpc.StatusCode) -> None:
    async with gateway(Services(CreateTopics=status)) as client:
        with pytest.raises(Disconnected):
            await client.ask(CreateTopicsRequest())


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (grpc.StatusCode.DEADLINE_EXCEEDED, ErrorCode.REQUEST_TIMED_OUT),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        (grpc.StatusCode.INTERNAL, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_another_failure_is_an_error_code(status: grpc.StatusCode, code: ErrorCode) -> None:
    async with gateway(Services(DescribeQuorum=status)) as client:
        answer = await client.ask_for(DescribeQuorumResponse, DescribeQuorumRequest())

    assert code == answer.error_code


async def test_a_message_that_no_string_of_kafka_can_hold_is_shortened() -> None:
    """It quotes what was asked, with escapes: 9,000 bytes of zeros are 36,000 in it."""
    message = f"name {chr(0) * 9_000!r} has a character that is not allowed"
    item = CreateTopicsResponse.CreatableTopicResult(
        name="a", error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=message
    )
    async with gateway(Services(CreateTopics=CreateTopicsResponse(topics=(item,)))) as client:
        answer = await client.ask_for(CreateTopicsResponse, CreateTopicsRequest())
    (told,) = answer.topics

    assert ErrorCode.INVALID_TOPIC_EXCEPTION == told.error_code
    assert told.error_message is not None
    assert told.error_message.endswith("has a character that is not allowed")
    assert len(told.error_message) < 32_767 < len(message)


async def test_brokers_are_not_asked_for_at_a_controllers_listener() -> None:
    """The codes of Kafka's AuthHelper; endpoint types came with version 1 (KIP-919)."""
    async with gateway(Services()) as client:
        first = await client.ask_for(DescribeClusterResponse, DescribeClusterRequest(), version=0)
        later = await client.ask_for(DescribeClusterResponse, DescribeClusterRequest(), version=1)

    assert (ErrorCode.INVALID_REQUEST, ErrorCode.MISMATCHED_ENDPOINT_TYPE) == (first.error_code, later.error_code)


# Versions


@pytest.mark.parametrize("key", ROUTES, ids=lambda key: all_apis()[key].name)
async def test_whatever_a_service_answers_fits_into_every_version(key: int) -> None:
    api = all_apis()[key]
    response = filled(layout_of(api.response))
    for version in api.versions:
        assert encode(await answered_in(version, one_of_each(api.request), response), version)


def filled(shape: Layout) -> Message:
    """A struct with something in every field that is not its default."""
    values: dict[str, Any] = {}
    for field in shape.fields:
        value = filled(field.struct) if field.struct else FILL[field.kind]
        values[field.name] = (value,) if field.array else value
    found: Message = struct_class(shape)(**values)
    return found


async def test_what_an_older_version_said_elsewhere_is_where_the_newest_has_it() -> None:
    fetch = await as_newest(FetchRequest(replica_id=7), 14)
    assert isinstance(fetch, FetchRequest)
    assert 7 == fetch.replica_state.replica_id
    later = await as_newest(FetchRequest(replica_id=7), 15)
    assert isinstance(later, FetchRequest)
    assert -1 == later.replica_state.replica_id

    end = EndQuorumEpochRequest.TopicData
    topics = (end(partitions=(end.PartitionData(preferred_successors=(3, 1)),)),)
    resigned: Any = await as_newest(EndQuorumEpochRequest(topics=topics), 0)
    candidates = resigned.topics[0].partitions[0].preferred_candidates
    assert [3, 1] == [each.candidate_id for each in candidates]

    update = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest(feature_updates=(update("a", 1, True), update("b", 2, False)))
    newest: Any = await as_newest(request, 0)
    assert [2, 1] == [each.upgrade_type for each in newest.feature_updates]
    told: Any = await answered_in(1, request, UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION))
    assert [("a", 95), ("b", 95)] == [(each.feature, each.error_code) for each in told.results]


# Addresses


@pytest.mark.parametrize(
    ("listener", "leader_id", "leader", "cluster"),
    [
        ("KAFKA", 2, ("two.example", 9093), {1: ("one.example", 9093), 2: ("two.example", 9093)}),
        ("SECURE", 3, ("three.example", 19093), {1: ("one.example", 19093), 3: ("three.example", 19093)}),
    ],
)
async def test_addresses_are_those_of_the_gateways_at_the_listener_that_is_asked(
    listener: str, leader_id: int, leader: tuple[str, int], cluster: dict[int, tuple[str, int]]
) -> None:
    """As Kafka takes them from registrations and voters by the listener's name. KIP-103, KIP-919."""
    node, broker = FetchResponse.NodeEndpoint, DescribeClusterResponse.DescribeClusterBroker
    services = Services(
        Fetch=FetchResponse(node_endpoints=(node(leader_id, ELSEWHERE, 1),)),
        DescribeCluster=DescribeClusterResponse(
            endpoint_type=2, brokers=tuple(broker(number, ELSEWHERE, 1) for number in (1, 2, 3, 4))
        ),
        UpdateRaftVoter=UpdateRaftVoterResponse(
            current_leader=UpdateRaftVoterResponse.CurrentLeader(leader_id, 5, ELSEWHERE, 1)
        ),
    )
    async with gateway(services, listener=listener) as client:
        fetched = await client.ask_for(FetchResponse, FetchRequest())
        described = await client.ask_for(DescribeClusterResponse, DescribeClusterRequest(endpoint_type=2))
        updated = (await client.ask_for(UpdateRaftVoterResponse, UpdateRaftVoterRequest())).current_leader
    told = {rpc: metadata for rpc, _, metadata in services.asked}

    assert [(leader_id, *leader)] == [(each.node_id, each.host, each.port) for each in fetched.node_endpoints]
    assert cluster == {each.broker_id: (each.host, each.port) for each in described.brokers}
    assert (leader_id, 5, *leader) == (updated.leader_id, updated.leader_epoch, updated.host, updated.port)
    assert {LISTENER: [listener]} == told["Fetch"] == told["UpdateRaftVoter"]


@pytest.mark.parametrize("listener", GATEWAYS)
async def test_the_quorum_is_described_with_all_listeners_of_each_node(listener: str) -> None:
    """As Kafka does at each of its listeners (RaftUtil.singletonDescribeQuorumResponse)."""
    node = DescribeQuorumResponse.Node
    own = (node.Listener("GRPC", ELSEWHERE, 1),)
    services = Services(DescribeQuorum=DescribeQuorumResponse(nodes=tuple(node(each, own) for each in (1, 2, 3, 4))))
    async with gateway(services, listener=listener) as client:
        quorum = await client.ask_for(DescribeQuorumResponse, DescribeQuorumRequest())

    assert {
        1: [("KAFKA", "one.example", 9093), ("SECURE", "one.example", 19093)],
        2: [("KAFKA", "two.example", 9093)],
        3: [("SECURE", "three.example", 19093)],
    } == {each.node_id: [(at.name, at.host, at.port) for at in each.listeners] for each in quorum.nodes}


# Whose request it is


async def test_the_controller_is_told_who_asks() -> None:
    services = Services()
    async with gateway(services, client_id="tôol") as client:
        await client.ask(CreateTopicsRequest())
        await client.ask(FetchRequest())

    (_, _, told), (_, _, of_fetch) = services.asked
    assert ([LOOPBACK], ["t%C3%B4ol"]) == (told[CLIENT_HOST], told[CLIENT_ID])
    assert CLIENT_PRINCIPAL not in told
    assert {LISTENER: ["KAFKA"]} == of_fetch


async def test_what_it_tells_of_a_client_has_room_in_the_metadata_of_a_call() -> None:
    services = Services()
    longest = "ö" * (1_495 // len("%C3%B6"))
    envelope = EnvelopeRequest(inner(CreateTopicsRequest(), 7, client_id="ö" * 10_000), principal(longest), bytes(4))
    async with gateway(services) as client:
        await client.ask(envelope)

    ((_, _, told),) = services.asked
    assert (["%C3%B6" * 166], [f"User:{'%C3%B6' * len(longest)}"]) == (told[CLIENT_ID], told[CLIENT_PRINCIPAL])


async def test_a_principal_that_has_no_room_there_is_refused_and_not_cut() -> None:
    """A part of a name may be somebody else's; and an error that is retriable would have it asked again for ever."""
    services = Services()
    envelope = EnvelopeRequest(inner(CreateTopicsRequest(), 7), principal("a" * 1_496), bytes(4))
    async with gateway(services) as client:
        in_envelope = await client.ask_for(EnvelopeResponse, envelope)
    async with gateway(services, user="ö" * 250) as client:
        itself = await client.ask_for(DescribeClusterResponse, DescribeClusterRequest(endpoint_type=2))

    failed, error = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, itself.error_message
    assert (failed, failed, []) == (in_envelope.error_code, itself.error_code, services.asked)
    assert error is not None
    assert "has 1505 bytes, percent-encoded; at most 1500 go on" in error


def principal(name: str = "alice", kind: str = "User") -> bytes:
    """As Kafka's DefaultKafkaPrincipalBuilder writes it."""
    return bytes(2) + encode(DefaultPrincipalData(kind, name), 0)


def inner(request: Message, version: int, client_id: str = "app") -> bytes:
    api = next(api for api in all_apis().values() if api.request is type(request))
    return encode_request(api, request, version=version, correlation_id=77, client_id=client_id)


IN_VERSION_99: Final = b"\0\x13" + b"\0\x63" + inner(CreateTopicsRequest(), 7)[4:]
"""A CreateTopics."""


async def test_an_envelope_is_opened_and_its_answer_packed() -> None:
    created = CreateTopicsResponse(topics=(CreateTopicsResponse.CreatableTopicResult("a", num_partitions=3),))
    services = Services(CreateTopics=created)
    request = CreateTopicsRequest((CreateTopicsRequest.CreatableTopic("a"),))
    envelope = EnvelopeRequest(inner(request, 5), principal("älice"), bytes([10, 1, 2, 3]))
    async with gateway(services) as client:
        answer = await client.ask_for(EnvelopeResponse, envelope)

    ((rpc, asked, told),) = services.asked
    assert ("CreateTopics", "a") == (rpc, asked.topics[0].name)
    assert (["10.1.2.3", LOOPBACK], ["User:%C3%A4lice"], ["app"]) == (
        told[CLIENT_HOST], told[CLIENT_PRINCIPAL], told[CLIENT_ID],
    )  # fmt: skip
    assert (0, True) == (answer.error_code, answer.response_data is not None)
    api = APIS["CreateTopics"]
    header, position = decode_response_header(api, 5, answer.response_data or b"")
    inside = decode_body(CreateTopicsResponse, answer.response_data or b"", position, 5)
    assert (77, "a", 3) == (header.correlation_id, inside.topics[0].name, inside.topics[0].num_partitions)


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        (EnvelopeRequest(inner(CreateTopicsRequest(), 7), None, bytes(4)), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (
            EnvelopeRequest(inner(CreateTopicsRequest(), 7), b"\0\1abc", bytes(4)),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
        (
            EnvelopeRequest(inner(CreateTopicsRequest(), 7), principal()[:-1], bytes(4)),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
        (EnvelopeRequest(inner(CreateTopicsRequest(), 7), principal(), bytes(5)), ErrorCode.INVALID_REQUEST),
        (EnvelopeRequest(inner(CreateTopicsRequest(), 7)[:-1], principal(), bytes(4)), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeRequest(b"", principal(), bytes(4)), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeRequest(b"\x03\xe7\0\0\0\0\0\0\xff\xff", principal(), bytes(4)), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeRequest(IN_VERSION_99, principal(), bytes(4)), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeRequest(inner(FetchRequest(), 17), principal(), bytes(16)), ErrorCode.INVALID_REQUEST),
    ],
    ids=[
        "no principal", "its version", "cut off", "address", "half a body", "empty", "no such API", "no such version",
        "not passed on",
    ],
)  # fmt: skip
async def test_an_envelope_that_cannot_be_opened(envelope: EnvelopeRequest, error: ErrorCode) -> None:
    services = Services()
    async with gateway(services) as client:
        answer = await client.ask_for(EnvelopeResponse, envelope)

    assert (error, None, []) == (answer.error_code, answer.response_data, services.asked)


@pytest.mark.parametrize(
    ("refusal", "outside"),
    [
        (ApiError(ErrorCode.NOT_CONTROLLER, ""), True),
        (ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "", {HOP: LOOPBACK}), True),
        (ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""), False),
    ],
)
async def test_an_envelope_itself_is_refused_if_another_controller_or_another_sender_is_wanted(
    refusal: ApiError, outside: bool
) -> None:
    envelope = EnvelopeRequest(inner(CreateTopicsRequest(), 7), principal(), bytes(4))
    async with gateway(Services(CreateTopics=refusal)) as client:
        answer = await client.ask_for(EnvelopeResponse, envelope)

    assert (refusal.code if outside else ErrorCode.NONE, outside) == (answer.error_code, answer.response_data is None)


def test_what_an_envelope_may_contain_is_passed_to_controllers() -> None:
    assert {Backend.CONTROLLER} == {ROUTES[key] for key in FORWARDABLE}


def test_open_connections_are_counted_by_listener() -> None:
    """So that one can see who still has to move before a listener goes."""
    (row,) = [each for each in ROWS if each.name == "kraft.gateway.connections"]
    assert row.read is not None

    assert {"CONTROLLER": 2, "SECURE": 0} == {
        labels["kraft.listener"]: value for value, labels in row.read({"CONTROLLER": "ab", "SECURE": ""})
    }


async def test_features_are_asked_for_again_after_a_change() -> None:
    """A client that has raised a level, and connects again, finds it."""
    made = Gateway(dict.fromkeys(Backend, services := Services()), GATEWAYS)
    await made.features.refresh()
    services.answers["ApiVersions"] = APIS["ApiVersions"].response(finalized_features_epoch=9)
    listening = Listening(name="KAFKA", handle=made, served=SERVED, describe_versions=made.features.describe)
    async with serving(listening, LOOPBACK) as server:
        async with await connect(LOOPBACK, server.port) as client:
            assert -1 == client.node.finalized_features_epoch
            await client.ask(UpdateFeaturesRequest())
        for later in (grpc.StatusCode.UNAVAILABLE, APIS["ApiVersions"].response(finalized_features_epoch=-1)):
            services.answers["ApiVersions"] = later  # the controller is away, and then has not read the log yet
            await made.features.refresh()
            async with await connect(LOOPBACK, server.port) as client:
                assert 9 == client.node.finalized_features_epoch


async def test_an_older_answer_about_features_that_comes_later_is_dropped() -> None:
    """As when the regular question is under way while UpdateFeatures is answered."""
    answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
    waiting = iter(answers)
    features = ApiVersionsCache(lambda: next(waiting), SERVED)
    older, newer = [asyncio.create_task(features.refresh()) for _ in answers]
    await asyncio.sleep(0)
    answers[1].set_result(ApiVersionsResponse(finalized_features_epoch=9))
    await newer
    answers[0].set_result(ApiVersionsResponse(finalized_features_epoch=8))
    await older

    assert 9 == features.describe(ApiVersionsRequest(), 4).finalized_features_epoch


async def test_drain_waits_for_answers() -> None:
    """And takes no new connections meanwhile."""
    released = asyncio.Event()

    async def slow(*_: Any) -> Message:
        await released.wait()
        return DescribeClusterResponse()

    made = Gateway(dict.fromkeys(Backend, Services()), GATEWAYS)
    await made.features.refresh()
    listening = Listening(handle=slow, served=SERVED, describe_versions=made.features.describe)
    async with serving(listening, LOOPBACK) as server, await connect(LOOPBACK, server.port) as client:
        asked = asyncio.ensure_future(client.ask(DescribeClusterRequest()))
        await asyncio.sleep(0.05)
        draining = asyncio.ensure_future(server.drain(5))
        await asyncio.sleep(0.05)
        with pytest.raises(ConnectionError):
            await connect(LOOPBACK, server.port)
        released.set()
        await draining
        assert DescribeClusterResponse() == await asked
