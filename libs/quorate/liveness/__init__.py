"""Which brokers are alive, and what each may do next: pure data, with time as an argument.

sessions        when each broker was last heard of, and who is late; trackers merged by the larger
control_state   fenced, unfenced, shutting down: what a heartbeat changes (KIP-631)
"""

from quorate.liveness.control_state import ControlState, Registration, Transition, check_epoch, decide
from quorate.liveness.sessions import (
    SESSION_TIMEOUT_MS,
    UNKNOWN_OFFSET,
    Contact,
    Sessions,
    merged,
    on_our_clock,
)

__all__ = [
    "SESSION_TIMEOUT_MS",
    "UNKNOWN_OFFSET",
    "Contact",
    "ControlState",
    "Registration",
    "Sessions",
    "Transition",
    "check_epoch",
    "decide",
    "merged",
    "on_our_clock",
]
