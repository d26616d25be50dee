"""Ports that are free, and stay so until a process listens on them."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Final

__all__ = ["HOST", "free_ports"]

HOST: Final = "127.0.0.1"
FIRST: Final = 10_000
BLOCK: Final = 50
"""Ports in a block; the first of them marks the block as taken."""
_CLIENTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOW_DEFAULT: Final = 32_768
"""Where the kernel's ports for clients begin if it does not say (Linux's default)."""

_marks: list[socket.socket] = []
_left: list[int] = []


def free_ports(count: int) -> list[int]:
    """Returns `count` ports of loopback that nobody listens on and that this process has not returned before.

    They are none of those that the kernel gives to outgoing connections: such a port may be taken by any client on this
    machine while the server that is to have it starts, or starts again. And they are from blocks of this process: the
    mark of a block is bound as long as the process lives, so that another one takes other ports.
    Raises OSError if there is no block left.
    """
    found: list[int] = []
    while len(found) < count:
        if not _left:
            _left.extend(_new_block())
        port = _left.pop()
        if (probe := _bound(port)) is not None:
            probe.close()
            found.append(port)
    return found


def _new_block() -> list[int]:
    starts = list(range(FIRST, _first_of_clients() - BLOCK, BLOCK))
    while starts:
        start = starts.pop(secrets.randbelow(len(starts)))
        if (mark := _bound(start)) is not None:
            _marks.append(mark)
            return list(range(start + BLOCK - 1, start, -1))
    raise OSError(f"no {BLOCK} ports are left between {FIRST} and {_first_of_clients()}")


def _bound(port: int) -> socket.socket | None:
    probe = socket.socket()
    try:
        probe.bind((HOST, port))
    except OSError:
        probe.close()
        return None
    return probe


def _first_of_clients() -> int:
    try:
        return int(_CLIENTS.read_text().split()[0])
    except OSError:
        return _LOW_DEFAULT
