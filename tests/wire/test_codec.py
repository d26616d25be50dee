"""The codec against itself: what it writes it reads, and the compiled and the walked way are one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraft import Message
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest as CreateTopicsOverGrpc
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.fetch import FetchRequest
from kraft.api.sasl_handshake import SaslHandshakeRequest
from kraft.metadata.partition_change_record import PartitionChangeRecord
from kraft.metadata.partition_record import PartitionRecord
from kraft.metadata.topic_record import TopicRecord
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.wire import walk
from quorate.wire.codec import decode, encode, encode_in_steps, stepped_decoder
from quorate.wire.items import Steps
from quorate.wire.primitives import uvarint
from quorate.wire.protobuf import to_protobuf, to_protobuf_in_steps, to_struct, to_struct_in_steps
from quorate.wire.schema import layout_of
from tests.strategies import any_message_class, message_in_version

ForgottenTopic = FetchRequest.ForgottenTopic
DIRECTORY = bytes(range(16))


@settings(max_examples=1500, deadline=None)
@given(message_in_version())
def test_reads_what_it_writes(drawn: tuple[Message, int]) -> None:
    message, version = drawn
    data = encode(message, version)

    assert message == decode(type(message), data, version)
    assert data == walk.write(layout_of(type(message)), version, message)
    assert (message, len(data)) == walk.read(layout_of(type(message)), version, data, 0)
    assert (message, len(data)) == in_one_step(stepped_decoder(type(message), version, items_max=1_000)(data, 0))
    assert data == in_one_step(encode_in_steps(message, version))


def in_one_step(steps: Steps[Any]) -> Any:
    with pytest.raises(StopIteration) as end:
        next(steps)
    return end.value.value


@settings(max_examples=2000, deadline=None)
@given(any_message_class(), st.integers(0, 20), st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(message: type[Message], version: int, data: bytes) -> None:
    try:
        found = decode(message, data, version)
    except ApiError as refusal:
        assert version not in layout_of(message).versions
        assert refusal.code is ErrorCode.UNSUPPORTED_VERSION
    except Corrupt as damage:
        assert damage.position is not None
        assert 0 <= damage.position <= len(data)
        assert message.__qualname__ in damage.reason
    else:
        assert found == decode(message, encode(found, version), version)


@settings(max_examples=1500, deadline=None)
@given(message_in_version(), st.data())
def test_damaged_bytes_are_read_or_refused(drawn: tuple[Message, int], data: st.DataObject) -> None:
    message, version = drawn
    raw = bytearray(encode(message, version))
    assume(raw)  # ApiVersionsRequest 0 to 2 have no bytes
    where = data.draw(st.integers(0, len(raw) - 1))
    raw[where] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for damaged in (bytes(raw), bytes(raw[:cut])):
        try:
            found = decode(type(message), damaged, version)
        except Corrupt as damage:
            assert damage.position is not None
        else:
            assert isinstance(found, type(message))


@settings(max_examples=800, deadline=None)
@given(message_in_version())
def test_protobuf_carries_every_value(drawn: tuple[Message, int]) -> None:
    message, version = drawn
    known = decode(type(message), encode(_without_unknown(message), version), version)

    assert known == to_struct(to_protobuf(known))
    assert to_protobuf(known) == in_one_step(to_protobuf_in_steps(known))
    assert known == in_one_step(to_struct_in_steps(to_protobuf(known)))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "TopicRecord.name: length: not an unsigned varint at byte 0"),
        ("00", "TopicRecord.name: null, which version 0 does not allow at byte 0"),
        ("05616263", "TopicRecord.name: takes 4 bytes, 3 are left at byte 1"),
        ("03c328", "TopicRecord.name: not UTF-8 (invalid continuation byte) at byte 1"),
        ("ffffffff7f", "TopicRecord.name: length: not an unsigned varint at byte 0"),
        ("0261" + "00" * 15, "TopicRecord.topic_id: takes 16 bytes, 15 are left at byte 2"),
        ("0261" + "00" * 17 + "00", "TopicRecord: 1 bytes are left over at byte 19"),
    ],
)
def test_names_the_field_and_the_position(data: str, says: str) -> None:
    with pytest.raises(Corrupt) as damage:
        decode(TopicRecord, bytes.fromhex(data), 0)

    assert says == str(damage.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("00000001", "DeleteTopicsRequest.topic_names: 1 elements are announced, 0 bytes are left at byte 4"),
        ("000000010003", "DeleteTopicsRequest.topic_names[0]: takes 3 bytes, 0 are left at byte 6"),
        ("7fffffff0000", "DeleteTopicsRequest.topic_names: 2147483647 elements are announced, 2 bytes are left"),
        ("ffffffff00000000", "DeleteTopicsRequest.topic_names: null, which version 1 does not allow at byte 0"),
        ("00000000000000", "DeleteTopicsRequest.timeout_ms: takes 4 bytes, 3 are left at byte 4"),
        ("000000000000000000", "DeleteTopicsRequest: 1 bytes are left over at byte 8"),
    ],
)
def test_before_flexible_versions_names_the_field_and_the_position(data: str, says: str) -> None:
    """No count of tags ends such a message, so that what is cut short must be seen where it stands."""
    with pytest.raises(Corrupt) as damage:
        decode(DeleteTopicsRequest, bytes.fromhex(data), 1)

    assert str(damage.value).startswith(says)


@pytest.mark.parametrize("data", ["0005", "00056162", "7fff"])
def test_before_flexible_versions_a_last_field_that_is_cut_short_is_seen(data: str) -> None:
    """Nothing follows it that could be missing."""
    with pytest.raises(Corrupt, match=r"SaslHandshakeRequest.mechanism: takes \d+ bytes, \d are left"):
        decode(SaslHandshakeRequest, bytes.fromhex(data), 1)


def test_before_flexible_versions_any_negative_length_is_null() -> None:
    """As in Kafka's generated readers; -1 is what everybody writes."""
    header = RequestHeader(request_api_key=18, request_api_version=0, correlation_id=7, client_id=None)

    assert encode(header, 1) == bytes.fromhex("0012" + "0000" + "00000007" + "ffff")
    assert header == decode(RequestHeader, bytes.fromhex("0012" + "0000" + "00000007" + "8000"), 1)


