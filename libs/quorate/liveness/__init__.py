"""Broker liveness: the brokers' sessions and control states; pure data, with time as an argument.

attendance      the time in which this process could hear brokers
hush            the silence of all brokers at once
sessions        broker sessions: the last contact with each broker, and which sessions have expired
claim           which of several trackers counts the heartbeats
control_state   fenced, unfenced, controlled shutdown: what a heartbeat changes (KIP-631)
"""

from quorate.liveness.attendance import Attendance
from quorate.liveness.claim import CLAIM_EVERY_MS, CLAIM_LAPSES_MS, SESSION_LEAST_MS, Claimant, Claimed, SessionClaim
from quorate.liveness.control_state import (
    CONTROL_STATE_NUMBERS,
    BrokerTransition,
    ControlState,
    RegisteredBroker,
    check_epoch,
    decide,
)
from quorate.liveness.hush import Hush
from quorate.liveness.sessions import (
    SESSION_TIMEOUT_MS,
    UNKNOWN_OFFSET,
    Contact,
    Sessions,
)

__all__ = [
    "CLAIM_EVERY_MS",
    "CLAIM_LAPSES_MS",
    "CONTROL_STATE_NUMBERS",
    "SESSION_LEAST_MS",
    "SESSION_TIMEOUT_MS",
    "UNKNOWN_OFFSET",
    "Attendance",
    "BrokerTransition",
    "Claimant",
    "Claimed",
    "Contact",
    "ControlState",
    "Hush",
    "RegisteredBroker",
    "SessionClaim",
    "Sessions",
    "check_epoch",
    "decide",
]
