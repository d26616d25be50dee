"""AddPartitionsToTxn (24) as a leader sends it: is a partition part of a transaction, or may it become one (KIP-890).

A coordinator gets one request at a time, with all transactions that have come meanwhile: its answers come in order, and
each waits for a write of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kraft.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from quorate.errors import ApiError, ErrorCode, error_of
from quorate.network.client import Connection, Timeouts
from quorate.nouns import NodeId
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from services.broker.cluster import Endpoint
from services.broker.peers import Peers

__all__ = ["Transaction", "TransactionCoordinators"]

log = logger(__name__)

TIMEOUTS: Final = Timeouts(connect_ms=10_000, request_ms=30_000)
"""Kafka's `request.timeout.ms`."""
OF_BROKERS_SINCE: Final = 4
"""From this version on leaders ask for several transactions at once."""
SAID_OTHERWISE: Final[Mapping[ErrorCode, ErrorCode]] = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}
"""Errors that have another name in an answer to Produce."""

Errors = Mapping[TopicPartition, ErrorCode]
"""The partitions that are no part of the transaction, and why."""
_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
_Result = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult


class Transaction(NamedTuple):
    """A producer's transaction. With `adds` the leader adds the partition to it, as the producer has not done so."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool


@dataclass(slots=True, eq=False)
class _Question:
    """The question about one transaction, and the number of its askers."""

    transaction: Transaction
    answer: asyncio.Future[Errors]
    partitions: set[TopicPartition] = field(default_factory=set)
    asking: int = 0

    def settle(self, errors: Errors) -> None:
        if not self.answer.done():
            self.answer.set_result(errors)

    def refuse(self, code: ErrorCode) -> None:
        self.settle(dict.fromkeys(self.partitions, code))


class TransactionCoordinators:
    """Asks the brokers that coordinate transactions about partitions of these, over a connection to each (KIP-890)."""

    def __init__(self, find: Callable[[str], Endpoint], peers: Peers) -> None:
        """`find` returns where a transactional id's coordinator is, or raises ApiError."""
        self._find = find
        self._peers = peers
        self._coordinators: dict[NodeId, _Coordinator] = {}

    async def ask(self, transaction: Transaction, partitions: Collection[TopicPartition]) -> Errors:
        """Returns which of the partitions may not be written to in this transaction, with the error; empty if all may.

        With `adds` the coordinator adds them to the transaction. Where there is no answer it is NETWORK_EXCEPTION, or
        the error of `find`; nothing is raised.
        """
        try:
            at = self._find(transaction.transactional_id)
        except ApiError as refusal:
            return dict.fromkeys(partitions, refusal.code)
        coordinator = self._coordinators.setdefault(at.node_id, _Coordinator(at.node_id, self._peers))
        errors = await coordinator.ask(at, transaction, partitions)
        return {name: errors[name] for name in partitions if name in errors}

    async def close(self) -> None:
        """Ends the connections."""
        for each in self._coordinators.values():
            await each.close()


class _Coordinator:
    """One broker that coordinates. A task of its own sends what all ask, so that no caller's end is the others'."""

    def __init__(self, broker_id: NodeId, peers: Peers) -> None:
        self._broker_id = broker_id
        self._peers = peers
        self._pending: dict[str, _Question] = {}
        self._at: Endpoint | None = None
        self._sending: asyncio.Future[None] | None = None
        self._connection: Connection | None = None
        self._told = ChangeFilter()

    async def ask(self, at: Endpoint, transaction: Transaction, partitions: Collection[TopicPartition]) -> Errors:
        question, self._at = self._question(transaction, partitions), at
        question.asking += 1
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send_all())
        try:
            return await asyncio.shield(question.answer)
        finally:
            question.asking -= 1
            if not question.asking and self._pending.get(transaction.transactional_id) is question:
                del self._pending[transaction.transactional_id]

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        if self._connection is not None:
            await self._connection.close()

    def _question(self, transaction: Transaction, partitions: Collection[TopicPartition]) -> _Question:
        """Returns the question that is to be sent next: with others about the same transaction, instead of older ones.

        As Kafka: of two epochs of a producer the older one is refused without a question.
        """
        question = _Question(transaction, asyncio.get_running_loop().create_future())
        before = self._pending.get(transaction.transactional_id)
        if before is not None and before.transaction == transaction:
            question = before
        elif before is not None and before.transaction.producer_epoch > transaction.producer_epoch:
            question.partitions.update(partitions)
            question.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
            return question
        elif before is not None:
            is_older = before.transaction.producer_epoch < transaction.producer_epoch
            before.refuse(ErrorCode.INVALID_PRODUCER_EPOCH if is_older else ErrorCode.NETWORK_EXCEPTION)
        question.partitions.update(partitions)
        self._pending[transaction.transactional_id] = question
        return question

    async def _send_all(self) -> None:
        """Sends until nothing is asked. However it ends, nobody is left without an answer."""
        try:
            while self._pending:
                await self._send()
        finally:
            for each in self._pending.values():
                each.refuse(ErrorCode.NETWORK_EXCEPTION)

    async def _send(self) -> None:
        """Sends all that is asked, and gives each its answer: NETWORK_EXCEPTION where there is none."""
        asked, self._pending = self._pending, {}
        try:
            await self._answered(asked)
            self._told.settle("coordinator")
        except (OSError, ApiError) as problem:
            if self._told.passes("coordinator", str(problem), asyncio.get_running_loop().time()):
                log.warning("a coordinator does not answer", broker_id=self._broker_id, reason=str(problem))
        finally:
            for each in asked.values():
                each.refuse(ErrorCode.NETWORK_EXCEPTION)

    async def _answered(self, asked: Mapping[str, _Question]) -> None:
        """Raises OSError, ApiError."""
        if self._connection is None or not self._connection.is_open:
            assert self._at is not None, "the caller says where"
            self._connection = await self._peers.connect(self._at.host, self._at.port, timeouts=TIMEOUTS)
        if self._connection.version_of(AddPartitionsToTxnRequest) < OF_BROKERS_SINCE:  # as Kafka: it cannot be asked
            for question in asked.values():
                question.settle({})
            return
        request = AddPartitionsToTxnRequest(transactions=tuple(map(_asked, asked.values())))
        answer = await self._connection.ask_for(AddPartitionsToTxnResponse, request)
        if answer.error_code:
            refused = error_of(answer.error_code)
            is_unauthorized = refused is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            for question in asked.values():
                question.refuse(ErrorCode.INVALID_TXN_STATE if is_unauthorized else refused)
        for result in answer.results_by_transaction:
            if result.transactional_id in asked:
                asked[result.transactional_id].settle(_errors(result.topic_results))


def _asked(question: _Question) -> _Transaction:
    topics: dict[str, list[int]] = {}
    for name in sorted(question.partitions):
        topics.setdefault(name.topic, []).append(name.partition)
    of = question.transaction
    return _Transaction(
        transactional_id=of.transactional_id,
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        verify_only=not of.adds,
        topics=tuple(_Topic(topic, tuple(indexes)) for topic, indexes in topics.items()),
    )


def _errors(
    topics: Iterable[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult],
) -> dict[TopicPartition, ErrorCode]:
    errors = {}
    for topic in topics:
        for each in topic.results_by_partition:
            if each.partition_error_code:
                code = error_of(each.partition_error_code)
                errors[TopicPartition(topic.name, each.partition_index)] = SAID_OTHERWISE.get(code, code)
    return errors
