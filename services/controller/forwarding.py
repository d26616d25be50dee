"""The way to the active controller: here, or over there, or after a wait until there is one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

import grpc
from google.protobuf.message import Message as ProtobufMessage

from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.client import call, open_channel
from quorate.runtime.telemetry import Telemetry
from services.controller.driver import NOBODY, Driver
from services.controller.quorum_node import UNTOUCHED

FORWARDED: Final = "kraft-forwarded"
"""Metadata key of a call that a controller has passed on: who is not active either, refuses it."""
CLIENT_HOST: Final = "kraft-client-host"
"""Metadata key of a call that was passed on: the address that it came from."""
CLIENT_ID: Final = "client-id"
"""Metadata key of what a caller calls itself, as in the header of Kafka's requests; passed on as it came."""
DEADLINE_MS: Final = 30_000
"""For calls that have no deadline of their own."""
HOLD_S: Final = 5.0
"""So long a call is held while nobody is known to be active: elections are over by then, other troubles are not."""
MARGIN_S: Final = 0.1
"""So much of its deadline is left to a call when it is told that no controller is active, and why."""
LOOK_AGAIN_S: Final = 0.05
"""Two controllers learn of a new leader one after the other; this one may not be told again when the other is."""


class Forwarding:
    """Finds the active controller for a call. Where it listens stands in its registration record (KIP-919).

    A call is handed over at most once: only what has certainly not begun is tried elsewhere.
    """

    def __init__(self, driver: Driver, telemetry: Telemetry) -> None:
        self._driver = driver
        self._telemetry = telemetry
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def serve(self, rpc: str, request: ProtobufMessage, context: Any, here: Callable[[], Awaitable[Any]]) -> Any:
        """The answer of `here` if this controller is active, else the active one's to the same call.

        Waits for one to be known for as long as the caller does, and an election takes. Raises
        ApiError(NOT_CONTROLLER) when none was.
        """
        forwarded = is_forwarded(context)
        left_s = context.time_remaining()
        begun = time.monotonic()
        ends = begun + (DEADLINE_MS / 1000 if left_s is None else left_s)
        while True:
            changed = self._driver.changed
            try:
                if self._driver.is_active:
                    return await here()
                if forwarded:
                    raise self._refusal("the call was passed on to this controller, which is not active")
                address = self._address()
                if address is not None and await self._reaches(address, changed):
                    return await self._hand_over(address, rpc, request, context, ends)
            except ApiError as refusal:
                if forwarded or UNTOUCHED not in refusal.metadata:
                    raise
            left_s = min(begun + HOLD_S, ends - MARGIN_S) - time.monotonic()
            if left_s <= 0:
                raise self._refusal("no controller is active, or it is not known where it listens")
            await _either(changed.wait(), asyncio.sleep(min(left_s, LOOK_AGAIN_S)))

    async def close(self) -> None:
        """Close every connection."""
        for channel in self._channels.values():
            await channel.close()

    async def _hand_over(self, address: str, rpc: str, request: ProtobufMessage, context: Any, ends: float) -> Any:
        return await call(
            getattr(ControllerStub(self._channel(address)), rpc),
            request,
            deadline_ms=max(1, int((ends - time.monotonic()) * 1000)),
            telemetry=self._telemetry,
            metadata=((FORWARDED, "1"), (CLIENT_HOST, peer_address(context)), *_client_id(context)),
            server=address,
            trailing=context.set_trailing_metadata,
        )

    async def _reaches(self, address: str, changed: asyncio.Event) -> bool:
        """Is there a connection, before anything is sent over it? False once something else is known to lead."""
        channel = self._channel(address)
        while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
            await _either(changed.wait(), channel.wait_for_state_change(state), asyncio.sleep(LOOK_AGAIN_S))
            if changed.is_set() or state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                return False
        return True

    def _refusal(self, why: str) -> ApiError:
        """Of a controller that is not active: it says who is, as far as it knows."""
        return ApiError(
            ErrorCode.NOT_CONTROLLER,
            why,
            {
                "leader_id": str(self._driver.leader_id),
                "leader_epoch": str(self._driver.leader_epoch),
                "leader_endpoint": self._address() or "",
                UNTOUCHED: "true",
            },
        )

    def _address(self) -> str | None:
        if self._driver.leader_id == NOBODY:
            return None
        active = self._driver.engine.state.controllers.get(self._driver.leader_id)
        if active is None or not active.end_points:
            return None
        return f"{active.end_points[0].host}:{active.end_points[0].port}"

    def _channel(self, address: str) -> grpc.aio.Channel:
        if address not in self._channels:
            self._channels[address] = open_channel(address)
        return self._channels[address]


def is_forwarded(context: Any) -> bool:
    """Has another controller passed this call on?"""
    return any(key == FORWARDED for key, _ in context.invocation_metadata() or ())


def _client_id(context: Any) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in context.invocation_metadata() or () if key == CLIENT_ID)


def peer_address(context: Any) -> str:
    """The address at the other end of a call's connection; empty if it has none. gRPC writes `ipv4:10.0.0.1:5000`."""
    kind, _, rest = unquote(context.peer()).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


async def _either(*waits: Awaitable[Any]) -> None:
    """Until the first of them is over; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
