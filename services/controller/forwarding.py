"""A standby passes a call on to the active controller, with what is left of its deadline, and never twice."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message as ProtobufMessage

from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.client import Client, call
from quorate.runtime.telemetry import Telemetry
from services.controller.driver import NOBODY, Driver

FORWARDED: Final = "kraft-forwarded"
"""Metadata key of a call that a controller has passed on: who is not active either, refuses it."""
DEADLINE_MS: Final = 30_000
"""For calls that have no deadline of their own."""


class Forwarding:
    """The way to the active controller: where it listens stands in its registration record (KIP-919)."""

    def __init__(self, driver: Driver, telemetry: Telemetry) -> None:
        self._driver = driver
        self._telemetry = telemetry
        self._clients: dict[str, Client[ControllerStub]] = {}

    async def forward(self, rpc: str, request: ProtobufMessage, context: Any) -> Any:
        """The active controller's answer to the same call, and what it says of its state in trailing metadata.

        Raises ApiError(NOT_CONTROLLER) when there is none.
        """
        if any(key == FORWARDED for key, _ in context.invocation_metadata() or ()):
            raise self.not_controller("the call was passed on to this controller, which is not active")
        address = self._address()
        if address is None:
            raise self.not_controller("no controller is active, or it is not known where it listens")
        stub = self._client(address).stub(address)
        left_s = context.time_remaining()
        deadline_ms = DEADLINE_MS if left_s is None else max(1, int(left_s * 1000))
        return await call(
            getattr(stub, rpc),
            request,
            deadline_ms=deadline_ms,
            telemetry=self._telemetry,
            metadata=((FORWARDED, "1"),),
            server=address,
            trailing=context.set_trailing_metadata,
        )

    def not_controller(self, why: str) -> ApiError:
        """The refusal of a controller that is not active: it says who is, as far as it knows."""
        return ApiError(
            ErrorCode.NOT_CONTROLLER,
            why,
            {
                "leader_id": str(self._driver.leader_id),
                "leader_epoch": str(self._driver.leader_epoch),
                "leader_endpoint": self._address() or "",
            },
        )

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.close()

    def _address(self) -> str | None:
        if self._driver.leader_id == NOBODY:
            return None
        active = self._driver.engine.state.controllers.get(self._driver.leader_id)
        if active is None or not active.end_points:
            return None
        return f"{active.end_points[0].host}:{active.end_points[0].port}"

    def _client(self, address: str) -> Client[ControllerStub]:
        if address not in self._clients:
            self._clients[address] = Client((address,), ControllerStub, telemetry=self._telemetry)
        return self._clients[address]
