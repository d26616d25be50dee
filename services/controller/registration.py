"""Controller registration (KIP-919): writes this controller's listeners and features to the log as a record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, cast

from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.controller_registration_pb2 import ControllerRegistrationRequest as RegistrationMessage
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.controller.commands.register_controller import register_controller
from quorate.errors import ApiError
from quorate.metadata.features import supported_features
from quorate.nouns import NodeId
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.random_uuid import random_uuid
from quorate.runtime.clients.client import Client
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.setting_types import ListenerAddress
from quorate.runtime.telemetry.tracing import OFF
from quorate.wire.protobuf import to_protobuf
from services.controller.driver import ControllerDriver
from services.controller.forwarding import active_address, is_of_kafka
from services.controller.quorum_node import QuorumNode

log = logger(__name__)

RETRY_S: Final = 0.2
DEADLINE_MS: Final = 5_000


class ControllerRegistration:
    """Registers this controller, with itself if it is active, else with the active one, until the record is applied.

    A Kafka controller that is active is asked through the own quorum node, which speaks Kafka's wire and logs in there.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        *,
        node_id: NodeId,
        listeners: Sequence[tuple[ListenerAddress, str]],
        listener_name: str,
        quorum: QuorumNode,
        transport: Transport = PLAIN,
    ) -> None:
        """`listeners` are this controller's, each with its security protocol.

        `listener_name` is the listener at which it calls the other controllers.
        """
        assert listeners
        self._driver = driver
        self._quorum = quorum
        self._transport = transport
        self._node_id = node_id
        self._listener = listener_name
        self._request = ControllerRegistrationRequest(
            controller_id=node_id,
            incarnation_id=random_uuid(),
            listeners=tuple(
                ControllerRegistrationRequest.Listener(
                    name=listener.name,
                    host=listener.endpoint.host,
                    port=listener.endpoint.port,
                    security_protocol=SECURITY_PROTOCOLS[protocol].id,
                )
                for listener, protocol in listeners
            ),
            features=tuple(
                ControllerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(supported_features().items())
            ),
        )

    async def run(self) -> None:
        """Registers whenever the state lacks this process's record. Runs until cancelled."""
        while True:
            changed = self._driver.changed
            if not self._is_registered() and self._may_register():
                try:
                    await self._register()
                    async with asyncio.timeout(DEADLINE_MS / 1000):
                        await self._applied()
                except (ApiError, TimeoutError) as refusal:
                    log.debug("not registered yet", reason=str(refusal))
                    await asyncio.sleep(RETRY_S)
                continue
            await changed.wait()

    def _may_register(self) -> bool:
        """Whether an active controller is known, one of ours or a Kafka controller."""
        return self._driver.is_active or active_address(self._driver) is not None

    async def _applied(self) -> None:
        """Waits until the registration record is committed and replayed here."""
        while not self._is_registered():
            await self._driver.changed.wait()

    def _is_registered(self) -> bool:
        known = self._driver.engine.state.controllers.get(self._node_id)
        return known is not None and known.incarnation_id == self._request.incarnation_id

    async def _register(self) -> None:
        if self._driver.is_active:
            await self._driver.write("ControllerRegistration", register_controller(self._request))
            return
        request = cast(RegistrationMessage, to_protobuf(self._request))  # the protobuf class of this struct
        if is_of_kafka(self._driver, self._listener):
            await self._quorum.register_with_kafka(request)
            return
        address = active_address(self._driver, self._listener)
        assert address is not None
        client = Client((address,), ControllerStub, telemetry=OFF, transport=self._transport)
        try:
            await client.call(
                lambda stub: stub.ControllerRegistration,
                request,
                deadline_ms=DEADLINE_MS,
                retry=lambda error: False,
            )
        finally:
            await client.close()
