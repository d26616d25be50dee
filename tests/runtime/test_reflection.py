"""Server reflection for a client without our protos: each service, method, message and field describes itself."""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

import kraft.service
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel

GRPCURL: Final = shutil.which("grpcurl", path=os.environ.get("PATH", ""))
NOT_FOUND: Final = 5


def all_services() -> Iterator[tuple[ServiceDescriptor, Callable[..., None], object]]:
    """Each service that a process of ours may serve: its descriptor, how it is added, and a servicer."""
    modules = [each.name for each in pkgutil.iter_modules(kraft.service.__path__, "kraft.service.")]
    for name in sorted(each for each in modules if each.endswith("_pb2")):
        module = importlib.import_module(name)
        for service in module.DESCRIPTOR.services_by_name.values():
            generated = importlib.import_module(f"{name}_grpc")
            register = getattr(generated, f"add_{service.name}Servicer_to_server")
            yield service, register, getattr(generated, f"{service.name}Servicer")()


SERVICES: Final = {service.full_name: service for service, _, _ in all_services()}


@asynccontextmanager
async def serving_all() -> AsyncIterator[str]:
    server = Server()
    for service, register, servicer in all_services():
        server.add(service.full_name, register, servicer)
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace_s=0)


async def files_of(symbols: Iterable[str]) -> dict[str, ServerReflectionResponse]:
    """What the server says of each symbol."""
    async with serving_all() as address, open_channel(address) as channel:
        ask = channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=ServerReflectionRequest.SerializeToString,
            response_deserializer=ServerReflectionResponse.FromString,
        )
        questions = [ServerReflectionRequest(file_containing_symbol=symbol) for symbol in symbols]
        answers = [answer async for answer in ask(iter(questions), timeout=240)]
    return {answer.original_request.file_containing_symbol: answer for answer in answers}


def symbols_below(service: ServiceDescriptor) -> dict[str, str]:
    """The full names that a client meets on its way from a service to the last field, and the file of each."""
    found = {service.full_name: service.file.name}
    seen: dict[str, Descriptor] = {}
    for method in service.methods:
        found[method.full_name] = service.file.name
        for message in (method.input_type, method.output_type):
            _gather(message, seen)
    for message in seen.values():
        found[message.full_name] = message.file.name
        found |= {each.full_name: message.file.name for each in (*message.fields, *message.oneofs)}
        for enum in (each.enum_type for each in message.fields if each.enum_type is not None):
            found |= dict.fromkeys(_names_of(enum), enum.file.name)
    return found


def _gather(message: Descriptor, seen: dict[str, Descriptor]) -> None:
    if message.full_name not in seen:
        seen[message.full_name] = message
        for each in message.fields:
            if each.message_type is not None:
                _gather(each.message_type, seen)


def _names_of(enum: EnumDescriptor) -> Iterator[str]:
    """An enum's, and those of its values, whose names stand beside the enum's, as in C++."""
    yield enum.full_name
    scope = enum.full_name.rpartition(".")[0]
    yield from (f"{scope}.{value.name}" for value in enum.values)


@pytest.mark.parametrize("name", SERVICES)
async def test_every_symbol_of_a_service_is_found_in_its_file(name: str) -> None:
    expected = symbols_below(SERVICES[name])

    answers = await files_of(expected)

    assert SERVICES[name].methods
    files = {symbol: answer.file_descriptor_response.file_descriptor_proto for symbol, answer in answers.items()}
    assert [] == [symbol for symbol, found in files.items() if not found]
    assert expected == {symbol: FileDescriptorProto.FromString(found[0]).name for symbol, found in files.items()}


@pytest.mark.parametrize(
    "symbol",
    ["", ".", "kraft", "kraft.service.Nobody", "kraft.service.Controller.", "kraft.service.Controller.Nothing", "\0"],
)
async def test_what_is_no_symbol_is_not_found(symbol: str) -> None:
    answers = await files_of([symbol])

    assert [NOT_FOUND] == [answer.error_response.error_code for answer in answers.values()]


@pytest.mark.skipif(GRPCURL is None, reason="GRPCURL IS NOT ON THE PATH: reflection is not tried with a real client")
async def test_grpcurl_describes_every_method_and_a_message_and_a_field() -> None:
    methods = [method.full_name for service in SERVICES.values() for method in service.methods]
    asked = [*SERVICES, *methods, "kraft.api.CreateTopicsRequest", "kraft.api.CreateTopicsRequest.topics"]

    async with serving_all() as address:

        def describe(symbol: str) -> Any:
            command = [str(GRPCURL), "-plaintext", address, "describe", symbol]
            return subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)

        answers = [await asyncio.to_thread(describe, symbol) for symbol in asked]

    assert [] == [answer.stderr for answer in answers if answer.returncode]
    heads = [answer.stdout.partition("\n")[0] for answer in answers]
    kinds = [head.removeprefix(f"{symbol} is ") for symbol, head in zip(asked, heads, strict=True)]
    assert ["a service:"] * len(SERVICES) + ["a method:"] * len(methods) + ["a message:", "a field:"] == kinds
