"""Brokers as far as the services see them: they register, send heartbeats, fall silent, and come back as new ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from grpc.aio import AioRpcError

from kraft import Uuid
from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.api.broker_registration_pb2 import BrokerRegistrationRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.errors import ErrorCode
from quorate.metadata.features import supported_features
from quorate.nouns import uuid_text
from quorate.runtime.requests.statuses import error_from_call
from services.gateway.heartbeats import HeartbeatServices
from tests.sim_driver.checker import require
from tests.sim_driver.loop import Life, context_of
from tests.sim_driver.node import CLUSTER_ID
from tests.sim_driver.wire import Channel
from tests.sim_services.controller import HEARTBEATS

if TYPE_CHECKING:
    from tests.sim_services.world import ServicesWorld

FIRST_HOST: Final = 300
TWINS: Final = 50
ANSWER_S: Final = 3.0
EVERY_MS: Final = 200
FOREIGN: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


class Broker:
    """One machine; each process of it is another incarnation. Its twin has the same id and is another machine."""

    def __init__(self, world: ServicesWorld, number: int, *, is_twin: bool = False) -> None:
        self.id = FIRST_HOST + number
        self.host = self.id + (TWINS if is_twin else 0)
        self.epoch = -1
        self._world = world
        self._random = world.stream(f"twin{number}" if is_twin else f"broker{number}")
        self._directory = self._random.randbytes(16)
        self._life: Life | None = None

    def start(self) -> None:
        self.epoch = -1
        self._life = life = Life(self, f"broker {self.host}")
        self._world.loop.create_task(self._live(life), context=context_of(life))

    def appear(self) -> None:
        """A twin begins, if it is not there, and tries to take the id for a while."""
        if self._life is None:
            self._world.fired("C-05")
            self.start()
            self._world.network.after_ms(self._random.choice((500, 2_000)), self.leave)

    def leave(self) -> None:
        """It is gone for good, or until it is started."""
        if self._life is not None:
            self._life.is_over = True
            self._world.network.lose(self._life)
            self._life = None

    def stop(self) -> None:
        """Gone without a word; another process begins a while later."""
        if self._life is None:
            return
        self._world.fired("C-02")
        self.leave()
        self._world.network.after_ms(self._random.choice((100, 1_500, 3_000)), self.start)

    async def _live(self, life: Life) -> None:
        try:
            while True:
                await self._register(life, self._random.randbytes(16))
                await self._beat(life)
        except Exception as error:
            self._world.failed(life, error)

    async def _register(self, life: Life, incarnation: bytes) -> None:
        request = BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=uuid_text(Uuid(incarnation)),
            listeners=[
                BrokerRegistrationRequest.Listener(
                    name="PLAINTEXT", host=f"broker{self.id}", port=9092, security_protocol=0
                )
            ],
            features=[
                BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(supported_features().items())
            ],
            log_dirs=[uuid_text(Uuid(self._directory))],
        )
        while True:
            address = self._random.choice(self._world.controllers).address
            stub: Any = ControllerStub(Channel(self._world.network, life, address))  # type: ignore[arg-type]
            try:
                answer = await stub.BrokerRegistration(request, timeout=ANSWER_S)
            except AioRpcError:
                await asyncio.sleep(self._random.randrange(50, 300) / 1000)
            else:
                self.epoch = answer.broker_epoch
                known = self._world.ledger.registration(self.id, incarnation)
                require("I-45", known == self.epoch, "registered elsewhere than it is told", self.id, known, self.epoch)
                return

    async def _beat(self, life: Life) -> None:
        """Until its registration is not the present one any more. Of two services it finds one as a gateway does."""
        addresses = HEARTBEATS[: len(self._world.trackers)]
        channels: list[Any] = [Channel(self._world.network, life, address) for address in addresses]
        services = HeartbeatServices([HeartbeatStub(channel) for channel in channels])
        while True:
            request = BrokerHeartbeatRequest(
                broker_id=self.id, broker_epoch=self.epoch, current_metadata_offset=self._world.checker.end
            )
            try:
                await services.BrokerHeartbeat(request, timeout=ANSWER_S)
            except AioRpcError as refused:
                if error_from_call(refused).code in FOREIGN:
                    return
            silent = self._world.cluster.silent_permille if not self._world.is_healed else 0
            is_silent = self._random.randrange(1_000) < silent
            if is_silent:
                self._world.fired("C-01")
            await asyncio.sleep(EVERY_MS / 1000 + (self._random.randrange(4_000) / 1000 if is_silent else 0))
