"""Checks that a request comes from the present registration of a broker, by broker epoch."""

from __future__ import annotations

from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId

__all__ = ["registered"]


def registered(state: ClusterState, broker_id: NodeId, broker_epoch: int) -> Broker:
    """Returns the broker's registration if it has this broker epoch. Raises ApiError(STALE_BROKER_EPOCH). KIP-631."""
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered in broker epoch {broker.epoch}; the request is of epoch {broker_epoch}",
        )
    return broker
