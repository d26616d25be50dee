"""The metadata log's state of a partition, and of the brokers that may be in its ISR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from quorate.nouns import Epoch, NodeId
from quorate.replication.progress import NO_BROKER_EPOCH, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """A partition as the applied metadata log has it (R3). `leader` is None while there is none."""

    leader: NodeId | None
    leader_epoch: Epoch
    partition_epoch: int
    replicas: tuple[NodeId, ...]
    isr: frozenset[NodeId]
    is_recovering: bool = False
    """After an unclean election, until the leader has reported its recovery. KIP-704."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStanding:
    """A registered broker, as the applied metadata log has it."""

    epoch: int
    is_fenced: bool = False
    is_shutting_down: bool = False


Brokers: TypeAlias = Mapping[NodeId, BrokerStanding]
"""The registered brokers. The driver changes it as it applies the log; the core only reads it."""


def is_stale(brokers: Brokers, broker_id: NodeId, broker_epoch: int) -> bool:
    """Returns whether a fetch is of an earlier registration of its broker than the log has (R50, R63). KIP-903."""
    standing = brokers.get(broker_id)
    return standing is not None and NO_BROKER_EPOCH != broker_epoch < standing.epoch


def is_eligible(brokers: Brokers, broker_id: NodeId, progress: Progress) -> bool:
    """Returns whether the controller would take this replica into the ISR (R26, R27). KIP-841, KIP-903.

    A broker that stopped uncleanly may have lost what its last fetch acknowledged. So its present registration must be
    that of its last fetch.
    """
    standing = brokers.get(broker_id)
    if standing is None or standing.is_fenced or standing.is_shutting_down:
        return False
    return progress.broker_epoch in (NO_BROKER_EPOCH, standing.epoch)
