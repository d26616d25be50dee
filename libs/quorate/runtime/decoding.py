"""Decodes requests and encodes answers. For malformed bytes gRPC would answer UNKNOWN; here it is INVALID_REQUEST.

To a client gRPC gives None for an answer whose bytes are malformed; `parsed` is for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError

from quorate.errors import ApiError, Corrupt, ErrorCode

__all__ = ["Decode", "Encode", "Undecodable", "checked", "decoder", "encoder", "parsed"]

Decode = Callable[[bytes], Any]
Encode = Callable[[Any], bytes]
Answer = TypeVar("Answer")

_SYNTAX: Final = "it does not parse as the request's message"


class Undecodable:
    """Takes the place of a request whose bytes could not be parsed."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def decoder(decode: Decode | None) -> Decode | None:
    """Wraps a deserializer: for malformed bytes it returns Undecodable, since gRPC answers UNKNOWN to any exception."""
    if decode is None:
        return None

    def attempt(data: bytes) -> Any:
        try:
            return decode(data)
        except DecodeError as error:
            return Undecodable(str(error) or _SYNTAX)

    return attempt


def encoder(encode: Encode | None) -> Encode | None:
    """Wraps a serializer: an answer that its handler has encoded itself, in turns, passes as it is."""
    if encode is None:
        return None

    def attempt(answer: Any) -> bytes:
        return answer if answer.__class__ is bytes else encode(answer)

    return attempt


def checked(request: Any) -> Any:
    """Returns the request. Raises ApiError(INVALID_REQUEST) if it could not be parsed."""
    if request.__class__ is Undecodable:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the bytes are no request: {request.reason}")
    return request


def parsed(answer: Answer | None) -> Answer:
    """Returns what a server has answered with status OK. Raises Corrupt if it could not be parsed.

    >>> parsed("an answer")
    'an answer'
    """
    if answer is None:
        raise Corrupt("the answer does not parse as its message")
    return answer
