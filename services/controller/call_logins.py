"""Logins of calls by gRPC: a user's password or a delegation token in the metadata key `authorization`, over TLS alone.

    authorization: Basic dXNlcjpwYXNzd29yZA==        user:password in base64 (RFC 7617)
    authorization: DelegationToken ID:HMAC           as CreateDelegationToken answers them, the HMAC in base64 (KIP-48)

The password is compared with the SCRAM credentials in the log, for which it is hashed as a SCRAM client hashes it. That
takes milliseconds, so it is done in a thread, and a password that fitted is remembered, as a MAC, as long as the
credential is the same. Nothing of it is ever logged; of a failure, the user's name is if there is such a user.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from quorate.controller.access.scram_keys import ITERATIONS_MIN, salted_password, verifier_keys
from quorate.errors import ApiError, ErrorCode
from quorate.listeners.scram_logins import ScramLogins
from quorate.network.fair_turns import FairTurns
from quorate.protocol.sasl.mechanism import Login
from quorate.protocol.sasl.scram import scram_number
from quorate.runtime.connections.peers import host_of
from quorate.runtime.event_loop.daemon_threads import DaemonThreads
from quorate.runtime.logging.logs import logger

__all__ = ["AUTHORIZATION", "CallLogins"]

log = logger(__name__)

AUTHORIZATION: Final = "authorization"
"""The metadata key of a call's credentials. It is never passed on to another controller: the login is."""
BASIC: Final = "basic"
TOKEN: Final = "delegationtoken"
HASHED_AT_ONCE: Final = 2
"""Passwords that are hashed at the same time; more wait, so that wrong ones cannot take all processors.

They wait by address, and there by user name, so that many wrong ones for one name do not stand before another's.
"""
FAILURE_DELAY_S: Final = 0.1
"""When a failed login is refused, from its begin on: Kafka's default of `connection.failed.authentication.delay.ms`.

Kafka counts from the failure on. But there the client hashes the password, and here the controller does, which takes
longer for a user with more iterations. As long as it takes less than this, nobody sees that.
"""
REMEMBERED: Final = 10_000
"""How many passwords that fitted are remembered."""


def _loop_time_s() -> float:
    return asyncio.get_running_loop().time()


class CallLogins:
    """Logs in the callers of one controller by a call's metadata: an instance is called with each call's context.

    `mechanisms` is `sasl.enabled.mechanisms`; without any, a call with credentials is refused. `now_s` and `sleep` are
    the clock of failed logins, in s.
    """

    def __init__(
        self,
        logins: ScramLogins,
        mechanisms: Collection[str],
        *,
        failure_delay_s: float = FAILURE_DELAY_S,
        now_s: Callable[[], float] = _loop_time_s,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        numbers = [scram_number(name) for name in mechanisms]
        self._mechanisms = [number for number in numbers if number is not None]
        assert len(self._mechanisms) == len(mechanisms), mechanisms
        self._logins = logins
        self._failure_delay_s = failure_delay_s
        self._now_s = now_s
        self._sleep = sleep
        self._key = secrets.token_bytes(32)
        self._fitted: dict[bytes, bytes] = {}
        self._turns = FairTurns(HASHED_AT_ONCE)
        self._hashing = DaemonThreads(HASHED_AT_ONCE, "hashing")

    async def __call__(self, context: Any) -> Login | None:
        """Returns the login of a call; None for a call without credentials.

        Raises ApiError: SASL_AUTHENTICATION_FAILED, or COORDINATOR_LOAD_IN_PROGRESS if this controller has not loaded
        its state yet.
        """
        given = [value for key, value in context.invocation_metadata() or () if key == AUTHORIZATION]
        if not given:
            return None
        host, refused_at_s = host_of(context.peer()), self._now_s() + self._failure_delay_s
        if not self._mechanisms:
            raise self._refusal(host, "this controller takes no logins: sasl.enabled.mechanisms is empty")
        self._logins.check_loaded()
        if len(given) > 1:
            raise self._refusal(host, f"{AUTHORIZATION} is there {len(given)} times; it may be there once")
        scheme, _, credentials = str(given[0]).partition(" ")
        if scheme.lower() == BASIC:
            login, user = await self._by_password(host, credentials.strip())
        elif scheme.lower() == TOKEN:
            login, user = self._by_token(credentials.strip()), None
        else:
            raise self._refusal(host, f"{AUTHORIZATION} must have Basic or DelegationToken before the credentials")
        if login is None:
            await self._sleep(refused_at_s - self._now_s())
            raise self._refusal(host, "the credentials are those of no user and no delegation token", user)
        return login

    def _refusal(self, host: str, why: str, user: str | None = None) -> ApiError:
        log.info("a login has failed", host=host, reason=why, user=user)
        return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)

    def _by_token(self, credentials: str) -> Login | None:
        token_id, colon, password = credentials.partition(":")
        return self._logins.by_token(token_id, password) if colon else None

    async def _by_password(self, host: str, encoded: str) -> tuple[Login | None, str | None]:
        """Returns the login, None if it fails, and the name of the user, None if there is no such one."""
        try:
            user, colon, password = base64.b64decode(encoded, validate=True).decode("utf-8").partition(":")
        except ValueError:
            return None, None
        kept = (self._logins.credential(mechanism, user) for mechanism in self._mechanisms)
        credential = next((each for each in kept if each is not None), None)
        if credential is None or not colon:
            # As long as for most users who are there, so that nobody learns who is even where many logins wait.
            salt = hashlib.sha256(self._key).digest()
            await self._stored_key((host, user), self._mechanisms[0], password, salt, ITERATIONS_MIN)
            return None, None
        mac = hmac.digest(self._key, f"{credential.mechanism}:{len(user)}:{user}:{password}".encode(), "sha256")
        if self._fitted.get(mac) == credential.stored_key:
            return self._logins.by_credential(user, credential), user
        stored = await self._stored_key(
            (host, user), credential.mechanism, password, credential.salt, credential.iterations
        )
        if not hmac.compare_digest(stored, credential.stored_key):
            return None, user
        if len(self._fitted) >= REMEMBERED:
            del self._fitted[next(iter(self._fitted))]
        self._fitted[mac] = stored
        return self._logins.by_credential(user, credential), user

    async def _stored_key(
        self, whose: tuple[str, str], mechanism: int, password: str, salt: bytes, iterations: int
    ) -> bytes:
        """Hashes a password in a thread, when it is the turn of its address and user name."""
        await self._turns.begin(*whose)
        in_thread = asyncio.get_running_loop().run_in_executor
        hashed = in_thread(self._hashing, salted_password, mechanism, password.encode(), salt, iterations)
        # A call that is cancelled leaves a hash behind that has begun; it counts until it is done.
        hashed.add_done_callback(lambda _: self._turns.end())
        return verifier_keys(mechanism, await asyncio.shield(hashed))[0]
