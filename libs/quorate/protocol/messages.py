"""Requests and responses with their headers, as the bytes of one frame and back."""

from __future__ import annotations

from typing import Final, TypeVar

from kraft import Message
from kraft.api.api_versions import ApiVersionsResponse
from kraft.protocol.request_header import RequestHeader
from kraft.protocol.response_header import ResponseHeader
from quorate.errors import Corrupt, ErrorCode
from quorate.protocol.apis import API_VERSIONS, ApiMessageType, all_apis
from quorate.protocol.errors import ProtocolError
from quorate.wire.codec import decoder, encode, encode_in_steps, piece_encoder, stepped_decoder
from quorate.wire.items import Steps, has_many_items

__all__ = [
    "decode_body",
    "decode_body_in_steps",
    "decode_request_header",
    "decode_response_header",
    "encode_request",
    "encode_response",
    "encode_response_in_steps",
    "encoded_response_header",
    "response_pieces",
    "response_pieces_in_steps",
]

M = TypeVar("M", bound=Message)

_KEY_AND_VERSION_BYTES = 4
_HEADER_BYTES_MAX: Final = 64 * 1024
"""More than the longest client id; tagged fields beyond it would cost more than the request."""


def encode_request(
    api: ApiMessageType, message: Message, *, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Returns a request's header and body, without the size before them. Raises what `wire.codec.encode` raises."""
    header = RequestHeader(api.key, version, correlation_id, client_id)
    return encode(header, api.request_header_version(version)) + encode(message, version)


def encode_response(api: ApiMessageType, message: Message, *, version: int, correlation_id: int) -> bytes:
    """Returns a response's header and body, without the size before them. Raises what `wire.codec.encode` raises.

    An ApiVersions with the error UNSUPPORTED_VERSION is encoded in version 0, whatever `version` is (KIP-511).
    """
    version = _answered_in(message, version)
    return encode(ResponseHeader(correlation_id), api.response_header_version(version)) + encode(message, version)


def encode_response_in_steps(
    api: ApiMessageType, message: Message, *, version: int, correlation_id: int
) -> Steps[bytes]:
    """Returns header and body, as `encode_response`; a response with many list items is encoded in steps."""
    pieces = yield from response_pieces_in_steps(api, message, version=version, correlation_id=correlation_id)
    return b"".join(pieces)


def response_pieces(api: ApiMessageType, message: Message, *, version: int, correlation_id: int) -> list[bytes]:
    """As `encode_response`, in pieces to join; byte strings of the message, such as records, are not copied."""
    version = _answered_in(message, version)
    header = piece_encoder(ResponseHeader, api.response_header_version(version))(ResponseHeader(correlation_id))
    return [*header, *piece_encoder(type(message), version)(message)]


def response_pieces_in_steps(
    api: ApiMessageType, message: Message, *, version: int, correlation_id: int
) -> Steps[list[bytes]]:
    """Returns header and body in pieces. A body with many list items is one piece, encoded in steps."""
    if has_many_items(message):
        version = _answered_in(message, version)
        header = encode(ResponseHeader(correlation_id), api.response_header_version(version))
        return [header, (yield from encode_in_steps(message, version))]
    return response_pieces(api, message, version=version, correlation_id=correlation_id)


def encoded_response_header(api: ApiMessageType, header: RequestHeader) -> bytes:
    """Returns the header of the answer to a request with `header`."""
    return encode(ResponseHeader(header.correlation_id), api.response_header_version(header.request_api_version))


def _answered_in(message: Message, version: int) -> int:
    """Returns the version of an answer: that a version of ApiVersions is unknown is said in version 0 (KIP-511)."""
    is_refusal = isinstance(message, ApiVersionsResponse) and message.error_code == ErrorCode.UNSUPPORTED_VERSION
    return 0 if is_refusal else version


def decode_request_header(frame: bytes) -> tuple[ApiMessageType, RequestHeader, int]:
    """Returns the API, the header, and the position of the body. Raises ProtocolError.

    Key and version come first in every header version, and decide which it is. A version that the schema does not have
    is a ProtocolError, but for ApiVersions (KIP-511). Whether the listener serves the version is the caller's to check.
    """
    if len(frame) < _KEY_AND_VERSION_BYTES:
        raise ProtocolError(f"request has {len(frame)} bytes; its key and version take {_KEY_AND_VERSION_BYTES}")
    key = int.from_bytes(frame[:2], signed=True)
    version = int.from_bytes(frame[2:4], signed=True)
    api = all_apis().get(key)
    if api is None:
        raise ProtocolError(f"request_api_key is {key} (version {version}); there is no such API")
    if version not in api.versions and api.key != API_VERSIONS:
        raise ProtocolError(
            f"request_api_version is {version}; {api.name} has versions {api.versions[0]} to {api.versions[-1]}"
        )
    start = frame if len(frame) <= _HEADER_BYTES_MAX else frame[:_HEADER_BYTES_MAX]
    header, position = _decode(RequestHeader, start, 0, api.request_header_version(version), f"{api.name} v{version}")
    return api, header, position


def decode_response_header(api: ApiMessageType, version: int, frame: bytes) -> tuple[ResponseHeader, int]:
    """Returns the header of an answer to `api` in `version`, and the position of the body. Raises ProtocolError."""
    return _decode(ResponseHeader, frame, 0, api.response_header_version(version), f"{api.name} v{version}")


def decode_body(message: type[M], frame: bytes, position: int, version: int) -> M:
    """Returns the body of a request or response. Raises ProtocolError.

    Bytes after it are ignored, as in Kafka's `AbstractRequest.parseRequest`.
    """
    return _decode(message, frame, position, version, f"v{version}")[0]


def decode_body_in_steps(message: type[M], frame: bytes, position: int, version: int, *, items_max: int) -> Steps[M]:
    """Decodes a large body in steps, each of some milliseconds, and returns it. Raises ProtocolError.

    More than `items_max` items in all lists together are such an error, raised before the list with them is decoded.
    """
    try:
        found, _ = yield from stepped_decoder(message, version, items_max=items_max)(frame, position)
    except Corrupt as damage:
        raise ProtocolError(f"v{version}: {damage}") from None
    return found


def _decode(message: type[M], frame: bytes, position: int, version: int, what: str) -> tuple[M, int]:
    try:
        return decoder(message, version)(frame, position)
    except Corrupt as damage:
        raise ProtocolError(f"{what}: {damage}") from damage
