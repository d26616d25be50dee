"""The batches of transactions in a Produce: may each be appended, by its partition and by its coordinator (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from kraft.api.produce import ProduceRequest
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.partition_log import Verification
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.partition_log.produced import header_of, is_transactional
from quorate.replication.admission import leader_of
from quorate.runtime.event_loop.turns import in_turns
from quorate.wire.batch import NONE
from quorate.wire.items import Items, Steps
from services.broker.callers import Caller
from services.broker.cluster import Cluster
from services.broker.replicas import Replicas
from services.broker.table import Hosted, Key
from services.broker.transaction_coordinators import Transaction, TransactionCoordinators

__all__ = ["Verified", "Verifier", "transaction_of"]

ADDS_SINCE: Final = 12
"""From this version of Produce on the leader makes its partition part of the transaction (transaction.version 2)."""
ABORTABLE_SINCE: Final = 11
"""From this version on a producer knows TRANSACTION_ABORTABLE."""
RETRY_MS: Final = 100
"""Kafka's `add.partitions.to.txn.retry.backoff.max.ms`: the transaction before may still be ending."""
PER_BATCH: Final = 4
"""The cost of a batch in items: 256 of them are a step."""
PAUSE_S: Final = 0.02
"""Kafka's `add.partitions.to.txn.retry.backoff.ms`."""
NOT_YET: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors that a producer would not try again in an answer to Produce; so it gets NOT_ENOUGH_REPLICAS, as from Kafka."""


class _Open(NamedTuple):
    """A partition whose batch may begin a transaction, and what its append needs."""

    hosted: Hosted
    verification: Verification


Verified = Mapping[Key, Verification | ApiError | None]
"""By partition, what its append needs, or why it is refused; None for one that has records of the transaction."""


def transaction_of(request: ProduceRequest, version: int, caller: Caller) -> Steps[Transaction | None]:
    """Returns the transaction that a request's batches are part of, in steps; None if no batch is part of one.

    Raises ApiError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED if the request has no transactional id, or the caller no
    right to WRITE to it; INVALID_PRODUCER_ID_MAPPING for batches of several producers, or of none.
    """
    found, done = set(), Items()
    for topic in request.topic_data:
        for each in topic.partition_data:
            if each.records is not None and is_transactional(each.records):
                with suppress(ApiError):  # one that is cut is refused as any batch is
                    header = header_of(each.records)
                    found.add((header.producer_id, header.producer_epoch))
            yield from done.one()
        yield from done.one()
    if not found:
        return None
    if request.transactional_id is None:
        why = "batches of a transaction in a request without a transactional id"
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, why)
    caller.check(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    if len(found) > 1:
        why = f"batches of {len(found)} producers in one transaction; there is one"
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, why)
    ((producer_id, producer_epoch),) = found
    if producer_id == NONE:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of a transaction without a producer id")
    return Transaction(request.transactional_id, producer_id, producer_epoch, adds=version >= ADDS_SINCE)


class Verifier:
    """Asks a transaction's coordinator whether its batches may be appended where it has no records yet (KIP-890)."""

    def __init__(self, replicas: Replicas, cluster: Cluster, coordinators: TransactionCoordinators) -> None:
        self._replicas = replicas
        self._cluster = cluster
        self._coordinators = coordinators
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, producer_id: int) -> AsyncIterator[None]:
        """While the block runs, no other request of this producer id is in its own: so its sequences stay in order."""
        turn = self._turns.setdefault(producer_id, asyncio.Lock())
        async with turn:
            yield

    async def verified(self, request: ProduceRequest, version: int, transaction: Transaction) -> Verified:
        """Returns by partition what the append of its batch needs, or the error that refuses it.

        None for a partition that has records of the transaction. For any other it waits for the coordinator. If the
        transaction before is ending still, it asks again for `RETRY_MS`, where each transaction has its own producer
        epoch.
        """
        deadline_ms = self._replicas.now_ms + RETRY_MS
        while True:
            verified = await in_turns(self._begun(request, transaction))
            asked = {each.hosted.name: each for each in verified.values() if isinstance(each, _Open)}
            errors = await self._coordinators.ask(transaction, asked) if asked else {}
            is_ending = transaction.adds and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            if not is_ending or self._replicas.now_ms >= deadline_ms:
                _drop_refused(asked, errors, transaction.producer_id)
                return {key: _outcome(each, errors, version) for key, each in verified.items()}
            await asyncio.sleep(PAUSE_S)

    def _begun(self, request: ProduceRequest, transaction: Transaction) -> Steps[dict[Key, _Open | ApiError | None]]:
        """Returns by partition the verification that it begins, or why not; None where the transaction has records."""
        begun: dict[Key, _Open | ApiError | None] = {}
        done = Items()
        for topic in request.topic_data:
            for each in topic.partition_data:
                if each.records is not None and is_transactional(each.records):
                    with suppress(ApiError):  # it is refused as any batch is
                        hosted = self._cluster.hosted(topic.topic_id, topic.name, each.index)
                        begun[hosted.key] = self._begun_in(hosted, each.records, transaction)
                yield from done.many(PER_BATCH)
            yield from done.one()
        return begun

    def _begun_in(self, hosted: Hosted, records: bytes, transaction: Transaction) -> _Open | ApiError | None:
        try:
            leader_of(hosted.partition, None)
            verification = hosted.log.begin_verification(
                records, bumps_epochs=transaction.adds, now_ms=self._replicas.wall_ms
            )
        except ApiError as refusal:
            return refusal
        return None if verification is None else _Open(hosted, verification)


def _drop_refused(
    asked: Mapping[TopicPartition, _Open], errors: Mapping[TopicPartition, ErrorCode], producer_id: int
) -> None:
    """Forgets what the coordinator has said no to, and not what is not known yet: the producer comes again with it."""
    for name, code in errors.items():
        if code not in NOT_YET and code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            asked[name].hosted.log.drop_verification(producer_id, asked[name].verification)


def _outcome(
    found: _Open | ApiError | None, errors: Mapping[TopicPartition, ErrorCode], version: int
) -> Verification | ApiError | None:
    if not isinstance(found, _Open):
        return found
    code = errors.get(found.hosted.name)
    if code is None:
        return found.verification
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    if code in NOT_YET or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE):
        why = f"it is not known whether {found.hosted.name} is part of the transaction: {code.name}"
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, why)
    return ApiError(code, f"{found.hosted.name} is no part of the transaction: {code.name}")
