"""Maps Kafka's error codes to gRPC statuses with rich details, and back.

Each refusal carries ErrorInfo (reason = Kafka's name, domain "quorate", the error's metadata), RetryInfo if the same
request may succeed later, and BadRequest if a field is malformed (AIP-193).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from kraft.errors import RETRIABLE, ErrorCode
from quorate.errors import ApiError

__all__ = [
    "BARE",
    "DOMAIN",
    "GRPC_STATUS",
    "UNTOUCHED",
    "error_from_call",
    "is_gone",
    "is_overdue",
    "is_refused_stream",
    "is_retriable",
    "rich_status",
    "shortened",
    "status_code",
    "trailing_metadata",
]

DOMAIN: Final = "quorate"
DETAILS_KEY: Final = "grpc-status-details-bin"
RETRY_AFTER_MS: Final = 100
"""The delay of RetryInfo in ms if the error has no `retry_after_ms`: about an election on loopback."""

MESSAGE_BYTES_MAX: Final = 512
VALUE_BYTES_MAX: Final = 300
VALUES_BYTES_MAX: Final = 1_000
"""The limits on a refusal's size: its message, each metadata value, all values together.

The refusal is sent in trailing metadata, three times and encoded; a client with a limit of 8 KiB for those (gRPC's
default) would otherwise get RESOURCE_EXHAUSTED.
"""

BARE: Final = "without_details"
"""The metadata key of an ApiError whose status had no details of ours: from gRPC itself, or from another server."""

REFUSED_STREAM: Final = "refused_stream"
"""The metadata key of an ApiError whose call the server's HTTP/2 has refused before anything was begun."""

UNTOUCHED: Final = "untouched"
"""The metadata key of an ApiError before which nothing was executed: the call may be sent again to another server."""

GRPC_STATUS: Final = "grpc_status"
"""The metadata key of an ApiError with the name of the gRPC status by which the call failed."""

_GONE: Final = frozenset({"UNAVAILABLE", "CANCELLED"})
"""gRPC statuses of a server that cannot be reached, or that has ended in the middle of a call."""

OF_ONE_CALL: Final = frozenset({BARE, REFUSED_STREAM, GRPC_STATUS})
"""The details of an ApiError about the call that failed: they never travel, or the next receiver takes them for its own
call's."""

_OF_HTTP2: Final = "RST_STREAM with error code 7"
"""How gRPC words REFUSED_STREAM (RFC 9113, 7 and 8.7), and it tells it in no other way."""

FIELD: Final = "field"
"""The metadata key of an ApiError that names the malformed field of the request."""

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]

_S = grpc.StatusCode
_E = ErrorCode

