"""When a partition counts as offline, under its min ISR, under-replicated and so on: one rule for tables of the past.

Of one state `quorate.doctor` says it, by the same rules: a test compares both with a plain walk over the records.

offline            it has no leader
under min ISR      it has no leader, or its ISR has fewer members than the lesser of `min.insync.replicas` and the
                   number of replicas
under-replicated   its ISR has fewer members than its replicas, without those that are being added (KIP-455)
moving             replicas are being added or removed (KIP-455)
recovering         an unclean election gave it a leader that may lack records (KIP-704)

The second rule is that of `kafka-topics --under-min-isr-partitions`. The metric UnderMinIsrPartitionCount is counted by
leaders, so a partition that has none is in no broker's metric; but it takes no write with acks=all either, and a report
that left it out would show fewer such partitions the worse things are. As in the metric, a min.insync.replicas above
the number of replicas counts as that number.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column

from quorate.metadata.partitions import NO_LEADER, RECOVERING
from services.pipeline.groups import Array, lengths

__all__ = [
    "CONDITIONS",
    "is_moving",
    "is_offline",
    "is_recovering",
    "is_under_min_isr",
    "is_under_replicated",
    "wanted_counts",
]

_Of = TypeVar("_Of", Column, NDArray[Any])  # Any: numbers or flags

CONDITIONS: Final = ("offline", "under_min_isr", "short")
"""Columns of `spans.SCHEMA` and counts of `story`; `short` is under-replicated."""


def is_offline(leader: _Of) -> _Of:
    """Returns whether a partition has no leader, by the `leader` of its record; of columns and arrays alike."""
    return leader == NO_LEADER


def is_under_min_isr(leader: _Of, isr_count: _Of, replica_count: _Of, min_isr: _Of) -> _Of:
    """Returns whether a partition takes no writes with acks=all; `min_isr` is its min.insync.replicas."""
    return is_offline(leader) | ((isr_count < min_isr) & (isr_count < replica_count))


def is_under_replicated(isr_count: _Of, wanted_count: _Of) -> _Of:
    """Returns whether the ISR has fewer replicas than `wanted_count`, those that should be in it (`wanted_counts`)."""
    return isr_count < wanted_count


def is_moving(adding_count: _Of, removing_count: _Of) -> _Of:
    """Returns whether a partition is being reassigned; the counts are those of the replicas added and removed."""
    return (adding_count + removing_count) > 0


def is_recovering(leader_recovery_state: _Of) -> _Of:
    """Returns whether a partition's leader may lack records, and has not changed the ISR since it was elected."""
    return leader_recovery_state == RECOVERING


def wanted_counts(states: pa.Table) -> Array:
    """Returns of each state of a partition how many replicas should be in the ISR: all but those being added."""
    found = lengths(states["replicas"].combine_chunks())
    at = np.flatnonzero(lengths(states["adding_replicas"].combine_chunks()))
    rows = states.select(["replicas", "adding_replicas"]).take(pa.array(at)).to_pylist()
    found[at] = [len(set(row["replicas"]).difference(row["adding_replicas"])) for row in rows]
    return found
