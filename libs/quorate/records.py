"""The record classes of the metadata log by their plain names, and the frame around each record's body.

A value in the log is: frame version (1), api key, record version, body. A record that this schema does not know is kept
raw. The first record of a batch may carry the trace context of the request that caused it, as a tagged field that Kafka
ignores.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import astuple, replace

from kraft import Message
from kraft.control.kraft_version_record import KRaftVersionRecord
from kraft.control.leader_change_message import LeaderChangeMessage
from kraft.control.snapshot_footer_record import SnapshotFooterRecord
from kraft.control.snapshot_header_record import SnapshotHeaderRecord
from kraft.control.voters_record import VotersRecord
from kraft.metadata.abort_transaction_record import AbortTransactionRecord
from kraft.metadata.access_control_entry_record import AccessControlEntryRecord
from kraft.metadata.begin_transaction_record import BeginTransactionRecord
from kraft.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.clear_elr_record import ClearElrRecord
from kraft.metadata.client_quota_record import ClientQuotaRecord
from kraft.metadata.config_record import ConfigRecord
from kraft.metadata.delegation_token_record import DelegationTokenRecord
from kraft.metadata.end_transaction_record import EndTransactionRecord
from kraft.metadata.feature_level_record import FeatureLevelRecord
from kraft.metadata.fence_broker_record import FenceBrokerRecord
from kraft.metadata.no_op_record import NoOpRecord
from kraft.metadata.partition_change_record import PartitionChangeRecord
from kraft.metadata.partition_record import PartitionRecord
from kraft.metadata.producer_ids_record import ProducerIdsRecord
from kraft.metadata.register_broker_record import RegisterBrokerRecord
from kraft.metadata.register_controller_record import RegisterControllerRecord
from kraft.metadata.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord
from kraft.metadata.remove_topic_record import RemoveTopicRecord
from kraft.metadata.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kraft.metadata.topic_record import TopicRecord
from kraft.metadata.unfence_broker_record import UnfenceBrokerRecord
from kraft.metadata.unregister_broker_record import UnregisterBrokerRecord
from kraft.metadata.unregister_controller_record import UnregisterControllerRecord
from kraft.metadata.user_scram_credential_record import UserScramCredentialRecord
from kraft.metadata.zk_migration_state_record import ZkMigrationStateRecord
from quorate.errors import Corrupt
from quorate.wire.codec import decoder, encoder
from quorate.wire.primitives import read_uvarint, uvarint
from quorate.wire.schema import layout_of

__all__ = [
    "CONTROL_RECORDS",
    "MISSES_MAX",
    "RECORDS",
    "REQUEST_TAG",
    "TARGET_TAG",
    "TRACE_TAG",
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnknownRecord",
    "UnregisterBrokerRecord",
    "UnregisterControllerRecord",
    "UserScramCredentialRecord",
    "VotersRecord",
    "ZkMigrationStateRecord",
    "decode_record",
    "decode_records",
    "encode_record",
    "encode_records",
    "frame_of",
    "request_of",
    "trace_of",
    "with_request",
    "with_trace",
]

MISSES_MAX: Final = 64
"""How many more partitions may differ from all before them than be alike until no more are compared in one call."""

_FRAME_VERSION: Final = b"\x01"
_ID: Final = struct.Struct(">i")
_ID_FROM: Final = 3
_ID_TO: Final = 7
"""Where the id is in the log value of a PartitionRecord: it is the first field, after three bytes of frame."""

TRACE_TAG: Final = 10_000
"""The tag of the W3C trace context on the first record of a batch, far above any tag of Kafka's."""
REQUEST_TAG: Final = 10_001
"""The tag of a request's identity with its answer, on the first record of the last batch of the request.

See `quorate.controller.engine.deduplication`.
"""
TARGET_TAG: Final = 10_002
"""The tag of AlterQuorum's target on a VotersRecord: its voters as another VotersRecord.

See `services.quorum.batches`.
"""


class UnknownRecord(Message, frozen=True, gc=False):
    """A record whose api key or version this schema does not know: kept raw, shown, never dropped."""

    api_key: int
    version: int
    body: bytes


_METADATA: Final[tuple[type[Message], ...]] = (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)


def _key(record: type[Message]) -> int:
    key = layout_of(record).key
    assert key is not None, record
    return key


RECORDS: Final[Mapping[int, type[Message]]] = {_key(record): record for record in _METADATA}
"""The record classes of the metadata log by api key. 6, 13 and 16 are unused."""

CONTROL_RECORDS: Final[Mapping[int, type[Message]]] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersRecord,
}
"""The classes of control record values by control record type (`ControlType` of quorate.wire.batch)."""

_KEYS: Final = {record: key for key, record in RECORDS.items()}
_PARTITION: Final = _FRAME_VERSION + uvarint(_KEYS[PartitionRecord])
assert layout_of(PartitionRecord).last_version < 1 << 7, "the version fits one byte"

R = TypeVar("R", bound=Message)


def encode_record(record: Message, version: int) -> bytes:
    """Returns the log value for `record` in `version`; an UnknownRecord keeps its own version.

    Raises ApiError(UNSUPPORTED_VERSION) for an unknown version, or one that lacks a field that is set; ValueError for a
    value outside its field's type.
    """
    if isinstance(record, UnknownRecord):
        return _FRAME_VERSION + uvarint(record.api_key) + uvarint(record.version) + record.body
    head, write = _ENCODERS[type(record), version]
    return head + write(record)


