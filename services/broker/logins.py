"""Logins by SCRAM at a broker: by the credentials and delegation tokens that it has applied."""

from __future__ import annotations

import asyncio

from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.listeners.scram_logins import ScramLogins
from quorate.protocol.sasl.mechanism import Answered, SaslError
from quorate.protocol.sasl.scram import ScramServer
from quorate.protocol.sasl.scram_messages import ClientFirst
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.following.replica import Replica

__all__ = ["BrokerLogins"]


class BrokerLogins:
    """Begins logins by SCRAM, each when it is called with the mechanism, by the users and tokens that are applied here.

    The first message of each waits until the broker has caught up (`begin`), as its requests do.
    """

    def __init__(self, replica: Replica, secret_key: str | None, clock: Clock) -> None:
        """`secret_key` is that of delegation tokens; without it none logs in."""
        self._begun = asyncio.Event()
        self._logins = ScramLogins(
            lambda: replica.state.scram,
            lambda: replica.state.delegation_tokens,
            TokenSettings(secret_key=secret_key or ""),
            clock.wall_ms,
            is_loaded=self._begun.is_set,
        )

    def begin(self) -> None:
        """Lets the logins go on, those that wait already, too: the broker has caught up."""
        self._begun.set()

    def __call__(self, mechanism: str) -> ScramExchange:
        """Begins an exchange."""
        return ScramExchange(self._begun, self._logins.begin(mechanism))


class ScramExchange:
    """One exchange of one client: a `RemoteMechanism`, as it may have to wait."""

    def __init__(self, begun: asyncio.Event, server: ScramServer) -> None:
        self._begun = begun
        self._server = server
        self._name = ""

    def name_in(self, response: bytes) -> str:
        """Returns the user, or the token's id, in the client's first message; empty if it is no such message."""
        if not self._name:
            try:
                self._name = ClientFirst.parse(response).saslname
            except SaslError:
                return ""
        return self._name

    async def ask(self, response: bytes) -> Answered:
        """Answers a message of the client, once the broker has caught up; the last has the login. Raises SaslError."""
        await self._begun.wait()
        return Answered(message=self._server.evaluate(response), login=self._server.login)
