"""Every RPC that a process serves, read off the protobuf descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

import kraft.service


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc:
    """One method: `path` is what gRPC calls it by."""

    path: str
    request: Any
    """The descriptor of its request."""
    sends_stream: bool
    answers_stream: bool

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def _kraft_services() -> dict[str, ServiceDescriptor]:
    modules = [each.name for each in iter_modules(kraft.service.__path__) if each.name.endswith("_pb2")]
    files = [import_module(f"kraft.service.{name}").DESCRIPTOR for name in modules]
    return {service.full_name: service for file in files for service in file.services_by_name.values()}


KRAFT: Final = _kraft_services()
"""Every service of our own protos by its full name."""
HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"]
REFLECTION: Final = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
OTLP: Final = trace_service_pb2.DESCRIPTOR.services_by_name["TraceService"]
REFLECTION_V1: Final = "grpc.reflection.v1.ServerReflection"
"""It has v1alpha's messages."""

SERVED: Final = {
    "quorum": ("kraft.service.Quorum", "kraft.service.RaftClient", "kraft.service.Multiplexed"),
    "controller": ("kraft.service.Controller", "kraft.service.Multiplexed"),
    "heartbeat": ("kraft.service.Heartbeat", "kraft.service.Multiplexed"),
    "placer": ("kraft.service.Placer",),
    "observer": ("kraft.service.Observer", "kraft.service.Quorum"),
    "gateway": (),
    "broker": ("kraft.service.Broker",),
}
"""Our services by the program that serves them; a gateway has none but health beside Kafka's wire."""


def rpcs_of(program: str) -> list[Rpc]:
    """What a process of `program` serves: its own services, health, reflection, and the observer OTLP.

    A gateway has its health port alone, with nothing else.
    """
    services = [(name, KRAFT[name]) for name in SERVED[program]]
    services.append((HEALTH.full_name, HEALTH))
    if program != "gateway":
        services += [(REFLECTION.full_name, REFLECTION), (REFLECTION_V1, REFLECTION)]
    if program == "observer":
        services.append((OTLP.full_name, OTLP))
    return [rpc for name, service in services for rpc in _rpcs(name, service)]


def _rpcs(name: str, service: Any) -> Iterator[Rpc]:
    for method in service.methods:
        yield Rpc(
            path=f"/{name}/{method.name}",
            request=method.input_type,
            sends_stream=method.client_streaming,
            answers_stream=method.server_streaming,
        )
