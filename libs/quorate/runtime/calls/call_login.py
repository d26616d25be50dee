"""The login of a call, if its metadata has a user's password or a delegation token: it counts more than a certificate.

The door sets it before anything else happens with the call (`Door`), in the context of the call's own task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from quorate.nouns import Principal
from quorate.protocol.sasl.mechanism import Login
from quorate.runtime.connections.transport import Transport

__all__ = ["LogIn", "caller_of", "login_of_call", "set_login"]

LogIn: TypeAlias = Callable[[Any], Awaitable[Login | None]]
"""From a call's context to its login; None without one. Raises ApiError for one that fails."""

_LOGIN: Final[ContextVar[Login | None]] = ContextVar("login", default=None)


def login_of_call() -> Login | None:
    """Returns the login of the call in whose task this runs; None without one."""
    return _LOGIN.get()


def set_login(login: Login | None) -> None:
    """Sets the login of the call in whose task this runs."""
    _LOGIN.set(login)


def caller_of(transport: Transport, context: Any) -> Principal:
    """Returns the principal that makes a call: by its login, or else by its certificate; ANONYMOUS without either.

    Raises ApiError(SASL_AUTHENTICATION_FAILED) for a certificate that no rule is for.
    """
    login = login_of_call()
    return transport.principal(context) if login is None else login.principal
