"""Features go up and down, producer ids are given out, brokers and controllers are unregistered; and what there is."""

from __future__ import annotations

from typing import Final

from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from kraft.api.unregister_controller import UnregisterControllerRequest
from kraft.errors import ErrorCode as E
from quorate.metadata.features import supported_features
from tests.interop.operations.names import incarnation
from tests.interop.operations.script.ask import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    allocate_ids,
    alter_isr,
    ask,
    is_so,
    update,
)
from tests.interop.operations.step import Ask, Beat, Step

ELR: Final = "eligible.leader.replicas.version"
MV: Final = "metadata.version"

PRODUCER_IDS: Final[tuple[Step, ...]] = (
    allocate_ids("a block of ids", 101),
    allocate_ids("another block", 102),
    allocate_ids("an epoch that is over, for ids", 101, E.STALE_BROKER_EPOCH, broker_epoch=0),
    allocate_ids("an epoch to come, for ids", 101, E.STALE_BROKER_EPOCH, broker_epoch=1_000_000),
    allocate_ids("a broker unknown, for ids", 999, E.STALE_BROKER_EPOCH),
)

FEATURES: Final[tuple[Step, ...]] = (
    update("ELR goes off", (ELR, 0, SAFE_DOWNGRADE)),
    is_so(update("it is off", (ELR, 0, SAFE_DOWNGRADE))),
    is_so(update("it is off, upgraded", (ELR, 0, UPGRADE))),
    update("ELR goes on", (ELR, 1, UPGRADE)),
    update("too high", (ELR, 2, UPGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("a negative level", (ELR, -1, UPGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("down, though it says up", (ELR, 0, UPGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("a feature unknown", ("no.such.feature", 1, UPGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("a way unknown", (ELR, 1, 9), errors=[E.INVALID_UPDATE_VERSION]),
    is_so(update("a feature twice", (ELR, 0, SAFE_DOWNGRADE), (ELR, 1, UPGRADE))),
    update("no feature", ("", 1, UPGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("no changes"),
    update("several at once", ("group.version", 0, SAFE_DOWNGRADE), ("share.version", 0, SAFE_DOWNGRADE)),
    update(
        "good and bad at once",
        ("group.version", 1, UPGRADE),
        ("share.version", 9, UPGRADE),
        errors=[E.INVALID_UPDATE_VERSION],
    ),
    update("one good, to see", ("group.version", 1, UPGRADE), dry=True),
    update("several, back again", ("group.version", 1, UPGRADE), ("share.version", 1, UPGRADE)),
    update("too old", (MV, 6, UNSAFE_DOWNGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("too new", (MV, 34, UPGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    is_so(update("the same level", (MV, 30, UPGRADE))),
    update("down without leave", (MV, 29, UPGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("down safely, though something is lost", (MV, 29, SAFE_DOWNGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("down unsafely", (MV, 29, UNSAFE_DOWNGRADE), errors=[E.INVALID_UPDATE_VERSION]),
    update("to see the newest", (MV, 33, UPGRADE), dry=True),
    update("to the newest", (MV, 33, UPGRADE)),
)


def unregister(name: str, broker_id: int, *errors: E) -> Ask:
    return ask(name, UnregisterBrokerRequest(broker_id), *errors)


def controller(name: str, controller_id: int, *errors: E, process: int = 0, without: str = "") -> Ask:
    """ControllerRegistration of one that is not in the quorum."""
    kind = ControllerRegistrationRequest
    ranges = {each: levels for each, levels in supported_features().items() if each != without}
    request = kind(
        controller_id=controller_id,
        incarnation_id=incarnation(controller_id, process),
        listeners=(kind.Listener("CONTROLLER", "127.0.0.1", 9900),),
        features=tuple(kind.Feature(each, *levels) for each, levels in ranges.items()),
    )
    return ask(name, request, *errors)


MEMBERS: Final[tuple[Step, ...]] = (
    Beat(name="104 is heard of no more", end=(104,)),
    unregister("104 is unregistered", 104),
    unregister("104 is unregistered again", 104, E.BROKER_ID_NOT_REGISTERED),
    unregister("a broker unknown, unregistered", 999, E.BROKER_ID_NOT_REGISTERED),
    unregister("a negative broker, unregistered", -1, E.BROKER_ID_NOT_REGISTERED),
    alter_isr("by one that was unregistered", "orders", [101, 102, 103], E.STALE_BROKER_EPOCH, leader=104),
    controller("another controller", 9),
    controller("another controller, again", 9),
    controller("its next process", 9, process=1),
    controller("one that supports less", 10, without=MV),
    ask("a controller is unregistered", UnregisterControllerRequest(9)),
    ask("it is unregistered again", UnregisterControllerRequest(9), E.CONTROLLER_ID_NOT_REGISTERED),
    ask("the one that supports less is unregistered", UnregisterControllerRequest(10)),
    ask("the active one, by itself", lambda view: UnregisterControllerRequest(view.active_id), E.INVALID_REQUEST),
    ask("the controllers there are", DescribeClusterRequest(endpoint_type=2), masks=["host", "port", "controllerId"]),
    ask(
        "an endpoint type unknown",
        DescribeClusterRequest(endpoint_type=3),
        E.UNSUPPORTED_ENDPOINT_TYPE,
        masks=["controllerId"],
    ),
)

SCRIPT: Final[tuple[Step, ...]] = (*PRODUCER_IDS, *FEATURES, *MEMBERS)
