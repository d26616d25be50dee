"""How a process ended that is expected to, what it said, and what its directory held."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local.processes import ROOT
from quorate.runtime.event_loop.loop import ExitCode
from tests.e2e.calls import WITHIN_S

IGNORED = {".lock"}
"""Made to be locked; it says nothing."""
OF_GRPC = re.compile(
    r"Traceback \(most recent call last\):\n"
    r'  File "[^"\n]*grpc/_cython/[^"\n]*", line \d+, in grpc\._cython\.cygrpc\._schedule_rpc_coro\n'
    r"asyncio\.exceptions\.CancelledError\n"
)
"""What gRPC prints when a server ends while a call has arrived and not begun; seen on a busy machine with 1.85."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended that did not come up."""

    code: ExitCode
    fatal: list[str]


async def start(service: str, settings: Mapping[str, str], directory: Path) -> Ended:
    """Start a service, and wait for its end."""
    config = directory / "start.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"services.{service}", "--config", str(config)),
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await asyncio.wait_for(child.communicate(), WITHIN_S)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    lines = errors.decode().splitlines()
    return Ended(code=ExitCode(child.returncode or 0), fatal=[line for line in lines if line.startswith("fatal: ")])


def said(path: Path, *, since: int = 0) -> list[str]:
    """The lines that a process wrote after so many bytes, but for those of gRPC that say nothing of it."""
    return OF_GRPC.sub("", path.read_bytes()[since:].decode()).splitlines()


def content(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name not in IGNORED)
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}
