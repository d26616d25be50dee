"""`quorate call`: any method of the gRPC services of controllers, quorum nodes and observers, by their descriptors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.json_format import MessageToDict

from kraft.service import controller_pb2, observer_pb2, quorum_pb2
from quorate.cli.controller_call import ask_servers
from quorate.cli.documents import print_document
from quorate.cli.failures import Failed, Misused
from quorate.cli.given_json import given_json
from quorate.cli.grpc_call import Servers
from quorate.cli.grpcurl import grpcurl_line
from quorate.cli.messages import Method, method_of, parsed

__all__ = ["api_lines", "call", "option_of"]

SERVICES: Final[Mapping[str, Sequence[Any]]] = {
    "--controller": (controller_pb2.DESCRIPTOR.services_by_name["Controller"],),
    "--quorum": (
        quorum_pb2.DESCRIPTOR.services_by_name["Quorum"],
        quorum_pb2.DESCRIPTOR.services_by_name["RaftClient"],
    ),
    "--observer": (observer_pb2.DESCRIPTOR.services_by_name["Observer"],),
}
"""The services that listen where an option says."""


def api_lines() -> Iterator[str]:
    """Yields the names of all methods, by the option that says where they are."""
    for option, services in SERVICES.items():
        names = sorted(method.name for service in services for method in service.methods)
        yield f"{option}: {', '.join(names)}"


def call(servers: Servers, name: str, given: str, *, within_s: float, print_grpcurl: bool, output: str) -> None:
    """Calls the method `name` with a request in JSON, and prints each answer as a document.

    With `print_grpcurl` it only prints grpcurl's line for it. `given` is JSON, `-` for standard input, or `@FILE`; of a
    stream of requests it is a list. `within_s` (s) is the time for all tries; a call that may have been executed is not
    made again. Raises Misused, with the path of what is wrong in the JSON; Failed for a refusal, Unreached, OSError.
    """
    method = _method(servers.option, name)
    document = _document(given)
    if method.client_streaming and not isinstance(document, list):
        raise Misused(f"{name} is asked by a stream of {method.input_type.name}: give a list of them")
    documents = document if method.client_streaming else [document]
    shape = method.input_type
    at = (f"[{place}]" for place in range(len(documents))) if method.client_streaming else (shape.name,)
    requests = [parsed(shape, each, at=where) for each, where in zip(documents, at, strict=True)]
    if print_grpcurl:
        sys.stdout.write(grpcurl_line(servers, method, *documents) + "\n")
        return

    def ask(channel: Any, left_s: float) -> None:
        asked = iter(requests) if method.client_streaming else requests[0]
        answer = method_of(channel, method)(asked, timeout=left_s)
        _print_all(servers, answer, output) if method.server_streaming else _print(answer, output)

    ask_servers(servers, ask, within_s=within_s, may_repeat=False)


def option_of(name: str) -> str:
    """Returns the first of `--controller`, `--quorum` and `--observer` whose servers have this API. Raises Misused."""
    for option, services in SERVICES.items():
        if any(name in each.methods_by_name for each in services):
            return option
    raise Misused(f"no service has an API {name!r}: --help lists those that there are")


def _method(option: str, name: str) -> Method:
    named = [method for service in SERVICES[option] for method in service.methods if method.name == name]
    if not named:
        elsewhere = [other for other, services in SERVICES.items() for each in services if name in each.methods_by_name]
        hint = f"it is at {' and '.join(elsewhere)}" if elsewhere else "--help lists those that there are"
        raise Misused(f"{option} has no API {name!r}: {hint}")
    return named[0]


def _document(given: str) -> Any:
    """Raises Misused with the place at which it is no JSON; OSError."""
    if given.startswith("@"):
        return given_json(given[1:], Path(given[1:]).read_bytes())
    if given != "-":
        return given_json("the request", given.encode("utf-8", "surrogateescape"))
    if sys.stdin is None:
        raise Misused("standard input is closed: the request cannot be read from it")
    return given_json("standard input", sys.stdin.buffer.read())


def _print_all(servers: Servers, answers: Iterator[Any], output: str) -> None:
    """Prints the parts of an answer. Once one is printed nothing is asked again: Failed is raised for what breaks."""
    has_begun = False
    try:
        for each in answers:
            _print(each, output)
            has_begun = True
    except grpc.RpcError as failure:
        if not has_begun:
            raise
        broken: Any = failure
        raise Failed(f"{servers.named}: {broken.code().name}: {broken.details()}") from None


def _print(answer: Any, output: str) -> None:
    document = MessageToDict(answer, preserving_proto_field_name=True)
    print_document(document, output, ensure_ascii=False)
    sys.stdout.flush()
