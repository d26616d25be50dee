"""Envelope (58): a request that a broker passes on in its client's name, unpacked, and its answer packed. KIP-590."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from kraft import Message
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.protocol.default_principal_data import DefaultPrincipalData
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import Principal
from quorate.protocol import ApiMessageType, ProtocolError
from quorate.protocol.messages import (
    decode_body,
    decode_body_in_steps,
    decode_request_header,
    encode_response_in_steps,
)
from quorate.protocol.settings import ServerSettings
from quorate.wire.codec import decode
from quorate.wire.items import Steps
from services.gateway.apis import FORWARDABLE

__all__ = ["Enclosed", "enclosed", "sealed"]

PRINCIPAL_VERSION_BYTES: Final = 2
LIMITS: Final = ServerSettings()
"""The size of a large request, and the most items of one: the same as without an envelope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """The request inside of an envelope, and the principal and IP address of the broker's client that sent it."""

    api: ApiMessageType
    header: RequestHeader
    message: Message
    principal: Principal
    host: str
    is_token: bool = False
    """Whether the principal has logged in at the broker with a delegation token."""


def enclosed(envelope: EnvelopeRequest) -> Steps[Enclosed]:
    """Unpacks an envelope, in the order in which Kafka's EnvelopeUtils does; a large request in steps.

    Raises ApiError: PRINCIPAL_DESERIALIZATION_FAILURE, INVALID_REQUEST for the address and for an API that is not
    passed on, or UNSUPPORTED_VERSION for bytes that are no request: so a broker knows the envelope itself to be right.
    """
    forwarded = _principal(envelope.request_principal)
    host, data = _host(envelope.client_host_address), envelope.request_data
    try:
        api, header, position = decode_request_header(data)
        if api.key not in FORWARDABLE:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"request_data: {api.name} is not passed on in envelopes")
        version, items_max = header.request_api_version, LIMITS.items_max
        if len(data) > LIMITS.large_bytes:
            message = yield from decode_body_in_steps(api.request, data, position, version, items_max=items_max)
        else:
            message = decode_body(api.request, data, position, version)
    except ProtocolError as problem:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"request_data: {problem}") from None
    return Enclosed(
        api=api,
        header=header,
        message=message,
        principal=Principal(forwarded.type, forwarded.name),
        host=host,
        is_token=forwarded.token_authenticated,
    )


def sealed(request: Enclosed, response: Message) -> Steps[EnvelopeResponse]:
    """Packs the answer to an enclosed request, encoded in that request's version; one of many items in steps.

    Raises ValueError for a value, and ApiError(UNSUPPORTED_VERSION) for a field that the version cannot carry.
    """
    header = request.header
    encoded = yield from encode_response_in_steps(
        request.api, response, version=header.request_api_version, correlation_id=header.correlation_id
    )
    return EnvelopeResponse(encoded)


def _principal(data: bytes | None) -> DefaultPrincipalData:
    """Reads a principal as Kafka's DefaultKafkaPrincipalBuilder writes it: two bytes of version, then the data."""
    if data is None or len(data) < PRINCIPAL_VERSION_BYTES:
        raise _unreadable(f"it has {len(data or b'')} bytes; its version takes {PRINCIPAL_VERSION_BYTES}")
    version = int.from_bytes(data[:PRINCIPAL_VERSION_BYTES], signed=True)
    try:
        found = decode(DefaultPrincipalData, data[PRINCIPAL_VERSION_BYTES:], version)
    except (Corrupt, ApiError) as problem:
        raise _unreadable(str(problem)) from None
    if not found.type:
        raise _unreadable("its type is empty")
    return found


def _unreadable(why: str) -> ApiError:
    return ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, f"request_principal: {why}")


def _host(address: bytes) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        why = f"client_host_address has {len(address)} bytes; an address has 4 or 16"
        raise ApiError(ErrorCode.INVALID_REQUEST, why) from None
