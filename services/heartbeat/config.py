"""What the heartbeat service has to be told."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.liveness import SESSION_TIMEOUT_MS
from quorate.runtime.config import setting
from quorate.runtime.kinds import Endpoint, Listener, endpoint, integer, list_of, listener, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one tracker."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "Which copy this is, for logs and traces.", default=0)
    listeners: Listener = setting("listeners", listener(), "Where brokers reach it.")
    quorum: tuple[Endpoint, ...] = setting(
        "controller.quorum.bootstrap.servers", list_of(endpoint()), "Quorum nodes, for the log."
    )
    controllers: tuple[Endpoint, ...] = setting(
        "controller.endpoints", list_of(endpoint()), "Controllers, for changes of a broker's state; any will do."
    )
    session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        milliseconds(1),
        "A broker is fenced after so long without a heartbeat.",
        default=SESSION_TIMEOUT_MS,
    )