def test_before_flexible_versions_neither_a_tag_nor_a_long_string_can_be_written() -> None:
    with pytest.raises(ApiError, match=r"tagged fields \[10000\], and version 1 has none"):
        encode(DeleteTopicsRequest(unknown_tags=((10000, b"trace"),)), 1)


@pytest.mark.parametrize("version", [1, 4])
@pytest.mark.parametrize("name", ["a" * 32_768, "é" * 16_384, "😀" * 8_192])
def test_a_string_of_more_than_32767_bytes_is_neither_written_nor_read(name: str, version: int) -> None:
    """As by Kafka's generated classes; the length of a compact string would have room for more."""
    with pytest.raises(ValueError, match=r"topic_names\[0\]: 32768 bytes are too long; a string has at most 32767"):
        encode(DeleteTopicsRequest(topic_names=(name,)), version)
    with pytest.raises(ValueError, match=r"TopicRecord.name: 32768 bytes are too long; a string has at most 32767"):
        encode(TopicRecord(name=name, topic_id=bytes(16)), 0)
    with pytest.raises(ApiError, match=r"topics\[0\].name: 32768 bytes; a string has at most 32767") as refused:
        to_struct(CreateTopicsOverGrpc(topics=[CreateTopicsOverGrpc.CreatableTopic(name=name)]))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(Corrupt, match=r"TopicRecord.name: 32768 bytes are announced; a string has at most 32767"):
        decode(TopicRecord, b"\x81\x80\x02" + name.encode() + bytes(17), 0)
    with pytest.raises(Corrupt, match=r"topic_names\[0\]: 32768 bytes are announced; a string has at most 32767"):
        decode(DeleteTopicsRequest, b"\x02\x81\x80\x02" + name.encode() + bytes(5), 4)


@pytest.mark.parametrize("name", ["a" * 32_767, "é" * 16_383 + "a", "😀" * 8_191 + "abc"])
def test_a_string_of_32767_bytes_is_written_and_read(name: str) -> None:
    record, request = TopicRecord(name=name, topic_id=bytes(16)), DeleteTopicsRequest(topic_names=(name,))

    assert record == decode(TopicRecord, encode(record, 0), 0)
    assert record == to_struct(to_protobuf(record))
    for version in (1, 4):
        assert request == decode(DeleteTopicsRequest, encode(request, version), version)
    assert request == to_struct(to_protobuf(request))


