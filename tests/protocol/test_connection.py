"""A client and a server of ours against each other: versions, order, limits, and what closes a connection."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ApiError, ErrorCode
from quorate.protocol import (
    ApiMessageType,
    Close,
    ConnectionReady,
    Request,
    Response,
    ServerSettings,
    Taken,
    all_apis,
    api_of,
)
from quorate.protocol.api_versions import for_version
from quorate.protocol.frames import Frames, frame
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.wire.codec import encode
from quorate.wire.schema import layout_of
from tests.protocol.pair import SERVED, Pair
from tests.strategies import instance

API_VERSIONS = all_apis()[18]
DESCRIBE_CLUSTER = api_of(DescribeClusterRequest)
EVERY = [(api, version) for api in all_apis().values() for version in api.versions]


def ready(pair: Pair | None = None) -> Pair:
    pair = pair or Pair()
    pair.exchange()
    assert pair.events == [ConnectionReady()]
    pair.events.clear()
    return pair


def raw(api: ApiMessageType, message: Message, version: int, correlation_id: int = 1) -> bytes:
    return frame(encode_request(api, message, version=version, correlation_id=correlation_id, client_id="test"))


@pytest.mark.parametrize("piece_bytes", [1, 3, 1 << 20])
def test_a_client_asks_for_the_versions_and_is_ready(piece_bytes: int) -> None:
    pair = ready(Pair(piece_bytes=piece_bytes))

    assert SERVED == dict(pair.client.versions)
    assert pair.server.software == ("quorate", "0.1.0")


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([(api, version) for api, version in EVERY if api.key not in (17, 18, 36)]), st.data())
def test_every_api_in_every_version_arrives_and_is_answered(
    drawn: tuple[ApiMessageType, int], data: st.DataObject
) -> None:
    api, version = drawn
    request = data.draw(instance(layout_of(api.request), version))
    response = data.draw(instance(layout_of(api.response), version))
    pair = ready()
    number = pair.client.send(request, version=version)
    pair.exchange(lambda _: response)

    (arrived,) = pair.requests
    assert (request, version) == (arrived.message, arrived.header.request_api_version)
    assert pair.events == [Response(api=api, correlation_id=number, message=response)]


def test_answers_go_out_in_the_order_of_the_requests() -> None:
    pair = ready()
    numbers = [pair.client.send(DescribeClusterRequest()) for _ in range(3)]
    pair.exchange()
    first, second, third = pair.requests

    for request, name in ((third, "c"), (first, "a")):
        pair.server.respond(request, DescribeClusterResponse(cluster_id=name))
    pair.exchange()
    assert [(numbers[0], "a")] == [(event.correlation_id, event.message.cluster_id) for event in pair.events]

    pair.server.respond(second, DescribeClusterResponse(cluster_id="b"))
    pair.exchange()
    assert list(zip(numbers, "abc", strict=True)) == [
        (event.correlation_id, event.message.cluster_id) for event in pair.events
    ]


def test_records_of_an_answer_go_out_as_they_are() -> None:
    """They are not copied between the disk and the socket: of a consumer from the start that was most of the work."""
    pair = ready()
    records, few = bytes(100_000), b"few"
    parts = tuple(FetchResponse.FetchableTopicResponse.PartitionData(records=each) for each in (few, records, few))
    answer = FetchResponse(responses=(FetchResponse.FetchableTopicResponse(partitions=parts),))
    pair.client.send(FetchRequest())
    pair.exchange()
    pair.server.respond(pair.requests[0], answer)
    pieces = pair.server.pieces_to_send(0)
    pair.client.receive_data(b"".join(pieces))
    event = pair.client.next_event()

    assert [False, True, False] == [piece is records for piece in pieces]
    assert isinstance(event, Response)
    assert answer == event.message
    assert [] == pair.server.pieces_to_send(0)


def test_a_connection_that_is_forgotten_while_an_answer_is_encoded_holds_nothing() -> None:
    pair = ready()
    pair.client.send(DescribeClusterRequest())
    pair.exchange()
    broker = DescribeClusterResponse.DescribeClusterBroker(broker_id=1, host="host", port=9092)
    steps = pair.server.respond_in_steps(pair.requests[0], DescribeClusterResponse(brokers=(broker,) * 5_000))
    next(steps)
    pair.server.forget()
    left = list(steps)

    assert left
    assert 0 == pair.server.held_bytes
    assert b"" == pair.server.data_to_send(0)


def test_a_client_that_sends_more_than_is_allowed_in_flight_is_not_read_from() -> None:
    pair = ready(Pair(settings=ServerSettings(in_flight_max=2)))
    for _ in range(3):
        pair.client.send(DescribeClusterRequest())
    pair.exchange()

    assert len(pair.requests) == 2
    assert not pair.server.wants_data
    pair.server.respond(pair.requests[0], DescribeClusterResponse())
    pair.exchange()
    assert pair.server.in_flight == 2
    assert len(pair.requests) == 3


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    """KIP-511: with the versions of ApiVersions alone; the client then asks again in the highest of those."""
    pair = Pair()
    pair.server.receive_data(frame(bytes.fromhex("0012" + "7fff" + "00000009" + "ffff" + "00" + "beef")), 0)
    assert Taken() == pair.server.next_event(0)
    (answer,) = frames_of(pair.server.data_to_send(0))
    header, position = decode_response_header(API_VERSIONS, 0, answer)
    told = decode_body(ApiVersionsResponse, answer, position, 0)

    assert header.correlation_id == 9
    assert told.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert told.api_keys == (ApiVersionsResponse.ApiVersion(18, 0, 5),)


def test_a_client_falls_back_to_what_the_node_knows() -> None:
    pair = Pair(served={**SERVED, 18: range(4)})
    # The server's own table is shorter than the schema's: it answers 35, and its client asks again.
    answer = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(ApiVersionsResponse.ApiVersion(18, 0, 3),)
    )
    first = frames_of(pair.client.data_to_send())[0]
    assert first[2:4] == (5).to_bytes(2)
    pair.client.receive_data(frame(bytes(4) + encode(answer, 0)))
    assert pair.client.next_event() is None
    second = frames_of(pair.client.data_to_send())[0]
    assert second[2:4] == (3).to_bytes(2)


def test_a_client_whose_node_knows_no_version_of_ours_is_told() -> None:
    pair = ready(Pair(served={key: versions for key, versions in SERVED.items() if key != 60}))
    pair.client.versions = {**pair.client.versions, 55: range(7, 9), 60: range(0)}

    with pytest.raises(
        ApiError, match=r"DescribeQuorum in versions 7 to 8; this client needs one of 0 to 2"
    ) as refusal:
        pair.client.send(DescribeQuorumRequest())
    assert refusal.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(ApiError, match=r"does not support DescribeCluster \(key 60\)"):
        pair.client.version_of(DescribeClusterRequest)


@pytest.mark.parametrize(("name", "number"), [("", "1"), ("a b", "1"), ("ok", "-1"), ("ok", "1\n")])
def test_a_client_that_names_itself_badly_is_refused_and_stays_connected(name: str, number: str) -> None:
    pair = Pair()
    asked = ApiVersionsRequest(client_software_name=name, client_software_version=number)
    pair.server.receive_data(raw(API_VERSIONS, asked, 3), 0)

    assert Taken() == pair.server.next_event(0)
    (answer,) = frames_of(pair.server.data_to_send(0))
    assert decode_body(ApiVersionsResponse, answer, 4, 3).error_code == ErrorCode.INVALID_REQUEST
    assert pair.server.wants_data


def test_below_version_4_a_feature_whose_lowest_level_is_0_is_left_out() -> None:
    supported = tuple(ApiVersionsResponse.SupportedFeatureKey(name, low, 1) for name, low in (("a", 0), ("b", 1)))
    response = ApiVersionsResponse(supported_features=supported)

    assert ["b"] == [feature.name for feature in for_version(response, 3).supported_features]
    assert response == for_version(response, 4)


@pytest.mark.parametrize("version", [0, 1])
def test_a_login_where_there_is_none_is_answered_with_illegal_sasl_state(version: int) -> None:
    pair = ready()
    pair.client.send(SaslHandshakeRequest(mechanism="PLAIN"), version=version)
    pair.exchange()

    (event,) = pair.events
    assert isinstance(event, Response)
    assert event.message == SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("80000000", "frame size is -2147483648; it must be from 1 to 1000"),
        ("ffffffff", "frame size is -1; it must be from 1 to 1000"),
        ("00000000", "frame size is 0; it must be from 1 to 1000"),
        ("000003e9", "frame size is 1001; it must be from 1 to 1000"),
        ("474554202f20", "frame size is 1195725856; it must be from 1 to 1000"),  # GET /
        ("00000003003c00", "request has 3 bytes; its key and version take 4"),
        ("00000004ffff0000", "request_api_key is -1 (version 0); there is no such API"),
        ("0000000403e70000", "request_api_key is 999 (version 0); there is no such API"),
        ("00000004003c0009", "request_api_version is 9; DescribeCluster has versions 0 to 2"),
        ("00000004003cffff", "request_api_version is -1; DescribeCluster has versions 0 to 2"),
        ("00000004003c0000", "DescribeCluster v0: RequestHeader.correlation_id: takes 4 bytes, 0 are left at byte 4"),
        (
            "0000000b003c0000000000070005ab",
            "DescribeCluster v0: RequestHeader.client_id: takes 5 bytes, 1 are left at byte 10",
        ),
        (
            "0000000b003c000000000007ffff00",
            "v0: DescribeClusterRequest.include_cluster_authorized_operations: takes 1 bytes, 0 are left at byte 11",
        ),
        (
            "0000000f001200030000000700000003ffffff",
            "v3: ApiVersionsRequest.client_software_name: not UTF-8 (invalid start byte) at byte 12",
        ),
        (
            "00000009000300010000000700",
            "Metadata v1: RequestHeader.client_id: length: takes 2 bytes, 1 are left at byte 8",
        ),
    ],
)
def test_bad_bytes_close_the_connection_and_name_field_value_and_rule(data: str, says: str) -> None:
    pair = Pair(settings=ServerSettings(request_bytes_max=1000))
    good = raw(DESCRIBE_CLUSTER, DescribeClusterRequest(), 1)
    pair.server.receive_data(good + bytes.fromhex(data), 0)

    assert isinstance(pair.server.next_event(0), Request)
    closed = pair.server.next_event(0)
    assert closed == Close(reason=says)
    assert not pair.server.wants_data
    assert pair.server.next_event(0) is None
    assert pair.server.data_to_send(0) == b""


def test_a_version_that_the_listener_does_not_enable_closes_the_connection() -> None:
    pair = Pair(served={**SERVED, 60: range(2)})
    pair.server.receive_data(raw(DESCRIBE_CLUSTER, DescribeClusterRequest(), 2), 0)

    assert pair.server.next_event(0) == Close(
        reason="request_api_version is 2; DescribeCluster is not enabled in it on this listener"
    )


def test_a_size_is_refused_before_its_bytes_come() -> None:
    frames = Frames(size_max=10)
    frames.receive_data((11).to_bytes(4))

    with pytest.raises(Exception, match="frame size is 11; it must be from 1 to 10"):
        frames.take()
    assert len(frames) == 4


def test_an_idle_connection_has_a_deadline_that_traffic_moves() -> None:
    pair = ready(Pair(settings=ServerSettings(idle_ms_max=500)))
    assert pair.server.idle_deadline() == 500
    pair.now_ms = 300
    pair.client.send(DescribeClusterRequest())
    pair.exchange(lambda _: DescribeClusterResponse())

    assert pair.server.idle_deadline() == 800


def test_a_response_that_nobody_asked_for_or_out_of_order_closes_the_connection() -> None:
    pair = ready()
    number = pair.client.send(DescribeClusterRequest())
    pair.client.receive_data(frame((number + 1).to_bytes(4) + b"\0"))
    closed = pair.client.next_event()

    assert isinstance(closed, Close)
    assert "responses come in the order of requests" in closed.reason

    other = ready()
    other.client.receive_data(frame(bytes(4)))
    assert other.client.next_event() == Close(reason="a response of 4 bytes came; no request is open")


def test_a_response_with_bytes_that_are_too_few_closes_the_connection() -> None:
    pair = ready()
    number = pair.client.send(DescribeClusterRequest(), version=0)
    pair.client.receive_data(frame(number.to_bytes(4) + b"\0\0"))
    closed = pair.client.next_event()

    assert isinstance(closed, Close)
    assert closed.reason.startswith("v0: DescribeClusterResponse.throttle_time_ms: takes 4 bytes, 1 are left")


def test_bytes_after_a_request_are_ignored() -> None:
    """As in Kafka's `AbstractRequest.parseRequest`."""
    pair = Pair()
    request = encode_request(DESCRIBE_CLUSTER, DescribeClusterRequest(), version=0, correlation_id=1, client_id=None)
    pair.server.receive_data(frame(request, b"more"), 0)

    event = pair.server.next_event(0)
    assert isinstance(event, Request)
    assert event.header == RequestHeader(60, 0, 1, None)


