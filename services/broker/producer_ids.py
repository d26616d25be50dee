"""InitProducerId (22): the ids of idempotent producers, from blocks that the controller gives (KIP-98, KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kraft.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import NodeId
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from services.broker.callers import Caller
from services.broker.controllers import Controllers

__all__ = ["ProducerIds"]

log = logger(__name__)

DEADLINE_MS: Final = 5_000
"""For a block; then producers get an error to try again."""
NONE: Final = -1
AT_ONCE_MAX: Final = 10_000
"""So many producers may wait for a block."""


class ProducerIds:
    """Answers InitProducerId. The rest of a block is lost with the process: there are 2^63 ids."""

    def __init__(self, broker_id: NodeId, controllers: Controllers, broker_epoch: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._controllers = controllers
        self._broker_epoch = broker_epoch
        self._block: Iterator[int] = iter(())
        self._asking = asyncio.Lock()
        self._waiting = 0
        self._asked = 0
        """How often a block was asked for, and what was said the last time, if it was no block."""
        self._refusal: ApiError | None = None
        self._told = ChangeFilter()

    async def answer(self, request: InitProducerIdRequest, caller: Caller) -> InitProducerIdResponse:
        """Answers InitProducerId with a producer id that nobody has had, in epoch 0.

        It may ask the controller for a block. The id in a request without a transactional id is not kept, as in Kafka.
        Errors are in the answer: of rights, INVALID_REQUEST, NOT_COORDINATOR with a transactional id,
        COORDINATOR_LOAD_IN_PROGRESS if the controller gives no ids.
        """
        try:
            _check_rights(request, caller)
            _check(request)
            return InitProducerIdResponse(producer_id=await self._next())
        except ApiError as refusal:
            return InitProducerIdResponse(error_code=refusal.code, producer_epoch=NONE)

    async def _next(self) -> int:
        """Returns an id that nobody has had. Raises ApiError."""
        if (found := next(self._block, None)) is not None:
            return found
        if self._waiting >= AT_ONCE_MAX:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._waiting} producers wait for ids already")
        self._waiting += 1
        asked = self._asked
        try:
            async with self._asking:
                while (found := next(self._block, None)) is None:
                    if self._refusal is not None and self._asked > asked:  # who waited hears what came of it
                        raise ApiError(self._refusal.code, self._refusal.message)
                    self._block = iter(await self._allocated())
                return found
        finally:
            self._waiting -= 1

    async def _allocated(self) -> range:
        """Returns a block of the controller. Raises ApiError: COORDINATOR_LOAD_IN_PROGRESS, which is tried again."""
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        try:
            answer = await self._controllers.ask(AllocateProducerIdsResponse, request, deadline_ms=DEADLINE_MS)
        except ApiError as error:
            if self._told.passes("allocate", error.code.name, asyncio.get_running_loop().time()):
                log.warning("no producer ids from the controller", code=error.code.name, reason=error.message)
            self._refusal = ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids yet: {error}")
            raise ApiError(self._refusal.code, self._refusal.message) from None
        finally:
            self._asked += 1
        self._refusal = None
        self._told.settle("allocate")
        return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)


def _check_rights(request: InitProducerIdRequest, caller: Caller) -> None:
    """Raises ApiError. A caller that may write to any topic may be idempotent (KIP-679)."""
    if request.transactional_id is not None:
        caller.check(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    elif not caller.may_on_cluster(AclOperation.IDEMPOTENT_WRITE, is_audited=False) and not caller.may_on_any(
        AclOperation.WRITE, ResourceType.TOPIC
    ):
        caller.check(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


def _check(request: InitProducerIdRequest) -> None:
    """Raises ApiError for what no broker answers, and for what a transaction coordinator would."""
    if request.transactional_id == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        why = f"producer id {request.producer_id} with epoch {request.producer_epoch}: both are given, or none"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    if request.transactional_id is not None:
        raise ApiError(ErrorCode.NOT_COORDINATOR, "this broker coordinates no transactions")
