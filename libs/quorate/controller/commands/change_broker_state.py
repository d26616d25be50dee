"""ChangeBrokerState: the heartbeat service has seen that a broker has to be fenced, let in, or let go. KIP-631.

Kafka decides this inside its heartbeat handler. Here the heartbeat service only proposes: what a broker leads and
whether it is fenced is the log's to say, so the decision is made on the state at hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import assert_never

from kraft import Message, Uuid
from quorate.controller.broker_changes import joining, leaving, losing
from quorate.controller.decision import Command, Decision, Moment
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.brokers import Broker
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import CORDONED_DIRECTORIES, DIRECTORIES
from quorate.nouns import NodeId
from quorate.records import BrokerRegistrationChangeRecord

__all__ = ["BrokerStateChanged", "change_broker_state"]

_FENCE, _UNFENCE, _SHUT_DOWN = 1, -1, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStateChanged:
    """The state that the broker is in once this is committed; not always the one that was asked for."""

    state: ControlState


def change_broker_state(
    *,
    broker_id: NodeId,
    broker_epoch: int,
    target: ControlState,
    settings: Settings,
    offline_log_dirs: Collection[Uuid] = (),
    cordoned_log_dirs: Collection[Uuid] | None = None,
) -> Command[BrokerStateChanged]:
    """The command that brings the broker to `target`, or as near as may be, and notes what became of its directories.

    A broker that leads nothing need not wait: asked into CONTROLLED_SHUTDOWN it may go at once. One in
    CONTROLLED_SHUTDOWN that still leads stays there; one that is not, and wants to go at once, is fenced. There is no
    way back from CONTROLLED_SHUTDOWN to UNFENCED but a new registration.

    Raises ApiError: BROKER_ID_NOT_REGISTERED; STALE_BROKER_EPOCH for another registration than the present one.
    """

    def command(state: ClusterState, _: Moment) -> Decision[BrokerStateChanged]:
        broker = _checked(state, broker_id, broker_epoch)
        reached = _reachable(state, broker, target)
        records = (
            *_records(state, broker, reached, settings),
            *_lost(state, broker, offline_log_dirs, settings),
            *_cordoned(state, broker, cordoned_log_dirs),
        )
        return Decision(BrokerStateChanged(state=reached), records, atomic=False)

    return command


def _checked(state: ClusterState, broker_id: NodeId, broker_epoch: int) -> Broker:
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered in broker epoch {broker.epoch}; the change is for epoch {broker_epoch}",
        )
    return broker


def _reachable(state: ClusterState, broker: Broker, target: ControlState) -> ControlState:
    leads = state.topics.leader_count(broker.id) > 0
    match target:
        case ControlState.FENCED:
            return ControlState.FENCED
        case ControlState.UNFENCED:
            if broker.in_controlled_shutdown:
                return ControlState.FENCED if broker.fenced else ControlState.CONTROLLED_SHUTDOWN
            return ControlState.UNFENCED
        case ControlState.CONTROLLED_SHUTDOWN:
            # Who is in it waits until the others know its successors: that is for the heartbeat service to see.
            waits = (leads or broker.in_controlled_shutdown) and not broker.fenced
            return ControlState.CONTROLLED_SHUTDOWN if waits else ControlState.SHUTDOWN_NOW
        case ControlState.SHUTDOWN_NOW:
            waits = leads and broker.in_controlled_shutdown and not broker.fenced
            return ControlState.CONTROLLED_SHUTDOWN if waits else ControlState.SHUTDOWN_NOW
        case _:
            assert_never(target)


def _records(state: ClusterState, broker: Broker, reached: ControlState, settings: Settings) -> Iterator[Message]:
    """In Kafka's order: out of the ISRs before it is fenced, unfenced before it leads."""
    match reached:
        case ControlState.FENCED | ControlState.SHUTDOWN_NOW:
            if not broker.fenced:
                yield from leaving(state, broker.id, settings)
                yield _change(broker, fenced=_FENCE)
        case ControlState.UNFENCED:
            if broker.fenced:
                yield _change(broker, fenced=_UNFENCE)
                yield from joining(state, broker.id, settings)
        case ControlState.CONTROLLED_SHUTDOWN:
            if not broker.in_controlled_shutdown:
                yield _change(broker, in_controlled_shutdown=_SHUT_DOWN)
                yield from leaving(state, broker.id, settings)
        case _:
            assert_never(reached)


def _lost(state: ClusterState, broker: Broker, offline: Collection[Uuid], settings: Settings) -> Iterator[Message]:
    """Those that are known are struck off, after their partitions have gone elsewhere; from 3.7-IV2 on. KIP-858."""
    failed = tuple(directory for directory in broker.log_dirs if directory in offline)
    if failed and state.features.record_level >= DIRECTORIES:
        yield from losing(state, broker.id, failed, settings)
        left = tuple(directory for directory in broker.log_dirs if directory not in offline)
        yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)


def _cordoned(state: ClusterState, broker: Broker, cordoned: Collection[Uuid] | None) -> Iterator[Message]:
    """What the broker says, if it is news; from 4.3-IV0 on. KIP-1066."""
    known = broker.cordoned_log_dirs
    is_news = cordoned is not None and (known is None or set(known) != set(cordoned))
    if is_news and state.features.record_level >= CORDONED_DIRECTORIES:
        yield BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=tuple(cordoned or ())
        )


def _change(broker: Broker, *, fenced: int = 0, in_controlled_shutdown: int = 0) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=fenced, in_controlled_shutdown=in_controlled_shutdown
    )
