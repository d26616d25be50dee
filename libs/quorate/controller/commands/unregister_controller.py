"""UnregisterController (94): removes a controller's registration from the cluster. KIP-1312."""

from __future__ import annotations

from kraft.api.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import CONTROLLER_UNREGISTRATION, release_of
from quorate.nouns import NodeId
from quorate.records import UnregisterControllerRecord

__all__ = ["unregister_controller"]


def unregister_controller(
    request: UnregisterControllerRequest, *, active_id: NodeId
) -> Command[UnregisterControllerResponse]:
    """Returns the command that unregisters a controller; a live controller registers again.

    The command raises ApiError: INVALID_REQUEST for `active_id`, the active controller, which others find by its
    registration; UNSUPPORTED_VERSION below metadata.version 4.4-IV2; CONTROLLER_ID_NOT_REGISTERED.
    """

    def command(state: ClusterState, _: Moment) -> Decision[UnregisterControllerResponse]:
        if request.controller_id == active_id:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"controller {active_id} is active, and cannot unregister itself; another has to lead first",
                {"field": "controller_id"},
            )
        level = state.features.record_level
        if level < CONTROLLER_UNREGISTRATION:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"controllers are unregistered from metadata.version {release_of(CONTROLLER_UNREGISTRATION)} on; "
                f"this cluster is at {release_of(level)}",
            )
        if request.controller_id not in state.controllers:
            raise ApiError(
                ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"controller {request.controller_id} is not registered"
            )
        record = UnregisterControllerRecord(controller_id=request.controller_id)
        return Decision(UnregisterControllerResponse(error_message=""), (record,))

    return command
