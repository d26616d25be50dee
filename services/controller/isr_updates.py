"""Counts of ISR expansions, shrinks and failed updates by AlterPartition; Kafka counts them on each broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kraft import Uuid
from kraft.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.metadata.state import ClusterState

__all__ = ["IsrUpdates", "Noted"]


@dataclass(slots=True)
class IsrUpdates:
    """Counts of partitions since this process started: ISRs that grew, ISRs that shrank, updates with an error."""

    expands: int = 0
    shrinks: int = 0
    failed: int = 0

    def count(self, noted: Noted, response: AlterPartitionResponse) -> None:
        """Counts the partitions of an AlterPartition answer; an answer from deduplication counts nothing."""
        for topic in response.topics if noted.is_decided else ():
            for partition in topic.partitions:
                before = noted.sizes.get((topic.topic_id, partition.partition_index), 0)
                self.failed += partition.error_code != 0
                self.expands += partition.error_code == 0 and len(partition.isr) > before
                self.shrinks += partition.error_code == 0 and len(partition.isr) < before


class Noted:
    """An AlterPartition command that notes each partition's ISR size before the decision."""

    def __init__(self, request: AlterPartitionRequest, command: Command[Any]) -> None:
        self.sizes: dict[tuple[Uuid, int], int] = {}
        self.is_decided = False
        self._request = request
        self._command = command

    def __call__(self, state: ClusterState, moment: Moment) -> Decision[Any]:
        """Notes the ISR sizes, then returns the command's decision."""
        self.is_decided = True
        for topic in self._request.topics:
            for asked in topic.partitions:
                partition = state.topics.partition(topic.topic_id, asked.partition_index)
                if partition is not None:
                    self.sizes[topic.topic_id, asked.partition_index] = len(partition.isr)
        return self._command(state, moment)
