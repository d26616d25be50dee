"""Runs a service from start to exit code: event loop, signal handlers, timeouts for shutdown, reports of fatal errors.

async def main(life: Life) -> None:
    ...start...
    await life.stopping()
    ...stop...

raise SystemExit(run(main))
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from enum import IntEnum
from typing import Final

from quorate.errors import ApiError, Corrupt
from quorate.metadata.faults import UnsupportedLevel
from quorate.runtime.event_loop.daemon_threads import DaemonThreads
from quorate.runtime.event_loop.file_limit import raise_file_limit
from quorate.runtime.event_loop.memory import give_back, tune_memory
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.config import ConfigError, HelpAsked
from quorate.runtime.settings.stop_settings import GRACEFUL_MS, STOP_TIMEOUT

__all__ = ["CannotListen", "ExitCode", "ServiceLife", "run"]

log = logger(__name__)

STOP_TIMEOUT_S: Final = 30.0
"""The time in seconds that `main` may take to stop: Kubernetes' default grace period. The default of
`shutdown.graceful.timeout.ms` is a part of it; what that has more, `main` has more."""

CLOSE_MIN_S, CLOSE_MAX_S = 1.0, 5.0
"""The functions of `at_end` together have the time of `shutdown.graceful.timeout.ms` again, within these bounds (s):
with a setting of 0 they end, too, and a long one leaves them within what Kubernetes gives a stop."""

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers for no room: the disk is full, the user's quota is used up, or the file would be too large."""
NO_ACCESS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""Error numbers for a file that this process's user may not read or write."""
EXPECTED: Final = (ApiError, TimeoutError, asyncio.CancelledError, UnsupportedLevel)
"""Errors that end a service without being a bug in it."""


class ExitCode(IntEnum):
    """The exit code of a service's process: 2 for its settings, 3 for its address, 4 for damaged files."""

    STOPPED = 0
    FAILED = 1
    MISCONFIGURED = 2
    CANNOT_LISTEN = 3
    CORRUPT = 4


class CannotListen(Exception):
    """Raised for an address that cannot be bound; the message names the address and the reason."""


