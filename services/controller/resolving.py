"""DNS look-ups for commands that need them: done before the decision, as a command does no I/O and may run twice."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Final

RESOLVE_S: Final = 2.0
"""Time limit (s) of a look-up; a name that takes longer counts as unknown."""
NAMES_MAX: Final = 100
"""Names looked up for one request, as each takes a pool thread; further names count as unknown."""


async def resolvable(names: Iterable[str]) -> frozenset[str]:
    """Returns those of `names` that DNS resolves now, as Kafka's InetAddress.getByName would."""
    async with asyncio.TaskGroup() as lookups:
        found = {name: lookups.create_task(_has_address(name)) for name in sorted(names)[:NAMES_MAX]}
    return frozenset(name for name, lookup in found.items() if lookup.result())


async def _has_address(name: str) -> bool:
    try:
        async with asyncio.timeout(RESOLVE_S):
            return bool(await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError, TimeoutError):
        return False
