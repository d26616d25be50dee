"""The memory of a request is bounded before it is decoded, and requests of honest callers pass."""

from __future__ import annotations

from typing import Any, Final

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from kraft.api.alter_client_quotas_pb2 import AlterClientQuotasRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.service.multiplexed_pb2 import CallBatch
from kraft.service.quorum_pb2 import AppendRequest
from quorate.errors import ApiError, ErrorCode
from quorate.protocol.settings import ServerSettings
from quorate.runtime.requests.decoded_cost import COST_BYTES_MAX_OF, check_cost, cost_limit
from quorate.runtime.requests.decoding import decoder
from tests.fuzz.rpcs import SERVED, rpcs_of

LARGEST: Final = 4 << 20
(OTLP_EXPORT,) = COST_BYTES_MAX_OF


def is_taken(kind: type[Message], data: bytes, method: str = "Test/Method") -> bool:
    try:
        for _ in check_cost(data, cost_limit(method, kind.DESCRIPTOR)):
            pass
    except ApiError as refusal:
        assert ErrorCode.MESSAGE_TOO_LARGE is refusal.code
        return False
    return True


def nested(field: int, times: int, inner: bytes) -> bytes:
    """A message whose field holds `inner`, again and again."""
    return (bytes((field << 3 | 2, len(inner))) + inner) * times


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (AlterClientQuotasRequest, nested(1, LARGEST // 2, b"")),
        (AlterClientQuotasRequest, nested(1, LARGEST // 12, nested(1, 5, b""))),
        (CreateTopicsRequest, nested(1, LARGEST // 2, b"")),
        (ExportTraceServiceRequest, nested(1, LARGEST // 100, nested(2, 49, b""))),
        (CreateTopicsRequest, b"\x8a\x00\x00" * (LARGEST // 3)),  # the key in more bytes than it needs
    ],
    ids=["empty items", "empty items in items", "empty topics", "empty spans", "long keys"],
)
async def test_a_message_that_would_take_too_much_memory_is_refused(kind: type[Message], data: bytes) -> None:
    assert not is_taken(kind, data)
    with pytest.raises(ApiError, match=r"Test/Method: the request of .* bytes takes more than .*, and may take "):
        await decoder("Test/Method", kind.FromString)(data)


ITEMS_MAX_OF_A_GATEWAY: Final = ServerSettings().items_max
RPCS: Final = {rpc.path[1:]: rpc for program in SERVED for rpc in rpcs_of(program)}


def filled(message: Any, depth: int = 0) -> Any:
    """The message with each field set as honest callers set it, and three items in each list."""
    for field in message.DESCRIPTOR.fields:
        if field.containing_oneof is not None and message.WhichOneof(field.containing_oneof.name):
            continue
        if field.message_type is not None:
            at = getattr(message, field.name)
            for each in [at.add() for _ in range(3)] if field.is_repeated else [at]:
                if depth < 4:
                    filled(each, depth + 1)
                if not field.is_repeated:
                    each.SetInParent()
            continue
        text = {field.CPPTYPE_STRING: b"0123456789abcdef" if field.type == field.TYPE_BYTES else "topic-1234"}
        value = text.get(field.cpp_type, 1 if field.cpp_type == field.CPPTYPE_ENUM else 100)
        value = True if field.cpp_type == field.CPPTYPE_BOOL else value
        if field.is_repeated:
            getattr(message, field.name).extend([value] * 3)
        else:
            setattr(message, field.name, value)
    return message


def items_in(message: Any) -> int:
    """The items of its lists, and of the lists in them."""
    count = 0
    for field, value in message.ListFields():
        items = value if field.is_repeated else [value] if field.message_type is not None else []
        count += len(items) if field.is_repeated else 0
        count += sum(items_in(each) for each in items) if field.message_type is not None else 0
    return count


def largest_honest(method: str) -> tuple[type[Message], bytes, int, int]:
    """A request of a method; how often its bytes, one after the other, are the largest honest one; the items of that.

    Its lists are longer, and all else is as in one. It has as many items as a gateway lets through, or as have room.
    """
    one = filled(GetMessageClass(RPCS[method].request)())
    data, items = one.SerializeToString(), items_in(one)
    times = max(1, min(ITEMS_MAX_OF_A_GATEWAY // max(1, items), LARGEST // max(1, len(data))))
    return type(one), data, times, items * times


@pytest.mark.parametrize("method", RPCS)
def test_as_many_items_as_a_gateway_lets_through_are_taken_by_each_method(method: str) -> None:
    kind, data, times, _ = largest_honest(method)

    assert is_taken(kind, data * times, method)


def test_the_spans_of_one_export_are_taken() -> None:
    pair = KeyValue(key="rpc.response.status_code", value=AnyValue(string_value="OK"))
    span = Span(trace_id=bytes(16), span_id=bytes(8), name="kraft.service.Quorum/Fetch", attributes=[pair] * 10)
    export = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span] * 8_192)])])

    assert is_taken(type(export), export.SerializeToString(), OTLP_EXPORT)


@pytest.mark.parametrize(
    "message",
    [
        AppendRequest(values=[bytes(range(256)) * 4] * 10_000),
        CallBatch(calls=[CallBatch.Call(id=number, request=bytes(range(250)) * 8) for number in range(2_000)]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_bytes_of_others_are_not_taken_for_items(message: Message) -> None:
    assert is_taken(type(message), message.SerializeToString())


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x0a", b"\x0a\xff\xff\x03", b"\x0b\x0c", b"\x80" * 20, b"\x0a\x02\x0a\x7f"]
)
def test_bytes_that_break_off_are_left_to_the_decoder(data: bytes) -> None:
    assert is_taken(CreateTopicsRequest, data)
