"""`quorate sql --observer`: an observer answers the query, from its database of the state and its past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import grpc

from kraft.service.observer_pb2 import QueryRequest, QueryResponse
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.cli.failures import Failed, Misused
from quorate.cli.sql import print_answer
from quorate.network.client_config import Endpoint, parse_bootstrap, read_client_properties
from quorate.pipeline.grpc_nodes import credentials
from quorate.pipeline.grpc_security import StoreFiles, parse_security
from quorate.runtime.transport import WITHOUT_PROXY
from quorate.sql.guarded import Answer

__all__ = ["ask_observer"]

TIMEOUT_S: Final = 60.0
"""Longer than an observer lets a query and its answer take."""


def ask_observer(observers: str, command_config: Path | None, query: str, *, output: str) -> None:
    """Prints the rows. Raises Misused, Failed for what an observer refuses and if none is reached, OSError."""
    endpoints, files = _endpoints(observers), _files(command_config)
    for endpoint in endpoints[:-1]:
        try:
            return _ask(endpoint, files, query, output)
        except _Unreached:
            continue
    return _ask(endpoints[-1], files, query, output)


class _Unreached(Failed):
    """Raised for an observer that does not answer, before anything was printed."""


def _ask(endpoint: Endpoint, files: StoreFiles | None, query: str, output: str) -> None:
    host, port = endpoint
    address = f"{host}:{port}"
    with _channel(address, files) as channel:
        stub: Any = ObserverStub(channel)
        parts = _parts(address, stub.Query(QueryRequest(sql=query), timeout=TIMEOUT_S))
        first = next(parts)
        answer = Answer(tuple(first.columns), (tuple(map(_value, row.values)) for part in parts for row in part.rows))
        print_answer(answer, output, as_of_offset=first.next_offset, notes=())


def _parts(address: str, answer: Iterator[QueryResponse]) -> Iterator[QueryResponse]:
    try:
        yield from answer
    except grpc.RpcError as failure:
        code: grpc.StatusCode = failure.code()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise Failed(f"{address}: no observer that answers queries listens there") from None
        kind = _Unreached if code is grpc.StatusCode.UNAVAILABLE else Failed
        raise kind(f"{address}: {failure.details()}") from None


def _value(value: QueryResponse.Value) -> object:
    kind = value.WhichOneof("kind")
    return None if kind is None else getattr(value, kind)


def _channel(address: str, files: StoreFiles | None) -> Any:
    """Returns a channel; its type is Any, since the generated types are those of asyncio's stub."""
    options = list(WITHOUT_PROXY)
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
