"""Logins: a controller answers a client's SCRAM messages for a gateway, by the credentials that it has committed."""

from __future__ import annotations

from collections.abc import Callable

from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.engine.committed import Committed
from quorate.controller.engine.engine import Engine
from quorate.listeners.scram_logins import ScramLogins

__all__ = ["logins_of"]


def logins_of(engine: Engine, tokens: TokenSettings, wall_ms: Callable[[], int]) -> ScramLogins:
    """Returns the logins of the controller with this engine."""
    return ScramLogins(
        Committed(engine, engine.state.scram).now,
        Committed(engine, engine.state.delegation_tokens).now,
        tokens,
        wall_ms,
        is_loaded=lambda: engine.is_loaded,
    )
