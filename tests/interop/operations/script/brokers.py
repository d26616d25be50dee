"""Brokers arrive: what a registration may not say, and the answers to heartbeats."""

from __future__ import annotations

from typing import Any, Final

from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.errors import ErrorCode as E
from quorate.metadata.features import supported_features
from quorate.nouns import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, ZERO_UUID
from tests.interop.operations.names import BROKERS, directory, incarnation
from tests.interop.operations.script.ask import beat, but_ours, register
from tests.interop.operations.step import Beat, Step, Until, View

STRANGER: Final = 999
LISTENER: Final = BrokerRegistrationRequest.Listener("PLAINTEXT", "127.0.0.1", 9101)


def without(feature: str) -> dict[str, Any]:
    """What a broker supports, but for one feature."""
    return {name: levels for name, levels in supported_features().items() if name != feature}


def all_active(view: View) -> bool:
    return {broker.id for broker in view.state.brokers.active()} == set(BROKERS)


SCRIPT: Final[tuple[Step, ...]] = (
    register("of another cluster", 101, E.INCONSISTENT_CLUSTER_ID, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ"),
    register("without a cluster", 101, E.INCONSISTENT_CLUSTER_ID, cluster_id=""),
    register("without directories", 101, E.INVALID_REGISTRATION, log_dirs=()),
    register("a directory twice", 101, E.INVALID_REGISTRATION, log_dirs=(directory(101), directory(101))),
    register("a reserved directory, unassigned", 101, E.INVALID_REGISTRATION, log_dirs=(UNASSIGNED_DIRECTORY,)),
    register("a reserved directory, lost", 101, E.INVALID_REGISTRATION, log_dirs=(LOST_DIRECTORY, directory(101))),
    register("a reserved directory, zero", 101, E.INVALID_REGISTRATION, log_dirs=(ZERO_UUID,)),
    register("a broker in ZooKeeper mode", 101, E.BROKER_ID_NOT_REGISTERED, is_migrating_zk_broker=True),
    register("too old a metadata.version", 101, E.UNSUPPORTED_VERSION, features={"metadata.version": (1, 7)}),
    register("too new a metadata.version", 101, E.UNSUPPORTED_VERSION, features={"metadata.version": (33, 40)}),
    register("no metadata.version", 101, E.INVALID_REGISTRATION, features=without("metadata.version")),
    register("no transaction.version", 101, E.UNSUPPORTED_VERSION, features=without("transaction.version")),
    register("no features at all", 101, E.INVALID_REGISTRATION, features={}),
    beat("a heartbeat before the registration", 101, E.STALE_BROKER_EPOCH),
    but_ours(register("without listeners", 101, listeners=()), E.INVALID_REGISTRATION),
    but_ours(register("a listener twice", 101, listeners=(LISTENER, LISTENER)), E.INVALID_REGISTRATION),
    *(register(f"broker {broker_id} registers", broker_id) for broker_id in BROKERS),
    register("another broker's directory", STRANGER, E.INVALID_REGISTRATION, log_dirs=(directory(101),)),
    register("the same process again", 101),
    register("another process before the first is heard of", 101, process=1),
    register("the first process again", 101),
    beat("not caught up yet", 101, current_metadata_offset=0),
    beat("wants to stay fenced", 101, want_fence=True),
    beat("of an epoch that is over", 101, E.STALE_BROKER_EPOCH, broker_epoch=0),
    beat("of an epoch to come", 101, E.STALE_BROKER_EPOCH, broker_epoch=1_000_000),
    beat("of nobody", STRANGER, E.STALE_BROKER_EPOCH),
    beat("caught up", 101),
    beat("caught up, and again", 101),
    register("another process while the first is there", 101, E.DUPLICATE_BROKER_REGISTRATION, process=1),
    Beat(name="the brokers are heard of", begin=BROKERS),
    Until(name="all brokers are there", holds=all_active),
    register("the same process while it is there", 101, incarnation_id=incarnation(101)),
)
