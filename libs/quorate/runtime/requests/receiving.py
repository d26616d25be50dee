"""How a handler gets its requests: each is decoded and checked once its caller has been let in.

gRPC gives the bytes. It would decode them before anybody is asked whether the caller has a right.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, TypeAlias

import grpc

from quorate.runtime.requests.decoded_cost import CostLimit
from quorate.runtime.requests.decoding import Decode
from quorate.runtime.requests.room import LARGE_BYTES, Room
from quorate.runtime.requests.stream_room import StreamRoom

__all__ = ["SMALL", "Check", "Enter", "Recheck", "Take", "entering", "entering_stream", "taking", "taking_each"]

Recheck: TypeAlias = Callable[[], None]
Check: TypeAlias = Callable[[Any], None]
Claim: TypeAlias = Callable[[Any, Any], None]
Take: TypeAlias = Callable[[Any, Any, Recheck | None, StreamRoom | None], Awaitable[Any]]
"""From what gRPC gives a handler, the call's context, what asks the guard again, and the room of a stream's messages to
what the handler gets."""
Enter: TypeAlias = Callable[[Any, Any, str], AbstractAsyncContextManager[StreamRoom | None]]
"""From the same, and the caller's address, to a block in which the call is answered."""

SMALL: Final = nullcontext()
"""The block of a small request, which takes no room: there is nothing to enter."""


def entering(limit: CostLimit, room: Room | None, may_send: Check | None) -> Enter:
    """Returns what a large request goes through before it is decoded: its caller's right, and room in memory.

    To decode a small one costs less than to ask for a right twice.
    """

    def enter(data: Any, context: Any, host: str) -> AbstractAsyncContextManager[StreamRoom | None]:
        if data.__class__ is not bytes or len(data) <= LARGE_BYTES:
            return SMALL
        if may_send is not None:
            may_send(context)
        return SMALL if room is None else room.held(host, limit.most(len(data)))

    return enter


def entering_stream(limit: CostLimit, room: Room | None, held_s: float) -> Enter:
    """Returns what a stream of requests goes through: the block in which its messages take room, for `held_s`."""

    def enter(_requests: Any, _context: Any, host: str) -> AbstractAsyncContextManager[StreamRoom | None]:
        return StreamRoom(room, host, limit, held_s)

    return enter


def taking(decode: Decode, claim: Claim | None) -> Take:
    """Returns what gives a handler its request, checked."""

    async def one(data: Any, context: Any, recheck: Recheck | None, _room: StreamRoom | None) -> Any:
        request = await decode(data)
        if claim is not None:
            claim(request, context)
        return request

    return one


def taking_each(decode: Decode, claim: Claim | None, refuse: Check) -> Take:
    """Returns what gives a handler its requests, each of them checked."""

    async def each(context: Any, recheck: Recheck | None, room: StreamRoom) -> AsyncIterator[Any]:
        # Not gRPC's own iterator: if it is not read to its end, it keeps itself and the last request.
        while (data := await context.read()) is not grpc.aio.EOF:
            refuse(context)
            if recheck is not None:
                recheck()
            hold = await room.take(len(data))
            request = await decode(data)
            if claim is not None:
                claim(request, context)
            yield request
            del data, request  # which would be kept until there is another one
            if hold is not None:
                hold.end()

    async def begin(_requests: Any, context: Any, recheck: Recheck | None, room: StreamRoom | None) -> Any:
        assert room is not None, "a stream has been entered"
        return each(context, recheck, room)

    return begin
