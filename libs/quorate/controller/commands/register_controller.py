"""ControllerRegistration (70): registers a controller with its listeners and features. KIP-919."""

from __future__ import annotations

from kraft.api.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import CONTROLLER_REGISTRATION, release_of
from quorate.records import RegisterControllerRecord

__all__ = ["register_controller"]


def register_controller(request: ControllerRegistrationRequest) -> Command[ControllerRegistrationResponse]:
    """Returns the command that registers the controller of `request`; a later registration replaces an earlier one.

    The command raises ApiError: UNSUPPORTED_VERSION below metadata.version 3.7-IV0; INVALID_REGISTRATION if there is no
    listener, or one without a name of its own.
    """

    def command(state: ClusterState, _: Moment) -> Decision[ControllerRegistrationResponse]:
        _check(state, request)
        return Decision(ControllerRegistrationResponse(error_message=""), (_record(request),))

    return command


def _check(state: ClusterState, request: ControllerRegistrationRequest) -> None:
    level = state.features.record_level
    if level < CONTROLLER_REGISTRATION:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"controllers register from metadata.version {release_of(CONTROLLER_REGISTRATION)} on; "
            f"this cluster is at {release_of(level)}",
        )
    names = [listener.name for listener in request.listeners]
    if not names or "" in names or len(set(names)) != len(names):
        raise ApiError(
            ErrorCode.INVALID_REGISTRATION,
            f"controller {request.controller_id} names the listeners {names}; "
            "it must have at least one, each with its own name",
        )


def _record(request: ControllerRegistrationRequest) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,  # Kafka writes false, whatever the request says: ZooKeeper is gone.
        end_points=tuple(
            RegisterControllerRecord.ControllerEndpoint(
                listener.name, listener.host, listener.port, listener.security_protocol
            )
            for listener in request.listeners
        ),
        features=tuple(
            RegisterControllerRecord.ControllerFeature(
                feature.name, feature.min_supported_version, feature.max_supported_version
            )
            for feature in request.features
        ),
    )
