"""The services that answer on gRPC, as their protos describe them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

_SERVICES: Final = {
    "quorum_pb2": ("Quorum", "RaftClient"),
    "controller_pb2": ("Controller",),
    "heartbeat_pb2": ("Heartbeat",),
    "placer_pb2": ("Placer",),
    "observer_pb2": ("Observer",),
    "multiplexed_pb2": ("Multiplexed",),
}
"""By the generated module."""


def services() -> Iterator[Any]:
    """The descriptor of each."""
    for module, names in _SERVICES.items():
        described = import_module(f"kraft.service.{module}").DESCRIPTOR.services_by_name
        yield from (described[name] for name in names)
