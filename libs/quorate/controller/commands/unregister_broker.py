"""UnregisterBroker (64): an operator strikes a broker off. KIP-631."""

from __future__ import annotations

from kraft.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from quorate.controller.broker_changes import leaving
from quorate.controller.decision import Command, Decision, Moment
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.records import UnregisterBrokerRecord

__all__ = ["unregister_broker"]


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
