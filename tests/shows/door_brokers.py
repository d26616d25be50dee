"""Stand-ins of brokers that reach the plane by its gateways, in Kafka's own protocol, as Kafka's brokers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from quorate.errors import ApiError, refusal_of
from quorate.metadata.features import supported_features
from quorate.network.client import Connection, Timeouts, connect
from quorate.nouns import NodeId
from quorate.random_uuid import random_uuid
from tests.e2e.calls import eventually
from tests.e2e.cluster import Cluster

BROKERS: Final = (201, 202, 203, 204, 205, 206)
BEAT_S: Final = 0.5
AWAY_S: Final = 0.1
ALL_REPLAYED: Final = 1 << 40
"""The offset of one who has applied whatever there is."""


class DoorBroker:
    """One broker. It asks the next gateway after half a session without an answer, as Kafka's broker (KAFKA-14392)."""

    def __init__(self, broker_id: NodeId, doors: Sequence[str], *, cluster_id: str, session_s: float) -> None:
        self.id = broker_id
        self.is_unfenced = False
        self._doors = doors
        self._turn = broker_id
        self._timeouts = Timeouts(connect_ms=round(session_s * 250), request_ms=round(session_s * 500))
        self._connection: Connection | None = None
        self._epoch = -1
        self._registration = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=random_uuid(),
            listeners=(BrokerRegistrationRequest.Listener("PLAINTEXT", "127.0.0.1", 9000 + broker_id, 0),),
            features=tuple(
                BrokerRegistrationRequest.Feature(name, low, high)
                for name, (low, high) in sorted(supported_features().items())
            ),
            rack="door",
            log_dirs=(random_uuid(),),
        )

    async def run(self) -> None:
        """Registers, and sends heartbeats until cancelled."""
        try:
            while True:
                try:
                    await self._beat()
                    await asyncio.sleep(BEAT_S)
                except (ApiError, OSError):
                    self._leave()
                    await asyncio.sleep(AWAY_S)
        finally:
            self._leave()

    async def unfenced(self) -> bool:
        """Whether the last heartbeat was answered so."""
        return self.is_unfenced

    async def _beat(self) -> None:
        if self._connection is None:
            host, _, port = self._doors[self._turn % len(self._doors)].rpartition(":")
            self._connection = await connect(host, int(port), timeouts=self._timeouts)
        if self._epoch < 0:
            registered = await self._connection.ask_for(BrokerRegistrationResponse, self._registration)
            if registered.error_code:
                raise refusal_of(registered.error_code, "BrokerRegistration")
            self._epoch = registered.broker_epoch
        beat = BrokerHeartbeatRequest(broker_id=self.id, broker_epoch=self._epoch, current_metadata_offset=ALL_REPLAYED)
        heard = await self._connection.ask_for(BrokerHeartbeatResponse, beat)
        if heard.error_code:
            raise refusal_of(heard.error_code, "BrokerHeartbeat")
        self.is_unfenced = not heard.is_fenced

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.abort()
        self._connection = None
        self._turn += 1


@asynccontextmanager
async def beating(cluster: Cluster, *, session_s: float) -> AsyncIterator[None]:
    """All of BROKERS are unfenced, and send heartbeats for the length of the block."""
    doors = cluster.plan.bootstrap_controllers.split(",")
    cluster_id = cluster.plan.cluster_id
    brokers = [DoorBroker(each, doors, cluster_id=cluster_id, session_s=session_s) for each in BROKERS]
    tasks = [asyncio.ensure_future(each.run()) for each in brokers]
    try:
        for each in brokers:
            await eventually(each.unfenced)
        yield
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError), result
