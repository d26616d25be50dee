"""Calls a controller of Quorate, which passes the call on to the active one; and again while none is active."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import grpc

from quorate.cli.failures import Failed, Unreached
from quorate.cli.grpc_call import Servers
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.requests.statuses import BARE, GRPC_STATUS, UNTOUCHED, error_from_call

__all__ = ["ask_servers"]

PAUSE_S: Final = 0.1
WITHOUT_LEADER: Final = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)
"""A controller's errors while there is no leader, or not yet."""
LOST: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""A controller's error, too, if it loses its leadership before a write is committed: the next one may commit it."""
UNSENT: Final = ("failed to connect to all addresses", "errors resolving ")
"""How gRPC words that nobody listens, or that a host has no address, and it tells it in no other way."""
IN_TIME: Final = ErrorCode.REQUEST_TIMED_OUT

T = TypeVar("T")


def ask_servers(servers: Servers, ask: Callable[[Any, float], T], *, within_s: float, may_repeat: bool) -> T:
    """Returns what `ask(channel, seconds left)` returns, for the first of the servers that answers.

    While they answer that there is no leader, they are asked again in turn, for `within_s` (s) in all; not if none can
    be reached. After a call that may have been executed none is asked again, unless it `may_repeat`. Raises Failed with
    Kafka's name of the error for a refusal; Unreached if no leader answers in time; Misused, OSError.
    """
    addresses, deadline = servers.addresses(), time.monotonic() + within_s
    while True:
        lost, is_reached = [], False
        for address in addresses:
            left_s = deadline - time.monotonic()
            try:
                with servers.channel(address) as channel:
                    return ask(channel, max(left_s, PAUSE_S))
            except grpc.RpcError as failure:
                error = error_from_call(failure)  # type: ignore[arg-type]  # a blocking call's has the same methods
                lost.append(_told(address, error))
                if not _is_passing(error):
                    raise Failed(lost[-1]) from None
                if _is_unknown(error) and not may_repeat:
                    raise Unreached(lost[-1]) from None
                is_reached |= not _is_out_of_reach(error)
        if not is_reached or time.monotonic() + PAUSE_S >= deadline:
            raise Unreached("; ".join(lost))
        time.sleep(PAUSE_S)


def _is_passing(error: ApiError) -> bool:
    return error.code in WITHOUT_LEADER or error.code is IN_TIME or _is_out_of_reach(error)


def _is_out_of_reach(error: ApiError) -> bool:
    return BARE in error.metadata and error.metadata[GRPC_STATUS] == grpc.StatusCode.UNAVAILABLE.name


def _is_unknown(error: ApiError) -> bool:
    """Returns whether the call may have been executed, as far as its end tells."""
    if _is_out_of_reach(error):
        return not any(words in error.message for words in UNSENT)
    return error.code is IN_TIME or (error.code in LOST and UNTOUCHED not in error.metadata)


def _told(address: str, error: ApiError) -> str:
    """Returns the error with its server; a status of gRPC itself is not called by a name of Kafka's."""
    words = f"{address}: {error.message if BARE in error.metadata else error}"
    return f"{words}; whether it was done is not known" if _is_unknown(error) else words
