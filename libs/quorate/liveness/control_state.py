"""What a broker may do next: fenced, unfenced, or on its way out. KIP-631.

                  caught up, wants no fence
        ┌────────┐ ───────────────────────► ┌──────────┐  wants to shut down,  ┌─────────────────────┐
        │ FENCED │                          │ UNFENCED │  leads something      │ CONTROLLED_SHUTDOWN │
        └────────┘ ◄─────────────────────── └──────────┘ ────────────────────► └─────────────────────┘
            │       wants a fence, or late       │ wants to shut down,               │ leads nothing, and
            │ wants to                           │ leads nothing, or wants           │ the active brokers
            │ shut down                          ▼ a fence as well                   │ know who does
            └───────────────────────────► SHUTDOWN_NOW ◄─────────────────────────────┘

A heartbeat says what the broker wants; the registration says what it is. Lateness is `sessions`' affair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from kraft import Uuid
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Epoch, NodeId, Offset


class ControlState(Enum):
    """What a broker is allowed to be."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        """May it lead nothing, and be in no ISR? The last step of a shutdown fences it."""
        return self in (ControlState.FENCED, ControlState.SHUTDOWN_NOW)

    @property
    def is_active(self) -> bool:
        """May it be given leaderships?"""
        return self is ControlState.UNFENCED


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What the log says of a broker. `offset` is that of its RegisterBrokerRecord."""

    broker_epoch: Epoch
    offset: Offset
    fenced: bool
    in_controlled_shutdown: bool = False

    @property
    def state(self) -> ControlState:
        """A broker in controlled shutdown stays in it, fenced or not, until it registers anew."""
        if self.in_controlled_shutdown:
            return ControlState.CONTROLLED_SHUTDOWN
        return ControlState.FENCED if self.fenced else ControlState.UNFENCED


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What a heartbeat leads to. Where `next` is not `current`, records have to say so before it is answered.

    `offline_log_dirs` and `cordoned_log_dirs` are the heartbeat's own: whose partitions have to move
    is for the controller to find out (KIP-858).
    """

    current: ControlState
    next: ControlState
    is_caught_up: bool
    offline_log_dirs: tuple[Uuid, ...] = ()
    cordoned_log_dirs: tuple[Uuid, ...] | None = None

    @property
    def response(self) -> BrokerHeartbeatResponse:
        """The answer, once the change is committed."""
        return BrokerHeartbeatResponse(
            is_caught_up=self.is_caught_up,
            is_fenced=self.next.is_fenced,
            should_shut_down=self.next is ControlState.SHUTDOWN_NOW,
        )


def check_epoch(broker_id: NodeId, *, registration: Registration | None, broker_epoch: Epoch) -> Registration:
    """The registration that a request of `broker_epoch` speaks for. Raises ApiError(STALE_BROKER_EPOCH)."""
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
    registration: Registration | None,
    heartbeat: BrokerHeartbeatRequest,
    *,
    leads_any: Callable[[], bool],
    lowest_active_offset: Callable[[], Offset | None],
    shutdown_offset: Offset | None,
) -> Transition:
    """What the broker becomes by this heartbeat.

    `leads_any`: does the broker lead a partition? `lowest_active_offset`: what all active brokers have
    applied, inclusive; None if there are none (`Sessions.lowest_metadata_offset`). Both may be costly, so
    they are asked only on the way out. `shutdown_offset`: as `Sessions.shutdown_offset`; None while not known.

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
    return Transition(
        current=current,
        next=next_state,
        is_caught_up=is_caught_up,
        offline_log_dirs=heartbeat.offline_log_dirs,
        cordoned_log_dirs=heartbeat.cordoned_log_dirs,
    )


def _from_fenced(heartbeat: BrokerHeartbeatRequest, *, is_caught_up: bool) -> ControlState:
    """A fenced broker leads nothing, so it may go at once; it may come in once it knows of its own registration."""
    if heartbeat.want_shut_down:
        return ControlState.SHUTDOWN_NOW
    if heartbeat.want_fence or not is_caught_up:
        return ControlState.FENCED
    return ControlState.UNFENCED


def _from_unfenced(heartbeat: BrokerHeartbeatRequest, leads_any: Callable[[], bool]) -> ControlState:
    """Wanting both a fence and to shut down means: do not wait for me."""
    if not heartbeat.want_shut_down:
        return ControlState.FENCED if heartbeat.want_fence else ControlState.UNFENCED
    if heartbeat.want_fence or not leads_any():
        return ControlState.SHUTDOWN_NOW
    return ControlState.CONTROLLED_SHUTDOWN


def _from_controlled_shutdown(
    leads_any: Callable[[], bool], lowest_active_offset: Callable[[], Offset | None], shutdown_offset: Offset | None
) -> ControlState:
    """There is no way back, whatever the heartbeat wants.

    Kafka lets the broker go where the offset is not known, as after a failover of the controller. Then active
    brokers may still take it for a leader, so we have it wait one heartbeat more, until the caller has remembered one.
    """
    if leads_any() or shutdown_offset is None:
        return ControlState.CONTROLLED_SHUTDOWN
    lowest = lowest_active_offset()
    if lowest is None or shutdown_offset <= lowest:
        return ControlState.SHUTDOWN_NOW
    return ControlState.CONTROLLED_SHUTDOWN