_STATUS: Final[dict[ErrorCode, grpc.StatusCode]] = {
    code: status
    for status, codes in {
        _S.INTERNAL: (_E.UNKNOWN_SERVER_ERROR,),
        _S.DATA_LOSS: (_E.CORRUPT_MESSAGE,),
        _S.DEADLINE_EXCEEDED: (_E.REQUEST_TIMED_OUT,),
        _S.UNIMPLEMENTED: (
            _E.UNSUPPORTED_VERSION,
            _E.UNSUPPORTED_SASL_MECHANISM,
            _E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            _E.UNSUPPORTED_COMPRESSION_TYPE,
            _E.UNSUPPORTED_ASSIGNOR,
        ),
        _S.UNAUTHENTICATED: (
            _E.SASL_AUTHENTICATION_FAILED,
            _E.ILLEGAL_SASL_STATE,
            _E.UNACCEPTABLE_CREDENTIAL,
            _E.PRINCIPAL_DESERIALIZATION_FAILURE,
            _E.DELEGATION_TOKEN_EXPIRED,
        ),
        _S.PERMISSION_DENIED: (
            _E.TOPIC_AUTHORIZATION_FAILED,
            _E.GROUP_AUTHORIZATION_FAILED,
            _E.CLUSTER_AUTHORIZATION_FAILED,
            _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            _E.DELEGATION_TOKEN_OWNER_MISMATCH,
            _E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ),
        _S.NOT_FOUND: (
            _E.UNKNOWN_TOPIC_OR_PARTITION,
            _E.UNKNOWN_TOPIC_ID,
            _E.UNKNOWN_MEMBER_ID,
            _E.UNKNOWN_PRODUCER_ID,
            _E.UNKNOWN_SUBSCRIPTION_ID,
            _E.UNKNOWN_CONTROLLER_ID,
            _E.LOG_DIR_NOT_FOUND,
            _E.DELEGATION_TOKEN_NOT_FOUND,
            _E.GROUP_ID_NOT_FOUND,
            _E.FETCH_SESSION_ID_NOT_FOUND,
            _E.SHARE_SESSION_NOT_FOUND,
            _E.RESOURCE_NOT_FOUND,
            _E.SNAPSHOT_NOT_FOUND,
            _E.TRANSACTIONAL_ID_NOT_FOUND,
            _E.VOTER_NOT_FOUND,
            _E.BROKER_ID_NOT_REGISTERED,
            _E.CONTROLLER_ID_NOT_REGISTERED,
        ),
        _S.ALREADY_EXISTS: (
            _E.TOPIC_ALREADY_EXISTS,
            _E.DUPLICATE_RESOURCE,
            _E.DUPLICATE_BROKER_REGISTRATION,
            _E.DUPLICATE_VOTER,
        ),
        _S.OUT_OF_RANGE: (_E.OFFSET_OUT_OF_RANGE, _E.POSITION_OUT_OF_RANGE, _E.OFFSET_MOVED_TO_TIERED_STORAGE),
        _S.RESOURCE_EXHAUSTED: (
            _E.MESSAGE_TOO_LARGE,
            _E.RECORD_LIST_TOO_LARGE,
            _E.OFFSET_METADATA_TOO_LARGE,
            _E.TELEMETRY_TOO_LARGE,
            _E.THROTTLING_QUOTA_EXCEEDED,
            _E.GROUP_MAX_SIZE_REACHED,
            _E.SHARE_SESSION_LIMIT_REACHED,
        ),
        _S.ABORTED: (
            _E.CONCURRENT_TRANSACTIONS,
            _E.TRANSACTION_ABORTABLE,
            _E.TRANSACTION_COORDINATOR_FENCED,
            _E.PRODUCER_FENCED,
            _E.FENCED_LEADER_EPOCH,
            _E.UNKNOWN_LEADER_EPOCH,
            _E.FENCED_INSTANCE_ID,
            _E.FENCED_MEMBER_EPOCH,
            _E.FENCED_STATE_EPOCH,
            _E.STALE_BROKER_EPOCH,
            _E.STALE_CONTROLLER_EPOCH,
            _E.STALE_MEMBER_EPOCH,
        ),
        _S.INVALID_ARGUMENT: (
            _E.INVALID_FETCH_SIZE,
            _E.INVALID_TOPIC_EXCEPTION,
            _E.INVALID_REQUIRED_ACKS,
            _E.INCONSISTENT_GROUP_PROTOCOL,
            _E.INVALID_GROUP_ID,
            _E.INVALID_SESSION_TIMEOUT,
            _E.INVALID_COMMIT_OFFSET_SIZE,
            _E.INVALID_TIMESTAMP,
            _E.INVALID_PARTITIONS,
            _E.INVALID_REPLICATION_FACTOR,
            _E.INVALID_REPLICA_ASSIGNMENT,
            _E.INVALID_CONFIG,
            _E.INVALID_REQUEST,
            _E.INVALID_TRANSACTION_TIMEOUT,
            _E.INVALID_PRINCIPAL_TYPE,
            _E.INVALID_RECORD,
            _E.INVALID_REGULAR_EXPRESSION,
            _E.INVALID_REGISTRATION,
            _E.MISMATCHED_ENDPOINT_TYPE,
            _E.UNSUPPORTED_ENDPOINT_TYPE,
            _E.STREAMS_INVALID_TOPOLOGY,
        ),
    }.items()
    for code in codes
}

_KAFKA: Final = {
    _S.DEADLINE_EXCEEDED: _E.REQUEST_TIMED_OUT,
    _S.UNAVAILABLE: _E.NETWORK_EXCEPTION,
    _S.CANCELLED: _E.NETWORK_EXCEPTION,
    _S.UNIMPLEMENTED: _E.UNSUPPORTED_VERSION,
    _S.RESOURCE_EXHAUSTED: _E.THROTTLING_QUOTA_EXCEEDED,
    _S.UNAUTHENTICATED: _E.SASL_AUTHENTICATION_FAILED,
    _S.PERMISSION_DENIED: _E.CLUSTER_AUTHORIZATION_FAILED,
    _S.INVALID_ARGUMENT: _E.INVALID_REQUEST,
    _S.NOT_FOUND: _E.RESOURCE_NOT_FOUND,
}
"""The Kafka error for a gRPC status without our details, which comes from gRPC itself or from a foreign server."""


def status_code(code: ErrorCode) -> grpc.StatusCode:
    """Returns the gRPC status of an error code; without a row UNAVAILABLE if retriable, else FAILED_PRECONDITION.

    >>> status_code(ErrorCode.NOT_CONTROLLER).name, status_code(ErrorCode.INCONSISTENT_CLUSTER_ID).name
    ('UNAVAILABLE', 'FAILED_PRECONDITION')
    """
    assert code is not ErrorCode.NONE, code
    return _STATUS.get(code) or (_S.UNAVAILABLE if code in RETRIABLE else _S.FAILED_PRECONDITION)


