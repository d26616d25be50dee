"""One connection over Kafka's wire, to what answers for the active controller: a gateway, or Kafka's controller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from kraft import Message
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import Connection, Timeouts
from quorate.protocol import ClientSettings
from quorate.runtime.clients.patience import Patience
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from quorate.runtime.settings.setting_types import Endpoint
from services.broker.peers import Peers

__all__ = ["ControllerConnection", "InTurn", "NoAnswer", "Whereabouts"]

log = logger(__name__)

M = TypeVar("M", bound=Message)

SETTINGS: Final = ClientSettings(client_id="broker", in_flight_max=100)
"""Answers of a connection come in the order of the requests, so one that takes long holds up those after it."""
TIMEOUTS: Final = Timeouts(request_ms=125_000)
"""Longer than a gateway waits for a controller: a request's own time ends it, and not all of the connection."""
SILENT_S: Final = 30.0
"""After so long (s) without any answer to what was asked a connection is left for another: `request.timeout.ms`."""


class NoAnswer(ApiError):
    """Nobody has answered for the active controller: NETWORK_EXCEPTION, NOT_CONTROLLER, or a refused login's error.

    A request that was under way may have been carried out all the same.
    """


class Whereabouts(Protocol):
    """Where the active controller is to be asked."""

    @property
    def count(self) -> int:
        """How many servers a round of tries asks, one after the other, before a pause."""
        ...

    def now(self) -> Endpoint | None:
        """Returns who is to be asked next; None while nobody is known to lead."""
        ...

    def turn_from(self, at: Endpoint) -> None:
        """Hears that the server at `at` does not answer for the active controller: `now` may return another one."""
        ...


class InTurn:
    """Servers each of which can answer. The one that answered last is asked; once it does not answer, the next one."""

    def __init__(self, servers: Sequence[Endpoint]) -> None:
        self._servers = tuple(servers)
        self._at = 0

    @property
    def count(self) -> int:
        """How many servers there are."""
        return len(self._servers)

    def now(self) -> Endpoint | None:
        """Returns the server to ask; None without any."""
        return self._servers[self._at] if self._servers else None

    def turn_from(self, at: Endpoint) -> None:
        """Has the next server asked from now on, unless `at` is already not the one that is asked."""
        if self._servers and self._servers[self._at] == at:
            self._at = (self._at + 1) % len(self._servers)


class ControllerConnection:
    """One connection at a time to the server that answers for the active controller, as `where` names it.

    It is opened with the first request, and anew after a failure or when `where` names another server. `of` is what the
    servers are called in the log. `silent_s` is how long (s) one may leave requests without any answer, and `connect_s`
    how long a connection may take to be opened, before another one is opened.
    """

    def __init__(
        self,
        where: Whereabouts,
        peers: Peers,
        *,
        of: str,
        silent_s: float = SILENT_S,
        connect_s: float = TIMEOUTS.connect_ms / 1_000,
    ) -> None:
        self._patience = Patience(silent_s)
        self._timeouts = replace(TIMEOUTS, connect_ms=int(1_000 * connect_s))
        self._where = where
        self._peers = peers
        self._of = of
        self._at: Endpoint | None = None
        self._opened: asyncio.Future[Connection] | None = None
        """The connection, or the attempt: a login may take longer than the request that began it may wait."""
        self._told = ChangeFilter()
        self._versions: Mapping[int, range] = {}

    @property
    def versions(self) -> Mapping[int, range]:
        """The versions that the server of the last connection supports, by API key; empty before the first."""
        opened = self._opened
        if opened is not None and _is_open(opened):
            keys = opened.result().node.api_keys
            self._versions = {each.api_key: range(each.min_version, each.max_version + 1) for each in keys}
        return self._versions

    @property
    def whereabouts(self) -> Whereabouts:
        """Where the next request is sent, and who hears that a server does not answer."""
        return self._where

    async def ask(self, answer: type[M], request: Message) -> M:
        """Asks the active controller once. Returns its answer, also one with an error other than NOT_CONTROLLER.

        Raises NoAnswer if none comes, or NOT_CONTROLLER: the request may have been carried out all the same. The next
        request then goes over another connection, to the next server if there are several.
        """
        at = self._where.now()
        if at is None:
            raise NoAnswer(ErrorCode.NOT_CONTROLLER, "nobody is known to lead the quorum")
        opened = self._open(at)
        try:
            found = await (await asyncio.shield(opened)).ask_for(answer, request)
        except (OSError, ApiError) as problem:
            self._leave(opened, at, str(problem))
            code = problem.code if isinstance(problem, ApiError) else ErrorCode.NETWORK_EXCEPTION
            raise NoAnswer(code, f"{at}: {problem}") from None
        if getattr(found, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
            self._leave(opened, at, "it finds no active controller")
            raise NoAnswer(ErrorCode.NOT_CONTROLLER, f"{at}: it finds no active controller")
        self._told.settle(self._of)
        self._patience.answered()
        return found

    async def close(self) -> None:
        """Ends the connection, or the attempt to open it; nobody may ask any more."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        if not opened.done():
            opened.cancel()
        elif _is_open(opened):
            await opened.result().close()

    def _open(self, at: Endpoint) -> asyncio.Future[Connection]:
        """Returns the connection to this server, or the attempt."""
        since = None if self._opened is None else _silent_since(self._opened)
        if since is not None and self._patience.runs_out(silent_since=since):
            self._retire()
        if self._opened is None or self._at != at or _is_lost(self._opened):
            self._retire()
            self._at = at
            attempt = self._peers.connect(at.host, at.port, settings=SETTINGS, timeouts=self._timeouts)
            self._opened = asyncio.ensure_future(attempt)
        return self._opened

    def _leave(self, opened: asyncio.Future[Connection], at: Endpoint, why: str) -> None:
        """Asks elsewhere, or anew, from now on, unless somebody has found the same already."""
        if opened is not self._opened:
            return
        if self._told.passes(self._of, why, asyncio.get_running_loop().time()):
            log.warning(f"a {self._of} does not answer for a controller", server=str(at), reason=why)
        self._where.turn_from(at)
        self._retire()

    def _retire(self) -> None:
        """Has the connection end: later, if requests are under way on it that may still be answered."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        if _is_idle(opened):
            opened.result().abort()
        else:
            asyncio.get_running_loop().call_later(TIMEOUTS.request_ms / 1000, _end, opened)


def _is_lost(opened: asyncio.Future[Connection]) -> bool:
    """Returns whether nothing is to be expected of the connection."""
    return opened.done() and (opened.exception() is not None or not opened.result().is_open)


def _silent_since(opened: asyncio.Future[Connection]) -> float | None:
    return opened.result().silent_since if _is_open(opened) else None


def _is_open(opened: asyncio.Future[Connection]) -> bool:
    return opened.done() and not opened.cancelled() and opened.exception() is None


def _is_idle(opened: asyncio.Future[Connection]) -> bool:
    return _is_open(opened) and opened.result().is_idle


def _end(opened: asyncio.Future[Connection]) -> None:
    if _is_open(opened):
        opened.result().abort()
