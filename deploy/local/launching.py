"""How the processes of a plan are started; the tests put another way of starting the same process in its place."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

__all__ = ["ROOT", "Child", "Launch", "launch", "launch_by", "launch_plainly"]

ROOT: Final = Path(__file__).resolve().parents[2]


class Child(Protocol):
    """A process that was started: what `asyncio.subprocess.Process` has without pipes."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def returncode(self) -> int | None:
        """Its exit code, the negative number of the signal that ended it, or None while it runs."""

    async def wait(self) -> int:
        """Waits for its end; returns its `returncode`."""

    def send_signal(self, signal: signal.Signals, /) -> None:
        """Sends it a signal. Raises ProcessLookupError if it has ended."""

    def terminate(self) -> None:
        """Sends it SIGTERM. Raises ProcessLookupError if it has ended."""

    def kill(self) -> None:
        """Sends it SIGKILL. Raises ProcessLookupError if it has ended."""


class Launch(Protocol):
    """Starts a command in ROOT, in a session of its own: with exactly this environment, its output to this file."""

    async def __call__(self, command: Sequence[str], *, environ: Mapping[str, str], output: int) -> Child:
        """Returns the process that was started. Raises OSError."""


async def launch_plainly(command: Sequence[str], *, environ: Mapping[str, str], output: int) -> Child:
    """Starts the command as any program is started. Raises OSError."""
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=environ,
        stdout=output,
        stderr=output,
        start_new_session=True,  # a Ctrl-C in the terminal reaches only this process, which stops the others
    )


_WAY: Final[list[Launch]] = [launch_plainly]
"""The one way in which processes are started now."""


async def launch(command: Sequence[str], *, environ: Mapping[str, str], output: int) -> Child:
    """Starts the command in the way that `launch_by` has set, or plainly. Raises OSError."""
    return await _WAY[0](command, environ=environ, output=output)


def launch_by(way: Launch) -> Launch:
    """Has `launch` start its processes in this way from now on; returns the way until now."""
    before, _WAY[0] = _WAY[0], way
    return before
