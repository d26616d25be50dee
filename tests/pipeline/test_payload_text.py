"""From bytes straight to text: it answers what decoding and writing come to, and it answers for what is common."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft import Message, Uuid
from quorate.errors import Corrupt
from quorate.pipeline.json_text import writer
from quorate.pipeline.payload_text import HEAD_BYTES, MISFITS, text_of
from quorate.records import (
    RECORDS,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    DelegationTokenRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
    encode_record,
    frame_of,
    with_trace,
)
from quorate.wire.batch import batches, data_values
from quorate.wire.primitives import uvarint
from quorate.wire.schema import STRING_MAX, layout_of
from tests.strategies import instance

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
FILES = sorted(path for path in FIXTURES.rglob("*") if path.suffix in (".log", ".checkpoint"))
TOPIC = Uuid(bytes(range(16)))
RF = (1, 2, 3)
COMMON: list[Message] = [
    NoOpRecord(),
    TopicRecord('a "quoted" name', TOPIC),
    RemoveTopicRecord(TOPIC),
    ConfigRecord(2, "orders", "retention.ms", None),
    PartitionRecord(7, TOPIC, RF, RF, leader=1, directories=(TOPIC, TOPIC, TOPIC)),
    PartitionChangeRecord(7, TOPIC, isr=(2, 3), leader=2),
    PartitionChangeRecord(7, TOPIC, isr=(2,), eligible_leader_replicas=(), last_known_elr=(3,)),
    PartitionChangeRecord(7, TOPIC, replicas=RF * 70, leader_recovery_state=1),
    BrokerRegistrationChangeRecord(3, 99, fenced=1, log_dirs=(TOPIC,)),
    ClearElrRecord("orders"),
]


def value_of(record: Message, version: int | None = None) -> bytes:
    """As the log has it, in the newest version if none is said."""
    return encode_record(record, layout_of(type(record)).last_version if version is None else version)


def answered(value: bytes) -> str | None:
    """What the bytes come to by themselves; None if that is not said, or cannot be."""
    key, version, _ = frame_of(value)
    try:
        return text_of(RECORDS[key], version)(value)
    except MISFITS:
        return None


def expected(value: bytes) -> str | None:
    """What decoding and writing come to; None for what is no record."""
    key, version, _ = frame_of(value)
    try:
        return writer(RECORDS[key], version)(decode_record(value))
    except Corrupt:
        return None


@pytest.mark.parametrize("record", COMMON, ids=lambda record: type(record).__name__)
def test_common_records_are_answered(record: Message) -> None:
    value = value_of(record)

    assert expected(value) is not None
    assert expected(value) == answered(value)


@pytest.mark.parametrize(
    "record",
    [
        with_trace(TopicRecord("orders", TOPIC), b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        NoOpRecord(unknown_tags=((9, b"?"),)),
        RegisterBrokerRecord(1),
    ],
    ids=["trace", "a tag nobody knows", "arrays of structs"],
)
def test_what_takes_a_closer_look_is_left_to_others(record: Message) -> None:
    value = value_of(record)

    assert text_of(type(record), frame_of(value)[1])(value) is None


def test_a_tag_that_says_the_default_is_not_shown() -> None:
    plain = value_of(PartitionChangeRecord(7, TOPIC))
    leader_unchanged = uvarint(1) + uvarint(4) + (-2).to_bytes(4, "big", signed=True)
    value = plain[:-1] + b"\1" + leader_unchanged

    assert expected(value) == answered(value) == answered(plain)


def test_the_last_of_two_equal_tags_counts() -> None:
    plain = value_of(PartitionChangeRecord(7, TOPIC))
    leaders = [uvarint(1) + uvarint(4) + number.to_bytes(4, "big", signed=True) for number in (3, -2)]

    for order in (leaders, leaders[::-1]):
        value = plain[:-1] + b"\2" + b"".join(order)

        assert expected(value) == answered(value), value


def test_a_string_that_is_too_long_is_not_answered() -> None:
    longest = STRING_MAX * b"a"
    head, rest = b"\1\2\0", bytes(17)
    allowed, refused = (head + uvarint(len(name) + 1) + name + rest for name in (longest, longest + b"a"))

    assert expected(allowed) == answered(allowed) is not None
    assert expected(refused) is answered(refused) is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-4:]))
def test_records_of_a_real_cluster_read_the_same(path: Path) -> None:
    data = path.read_bytes()
    values = [
        value
        for position, header in batches(data)
        if not header.is_control
        for value in data_values(data, position, header)
    ]
    found = {value: answered(value) for value in values}

    assert {value: expected(value) for value, text in found.items() if text is not None} == {
        value: text for value, text in found.items() if text is not None
    }


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(sorted(RECORDS)), st.data())
def test_any_record_whole_or_damaged_is_answered_as_it_is_decoded_or_not_at_all(key: int, data: st.DataObject) -> None:
    shape = layout_of(RECORDS[key])
    version = data.draw(st.sampled_from(shape.versions))
    value = value_of(data.draw(instance(shape, version)), version)
    damaged = bytearray(value)
    if len(value) > HEAD_BYTES:
        damaged[data.draw(st.integers(HEAD_BYTES, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(HEAD_BYTES, len(value)))
    for each in (value, bytes(damaged), value[:cut], value + b"\0"):
        text = answered(each)

        assert text is None or text == expected(each), each


@pytest.mark.parametrize("record", [*COMMON, DelegationTokenRecord("owner")], ids=lambda record: type(record).__name__)
def test_bytes_that_are_cut_anywhere_are_never_a_record(record: Message) -> None:
    value = value_of(record)

    assert {None} == {answered(value[:end]) for end in range(HEAD_BYTES, len(value))}
