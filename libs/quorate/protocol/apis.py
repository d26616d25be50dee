"""The APIs of the schema by key: their messages, versions and header versions. Kafka's ApiKeys."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from kraft import Message
from kraft import api as kraft_api
from quorate.wire.schema import layout_of

__all__ = ["API_VERSIONS", "SASL_AUTHENTICATE", "SASL_HANDSHAKE", "ApiMessageType", "all_apis", "api_of"]

SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
SASL_AUTHENTICATE: Final = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiMessageType:
    """One API. Request and response have the same versions."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    versions: range

    def request_header_version(self, version: int) -> int:
        """Returns the version of the request's header: 2 with tagged fields, else 1. Kafka 4 has no version 0."""
        return 2 if layout_of(self.request).is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Returns the version of the response's header: 1 with tagged fields, else 0.

        ApiVersions always has version 0, because a client must be able to read the answer of a node that does not
        know the version that it asked with (KIP-511).
        """
        return 1 if self.key != API_VERSIONS and layout_of(self.response).is_flexible(version) else 0


@cache
def all_apis() -> Mapping[int, ApiMessageType]:
    """Returns every API of the schema, by key."""
    modules = (module.name for module in pkgutil.iter_modules(kraft_api.__path__))
    found = [_read(name) for name in modules if not name.endswith(("_pb2", "_pb2_grpc"))]
    return MappingProxyType({api.key: api for api in sorted(found, key=lambda api: api.key)})


@cache
def api_of(request: type[Message]) -> ApiMessageType:
    """Returns the API of a request class."""
    key = layout_of(request).key
    assert key is not None, request
    return all_apis()[key]


def _read(module: str) -> ApiMessageType:
    name = "".join(part.capitalize() for part in module.split("_"))
    loaded = importlib.import_module(f".{module}", kraft_api.__name__)
    request, response = getattr(loaded, f"{name}Request"), getattr(loaded, f"{name}Response")
    layout = layout_of(request)
    assert layout.key is not None, request
    assert layout.versions == layout_of(response).versions, (layout, layout_of(response))
    return ApiMessageType(key=layout.key, name=name, request=request, response=response, versions=layout.versions)