def test_checks_a_length_before_it_makes_anything() -> None:
    """Two billion topics in five bytes: refused by the bytes that are there, not by the memory that is not."""
    with pytest.raises(Corrupt, match=r"topics: 2147483646 elements are announced, 0 bytes are left"):
        decode(CreateTopicsRequest, bytes.fromhex("ffffffff07"), 7)


def test_a_tagged_field_at_its_default_is_not_written() -> None:
    """Kafka omits it even where it was set: presence is not the rule."""
    assert encode(PartitionChangeRecord(), 2) == encode(PartitionChangeRecord(leader=-2), 2)


def test_keeps_tags_it_does_not_know_in_order() -> None:
    record = PartitionChangeRecord(leader=3, unknown_tags=((3000, b"later"), (9, b"")))
    read = decode(PartitionChangeRecord, encode(record, 2), 2)

    assert ((9, b""), (3000, b"later")) == read.unknown_tags
    assert read.leader == 3


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("message", "version"), [(RequestHeader, 2), (PartitionChangeRecord, 0)])
def test_very_many_unknown_tags_are_read(message: type[Message], version: int) -> None:
    """Anybody may send them before a login. A decoder that copies those before for each would take minutes."""
    count = 300_000
    data = (
        encode(message(), version)[:-1] + uvarint(count) + b"".join(uvarint(1000 + tag) + b"\0" for tag in range(count))
    )

    assert tuple((1000 + tag, b"") for tag in range(count)) == decode(message, data, version).unknown_tags


def test_a_field_the_version_has_no_room_for_is_refused() -> None:
    with pytest.raises(ApiError, match=r"PartitionRecord.directories is .* and version 0 has no such field"):
        encode(PartitionRecord(directories=(DIRECTORY,)), 0)


def test_a_value_its_type_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match=r"PartitionRecord.leader: 4294967296 does not fit int32"):
        encode(PartitionRecord(leader=1 << 32), 0)
    with pytest.raises(ValueError, match=r"TopicRecord.topic_id: an id has 16 bytes, not 3"):
        encode(TopicRecord(name="a", topic_id=b"abc"), 0)


def test_a_null_struct_is_one_byte() -> None:
    empty = encode(DescribeTopicPartitionsRequest(), 0)

    assert empty == bytes.fromhex("01" + "000007d0" + "ff" + "00")
    assert decode(DescribeTopicPartitionsRequest, empty, 0).cursor is None


def test_equal_arrays_are_one_object() -> None:
    data = encode(PartitionRecord(replicas=(1, 2, 3), isr=(1, 2, 3)), 0)
    read = decode(PartitionRecord, data, 0)

    assert read.replicas is read.isr


def test_long_arrays_are_not_kept() -> None:
    """Anybody may send them to a gateway, before a login, too."""
    longs = [tuple(range(number, number + 10_000)) for number in range(100)]
    requests = [FetchRequest(forgotten_topics_data=(ForgottenTopic(partitions=each),)) for each in longs]
    tracemalloc.start()
    try:
        for request in requests:
            assert request == decode(FetchRequest, encode(request, 12), 12)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1 << 20, f"{kept} bytes are kept; one array has 40,000 on the wire"


def _without_unknown(message: Message) -> Message:
    """The same message without unknown tags on any level: protobuf has no place for them."""
    values = {}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, Message):
            value = _without_unknown(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Message):
            value = tuple(_without_unknown(item) for item in value)
        values[name] = value
    return type(message)(**{**values, "unknown_tags": ()})


def test_unknown_tagged_fields_count_as_items() -> None:
    """Each costs a tuple and its bytes, and takes two bytes on the wire."""
    message = DescribeClusterRequest(unknown_tags=tuple((tag, b"") for tag in range(100, 200)))
    encoded = encode(message, 1)

    with pytest.raises(StopIteration):
        next(stepped_decoder(DescribeClusterRequest, 1, items_max=100)(encoded, 0))
    with pytest.raises(Corrupt, match="more than 99 items in all lists together"):
        next(stepped_decoder(DescribeClusterRequest, 1, items_max=99)(encoded, 0))