# -- any bytes


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6), st.booleans())
def test_any_bytes_are_requests_or_a_close(chunks: list[bytes], framed: bool) -> None:
    pair = Pair()
    drain(pair, [frame(chunk) if framed and chunk else chunk for chunk in chunks])


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(EVERY), st.data())
def test_any_damage_to_a_request_is_a_request_or_a_close(
    drawn: tuple[ApiMessageType, int], data: st.DataObject
) -> None:
    api, version = drawn
    good = bytearray(raw(api, data.draw(instance(layout_of(api.request), version)), version))
    where = data.draw(st.integers(0, len(good) - 1))
    good[where] ^= data.draw(st.integers(1, 255))
    drain(Pair(), [bytes(good), raw(DESCRIBE_CLUSTER, DescribeClusterRequest(), 0)])


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=80), st.sampled_from([3, 4, 5]))
def test_any_bytes_to_a_client_are_an_answer_or_a_close(data: bytes, version: int) -> None:
    pair = Pair(ask_version=version)
    pair.client.data_to_send()
    pair.client.receive_data(frame(bytes(4) + data))
    try:
        event = pair.client.next_event()
    except ApiError:
        assert pair.client.closing is not None
    else:
        assert event is None or isinstance(event, ConnectionReady | Close)


def drain(pair: Pair, chunks: list[bytes]) -> None:
    """An input becomes a request that can be answered, or one Close; nothing is raised."""
    for chunk in chunks:
        if not pair.server.wants_data:
            return
        pair.server.receive_data(chunk, 0)
        while (event := pair.server.next_event(0)) is not None:
            match event:
                case Close(reason=reason):
                    assert reason
                    return
                case Request():
                    pair.server.respond(event, event.api.response())
        frames_of(pair.server.data_to_send(0))


def frames_of(data: bytes) -> list[bytes]:
    frames = Frames(size_max=1 << 30)
    frames.receive_data(data)
    found = []
    while (taken := frames.take()) is not None:
        found.append(taken)
    assert len(frames) == 0
    return found
