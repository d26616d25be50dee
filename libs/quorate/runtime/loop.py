"""Runs a service from start to exit code: uvloop, signals, one line for what was fatal.

async def main(life: Life) -> None:
    ...start...
    await life.stopping()
    ...stop...

raise SystemExit(run(main))
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from enum import IntEnum
from typing import Final

from quorate.errors import ApiError, Corrupt
from quorate.runtime.config import ConfigError, HelpAsked
from quorate.runtime.logs import logger

__all__ = ["CannotListen", "ExitCode", "Life", "run"]

log = logger(__name__)

STOP_TIMEOUT_S: Final = 30.0
"""How long `main` may take to stop once it was asked to: Kubernetes' default grace period."""


YOUNG_MAX: Final = 10_000
"""Objects that are made before the collector looks for cycles among them: a thousand calls under way have as many."""


class ExitCode(IntEnum):
    """What a service's process ends with."""

    STOPPED = 0
    FAILED = 1
    MISCONFIGURED = 2
    CANNOT_LISTEN = 3
    CORRUPT = 4


class CannotListen(Exception):
    """An address that cannot be bound: says which, and why."""


class Life:
    """From start to stop, as a service's `main` sees it."""

    __slots__ = ("_failure", "_stop")

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    async def stopping(self) -> None:
        """Waits until the service is to stop; raises what `fail` was given."""
        await self._stop.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self, reason: str) -> None:
        """Asks `main` to stop in good order."""
        if not self._stop.is_set():
            log.info("stopping", reason=reason)
            self._stop.set()

    def fail(self, error: BaseException) -> None:
        """Ends the service: from where an error cannot be raised through, such as an RPC's handler."""
        if self._failure is None:
            self._failure = error
        self._stop.set()


def run(main: Callable[[Life], Awaitable[None]], *, stop_timeout_s: float = STOP_TIMEOUT_S) -> ExitCode:
    """Runs `main` until it returns, and says how it went; with `--help` it is over when the settings are printed.

    SIGTERM or SIGINT asks it to stop; a second one, or `stop_timeout_s` without an end, cancels it. Whatever it
    raises is one line on standard error each, and an exit code that is not 0.
    """
    _spare_the_collector()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_live(main, stop_timeout_s))
    except HelpAsked as asked:
        sys.stdout.write(f"{asked}\n")
    except (Exception, asyncio.CancelledError) as error:  # the process ends here: nothing above could report it
        return _report(error)
    return ExitCode.STOPPED


def _spare_the_collector() -> None:
    """What was imported stays: looked through again and again, it takes a busy service a third of its time."""
    gc.freeze()
    gc.set_threshold(YOUNG_MAX)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it is installed and not refused by QUORATE_EVENT_LOOP=asyncio."""
    if os.environ.get("QUORATE_EVENT_LOOP") == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _live(main: Callable[[Life], Awaitable[None]], stop_timeout_s: float) -> None:
    life = Life()
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(main(life))

    def stop(name: str) -> None:
        if life.is_stopping:
            work.cancel(f"a second {name}")
        life.stop(name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    try:
        await _until_done(work, life, stop_timeout_s)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _until_done(work: asyncio.Future[None], life: Life, stop_timeout_s: float) -> None:
    """Waits for `work`, and not longer than `stop_timeout_s` after the service was asked to stop."""
    asked = asyncio.ensure_future(life._stop.wait())
    await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not work.done():
        await asyncio.wait((work,), timeout=stop_timeout_s)
    if not work.done():
        work.cancel()
        await asyncio.wait((work,), timeout=1)
        raise TimeoutError(f"did not stop within {stop_timeout_s:g} s of being asked to")
    await work


def _report(error: BaseException) -> ExitCode:
    """Writes each cause of `error` in a line of its own; the worst-known cause decides the exit code."""
    codes = []
    for cause in _causes(error):
        code, text = _verdict(cause)
        if code is ExitCode.FAILED and not isinstance(cause, ApiError | TimeoutError | asyncio.CancelledError):
            log.error("unexpected error", exception=cause)
        sys.stderr.write(f"fatal: {text}\n")
        codes.append(code)
    return max(codes)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors in nested groups, or the error itself."""
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
        case AssertionError():
            return ExitCode.FAILED, f"an assertion does not hold: {error!r}"
        case _:
            return ExitCode.FAILED, f"{type(error).__name__}: {error}"
