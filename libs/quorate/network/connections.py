"""How many connections are open at the listeners of one process, in all and from each address, and how many may be.

Where there is no room for another, the oldest that has not logged in goes: connections that only stay open keep nobody
out, and a login takes less time than it takes to come to be the oldest.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

__all__ = ["LISTEN_BACKLOG", "NO_LIMIT", "Connection", "ConnectionCounts", "Room"]

NO_LIMIT: Final = (1 << 31) - 1
"""Kafka's default of `max.connections` and `max.connections.per.ip`."""
LISTEN_BACKLOG: Final = 4_096
"""Connections that the system keeps until the loop accepts them, as many as Linux does by default (`somaxconn`). It
drops one beyond them, whose client tries again after a second. Kafka has a thread that accepts, and keeps 50."""


class Connection(Protocol):
    """One connection, as it is counted."""

    @property
    def host(self) -> str:
        """Returns the client's address."""

    def leave(self, reason: str) -> None:
        """Ends the connection at once, to make room."""


class Room:
    """The open connections that one limit counts, and those among them that have not logged in.

    `which` says in words which they are ("from 10.0.0.1 are open"); `setting` is Kafka's name of the limit.
    """

    def __init__(self, which: str, setting: str, limit: int) -> None:
        self._which, self._setting, self._limit = which, setting, limit
        self._open: set[Connection] = set()
        self._strangers: OrderedDict[Connection, None] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is open."""
        return not self._open

    @property
    def full(self) -> str | None:
        """Why there is no room for another connection, as a sentence; None if there is room."""
        if len(self._open) < self._limit:
            return None
        return f"{len(self._open)} connections {self._which}, as many as {self._setting} allows"

    @property
    def oldest_stranger(self) -> Connection | None:
        """The connection that has been open longest without a login; None if all have logged in."""
        return next(iter(self._strangers), None)

    def add(self, connection: Connection) -> None:
        """Counts a connection, which has not logged in yet."""
        self._open.add(connection)
        self._strangers[connection] = None

    def know(self, connection: Connection) -> None:
        """Notes that a connection has logged in: it does not have to go to make room."""
        self._strangers.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        """Counts a connection no more."""
        self._open.discard(connection)
        self.know(connection)


class ConnectionCounts:
    """The counts that all listeners of a process share, with Kafka's `max.connections` and `max.connections.per.ip`.

    Kafka leaves the connections beyond `max.connections` waiting; here they are closed if all others have logged in.
    """

    def __init__(self, *, limit: int = NO_LIMIT, limit_per_ip: int = NO_LIMIT) -> None:
        self._all = Room("are open", "max.connections", limit)
        self._limit_per_ip = limit_per_ip
        self._by_host: dict[str, Room] = {}

    def _room_of(self, host: str) -> Room:
        return Room(f"from {host} are open", "max.connections.per.ip", self._limit_per_ip)

    def add(self, connection: Connection, at_listener: Room) -> str | None:
        """Counts a new connection. If there is no room, `leave` of the oldest one without a login is called.

        If all have logged in, returns why the new one is refused, and does not count it; else returns None.
        """
        host = connection.host
        of_host = self._by_host.get(host) or self._room_of(host)
        rooms = (of_host, at_listener, self._all)
        for room in rooms:
            if (full := room.full) and room.oldest_stranger is None:
                return full
        for room in rooms:
            # The one that has gone from the room before has made room here, too, or the one seen above is still there.
            if (full := room.full) and (oldest := room.oldest_stranger) is not None:
                oldest.leave(f"{full}; of those that have not logged in this one is the oldest")
        self._by_host[host] = of_host
        for room in rooms:
            room.add(connection)
        return None

    def know(self, connection: Connection, at_listener: Room) -> None:
        """Notes that a connection has logged in: it does not have to go when another one comes."""
        for room in (self._by_host[connection.host], at_listener, self._all):
            room.know(connection)

    def remove(self, connection: Connection, at_listener: Room) -> None:
        """Counts a connection no more."""
        host = connection.host
        for room in (self._by_host[host], at_listener, self._all):
            room.remove(connection)
        if self._by_host[host].is_empty:
            del self._by_host[host]
