"""AlterPartition: what this broker's leaders propose goes to the controller, one request at a time (R36; KIP-497)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Final

from kraft.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from quorate.errors import ApiError, ErrorCode, error_of
from quorate.metadata.partitions import RECOVERED, RECOVERING
from quorate.nouns import NodeId
from quorate.replication import Altered, AlterRequest, Proposal
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from services.broker.controllers import Controllers
from services.broker.replicas import Replicas
from services.broker.table import Key

__all__ = ["IsrChanges"]

log = logger(__name__)

DEADLINE_MS: Final = 30_000
"""Kafka's `request.timeout.ms`."""

_Topic = AlterPartitionRequest.TopicData
_Partition = _Topic.PartitionData


class IsrChanges:
    """Sends ISRs that this broker's leaders propose to the controller (AlterPartition), and gives them the answers."""

    def __init__(self, replicas: Replicas, controllers: Controllers, broker_epoch: Callable[[], int]) -> None:
        self._replicas = replicas
        self._controllers = controllers
        self._broker_epoch = broker_epoch
        self._told = ChangeFilter()

    async def run(self) -> None:
        """Sends each proposed change of an ISR to the controller, and takes the answers, until cancelled."""
        replicas, pause_s = self._replicas, self._replicas.settings.alter_partition_backoff_ms / 1000
        while True:
            await replicas.proposed.wait()
            replicas.proposed.clear()
            while replicas.alterations.waiting_count:
                request = replicas.alterations.next_request(broker_epoch=self._broker_epoch(), now_ms=replicas.now_ms)
                if request is None:
                    await asyncio.sleep(pause_s)
                    continue
                self._take(request, await self._ask(request))

    async def _ask(self, request: AlterRequest[Key]) -> Mapping[Key, Altered | ErrorCode] | ErrorCode:
        """Returns the answers by partition, or why there are none."""
        asked = request_of(self._replicas.broker_id, request)
        try:
            answer = await self._controllers.ask(AlterPartitionResponse, asked, deadline_ms=DEADLINE_MS)
        except ApiError as error:
            if self._told.passes("alter", error.code.name, asyncio.get_running_loop().time()):
                log.warning("the controller does not change an ISR", code=error.code.name, reason=error.message)
            return error.code
        self._told.settle("alter")
        return dict(_answers(answer))

    def _take(self, request: AlterRequest[Key], answers: Mapping[Key, Altered | ErrorCode] | ErrorCode) -> None:
        replicas = self._replicas
        for each in replicas.alterations.take_answer(request.number, answers, now_ms=replicas.now_ms):
            hosted = replicas.table.get(each.partition)
            if hosted is not None and (role := hosted.leading) is not None:
                replicas.carry_out(hosted, role.take_altered(each.proposal, each.answer, now_ms=replicas.now_ms))
                replicas.touch(hosted.key)


def request_of(broker_id: NodeId, request: AlterRequest[Key]) -> AlterPartitionRequest:
    """Returns the AlterPartition request with all proposals, by topic and partition; each says that it is recovered."""
    by_topic = groupby(sorted(request.proposals.items(), key=lambda each: each[0]), key=lambda each: each[0].topic_id)
    return AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=request.broker_epoch,
        topics=tuple(
            _Topic(
                topic_id=topic_id,
                partitions=tuple(_proposed(key.partition_id, proposal) for key, proposal in proposals),
            )
            for topic_id, proposals in by_topic
        ),
    )


def _proposed(index: int, proposal: Proposal) -> _Partition:
    return _Partition(
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        new_isr_with_epochs=tuple(_Partition.BrokerState(member, epoch) for member, epoch in proposal.isr),
        leader_recovery_state=RECOVERED,
    )


def _answers(response: AlterPartitionResponse) -> Iterator[tuple[Key, Altered | ErrorCode]]:
    for topic in response.topics:
        for each in topic.partitions:
            key = Key(topic.topic_id, each.partition_index)
            if each.error_code:
                yield key, error_of(each.error_code)
            else:
                yield (
                    key,
                    Altered(
                        leader_epoch=each.leader_epoch,
                        partition_epoch=each.partition_epoch,
                        isr=frozenset(each.isr),
                        is_recovering=each.leader_recovery_state == RECOVERING,
                    ),
                )
