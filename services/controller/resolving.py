"""Looks up host names for decisions that depend on it: a core does no I/O, and decides the same twice."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Final

RESOLVE_S: Final = 2.0
"""A name that takes longer is not known: a request waits for its slowest name, and a resolver may be away."""
NAMES_MAX: Final = 100
"""Names looked up for one request, each in a thread of a small pool; those beyond are not known."""


async def resolvable(names: Iterable[str]) -> frozenset[str]:
    """Those of `names` that have an address now, as Kafka's controller would find (InetAddress.getByName)."""
    async with asyncio.TaskGroup() as lookups:
        found = {name: lookups.create_task(_has_address(name)) for name in sorted(names)[:NAMES_MAX]}
    return frozenset(name for name, lookup in found.items() if lookup.result())


async def _has_address(name: str) -> bool:
    try:
        async with asyncio.timeout(RESOLVE_S):
            return bool(await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError, TimeoutError):
        return False
