"""The gRPC health service: Check and Watch from grpcio, and List, which grpcio lacks."""

from __future__ import annotations

from typing import Any

from grpc_health.v1 import health, health_pb2

__all__ = ["HealthServicer"]


class HealthServicer(health.aio.HealthServicer):  # type: ignore[misc]  # grpcio's health has no types
    """Serves `grpc.health.v1.Health` with Check, Watch and List."""

    async def List(self, request: health_pb2.HealthListRequest, context: Any) -> health_pb2.HealthListResponse:  # noqa: N802
        """Returns the health status of every registered service."""
        # The base class stores the statuses, and has no method that returns all of them.
        statuses = {name: health_pb2.HealthCheckResponse(status=status) for name, status in self._server_status.items()}
        return health_pb2.HealthListResponse(statuses=statuses)
