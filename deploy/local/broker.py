"""Stand-ins for brokers: they register, replay the log, send heartbeats, shut down. They store no partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from deploy.local.plan import ClusterPlan
from deploy.local.processes import NotReady
from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration_pb2 import BrokerRegistrationRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.errors import ApiError
from quorate.metadata.features import supported_features
from quorate.nouns import NodeId, uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.statuses import is_retriable
from quorate.runtime.telemetry.tracing import OFF

HEARTBEAT_INTERVAL_S: Final = 0.5
STARTING_INTERVAL_S: Final = 0.02
DEADLINE_MS: Final = 10_000
START_TIMEOUT_S: Final = 60.0
"""Time limit of a start: the broker replays the log, and an election may be under way."""


class BrokerStandIn:
    """One broker stand-in, a set of tasks in this process; the control plane sees it as a broker."""

    def __init__(
        self,
        broker_id: NodeId,
        *,
        cluster_id: str,
        rack: str | None,
        quorum: Sequence[str],
        controllers: Sequence[str],
        heartbeat: str,
        transport: Transport = PLAIN,
    ) -> None:
        self.id = broker_id
        self.epoch = -1
        reader = LogReader(
            quorum, partial(open_channel, transport=transport), cluster_id=cluster_id, replica_id=broker_id
        )
        self.replica = Replica(reader, SystemClock(), OFF)
        self._cluster_id = cluster_id
        self._rack = rack
        self._controllers = Client(controllers, ControllerStub, transport=transport)
        self._heartbeats = Client((heartbeat,), HeartbeatStub, transport=transport)
        self._incarnation = uuid_text(random_uuid())
        self._directory = uuid_text(random_uuid())
        self._unfenced = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Registers the broker and waits until it has caught up and is unfenced. Raises ApiError, TimeoutError."""
        self._tasks.append(asyncio.ensure_future(self.replica.run()))
        answer = await self._controllers.call(
            lambda stub: stub.BrokerRegistration, self._registration(), deadline_ms=DEADLINE_MS
        )
        self.epoch = answer.broker_epoch
        self._tasks.append(asyncio.ensure_future(self._heartbeat_for_ever()))
        async with asyncio.timeout(START_TIMEOUT_S):
            await self._unfenced.wait()

    async def fall_silent(self) -> None:
        """Stops heartbeats and replay without a shutdown request, as if the broker's process was killed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def shut_down(self) -> None:
        """Does a controlled shutdown: sends heartbeats that ask for it until one is answered `should_shut_down`."""
        for task in self._tasks[1:]:
            task.cancel()
        while not await self._may_shut_down():
            await asyncio.sleep(STARTING_INTERVAL_S)
        await self.close()

    async def close(self) -> None:
        """Stops the broker stand-in without a shutdown request, and closes its connections."""
        await self.fall_silent()
        await self._controllers.close()
        await self._heartbeats.close()

    async def _may_shut_down(self) -> bool:
        """Asks for a shutdown; False as well if the answer is an error that the next heartbeat may not get."""
        try:
            return (await self._heartbeat(want_shut_down=True)).should_shut_down
        except ApiError as error:
            if not is_retriable(error):
                raise
            return False

    def _registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation,
            listeners=[BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="127.0.0.1", port=9000 + self.id)],
            features=[
                BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_features().items()
            ],
            rack=self._rack,
            log_dirs=[self._directory],
        )

    async def _heartbeat_for_ever(self) -> None:
        while True:
            try:
                answer = await self._heartbeat()
                if not answer.is_fenced:
                    self._unfenced.set()
            except ApiError:
                pass  # the next heartbeat tries again
            await asyncio.sleep(HEARTBEAT_INTERVAL_S if self._unfenced.is_set() else STARTING_INTERVAL_S)

    async def _heartbeat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.replica.applied - 1,
            want_fence=False,
            want_shut_down=want_shut_down,
        )
        return await self._heartbeats.call(
            lambda stub: stub.BrokerHeartbeat, request, deadline_ms=DEADLINE_MS, retry=lambda error: False
        )


class BrokerStandIns:
    """A stand-in for each of the plan's brokers."""

    called: Final = "broker stand-ins"

    def __init__(self, plan: ClusterPlan) -> None:
        self._brokers = [stand_in(plan, broker_id) for broker_id in plan.brokers]

    async def start(self) -> None:
        """Starts all of them; each is unfenced at the end. Raises ApiError, NotReady."""
        try:
            async with asyncio.TaskGroup() as joining:
                for broker in self._brokers:
                    joining.create_task(broker.start())
        except ExceptionGroup as problems:
            if isinstance(problems.exceptions[0], TimeoutError):
                raise NotReady(f"a broker stand-in is not unfenced after {START_TIMEOUT_S:g} s") from None
            raise problems.exceptions[0] from None

    async def close(self) -> None:
        """Stops them without a shutdown request."""
        for broker in self._brokers:
            await broker.close()


def stand_in(plan: ClusterPlan, broker_id: NodeId) -> BrokerStandIn:
    """Returns a stand-in for one of the plan's brokers."""
    return BrokerStandIn(
        broker_id,
        cluster_id=plan.cluster_id,
        rack=plan.racks[broker_id],
        quorum=[each.address for each in plan.quorum],
        controllers=[each.address for each in plan.controllers],
        heartbeat=plan.heartbeat.address,
        transport=plan.transport,
    )
