"""How these stories ask: exactly once, or again after a retriable error, as Kafka's clients do; and how they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from quorate.errors import ApiError, ErrorCode
from quorate.runtime.requests.statuses import error_from_call, is_retriable

T = TypeVar("T")

WITHIN_S = 120.0
"""How long anything may take: a bound against hanging. A shared machine may be twenty times slower than an idle one."""
DEADLINE_MS = 10_000
"""The deadline of one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer with its trailing metadata; `is_retried` if an earlier call of the same request has failed."""

    response: Any
    trailing: Mapping[str, str]
    is_retried: bool = False


async def call_once(method: Callable[..., Any], request: Any, *, deadline_ms: int = DEADLINE_MS) -> Answered:
    """One call, and no other. Raises ApiError."""
    return await _call(method, request, deadline_ms=deadline_ms, is_retried=False)


async def call_with_retries(
    method: Callable[..., Any], request: Any, *, within_s: float = WITHIN_S, final: Container[ErrorCode] = ()
) -> Answered:
    """Calls again after a retriable error that is not in `final`. Raises ApiError: a final one, or the last in time.

    A call that has failed may have written all the same: a write that is sent again must be one that may be done twice,
    or its caller must know both answers.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    is_retried = False
    while True:
        left_ms = int((deadline - loop.time()) * 1000)
        try:
            return await _call(method, request, deadline_ms=max(1, min(DEADLINE_MS, left_ms)), is_retried=is_retried)
        except ApiError as error:
            if not is_retriable(error) or error.code in final or loop.time() >= deadline:
                raise
        is_retried = True
        await asyncio.sleep(0.05)


async def _call(method: Callable[..., Any], request: Any, *, deadline_ms: int, is_retried: bool) -> Answered:
    call = method(request, timeout=deadline_ms / 1000)
    try:
        response = await call
    except grpc.aio.AioRpcError as error:
        raise error_from_call(error) from None
    trailing = {key: value for key, value in await call.trailing_metadata() or () if isinstance(value, str)}
    return Answered(response=response, trailing=trailing, is_retried=is_retried)


async def attempt(work: Awaitable[T]) -> T | None:
    """What came of it; None if it was refused or could not be asked."""
    try:
        return await work
    except ApiError:
        return None


async def eventually(
    probe: Callable[[], Awaitable[T]], holds: Callable[[T], object] = bool, *, within_s: float = WITHIN_S
) -> T:
    """The first answer of `probe` for which `holds` is true; AssertionError with the last one if it takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not holds(seen := await probe()):
        assert loop.time() < deadline, f"not so after {within_s:g} s; last seen: {seen}"
        await asyncio.sleep(0.05)
    return seen