def decode_record(value: bytes) -> Message:
    """Returns the record in a log value; an UnknownRecord if the schema has no such api key or version.

    Raises Corrupt with the position in `value`.
    """
    read = _DECODERS.get(value[:3])  # frame version, key and version are one byte each in nearly every record
    if read is None:
        return _decode_any(value)
    record, end = read(value, 3)
    if end != len(value):
        raise Corrupt(f"{type(record).__name__}: {len(value) - end} bytes are left over", position=end)
    return record


def encode_records(records: Iterable[Message], version_of: Callable[[Message], int]) -> list[bytes]:
    """Returns the log value of each record, as `encode_record` does; `version_of` gives the version of a record.

    Of a topic's partitions that differ by their id alone only the first is encoded field by field.
    """
    values = []
    alike: dict[tuple[Any, ...], tuple[bytes, bytes]] = {}
    follows, misses = False, 0
    for record in records:
        after_another, follows = follows, type(record) is PartitionRecord
        if not (follows and after_another) or misses > MISSES_MAX:
            values.append(encode_record(record, version_of(record)))
            continue
        fields = astuple(record)
        found = alike.get(shape := fields[1:])
        if found is None:
            misses += 1
            value = encode_record(record, version_of(record))
            alike[shape] = value[:_ID_FROM], value[_ID_TO:]
        else:
            misses -= 1
            value = found[0] + _ID.pack(fields[0]) + found[1]
        values.append(value)
    return values


def decode_records(values: Iterable[bytes]) -> list[Message]:
    """Returns the record in each log value, as `decode_record` does. Raises Corrupt at the first that is none.

    Of a topic's partitions that differ by their id alone only the first is decoded field by field.
    """
    records = []
    alike: dict[bytes, PartitionRecord] = {}
    frame, misses = b"", 0
    for value in values:
        if value[:_ID_FROM] != frame:  # no partition after another of the same version
            frame = value[:_ID_FROM] if value[:2] == _PARTITION and misses <= MISSES_MAX else b""
            alike.clear()
            records.append(decode_record(value))
            continue
        first = alike.get(rest := value[_ID_TO:])
        if first is not None:
            misses -= 1
            records.append(replace(first, partition_id=_ID.unpack_from(value, _ID_FROM)[0]))
            continue
        record = decode_record(value)
        if type(record) is PartitionRecord:
            alike[rest] = record
        misses += 1
        if misses > MISSES_MAX:
            frame = b""
        records.append(record)
    return records


def frame_of(value: bytes) -> tuple[int, int, int]:
    """Returns (api key, record version, position of the body) of a log value. Raises Corrupt."""
    frame, position = read_uvarint(value, 0)
    if frame != 1:
        raise Corrupt(f"frame version {frame}; only 1 exists", position=0)
    key, position = read_uvarint(value, position)
    version, position = read_uvarint(value, position)
    return key, version, position


def with_trace(record: R, traceparent: bytes) -> R:
    """Returns `record` with the trace context of the request that caused it, in place of all unknown tagged fields."""
    return msgspec.structs.replace(record, unknown_tags=((TRACE_TAG, traceparent),))


def with_request(record: R, mark: bytes) -> R:
    """Returns `record` with a request's identity and answer, encoded, for deduplication.

    It keeps its trace context, and loses other unknown tagged fields.
    """
    traced = trace_of(record)
    tags = () if traced is None else ((TRACE_TAG, traced),)
    return msgspec.structs.replace(record, unknown_tags=(*tags, (REQUEST_TAG, mark)))


def trace_of(record: Message) -> bytes | None:
    """Returns the W3C trace context (`traceparent`) that `record` carries, or None."""
    return _tagged(record, TRACE_TAG)


def request_of(record: Message) -> bytes | None:
    """Returns the request's identity and answer that `record` carries, encoded, or None."""
    return _tagged(record, REQUEST_TAG)


def target_of(record: VotersRecord) -> bytes | None:
    """Returns the target voter set that `record` carries, as an encoded VotersRecord, or None."""
    return _tagged(record, TARGET_TAG)


def _tagged(record: Message, tag: int) -> bytes | None:
    for each, value in getattr(record, "unknown_tags", ()):
        if each == tag:
            return bytes(value)
    return None


def _decode_any(value: bytes) -> Message:
    key, version, body = frame_of(value)
    record = RECORDS.get(key)
    if record is None or version not in layout_of(record).versions:
        return UnknownRecord(key, version, value[body:])
    if body == 3:
        _DECODERS[value[:3]] = decoder(record, version)
        return decode_record(value)
    found: Message
    found, end = decoder(record, version)(value, body)  # a frame written in more bytes than it needs
    if end != len(value):
        raise Corrupt(f"{record.__name__}: {len(value) - end} bytes are left over", position=end)
    return found


class _Encoders(dict[tuple[type[Message], int], tuple[bytes, Callable[[Message], bytes]]]):
    """A cache of frame and encoder by record class and version."""

    def __missing__(self, wanted: tuple[type[Message], int]) -> tuple[bytes, Callable[[Message], bytes]]:
        record, version = wanted
        write = encoder(record, version)
        found = _FRAME_VERSION + uvarint(_KEYS[record]) + uvarint(version), write
        self[wanted] = found
        return found


_ENCODERS: Final = _Encoders()
_DECODERS: Final[dict[bytes, Callable[[bytes, int], tuple[Message, int]]]] = {}
