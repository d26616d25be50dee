"""When a partition counts as offline, under its min ISR, or under-replicated: one rule for every table and page.

offline            it has no leader
under min ISR      it has no leader, or its ISR has fewer members than the lesser of `min.insync.replicas` and the
                   number of replicas
under-replicated   its ISR has fewer members than its replicas, without those that are being added (KIP-455)

The second rule is that of `kafka-topics --under-min-isr-partitions`. The metric UnderMinIsrPartitionCount is counted by
leaders, so a partition that has none is in no broker's metric; but it takes no write with acks=all either, and a report
that left it out would show fewer such partitions the worse things are. As in the metric, a min.insync.replicas above
the number of replicas counts as that number.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from quorate.metadata.partitions import NO_LEADER

__all__ = ["CONDITIONS", "is_offline", "is_under_min_isr", "is_under_replicated", "wanted_replicas"]

CONDITIONS: Final = ("offline", "under_min_isr", "short")
"""Columns of `availability.partition_spans` and counts of `story`; `short` is under-replicated."""


def is_offline(leader: Column) -> Column:
    """Returns whether a partition with this leader has none."""
    return leader == NO_LEADER


def is_under_min_isr(leader: Column, isr_count: Column, replica_count: Column, min_isr: Column) -> Column:
    """Returns whether a partition takes no writes with acks=all; `min_isr` is its min.insync.replicas."""
    return is_offline(leader) | (isr_count < fn.least(min_isr, replica_count))


def is_under_replicated(isr_count: Column, wanted_count: Column) -> Column:
    """Returns whether a replica is missing in the ISR; `wanted_count` is the number of `wanted_replicas`."""
    return isr_count < wanted_count


def wanted_replicas() -> Column:
    """Returns the replicas that should be in the ISR: all but those being added (Partition.isUnderReplicated)."""
    return fn.array_except("replicas", "adding_replicas")
