"""UnregisterBroker (64): an operator takes a broker out of the cluster. KIP-631."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraft.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from quorate.controller.broker_changes import leaving
from quorate.controller.decision import Command, Decision, Moment
from quorate.controller.fan_out import DEFAULT_TURN, Key, Turn, bites_of, epoch_of, in_isr, present
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.records import UnregisterBrokerRecord

__all__ = ["unregister_ahead", "unregister_broker"]


def unregister_broker(request: UnregisterBrokerRequest, *, settings: Settings) -> Command[UnregisterBrokerResponse]:
    """The command that unregisters a broker, alive or not. Its replicas stay where they are assigned.

    Raises ApiError(BROKER_ID_NOT_REGISTERED).
    """

    def command(state: ClusterState, _: Moment) -> Decision[UnregisterBrokerResponse]:
        broker = state.brokers.get(request.broker_id)
        if broker is None:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
        changes = leaving(state, broker.id, settings)
        last = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
        return Decision(UnregisterBrokerResponse(error_message=None), (*changes, last), atomic=False)

    return command


def unregister_ahead(
    state: ClusterState, request: UnregisterBrokerRequest, *, settings: Settings, turn: Turn = DEFAULT_TURN
) -> Iterator[Command[None]]:
    """What is written before `unregister_broker`, turn by turn, if that alone is too much: see `fan_out`.

    Nothing more once another process has registered. Each command is to be taken when the one before is decided, in
    the same `state`.
    """
    broker = state.brokers.get(request.broker_id)
    if broker is None or state.topics.isr_count(broker.id) <= turn.changed_max:
        return
    for keys in bites_of(state, broker.id, in_isr(broker.id), turn):
        yield _out_of(keys, broker, settings)


def _out_of(keys: Sequence[Key], broker: Broker, settings: Settings) -> Command[None]:
    """Out of the ISRs of these partitions, but for those that nobody else could lead."""

    def command(state: ClusterState, _: Moment) -> Decision[None]:
        if epoch_of(state, broker.id) != broker.epoch:
            return Decision(None)
        among = (found for found in present(state, keys) if broker.id in found.partition.isr)
        changes = leaving(state, broker.id, settings, among)
        return Decision(None, tuple(change for change in changes if change.leader != NO_LEADER))

    return command
