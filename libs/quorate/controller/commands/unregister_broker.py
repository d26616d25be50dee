"""UnregisterBroker (64): removes a broker's registration from the cluster. KIP-631."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraft.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.partitions.broker_changes import leaving
from quorate.controller.partitions.chunked_change import (
    DEFAULT_LIMITS,
    ChunkLimits,
    Key,
    chunks_of,
    epoch_of,
    in_isr,
    present,
)
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.records import UnregisterBrokerRecord

__all__ = ["unregister_ahead", "unregister_broker"]


def unregister_broker(
    request: UnregisterBrokerRequest, *, settings: ControllerSettings
) -> Command[UnregisterBrokerResponse]:
    """Returns the command that unregisters a broker, alive or not: it leaves every ISR and leads nothing.

    Its replicas keep their assignment. The command raises ApiError(BROKER_ID_NOT_REGISTERED).
    """

    def command(state: ClusterState, _: Moment) -> Decision[UnregisterBrokerResponse]:
        broker = state.brokers.get(request.broker_id)
        if broker is None:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
        changes = tuple(leaving(state, broker.id, settings))
        assert len(changes) <= state.topics.isr_count(broker.id), (broker.id, len(changes))
        last = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
        return Decision(UnregisterBrokerResponse(error_message=""), (*changes, last), atomic=False)

    return command


def unregister_ahead(
    state: ClusterState,
    request: UnregisterBrokerRequest,
    *,
    settings: ControllerSettings,
    limits: ChunkLimits = DEFAULT_LIMITS,
) -> Iterator[Command[None]]:
    """Yields commands to run before `unregister_broker`: the broker leaves its ISRs in chunks.

    It yields none if few partitions change, and stops once another process has registered. Request each command after
    the one before is decided, on the same `state`. See `chunked_change`.
    """
    broker = state.brokers.get(request.broker_id)
    if broker is None or state.topics.isr_count(broker.id) <= limits.changed_max:
        return
    for keys in chunks_of(state, broker.id, in_isr(broker.id), limits):
        yield _out_of(keys, broker, settings)


def _out_of(keys: Sequence[Key], broker: Broker, settings: ControllerSettings) -> Command[None]:
    """Returns the command that removes the broker from the ISRs of these partitions.

    It leaves out a partition that would be without a leader then.
    """

    def command(state: ClusterState, _: Moment) -> Decision[None]:
        if epoch_of(state, broker.id) != broker.epoch:
            return Decision(None)
        among = (found for found in present(state, keys) if broker.id in found.partition.isr)
        changes = tuple(leaving(state, broker.id, settings, among))
        assert len(changes) <= len(keys), (broker.id, len(changes), len(keys))
        return Decision(None, tuple(change for change in changes if change.leader != NO_LEADER))

    return command
