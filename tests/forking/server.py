"""A process from which others are forked that run one module: `python -m tests.forking.server FD MODULE`.

It has imported what the module imports, and has no threads. FD is a SOCK_SEQPACKET socket: each message asks for one
process. It ends when the other end of that socket is closed, and its children with it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import io
import json
import os
import resource
import runpy
import select
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final, TextIO

MESSAGE_BYTES_MAX: Final = 128 << 10
"""Of a request; the environment is the most of it."""
FDS: Final = 3
"""File descriptors with each request: standard output, standard error, and the socket of the report."""
REPORT: Final = struct.Struct("!q")
"""Sent twice on the report's socket: the pid, and the `returncode` at the end."""
PR_SET_PDEATHSIG: Final = 1
LIMITS: Final = [getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The process that is asked for: its arguments after the module, its whole environment, its limits by LIMITS."""

    arguments: Sequence[str]
    environ: Mapping[str, str]
    limits: Sequence[Sequence[int]]
    own_session: bool

    def encode(self) -> bytes:
        """The message. Raises ValueError if it is too large for one."""
        if len(message := json.dumps(asdict(self)).encode()) > MESSAGE_BYTES_MAX:
            raise ValueError(f"a request of {len(message)} bytes; {MESSAGE_BYTES_MAX} are the most")
        return message


def serve(connection: socket.socket) -> Asked | None:
    """Forks a process for each request; returns None at the end of all, and in a forked process what it is to be."""
    reports: dict[int, tuple[int, int]] = {}  # by the child's pidfd: its pid, and where its end is reported
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    server = os.getpid()
    while True:
        for ready, _ in poll.poll():
            if ready in reports:
                poll.unregister(ready)
                _tell_end(*reports.pop(ready))
                os.close(ready)
                continue
            message, fds, _, _ = socket.recv_fds(connection, MESSAGE_BYTES_MAX, FDS)
            if not message:
                return None
            asked = Asked(**json.loads(message))
            if (pid := os.fork()) == 0:
                connection.detach()  # its number may be another file's from here on
                _become(asked, fds, server)
                return asked
            output, errors, report = fds
            os.close(output)
            os.close(errors)
            child = os.pidfd_open(pid)
            reports[child] = (pid, report)
            poll.register(child, select.POLLIN)
            os.write(report, REPORT.pack(pid))


def _tell_end(pid: int, report: int) -> None:
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # nobody waits for it any longer
        os.write(report, REPORT.pack(os.waitstatus_to_exitcode(status)))
    os.close(report)


def _become(asked: Asked, fds: Sequence[int], server: int) -> None:
    """Gives this forked process the files, the limits, the session and the environment that are asked for."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)  # it ended before the line above
    output, errors, _ = fds
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, standard in ((nothing, 0), (output, 1), (errors, 2)):
        os.dup2(fd, standard)
    os.closerange(3, 1 + max(map(int, os.listdir("/proc/self/fd"))))
    for number, limits in zip(LIMITS, asked.limits, strict=True):
        if resource.getrlimit(number) != tuple(limits):
            resource.setrlimit(number, (limits[0], limits[1]))
    if asked.own_session:
        os.setsid()
    os.environ.clear()
    os.environ.update(asked.environ)
    sys.stdin = sys.__stdin__ = _again(sys.stdin, 0)  # type: ignore[misc]  # __stdin__ is Final in typeshed
    sys.stdout = sys.__stdout__ = _again(sys.stdout, 1)  # type: ignore[misc]  # likewise
    sys.stderr = sys.__stderr__ = _again(sys.stderr, 2)  # type: ignore[misc]  # likewise


def _again(stream: TextIO, fd: int) -> TextIO:
    """A standard stream of the same kind as this process's own, on the file that has its number now."""
    assert isinstance(stream, io.TextIOWrapper)
    how = "rb" if fd == 0 else "wb"
    return io.TextIOWrapper(
        open(fd, how, buffering=0 if stream.write_through and fd else -1, closefd=False),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def prepare(module: str) -> None:
    """Imports what the module imports; a module that fails at that fails in each process, as it does without us."""
    found = importlib.util.find_spec(module)
    main = module if found is None or found.submodule_search_locations is None else f"{module}.__main__"
    with suppress(Exception):
        importlib.import_module(main)
    sys.modules.pop(main, None)  # each process runs it anew, as `__main__`
    gc.collect()
    gc.freeze()  # collections in the forked processes leave the memory that they share as it is


def run(module: str, arguments: Sequence[str]) -> None:
    """What `python -m module` does, in this process."""
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _fd, _module = sys.argv[1:]
    prepare(_module)
    if (_asked := serve(socket.socket(fileno=int(_fd)))) is not None:
        run(_module, _asked.arguments)
