"""`--observer`: calls an observer of Quorate, the first one that answers of those that are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from kraft.service.observer_pb2 import QueryResponse
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.cli.failures import Failed, Misused
from quorate.network.client_config import Endpoint, parse_bootstrap, read_client_properties
from quorate.pipeline.grpc_nodes import credentials
from quorate.pipeline.grpc_security import StoreFiles, parse_security
from quorate.runtime.transport import WITHOUT_PROXY

__all__ = ["TIMEOUT_S", "ask_first", "parts_of", "value_of"]

TIMEOUT_S: Final = 60.0
"""Longer than an observer lets a query and its answer take."""
RECEIVED_BYTES_MAX: Final = 16 << 20
"""As much as an observer sends in one message: a single row may be larger than what gRPC takes by itself."""

T = TypeVar("T")


class _Unreached(Failed):
    """Raised for an observer that does not answer."""


def ask_first(observers: str, command_config: Path | None, ask: Callable[[str, Any], T]) -> T:
    """Returns what `ask` does with the address and the stub of the first observer that answers.

    `ask` takes what a call answers by `parts_of`, and prints nothing before its first part. Raises Misused, Failed for
    what an observer refuses and if none is reached, OSError.
    """
    endpoints, files = _endpoints(observers), _files(command_config)
    for endpoint in endpoints[:-1]:
        try:
            return _ask(endpoint, files, ask)
        except _Unreached:
            continue
    return _ask(endpoints[-1], files, ask)


def parts_of(address: str, answer: Iterator[T]) -> Iterator[T]:
    """Yields the parts of an answer. Raises Failed, with the observer's words."""
    has_begun = False
    try:
        for part in answer:
            has_begun = True
            yield part
    except grpc.RpcError as failure:
        code: grpc.StatusCode = failure.code()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise Failed(f"{address}: no observer that answers this listens there") from None
        kind = _Unreached if code is grpc.StatusCode.UNAVAILABLE and not has_begun else Failed
        raise kind(f"{address}: {failure.details()}") from None


def value_of(value: QueryResponse.Value) -> Any:  # Any: int, float, str, bytes, bool, None
    """Returns a value of a column."""
    kind = value.WhichOneof("kind")
    return None if kind is None else getattr(value, kind)


def _ask(endpoint: Endpoint, files: StoreFiles | None, ask: Callable[[str, Any], T]) -> T:
    host, port = endpoint
    address = f"{host}:{port}"
    with _channel(address, files) as channel:
        return ask(address, ObserverStub(channel))


def _channel(address: str, files: StoreFiles | None) -> Any:
    """Returns a channel; its type is Any, since the generated types are those of asyncio's stub."""
    options = [*WITHOUT_PROXY, ("grpc.max_receive_message_length", RECEIVED_BYTES_MAX)]
    if files is None:
        return grpc.insecure_channel(address, options=options)
    try:
        return grpc.secure_channel(address, credentials(files), options=options)
    except ValueError as problem:
        raise Misused(f"--command-config {problem}") from None


def _endpoints(observers: str) -> Sequence[Endpoint]:
    try:
        return parse_bootstrap(observers)
    except ValueError as problem:
        raise Misused(f"--observer: {problem}") from None


def _files(command_config: Path | None) -> StoreFiles | None:
    if command_config is None:
        return None
    try:
        return parse_security(read_client_properties(command_config, parse_security))
    except ValueError as problem:
        raise Misused(f"--command-config {problem}") from None
