"""UnregisterController (94)."""

from __future__ import annotations

from typing import Any

from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.unregister_controller import unregister_controller
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.records import UnregisterControllerRecord
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.table import Row, Table

Listener = ControllerRegistrationRequest.Listener


def two_controllers(level: int = 33) -> Cluster:
    """Controllers 3000, which is active, and 3001; metadata.version 4.4-IV2."""
    cluster = Cluster(level)
    for controller_id in (3000, 3001):
        listeners = (Listener("CONTROLLER", f"c{controller_id}", 9093, 0),)
        cluster.write(
            register_controller(ControllerRegistrationRequest(controller_id, uuid(controller_id), listeners=listeners))
        )
    return cluster


def too_old() -> Cluster:
    """The same at metadata.version 4.4-IV1."""
    return two_controllers(32)


def one_gone() -> Cluster:
    """The same at 4.4-IV2, 3001 is unregistered."""
    cluster = two_controllers()
    cluster.write(command(cluster, asked(3001)))
    return cluster


def asked(controller_id: int) -> UnregisterControllerRequest:
    return UnregisterControllerRequest(controller_id)


def command(_: Cluster, request: UnregisterControllerRequest, active_id: int = 3000) -> Command[Any]:
    return unregister_controller(request, active_id=active_id)


DONE = UnregisterControllerResponse(error_message="")
UNREGISTER = "ClusterControlManager.unregisterController"
ACTIVE = "QuorumController.unregisterController: not the active one"

TABLE = Table(
    api="UnregisterController",
    kafka="QuorumController.unregisterController, ClusterControlManager.unregisterController (KIP-1312)",
    command=command,
    given=two_controllers,
    rows=(
        Row(
            case="one that is registered",
            rule=f"{UNREGISTER} (KIP-1312).",
            request=asked(3001),
            records=(UnregisterControllerRecord(3001),),
            answer=DONE,
        ),
        Row(
            case="the one that was active before",
            rule=f"{ACTIVE}; any other, alive or not.",
            request=asked(3000),
            beside={"active_id": 3001},
            records=(UnregisterControllerRecord(3000),),
            answer=DONE,
        ),
        Row(
            case="the active one",
            rule=f"{ACTIVE}.",
            request=asked(3000),
            answer=ErrorCode.INVALID_REQUEST,
        ),
        Row(
            case="the active one, at a level that does not have it",
            rule=f"{ACTIVE}, which is looked at first.",
            given=too_old,
            request=asked(3000),
            answer=ErrorCode.INVALID_REQUEST,
        ),
        Row(
            case="nobody, at a level that does not have it",
            rule=f"{UNREGISTER}: the level is looked at before the id; from 4.4-IV2 on.",
            given=too_old,
            request=asked(3002),
            answer=ErrorCode.UNSUPPORTED_VERSION,
        ),
        Row(
            case="nobody",
            rule=f"{UNREGISTER}: ControllerIdNotRegisteredException.",
            request=asked(3002),
            answer=ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
        ),
        Row(
            case="one that has been struck off",
            rule=f"{UNREGISTER}: ControllerIdNotRegisteredException.",
            given=one_gone,
            request=asked(3001),
            answer=ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
        ),
    ),
)
