"""A stand-in for a broker that coordinates transactions: it hears AddPartitionsToTxn and answers by its script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deploy.local.ports import HOST
from kraft import Message
from kraft.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from quorate.errors import ErrorCode
from quorate.network.listening import ConnectedClient, Listening
from quorate.network.server import KafkaServer, serving
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.protocol import Request
from services.broker.cluster import Endpoint
from tests.protocol.pair import SERVED, describe

COORDINATOR = 102
Asked = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_Topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_Partition = _Topic.AddPartitionsToTxnPartitionResult


class Coordinator:
    """`refusals` has a partition's errors, one an answer; `error` is that of all answers."""

    def __init__(self) -> None:
        self.asked: list[list[Asked]] = []
        self.refusals: dict[str, list[int]] = {}
        self.error: int = ErrorCode.NONE
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.server: KafkaServer

    def find(self, _transactional_id: str) -> Endpoint:
        return Endpoint(COORDINATOR, HOST, self.server.port, None)

    async def answer(self, request: Request, _client: ConnectedClient) -> Message:
        assert isinstance(request.message, AddPartitionsToTxnRequest), request
        self.asked.append(list(request.message.transactions))
        self.is_asked.set()
        await self.may_answer.wait()
        if self.error:
            return AddPartitionsToTxnResponse(error_code=self.error)
        return AddPartitionsToTxnResponse(results_by_transaction=tuple(map(self._result, request.message.transactions)))

    def _result(self, asked: Asked) -> _Result:
        return _Result(
            asked.transactional_id,
            tuple(
                _Topic(topic.name, tuple(_Partition(each, self._code(topic.name, each)) for each in topic.partitions))
                for topic in asked.topics
            ),
        )

    def _code(self, topic: str, index: int) -> int:
        told = self.refusals.get(f"{topic}-{index}", [])
        return told.pop(0) if told else ErrorCode.NONE


@asynccontextmanager
async def coordinating() -> AsyncIterator[Coordinator]:
    coordinator = Coordinator()
    listening = Listening(handle=coordinator.answer, served=SERVED, describe_versions=describe)
    async with serving(listening, HOST) as coordinator.server:
        yield coordinator


def partitions_of(asked: Asked) -> list[TopicPartition]:
    return [TopicPartition(topic.name, each) for topic in asked.topics for each in topic.partitions]
