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
    """Returns a function of a request's bytes, its context and its caller's address, called before it is decoded.

    The function returns a context manager, in whose block the call is answered: for a request of more than
    `LARGE_BYTES` one that waits for room in memory, after `may_send` has raised ApiError if the caller has no right to
    the method; else `SMALL`.
    """

    def enter(data: Any, context: Any, host: str) -> AbstractAsyncContextManager[StreamRoom | None]:
        if data.__class__ is not bytes or len(data) <= LARGE_BYTES:
            return SMALL
        if may_send is not None:
            may_send(context)
        return SMALL if room is None else room.held(host, limit.most(len(data)))

    return enter


def entering_stream(limit: CostLimit, room: Room | None, held_s: float) -> Enter:
    """Returns a function of a stream (not read here), its context and its caller's address.

    The function returns the context manager in whose block the stream is served: its messages take room in memory
    there, each for at most `held_s` (s).
    """

    def enter(_requests: Any, _context: Any, host: str) -> AbstractAsyncContextManager[StreamRoom | None]:
        return StreamRoom(room, host, limit, held_s)

    return enter


def taking(decode: Decode, claim: Claim | None) -> Take:
    """Returns an async function that decodes one request and checks it by `claim`. It raises ApiError."""

    async def one(data: Any, context: Any, recheck: Recheck | None, _room: StreamRoom | None) -> Any:
        request = await decode(data)
        if claim is not None:
            claim(request, context)
        return request

    return one


def taking_each(decode: Decode, claim: Claim | None, refuse: Check) -> Take:
    """Returns an async function that gives the iterator of a stream's requests.

    Each is read when it is asked for: `refuse` and the call's recheck come first, then it waits for room, is decoded,
    and checked by `claim`; all of them raise ApiError. Its hold on the room ends when the next one is asked for.
    """

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
