"""Logins: a controller answers a client's SCRAM messages for a gateway, by the credentials that it has committed."""

from __future__ import annotations

from collections.abc import Callable

from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.engine.committed import Committed
from quorate.controller.engine.engine import Engine
from quorate.listeners.scram_logins import ScramLogins

__all__ = ["logins_of"]


def logins_of(engine: Engine, tokens: TokenSettings, wall_ms: Callable[[], int]) -> ScramLogins:
    """Returns the logins by SCRAM and by delegation token, by the credentials that this engine has committed.

    `wall_ms` is the present time in ms since 1970, by which tokens expire.
    """
    return ScramLogins(
        Committed(engine, engine.state.scram).now,
        Committed(engine, engine.state.delegation_tokens).now,
        tokens,
        wall_ms,
        is_loaded=lambda: engine.is_loaded,
    )
