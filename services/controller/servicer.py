"""gRPC ↔ the driver: each RPC becomes a command, or is passed on to the active controller."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kraft import Uuid
from kraft.api.broker_registration_pb2 import BrokerRegistrationRequest, BrokerRegistrationResponse
from kraft.api.controller_registration_pb2 import ControllerRegistrationRequest, ControllerRegistrationResponse
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.service.controller_pb2 import (
    ChangeBrokerStateRequest,
    ChangeBrokerStateResponse,
    ListErrorReasonsRequest,
    ListErrorReasonsResponse,
)
from kraft.service.controller_pb2_grpc import ControllerServicer
from kraft.service.placer_pb2_grpc import PlacerStub
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.commands.create_topics import StalePlacement, create_topics, usable_brokers, wanted_placements
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.engine import Answer
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.nouns import ZERO_UUID, uuid_text
from quorate.runtime.client import Client, call
from quorate.runtime.statuses import is_retriable, status_code
from quorate.wire.protobuf import to_protobuf, to_struct
from services.controller.driver import Driver
from services.controller.forwarding import Forwarding
from services.controller.placing import place

PLACEMENTS_TRIED_MAX: Final = 3
"""Brokers come and go while the placer is asked; who meets that so often is told to try again."""
QUORUM_DEADLINE_MS: Final = 5_000

Handler = Callable[[Any], Awaitable[Answer]]


class Servicer(ControllerServicer):
    """Serves `kraft.service.Controller` on one controller, active or not."""

    def __init__(
        self,
        driver: Driver,
        forwarding: Forwarding,
        quorum: QuorumStub,
        placers: Client[PlacerStub],
        settings: Settings,
        *,
        cluster_id: str,
    ) -> None:
        self._driver = driver
        self._forwarding = forwarding
        self._quorum = quorum
        self._placers = placers
        self._settings = settings
        self._cluster_id = cluster_id

    async def CreateTopics(self, request: CreateTopicsRequest, context: Any) -> CreateTopicsResponse:
        """Places, then writes; places again if the brokers have changed in between."""
        return await self._serve("CreateTopics", request, context, self._create_topics)

    async def DescribeTopicPartitions(
        self, request: DescribeTopicPartitionsRequest, context: Any
    ) -> DescribeTopicPartitionsResponse:
        """A read waits until all that it has seen is committed."""

        async def read(asked: Any) -> Answer:
            return await self._driver.write("DescribeTopicPartitions", describe_topic_partitions(asked))

        return await self._serve("DescribeTopicPartitions", request, context, read)

    async def DescribeCluster(self, request: DescribeClusterRequest, context: Any) -> DescribeClusterResponse:
        """As above."""

        async def read(asked: Any) -> Answer:
            command = describe_cluster(asked, cluster_id=self._cluster_id, controller_id=self._driver.leader_id)
            return await self._driver.write("DescribeCluster", command)

        return await self._serve("DescribeCluster", request, context, read)

    async def DescribeQuorum(self, request: DescribeQuorumRequest, context: Any) -> DescribeQuorumResponse:
        """The leader's quorum node knows; it lies beside the active controller."""

        async def ask() -> DescribeQuorumResponse:
            return await call(self._quorum.DescribeQuorum, request, deadline_ms=QUORUM_DEADLINE_MS)

        return await self._forwarding.serve("DescribeQuorum", request, context, ask)

    async def BrokerRegistration(self, request: BrokerRegistrationRequest, context: Any) -> BrokerRegistrationResponse:
        """KIP-631."""

        async def register(asked: Any) -> Answer:
            command = register_broker(
                asked,
                cluster_id=self._cluster_id,
                session_epoch=self._session_epoch(asked.broker_id),
                kraft_version=await self._kraft_version(),
                settings=self._settings,
            )
            return await self._driver.write("BrokerRegistration", command)

        return await self._serve("BrokerRegistration", request, context, register)

    async def ControllerRegistration(
        self, request: ControllerRegistrationRequest, context: Any
    ) -> ControllerRegistrationResponse:
        """KIP-919."""

        async def register(asked: Any) -> Answer:
            return await self._driver.write("ControllerRegistration", register_controller(asked))

        return await self._serve("ControllerRegistration", request, context, register)

    async def ChangeBrokerState(self, request: ChangeBrokerStateRequest, context: Any) -> ChangeBrokerStateResponse:
        """The heartbeat service reports, this controller decides."""
        if not request.target:
            raise ApiError(ErrorCode.INVALID_REQUEST, "target: a state is needed", {"field": "target"})
        command = change_broker_state(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            target=_STATES[request.target],
            settings=self._settings,
        )

        async def change() -> ChangeBrokerStateResponse:
            answer = await self._driver.write("ChangeBrokerState", command)
            self._speak_of(answer, context)
            return ChangeBrokerStateResponse(state=_NUMBERS[answer.response.state], offset=answer.offset)  # type: ignore[arg-type]

        return await self._forwarding.serve("ChangeBrokerState", request, context, change)

    async def ListErrorReasons(self, request: ListErrorReasonsRequest, context: Any) -> ListErrorReasonsResponse:
        """Every error that there is."""
        reason = ListErrorReasonsResponse.Reason
        return ListErrorReasonsResponse(
            reasons=[
                reason(
                    error_code=code,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
                    status=status_code(code).name,
                    retriable=is_retriable(ApiError(code, "")),
                )
                for code in ErrorCode
                if code is not ErrorCode.NONE
            ]
        )

    async def _serve(self, rpc: str, request: Any, context: Any, handler: Handler) -> Any:
        """Here if this controller is active, else by the one that is."""

        async def here() -> Any:
            answer = await handler(to_struct(request))
            self._speak_of(answer, context)
            return to_protobuf(answer.response)

        return await self._forwarding.serve(rpc, request, context, here)

    async def _create_topics(self, asked: Any) -> Answer:
        state = self._driver.engine.state
        for tried in range(1, PLACEMENTS_TRIED_MAX + 1):
            wanted = wanted_placements(state, asked, self._settings)
            placements = await place(self._placers, usable_brokers(state), wanted)
            command = create_topics(asked, placements=placements, new_topic_id=_random_id, settings=self._settings)
            try:
                return await self._driver.write("CreateTopics", command)
            except StalePlacement:
                if tried == PLACEMENTS_TRIED_MAX:
                    raise
        raise AssertionError("the loop returns or raises")

    async def _kraft_version(self) -> int:
        """1 where voters have directory ids (KIP-853), which is for the quorum node to know."""
        found = await call(self._quorum.FindQuorum, FindQuorumRequest(), deadline_ms=QUORUM_DEADLINE_MS)
        return int(any(voter.directory_id != uuid_text(ZERO_UUID) for voter in found.voters))

    def _session_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is alive as far as the log says: one that is not fenced."""
        broker = self._driver.engine.state.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.epoch

    def _speak_of(self, answer: Answer, context: Any) -> None:
        """Say of which state the answer speaks."""
        context.set_trailing_metadata(
            (
                ("kraft-leader-id", str(self._driver.leader_id)),
                ("kraft-leader-epoch", str(answer.epoch)),
                ("kraft-offset", str(answer.offset)),
            )
        )


def _random_id() -> Uuid:
    return Uuid(secrets.token_bytes(16))


_STATES: Final = {
    1: ControlState.FENCED,
    2: ControlState.UNFENCED,
    3: ControlState.CONTROLLED_SHUTDOWN,
    4: ControlState.SHUTDOWN_NOW,
}
"""The proto's enum numbers, which have an unspecified one below them."""
_NUMBERS: Final = {state: number for number, state in _STATES.items()}
