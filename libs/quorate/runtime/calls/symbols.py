"""The descriptor pool for gRPC server reflection, which also finds a method by its name."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor

__all__ = ["Symbols", "is_described"]

POOL: Final = descriptor_pool.Default()


class Symbols:
    """The protobuf descriptor pool of all generated code, with a lookup of methods added.

    FindFileContainingSymbol of protobuf's upb pool finds services, messages, fields and enums, but no methods: a
    client that asks for a method, as `grpcurl describe` does, would get NOT_FOUND.
    """

    def __getattr__(self, name: str) -> Any:  # Any: whatever the pool has under this name
        return getattr(POOL, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802  # grpcio calls it by this name
        """Returns the file that declares `symbol`. Raises KeyError if none does."""
        try:
            return POOL.FindFileContainingSymbol(symbol)
        except KeyError:
            return POOL.FindMethodByName(symbol).containing_service.file


def is_described(service: str) -> bool:
    """Returns whether the pool has a service, by its full name, and so reflection can describe it.

    A _pb2_grpc module imports the _pb2 modules of its messages: not its own, if all of them are of other files.
    """
    try:
        POOL.FindServiceByName(service)
    except KeyError:
        return False
    return True
