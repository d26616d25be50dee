"""`--observer`: calls an observer of Quorate, the first one that answers of those that are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from kraft.service.observer_pb2 import DiffImagesRequest, LogPlace, QueryResponse
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.cli.as_of import AsOf
from quorate.cli.failures import Failed, Passed, Unreached
from quorate.cli.grpc_call import Servers
from quorate.nouns import Offset

__all__ = ["TIMEOUT_S", "answer_of", "ask_first", "offset_of", "parts_of", "place_of", "value_of"]

TIMEOUT_S: Final = 60.0
"""Longer than an observer lets a query and its answer take."""
SMALLEST: Final = "producer_ids"
"""The table of which a difference of nothing takes the least."""
T = TypeVar("T")


def ask_first(observers: str, command_config: Path | None, ask: Callable[[str, Any], T]) -> T:
    """Returns what `ask(address, stub)` returns for the first observer that can be reached, of `HOST:PORT,…`.

    `ask` takes what a call answers by `parts_of` or `answer_of`, and prints nothing before its first part. Raises
    Misused, Failed for what an observer refuses, Unreached if none is reached, OSError.
    """
    servers = Servers(option="--observer", named=observers, command_config=command_config)
    *others, last = servers.addresses()
    for address in others:
        with suppress(Unreached), servers.channel(address) as channel:
            return ask(address, ObserverStub(channel))
    with servers.channel(last) as channel:
        return ask(last, ObserverStub(channel))


def answer_of(address: str, call: Callable[..., T], request: Any) -> T:  # Any: the request of any method
    """Returns the answer of a unary call. Raises Failed with the observer's words; Unreached if it is not there."""
    try:
        return call(request, timeout=TIMEOUT_S)
    except grpc.RpcError as failure:
        raise _failed(address, failure, has_begun=False) from None


def parts_of(address: str, answer: Iterator[T]) -> Iterator[T]:
    """Yields the parts of a streamed answer. Raises Failed, with the observer's words.

    If the observer cannot be reached before the first part, that is Unreached.
    """
    has_begun = False
    try:
        for part in answer:
            has_begun = True
            yield part
    except grpc.RpcError as failure:
        raise _failed(address, failure, has_begun=has_begun) from None


def place_of(at: AsOf | None) -> LogPlace:
    """Returns an offset or a time as the LogPlace of a request to an observer; an empty one for None."""
    if at is None:
        return LogPlace()
    return LogPlace(offset=at) if isinstance(at, int) else LogPlace(timestamp_ms=at.ms)


def offset_of(address: str, stub: Any, as_of: AsOf) -> Offset:  # Any: the generated types are those of asyncio's stub
    """Returns the offset that an observer has for a time; an offset itself, if its database has the state there.

    Raises Failed if it does not have it; Unreached.
    """
    request = DiffImagesRequest(subject=SMALLEST, to=place_of(as_of))
    getattr(request, "from").CopyFrom(place_of(as_of))
    found: Offset = next(parts_of(address, stub.DiffImages(request, timeout=TIMEOUT_S))).from_offset
    return found


def value_of(value: QueryResponse.Value) -> Any:  # Any: int, float, str, bytes, bool, None
    """Returns the Python value of a column in an observer's answer; None for null."""
    kind = value.WhichOneof("kind")
    return None if kind is None else getattr(value, kind)


def _failed(address: str, failure: Any, *, has_begun: bool) -> Failed:
    """Returns the error of a call; a connection that is lost in the middle of an answer is no server out of reach."""
    code: grpc.StatusCode = failure.code()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Failed(f"{address}: no observer that answers this listens there")
    kind = Passed if code is grpc.StatusCode.OUT_OF_RANGE else Failed
    if code is grpc.StatusCode.UNAVAILABLE and not has_begun:
        kind = Unreached
    return kind(f"{address}: {failure.details()}")
