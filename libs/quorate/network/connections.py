"""How many connections are open at the listeners of one process, in all and from each address, and how many may be."""

from __future__ import annotations

from collections import Counter
from typing import Final

__all__ = ["NO_LIMIT", "ConnectionCounts"]

NO_LIMIT: Final = (1 << 31) - 1
"""Kafka's default of `max.connections` and `max.connections.per.ip`."""


class ConnectionCounts:
    """The counts that all listeners of a process share, with Kafka's `max.connections` and `max.connections.per.ip`.

    Kafka leaves the connections beyond `max.connections` waiting; here they are closed.
    """

    def __init__(self, *, limit: int = NO_LIMIT, limit_per_ip: int = NO_LIMIT) -> None:
        self._limit = limit
        self._limit_per_ip = limit_per_ip
        self._count = 0
        self._by_host: Counter[str] = Counter()

    def admits(self, host: str) -> str | None:
        """Returns why another connection from `host` is refused, or None."""
        if self._count >= self._limit:
            return f"{self._count} connections are open, as many as max.connections allows"
        if (count := self._by_host[host]) >= self._limit_per_ip:
            return f"{count} connections from {host} are open, as many as max.connections.per.ip allows"
        return None

    def add(self, host: str) -> None:
        """Counts a connection from `host`."""
        self._count += 1
        self._by_host[host] += 1

    def remove(self, host: str) -> None:
        """Counts a connection from `host` no more."""
        assert self._by_host[host] > 0, host
        self._count -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
