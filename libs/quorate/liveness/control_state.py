"""The control states of a broker and their transitions at a heartbeat: fenced, unfenced, shutting down. KIP-631.

                  caught up, wants no fence
        ┌────────┐ ───────────────────────► ┌──────────┐  wants to shut down,  ┌─────────────────────┐
        │ FENCED │                          │ UNFENCED │  leads something      │ CONTROLLED_SHUTDOWN │
        └────────┘ ◄─────────────────────── └──────────┘ ────────────────────► └─────────────────────┘
            │       wants a fence, or late       │ wants to shut down,               │ leads nothing, and
            │ wants to                           │ leads nothing, or wants           │ the active brokers
            │ shut down                          ▼ a fence as well                   │ know who does
            └───────────────────────────► SHUTDOWN_NOW ◄─────────────────────────────┘

A heartbeat has what the broker wants; the registration has its present state. `sessions` detects missing heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from kraft import Uuid
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Epoch, NodeId, Offset


class ControlState(Enum):
    """The control state of a broker, as in Kafka's BrokerControlState."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        """Whether the broker leads nothing and is in no ISR; the last step of a shutdown fences it."""
        return self in (ControlState.FENCED, ControlState.SHUTDOWN_NOW)

    @property
    def is_active(self) -> bool:
        """Whether the broker may become a leader."""
        return self is ControlState.UNFENCED


CONTROL_STATE_NUMBERS: Final = {
    ControlState.FENCED: 1,
    ControlState.UNFENCED: 2,
    ControlState.CONTROLLED_SHUTDOWN: 3,
    ControlState.SHUTDOWN_NOW: 4,
}
"""The number of each control state in the proto enum kraft.service.BrokerControlState, where 0 is unspecified."""

assert sorted(CONTROL_STATE_NUMBERS.values()) == [*range(1, len(ControlState) + 1)], CONTROL_STATE_NUMBERS


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBroker:
    """A broker's registration in the metadata log; `offset` is that of its RegisterBrokerRecord."""

    broker_epoch: Epoch
    offset: Offset
    fenced: bool
    in_controlled_shutdown: bool = False

    @property
    def state(self) -> ControlState:
        """The control state. A broker in controlled shutdown stays in it, fenced or not, until it registers again."""
        if self.in_controlled_shutdown:
            return ControlState.CONTROLLED_SHUTDOWN
        return ControlState.FENCED if self.fenced else ControlState.UNFENCED


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTransition:
    """The result of a heartbeat. If `next` differs from `current`, records must commit the change before the response.

    `offline_log_dirs` and `cordoned_log_dirs` are copied from the heartbeat; the controller decides which partitions
    must move (KIP-858).
    """

    current: ControlState
    next: ControlState
    is_caught_up: bool
    offline_log_dirs: tuple[Uuid, ...] = ()
    cordoned_log_dirs: tuple[Uuid, ...] | None = None

    @property
    def response(self) -> BrokerHeartbeatResponse:
        """The heartbeat's response, to be sent once the change is committed."""
        return BrokerHeartbeatResponse(
            is_caught_up=self.is_caught_up,
            is_fenced=self.next.is_fenced,
            should_shut_down=self.next is ControlState.SHUTDOWN_NOW,
        )


def check_epoch(broker_id: NodeId, *, registration: RegisteredBroker | None, broker_epoch: Epoch) -> RegisteredBroker:
    """Returns the registration if it has this broker epoch. Raises ApiError(STALE_BROKER_EPOCH)."""
    if registration is None:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is not registered, so broker epoch {broker_epoch} is not its epoch",
        )
    if registration.broker_epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} has broker epoch {registration.broker_epoch}, not {broker_epoch}",
        )
    return registration


def decide(
    registration: RegisteredBroker | None,
    heartbeat: BrokerHeartbeatRequest,
    *,
    leads_any: Callable[[], bool],
    lowest_active_offset: Callable[[], Offset | None],
    shutdown_offset: Offset | None,
) -> BrokerTransition:
    """Returns the transition of a broker's control state at a heartbeat.

    `leads_any` returns whether the broker leads a partition. `lowest_active_offset` returns the offset that all active
    brokers have applied, inclusive; None if there are none (`Sessions.lowest_metadata_offset`). Both may be slow, so
    they are called only for a broker that shuts down. `shutdown_offset` is `Sessions.shutdown_offset`; None while
    unknown.

    Raises ApiError(STALE_BROKER_EPOCH) if the heartbeat is not of this registration.
    """
    registration = check_epoch(heartbeat.broker_id, registration=registration, broker_epoch=heartbeat.broker_epoch)
    is_caught_up = heartbeat.current_metadata_offset >= registration.offset
    current = registration.state
    match current:
        case ControlState.FENCED:
            next_state = _from_fenced(heartbeat, is_caught_up=is_caught_up)
        case ControlState.UNFENCED:
            next_state = _from_unfenced(heartbeat, leads_any)
        case ControlState.CONTROLLED_SHUTDOWN:
            next_state = _from_controlled_shutdown(leads_any, lowest_active_offset, shutdown_offset)
        case ControlState.SHUTDOWN_NOW:
            raise AssertionError(f"no registration says {current}: {registration}")
        case _:
            assert_never(current)
    return BrokerTransition(
        current=current,
        next=next_state,
        is_caught_up=is_caught_up,
        offline_log_dirs=heartbeat.offline_log_dirs,
        cordoned_log_dirs=heartbeat.cordoned_log_dirs,
    )


def _from_fenced(heartbeat: BrokerHeartbeatRequest, *, is_caught_up: bool) -> ControlState:
    """Returns the state after FENCED: SHUTDOWN_NOW, or UNFENCED once the broker has applied its own registration."""
    if heartbeat.want_shut_down:
        return ControlState.SHUTDOWN_NOW
    if heartbeat.want_fence or not is_caught_up:
        return ControlState.FENCED
    return ControlState.UNFENCED


def _from_unfenced(heartbeat: BrokerHeartbeatRequest, leads_any: Callable[[], bool]) -> ControlState:
    """Returns the state after UNFENCED; a broker that wants both to be fenced and to shut down shuts down at once."""
    if not heartbeat.want_shut_down:
        return ControlState.FENCED if heartbeat.want_fence else ControlState.UNFENCED
    if heartbeat.want_fence or not leads_any():
        return ControlState.SHUTDOWN_NOW
    return ControlState.CONTROLLED_SHUTDOWN


def _from_controlled_shutdown(
    leads_any: Callable[[], bool], lowest_active_offset: Callable[[], Offset | None], shutdown_offset: Offset | None
) -> ControlState:
    """Returns SHUTDOWN_NOW if the broker leads nothing and all active brokers know that; else CONTROLLED_SHUTDOWN.

    Kafka lets the broker stop if the shutdown offset is unknown, as after a controller failover. Then active brokers
    may still take it for a leader, so here it waits for one more heartbeat, until the caller has set the offset.
    """
    if leads_any() or shutdown_offset is None:
        return ControlState.CONTROLLED_SHUTDOWN
    lowest = lowest_active_offset()
    if lowest is None or shutdown_offset <= lowest:
        return ControlState.SHUTDOWN_NOW
    return ControlState.CONTROLLED_SHUTDOWN
