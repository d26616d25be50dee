"""Starts services' processes as forks of servers that have imported what these import; other commands plainly."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from deploy.local.launching import ROOT, Child, launch_plainly
from tests.forking.server import LIMITS, MESSAGE_BYTES_MAX, REPORT, Asked

AT_IMPORT: Final = (
    "GRPC_", "OTEL_", "PYTHON", "_PYTHON", "SSL", "OPENSSL", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "GLIBC_", "HOME",
    "PROTOCOL_BUFFERS_", "TEMPORARILY_DISABLE_PROTOBUF_",
)  # fmt: skip
"""How variables begin that are read when Python begins, or by an import: a process whose own differ from those of its
server is started plainly. `test_imports_read_no_other_variable` holds the list against the imports."""
NOT_AT_IMPORT: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT",)
"""Of those, one that each plan sets, and that is read at the start of the spans' export."""
FORKED: Final = frozenset(
    f"services.{each}" for each in ("broker", "controller", "gateway", "heartbeat", "observer", "placer", "quorum")
)
"""The modules that are run by forked processes."""


class Forked:
    """A process that a server has forked: what `Child` asks for. Bound to the event loop in which it was started."""

    def __init__(self, pid: int, report: socket.socket) -> None:
        self.pid = pid
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(report, self._read)

    def _read(self) -> None:
        self._loop.remove_reader(self._report)
        told = self._report.recv(REPORT.size)
        self._report.close()
        # Without a word from it the server has ended, and by that has killed this process.
        self._ended.set_result(REPORT.unpack(told)[0] if told else -signal.SIGKILL)

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def send_signal(self, number: signal.Signals, /) -> None:
        if self._ended.done():
            raise ProcessLookupError
        with suppress(ProcessLookupError):  # it has ended, and that is about to be read
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServers:
    """A server for each module, started at the first process that runs it; ended with `close`, or with this process.

    All are of the tree in `root`; the servers have the variables of `environ`, by default those of now.
    """

    def __init__(
        self, modules: frozenset[str] = FORKED, *, root: Path = ROOT, environ: Mapping[str, str] | None = None
    ) -> None:
        self._modules = modules
        self._root = root
        self._environ = dict(os.environ if environ is None else environ)
        self._servers: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}

    async def launch(self, command: Sequence[str], *, environ: Mapping[str, str], output: int) -> Child:
        """As `launch_plainly`: the process is as a plain one, but for the time that its imports take."""
        match command:
            case [sys.executable, "-m", module, *arguments] if module in self._modules and self._is_as_here(environ):
                return await self.fork(module, arguments, environ=environ, output=output, errors=output)
        return await launch_plainly(command, environ=environ, output=output)

    async def fork(
        self, module: str, arguments: Sequence[str], *, environ: Mapping[str, str], output: int, errors: int
    ) -> Forked:
        """Forks a process that runs a module; its environment has to be as here in what imports read."""
        limits = [resource.getrlimit(number) for number in LIMITS]
        asked = Asked(arguments=arguments, environ=environ, limits=limits, own_session=True)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            socket.send_fds(self._server(module), [asked.encode()], [output, errors, theirs.fileno()])
        told = await asyncio.get_running_loop().sock_recv(ours, REPORT.size)
        if not told:
            raise OSError(f"the server that forks {module} has ended")
        return Forked(REPORT.unpack(told)[0], ours)

    def close(self) -> None:
        """Ends the servers, and each process that they have forked."""
        for process, connection in self._servers.values():
            connection.shutdown(socket.SHUT_RDWR)  # a fork of this process may have it, too
            connection.close()
            process.wait()
        self._servers.clear()

    def _is_as_here(self, environ: Mapping[str, str]) -> bool:
        return at_import(environ) == at_import(self._environ)

    def _server(self, module: str) -> socket.socket:
        if module not in self._servers:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MESSAGE_BYTES_MAX)
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.forking.server", str(theirs.fileno()), module],
                    cwd=self._root,
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            self._servers[module] = (process, ours)
        return self._servers[module][1]


def at_import(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that are read by imports, or before them."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(AT_IMPORT) and not name.startswith(NOT_AT_IMPORT)
    }