class ServiceLife:
    """The lifetime of a service process: its `main` waits here for the stop, and may request it."""

    __slots__ = ("_closings", "_failure", "_graceful_s", "_stop")

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._closings: list[Callable[[], Awaitable[None]]] = []
        self._graceful_s = GRACEFUL_MS / 1000

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    async def stopping(self) -> None:
        """Waits until the service is asked to stop, and returns; or raises the error that `fail` was called with."""
        await self._stop.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self, reason: str) -> None:
        """Asks `main` to shut down gracefully: `stopping` returns. Logs `reason`; does nothing if already asked."""
        if not self._stop.is_set():
            log.info("stopping", reason=reason)
            self._stop.set()

    def at_end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Registers a function that closes a resource, such as a server: it is called after `main`, errors or not."""
        self._closings.append(close)

    def give(self, graceful_s: float) -> None:
        """Sets how long (s) calls under way may take to end at the stop; by default 5.

        The functions of `at_end` then have as much for all of them, within 1 to 5 s.
        """
        self._graceful_s = graceful_s

    @property
    def longer_s(self) -> float:
        """By how long (s) the time of `give` is above the default: a stop may take so much beyond `stop_timeout_s`."""
        return max(0.0, self._graceful_s - GRACEFUL_MS / 1000)

    async def close(self) -> None:
        """Calls the functions of `at_end`, the last registered one first; they have one time for all (see `give`).

        Raises TimeoutError, which names the function, when it is over, and what a function raises: the rest are not
        called.
        """
        given_s = min(max(self._graceful_s, CLOSE_MIN_S), CLOSE_MAX_S)
        until = asyncio.get_running_loop().time() + given_s
        for close in reversed(self._closings):
            try:
                async with asyncio.timeout_at(until):
                    await close()
            except TimeoutError:
                name = getattr(close, "__qualname__", repr(close))
                raise TimeoutError(f"{name} did not end within {given_s:g} s ({STOP_TIMEOUT})") from None

    def fail(self, error: BaseException) -> None:
        """Asks `main` to stop, from code that cannot raise to it, such as an RPC handler: `stopping` raises the error.

        The first error counts. The process ends with it, also if it comes while `main` stops.
        """
        if self._failure is None:
            self._failure = error
        self._stop.set()


def run(main: Callable[[ServiceLife], Awaitable[None]], *, stop_timeout_s: float = STOP_TIMEOUT_S) -> ExitCode:
    """Runs `main` until it returns and returns the exit code; `--help` prints the settings instead.

    SIGTERM or SIGINT asks it to stop; a second signal, or `stop_timeout_s` (s) without an end, cancels it. Each error
    that it raises is printed as one line on standard error, and the exit code is not 0.
    """
    tune_memory()
    raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_live(main, stop_timeout_s))
    except HelpAsked as asked:
        sys.stdout.write(f"{asked}\n")
    except (Exception, asyncio.CancelledError) as error:  # the process ends here: nothing above could report it
        return _report(error)
    return ExitCode.STOPPED


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns uvloop's loop factory, or None if it is not installed or QUORATE_EVENT_LOOP=asyncio refuses it."""
    if os.environ.get("QUORATE_EVENT_LOOP") == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _live(main: Callable[[ServiceLife], Awaitable[None]], stop_timeout_s: float) -> None:
    life = ServiceLife()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(DaemonThreads())  # that of asyncio.to_thread
    work, giving_back = asyncio.ensure_future(main(life)), asyncio.ensure_future(give_back())

    def stop(name: str) -> None:
        if life.is_stopping:
            work.cancel(f"a second {name}")
        life.stop(name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    try:
        await _until_done(work, life, stop_timeout_s)
    finally:
        giving_back.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        # gRPC threads that still run at interpreter exit would end the process by a signal instead of its exit code.
        await life.close()


async def _until_done(work: asyncio.Future[None], life: ServiceLife, stop_timeout_s: float) -> None:
    """Waits for `work`, but at most `stop_timeout_s` after the service was asked to stop. Raises TimeoutError."""
    asked = asyncio.ensure_future(life._stop.wait())
    await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not work.done():
        stop_timeout_s += life.longer_s
        await asyncio.wait((work,), timeout=stop_timeout_s)
    if not work.done():
        work.cancel()
        await asyncio.wait((work,), timeout=1)
        raise TimeoutError(f"did not stop within {stop_timeout_s:g} s of being asked to")
    await work
    if life._failure is not None:  # on the way to the stop: nobody waited for it any more
        raise life._failure


def _report(error: BaseException) -> ExitCode:
    """Writes one line for each cause of `error`; the highest exit code of all causes counts."""
    codes = []
    for cause in _causes(error):
        code, text = _verdict(cause)
        if code is ExitCode.FAILED and not (isinstance(cause, EXPECTED) or _is_of(NO_SPACE | NO_ACCESS, cause)):
            log.error("unexpected error", exception=cause)
        sys.stderr.write(f"fatal: {text}\n")
        codes.append(code)
    return max(codes)


def _is_of(numbers: frozenset[int], error: BaseException) -> bool:
    """Returns whether the system refused with one of these errors, which is no bug and needs no traceback."""
    return isinstance(error, OSError) and error.errno in numbers


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the errors in nested exception groups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error


def _verdict(error: BaseException) -> tuple[ExitCode, str]:
    match error:
        case ConfigError():
            return ExitCode.MISCONFIGURED, str(error)
        case CannotListen():
            return ExitCode.CANNOT_LISTEN, str(error)
        case Corrupt():
            return ExitCode.CORRUPT, str(error)
        case asyncio.CancelledError():
            return ExitCode.FAILED, f"cancelled: {error}"
        case UnsupportedLevel():
            return ExitCode.FAILED, str(error)
        case OSError() if _is_of(NO_ACCESS, error):
            where = f"{error.filename}: " if error.filename else ""
            return ExitCode.FAILED, f"{where}{error.strerror}; this process runs as user id {os.geteuid()}"
        case OSError() if _is_of(NO_SPACE, error):
            where = f"{error.filename}: " if error.filename else ""
            return ExitCode.FAILED, f"{where}{error.strerror}; make room and start again"
        case AssertionError():
            return ExitCode.FAILED, f"an assertion does not hold: {error!r}"
        case _:
            return ExitCode.FAILED, f"{type(error).__name__}: {error}"
