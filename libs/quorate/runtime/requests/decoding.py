"""Decodes requests, within a bound on what they cost in memory, and encodes answers; malformed bytes: INVALID_REQUEST.

To a client gRPC gives None for an answer whose bytes are malformed; `parsed` is for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.requests.decoded_cost import check_cost, cost_limit

__all__ = ["Decode", "Encode", "decoder", "encoder", "parsed", "parser"]

Parse = Callable[[bytes], Any]
Decode = Callable[[bytes], Awaitable[Any]]
Encode = Callable[[Any], bytes]
Answer = TypeVar("Answer")

_SYNTAX: Final = "it does not parse as the request's message"


def decoder(method: str, parse: Parse) -> Decode:
    """Returns an async function that decodes the requests of a method. `parse` is `FromString` of their message.

    It raises ApiError: MESSAGE_TOO_LARGE, before it decodes, for one that would cost too much memory; INVALID_REQUEST
    for malformed bytes, to which gRPC would answer UNKNOWN.
    """
    message: Any = parse.__self__  # type: ignore[attr-defined]  # the class whose method it is
    limit, parse_or_refuse = cost_limit(method, message.DESCRIPTOR), parser(parse)

    async def decode(data: bytes) -> Any:
        if len(data) > limit.free_bytes:
            await in_turns(check_cost(data, limit))
        return parse_or_refuse(data)

    return decode


def parser(parse: Parse) -> Parse:
    """Wraps `FromString` of a request's message: malformed bytes become ApiError(INVALID_REQUEST)."""

    def attempt(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError as error:
            reason = str(error) or _SYNTAX
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the bytes are no request: {reason}")

    return attempt


def encoder(encode: Encode) -> Encode:
    """Wraps a serializer: an answer that is bytes, because its handler has encoded it in turns, passes as it is."""

    def attempt(answer: Any) -> bytes:
        return answer if answer.__class__ is bytes else encode(answer)

    return attempt


def parsed(answer: Answer | None) -> Answer:
    """Returns what a server has answered with status OK. Raises Corrupt if it could not be parsed.

    >>> parsed("an answer")
    'an answer'
    """
    if answer is None:
        raise Corrupt("the answer does not parse as its message")
    return answer
