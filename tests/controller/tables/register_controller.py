"""ControllerRegistration (70)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft.api.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.records import RegisterControllerRecord
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.table import Row, Table

Listener = ControllerRegistrationRequest.Listener
Feature = ControllerRegistrationRequest.Feature
EndPoint = RegisterControllerRecord.ControllerEndpoint
Level = RegisterControllerRecord.ControllerFeature
PLAIN, TLS = Listener("CONTROLLER", "c1", 9093, 0), Listener("TLS", "c1", 9094, 1)
AT_PLAIN, AT_TLS = EndPoint("CONTROLLER", "c1", 9093, 0), EndPoint("TLS", "c1", 9094, 1)


def nobody() -> Cluster:
    """No controller; metadata.version 4.0-IV3."""
    return Cluster(25)


def first_level() -> Cluster:
    """No controller; metadata.version 3.7-IV0."""
    return Cluster(15)


def too_old() -> Cluster:
    """No controller; metadata.version 3.6-IV2."""
    return Cluster(14)


def one() -> Cluster:
    """Controller 3001, which listens on CONTROLLER."""
    cluster = nobody()
    cluster.write(register_controller(asked(PLAIN)))
    return cluster


def asked(*listeners: Listener, **changes: Any) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        **{"controller_id": 3001, "incarnation_id": uuid(1), "listeners": listeners, **changes}
    )


def registered(*end_points: EndPoint, incarnation: int = 1, features: Sequence[Level] = ()) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=3001,
        incarnation_id=uuid(incarnation),
        zk_migration_ready=False,
        end_points=end_points,
        features=tuple(features),
    )


def command(_: Cluster, request: ControllerRegistrationRequest) -> Command[Any]:
    return register_controller(request)


DONE = ControllerRegistrationResponse(error_message="")
INVALID = ErrorCode.INVALID_REGISTRATION
REGISTER = "ClusterControlManager.registerController"
LISTENERS = "ListenerInfo.fromControllerRegistrationRequest"

TABLE = Table(
    api="ControllerRegistration",
    kafka="ClusterControlManager.registerController (KIP-919)",
    command=command,
    given=nobody,
    rows=(
        Row(
            case="for the first time",
            rule=f"{REGISTER}: as it says of itself, in its order (KIP-919).",
            request=asked(TLS, PLAIN, features=(Feature("metadata.version", 7, 33), Feature("kraft.version", 0, 1))),
            records=(
                registered(AT_TLS, AT_PLAIN, features=(Level("metadata.version", 7, 33), Level("kraft.version", 0, 1))),
            ),
            answer=DONE,
        ),
        Row(
            case="at the first level that has it",
            rule="MetadataVersion.isControllerRegistrationSupported: from 3.7-IV0 on (KIP-919).",
            given=first_level,
            request=asked(PLAIN),
            records=(registered(AT_PLAIN),),
            answer=DONE,
        ),
        Row(
            case="another process",
            rule=f"{REGISTER}: the later one replaces the earlier.",
            given=one,
            request=asked(TLS, incarnation_id=uuid(2)),
            records=(registered(AT_TLS, incarnation=2),),
            answer=DONE,
        ),
        Row(
            case="as it is registered",
            rule=f"{REGISTER}: written again.",
            given=one,
            request=asked(PLAIN),
            records=(registered(AT_PLAIN),),
            answer=DONE,
        ),
        Row(
            case="ready to migrate from ZooKeeper",
            rule=f"{REGISTER}: nobody is, whatever is asked.",
            request=asked(PLAIN, zk_migration_ready=True),
            records=(registered(AT_PLAIN),),
            answer=DONE,
        ),
        Row(
            case="below the first level, and no listener",
            rule=f"{REGISTER}: the level is looked at first.",
            given=too_old,
            request=asked(),
            answer=ErrorCode.UNSUPPORTED_VERSION,
        ),
        Row(
            case="no listener",
            rule=f"{LISTENERS}: known by name; Kafka takes none, here there has to be one.",
            request=asked(),
            answer=INVALID,
        ),
        Row(
            case="a listener twice",
            rule=f"{LISTENERS}: known by name; Kafka keeps the last, here none is lost.",
            request=asked(PLAIN, Listener("CONTROLLER", "c2", 9093, 0)),
            answer=INVALID,
        ),
        Row(
            case="a listener without a name",
            rule=f"{LISTENERS}: known by name; Kafka takes an empty one.",
            request=asked(PLAIN, Listener("", "c1", 9095, 0)),
            answer=INVALID,
        ),
    ),
)
