"""The gRPC servicer of `kraft.service.Broker`: the same answers as on Kafka's wire, by the same rights."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import msgspec
from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from kraft.api.fetch import FetchRequest
from kraft.api.fetch_pb2 import FetchRequest as FetchAsked
from kraft.api.fetch_pb2 import FetchResponse
from kraft.api.list_offsets_pb2 import ListOffsetsRequest, ListOffsetsResponse
from kraft.api.offset_for_leader_epoch_pb2 import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kraft.api.produce_pb2 import ProduceRequest as ProduceAsked
from kraft.api.produce_pb2 import ProduceResponse
from kraft.service.broker_pb2 import DESCRIPTOR
from kraft.service.broker_pb2_grpc import BrokerServicer
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Principal
from quorate.protocol.apis import api_of
from quorate.runtime.connections.peers import host_of
from quorate.runtime.event_loop.turns import in_turns
from quorate.wire.protobuf import to_protobuf_in_steps, to_struct_in_steps
from services.broker.callers import Caller, Callers

__all__ = ["NAME", "OPEN", "BrokerService"]

SERVICE: Final = DESCRIPTOR.services_by_name["Broker"]
NAME: Final = SERVICE.full_name
OPEN: Final = {f"{NAME}/{each.name}": None for each in SERVICE.methods}
"""RPCs that the door lets everybody call: rights are asked for each topic."""
FETCHED_BYTES_MAX: Final = 3 << 20
"""Records of an answer, beside the first batch, which is whole: clients of gRPC take 4 MiB by default."""

Answer = Callable[[Message, int, Caller], Awaitable[Message | None]]
"""Answers a request of Kafka's in a version of it, as on Kafka's wire. Raises ApiError."""


class BrokerService(BrokerServicer):
    """Serves `kraft.service.Broker`. Requests count as of the newest version; a topic's name may stand for its id."""

    def __init__(self, answer: Answer, callers: Callers, principal: Callable[[Any], Principal]) -> None:
        """`principal` returns who makes a call, by its context."""
        self._answer = answer
        self._callers = callers
        self._principal = principal

    async def Produce(self, request: ProduceAsked, context: grpc.aio.ServicerContext[Any, Any]) -> ProduceResponse:
        """Appends batches; each partition's error is in the response.

        Raises ApiError: INVALID_REQUIRED_ACKS for acks = 0, to which Kafka sends no answer, KAFKA_STORAGE_ERROR if a
        disk fails.
        """
        if request.acks == 0:
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, "acks = 0: must be 1 or -1, as each call has an answer")
        return await self._answered(ProduceResponse, request, context)

    async def Fetch(self, request: FetchAsked, context: grpc.aio.ServicerContext[Any, Any]) -> FetchResponse:
        """Reads batches of at most 3 MiB beside the first one, once there are `min_bytes` or `max_wait_ms` are over."""
        return await self._answered(FetchResponse, request, context)

    async def ListOffsets(
        self, request: ListOffsetsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> ListOffsetsResponse:
        """Finds offsets by timestamp, and the first and last ones, in partitions that this broker leads."""
        return await self._answered(ListOffsetsResponse, request, context)

    async def OffsetForLeaderEpoch(
        self, request: OffsetForLeaderEpochRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> OffsetForLeaderEpochResponse:
        """Returns where leader epochs end (exclusive) in the logs of partitions that this broker leads."""
        return await self._answered(OffsetForLeaderEpochResponse, request, context)

    async def _answered(self, kind: type[Any], request: ProtobufMessage, context: Any) -> Any:
        asked: Message = await in_turns(to_struct_in_steps(request))
        if isinstance(asked, FetchRequest):
            asked = msgspec.structs.replace(asked, max_bytes=min(asked.max_bytes, FETCHED_BYTES_MAX))
        api = api_of(type(asked))
        caller = self._callers.of_call(api.name, self._principal(context), host_of(context.peer()))
        answer = await self._answer(asked, api.versions[-1], caller)
        assert answer is not None, request
        found = await in_turns(to_protobuf_in_steps(answer))
        assert isinstance(found, kind), found
        return found
