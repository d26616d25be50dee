"""How long a SASL session lasts. KIP-368."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.protocol.sasl.mechanism import Login

__all__ = ["REAUTH_INTERVAL_MS_MIN", "Session", "session_of"]

REAUTH_INTERVAL_MS_MIN: Final = 1000
"""Kafka's MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS: a client that renews its session sooner is not heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A complete login. `lifetime_ms`, a duration, is in the answer to the client: 0 for no end, or if it is over.

    `expires_at_ms` is None for no end. It and `began_at_ms` are by the connection's clock, which is not the wall's.
    """

    mechanism: str
    login: Login
    began_at_ms: int
    lifetime_ms: int
    expires_at_ms: int | None
    ended_by: str
    """The reason for its end, for the log."""

    def has_expired(self, now_ms: int) -> bool:
        """Returns whether the session has ended: only a renewal may still come on this connection."""
        return self.expires_at_ms is not None and now_ms > self.expires_at_ms

    def may_be_renewed(self, now_ms: int) -> bool:
        """Returns whether a SaslHandshake begins a renewal: the session has an end, and began 1 s ago or earlier.

        Else the request is out of place, as on any other connection.
        """
        return self.expires_at_ms is not None and now_ms - self.began_at_ms >= REAUTH_INTERVAL_MS_MIN


def session_of(mechanism: str, login: Login, *, now_ms: int, wall_ms: int, reauth_ms_max: int) -> Session:
    """Returns the session of a login: it ends with the credential or after `reauth_ms_max`, whichever is earlier.

    `wall_ms` is now in ms since 1970: a credential ends by the wall clock, a session by the connection's (`now_ms`).
    Kafka's `SaslServerAuthenticator.ReauthInfo.calcCompletionTimesAndReturnSessionLifetimeMs`.
    """
    left = [] if login.expires_at_ms is None else [login.expires_at_ms - wall_ms]
    limits = left + ([reauth_ms_max] if reauth_ms_max else [])
    lifetime = max(0, min(limits, default=0))
    return Session(
        mechanism=mechanism,
        login=login,
        began_at_ms=now_ms,
        lifetime_ms=lifetime,
        expires_at_ms=now_ms + lifetime if limits else None,
        ended_by="its delegation token has ended" if left and left[0] == min(limits) else "connections.max.reauth.ms",
    )
