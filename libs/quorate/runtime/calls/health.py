"""The gRPC health service: what the service names of a health check mean, and Check, Watch and List for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from grpc_health.v1 import health, health_pb2

__all__ = ["HEALTH", "LIVENESS", "READINESS", "STARTUP", "HealthServicer"]

HEALTH: Final = "grpc.health.v1.Health"
STARTUP: Final = "startup"
"""The service name for startup: the process has read its files and takes calls. It waits for no other process."""
LIVENESS: Final = "liveness"
"""The service name for liveness: the event loop runs, also while it drains. It never depends on the quorum."""
READINESS: Final = "readiness"
"""The service name for readiness: calls should be sent here. `""` and every API have the same status."""
IN_SYNC: Final = "in-sync"
"""The service name that a broker has besides: every replica there is in its ISR. A rollout waits for it."""

SERVING: Final = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING


class HealthServicer(health.aio.HealthServicer):  # type: ignore[misc]  # grpcio's health has no types
    """Serves `grpc.health.v1.Health` with Check, Watch and, which grpcio lacks, List."""

    def __init__(self) -> None:
        super().__init__()
        self._of_readiness: tuple[str, ...] = ("", READINESS)
        self._others: set[str] = set()
        self._is_draining = False

    async def begin(self, services: Sequence[str]) -> None:
        """Sets startup and liveness to SERVING, and readiness, `""` and `services` to NOT_SERVING until `set_ready`."""
        self._of_readiness += tuple(services)
        await self.set_ready(False)
        for name in (STARTUP, LIVENESS):
            await self.set(name, SERVING)

    async def set_ready(self, is_ready: bool) -> None:
        """Sets the status of readiness, `""` and the services: SERVING if `is_ready`. Without effect after `drain`."""
        for name in self._of_readiness:
            await self.set(name, SERVING if is_ready and not self._is_draining else NOT_SERVING)

    async def tell(self, name: str, holds: bool) -> None:
        """Sets the status of one more name: SERVING if `holds`. After `drain` it is always NOT_SERVING."""
        self._others.add(name)
        await self.set(name, SERVING if holds and not self._is_draining else NOT_SERVING)

    async def drain(self) -> None:
        """Sets all but startup and liveness to NOT_SERVING, for good: the process lives, and is about to end."""
        self._is_draining = True
        await self.set_ready(False)
        for name in self._others:
            await self.set(name, NOT_SERVING)

    async def List(self, request: health_pb2.HealthListRequest, context: Any) -> health_pb2.HealthListResponse:  # noqa: N802
        """Returns the health status of every registered service."""
        # The base class stores the statuses, and has no method that returns all of them.
        statuses = {name: health_pb2.HealthCheckResponse(status=status) for name, status in self._server_status.items()}
        return health_pb2.HealthListResponse(statuses=statuses)