def is_retriable(error: ApiError) -> bool:
    """Returns whether the same request, unchanged, may succeed later."""
    return error.code in RETRIABLE


def is_gone(error: ApiError) -> bool:
    """Returns whether a call of this process had no answer, because its server is not there or went away meanwhile."""
    return BARE in error.metadata and error.metadata[GRPC_STATUS] in _GONE


def is_overdue(error: ApiError) -> bool:
    """Returns whether a call of this process had no answer in its time; a server that says so itself has answered."""
    return BARE in error.metadata and error.metadata[GRPC_STATUS] == _S.DEADLINE_EXCEEDED.name


def is_refused_stream(error: ApiError) -> bool:
    """Returns whether a call was refused by HTTP/2, for too many streams: then nothing of it was executed."""
    return REFUSED_STREAM in error.metadata


def shortened(text: str, bytes_max: int = MESSAGE_BYTES_MAX) -> str:
    """Returns `text` shortened to about `bytes_max` bytes. The middle is left out, since the rule is at the end.

    >>> shortened("name 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' is too long", 40)
    "name 'aaaaaaaaaaaaaa… (37 left out) …aaaaaaa' is too long"
    """
    if len(text) * 4 <= bytes_max:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= bytes_max:
        return text
    head = data[: bytes_max // 2].decode("utf-8", "ignore")
    tail = data[-(bytes_max // 2) :].decode("utf-8", "ignore")
    return f"{head}… ({len(text) - len(head) - len(tail)} left out) …{tail}"


def rich_status(error: ApiError) -> Status:
    """Returns the error as google.rpc.Status, with long values shortened."""
    message = shortened(error.message)
    kept = _shortened_values(error.metadata)
    details: list[Message] = [ErrorInfo(reason=error.code.name, domain=DOMAIN, metadata=kept)]
    if is_retriable(error):
        delay = Duration()
        delay.FromMilliseconds(int(error.metadata.get("retry_after_ms", RETRY_AFTER_MS)))
        details.append(RetryInfo(retry_delay=delay))
    if FIELD in error.metadata:
        violation = BadRequest.FieldViolation(field=kept.get(FIELD, ""), description=message)
        details.append(BadRequest(field_violations=[violation]))
    status = Status(code=status_code(error.code).value[0], message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return status


def _shortened_values(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns the metadata that travels: the values that fit into VALUES_BYTES_MAX, in order, each shortened."""
    kept, left = {}, VALUES_BYTES_MAX
    for key, value in metadata.items():
        if key in OF_ONE_CALL:
            continue
        short = shortened(value, VALUE_BYTES_MAX)
        left -= len(key.encode()) + len(short.encode("utf-8", "replace"))
        if left >= 0:
            kept[key] = short
    return kept


def trailing_metadata(error: ApiError) -> tuple[tuple[str, bytes], ...]:
    """Returns the trailing metadata that carries the rich status."""
    return ((DETAILS_KEY, rich_status(error).SerializeToString()),)


def error_from_call(error: grpc.aio.AioRpcError) -> ApiError:
    """Returns the ApiError that a call failed with; `metadata["grpc_status"]` is the name of the gRPC status.

    A status without our details, such as one of gRPC itself, becomes the Kafka error that a client treats the same.
    """
    code = error.code()
    metadata = {GRPC_STATUS: code.name}
    for info in _error_infos(error.trailing_metadata() or ()):
        if info.domain == DOMAIN and info.reason in ErrorCode.__members__:
            told = {key: value for key, value in info.metadata.items() if key not in OF_ONE_CALL}
            return ApiError(ErrorCode[info.reason], error.details() or "", told | metadata)
    metadata[BARE] = "true"
    if code is _S.UNAVAILABLE and _OF_HTTP2 in (error.details() or ""):
        metadata[REFUSED_STREAM] = "true"
    return ApiError(_KAFKA.get(code, _E.UNKNOWN_SERVER_ERROR), f"{code.name}: {error.details()}", metadata)


def _error_infos(trailing: Iterable[tuple[str, str | bytes]]) -> Iterable[ErrorInfo]:
    for key, value in trailing:
        if key == DETAILS_KEY and isinstance(value, bytes):
            yield from _unpacked(value)


def _unpacked(data: bytes) -> Iterable[ErrorInfo]:
    # The call has failed already, so malformed details of a foreign server are ignored.
    try:
        details: Iterable[AnyMessage] = Status.FromString(data).details
        infos = [(detail, ErrorInfo()) for detail in details if detail.Is(ErrorInfo.DESCRIPTOR)]
        return [info for detail, info in infos if detail.Unpack(info)]
    except DecodeError:
        return []
