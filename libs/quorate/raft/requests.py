"""Which questions are under way: at most one a peer, asked again after a pause."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.nouns import NodeId
from quorate.raft.messages import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A request without an answer yet."""

    to: NodeId
    request: Request
    expires_ms: int


class Requests:
    """The requests of the present role. A new role asks its own, so the old ones' answers are no longer waited for."""

    __slots__ = ("_flights", "_retry_ms", "_token", "_tokens")

    def __init__(self) -> None:
        self._token = 0
        self._flights: dict[int, Flight] = {}
        self._tokens: dict[NodeId, int] = {}
        self._retry_ms: dict[NodeId, int] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def next_token(self) -> int:
        """A number that no request of this life had before."""
        self._token += 1
        return self._token

    def add(self, token: int, flight: Flight) -> None:
        """`flight` leaves."""
        assert flight.to not in self._tokens, flight  # one request in flight to each peer
        self._flights[token] = flight
        self._tokens[flight.to] = token

    def take(self, token: object) -> Flight | None:
        """The request that `token` answers, which is then done; None if nobody waits for it any more."""
        flight = self._flights.pop(token, None) if isinstance(token, int) else None
        if flight is not None:
            del self._tokens[flight.to]
        return flight

    def fail(self, peer: NodeId, *, retry_ms: int) -> None:
        """What was asked of `peer` will not be answered; not before `retry_ms` is it asked again."""
        token = self._tokens.pop(peer, None)
        if token is not None:
            del self._flights[token]
        self._retry_ms[peer] = retry_ms

    def is_asked(self, peer: NodeId) -> bool:
        """Is a request to `peer` under way?"""
        return peer in self._tokens

    def free_ms(self, peer: NodeId, now_ms: int) -> int:
        """The first moment at which `peer` may be asked; `now_ms` if it may be at once."""
        token = self._tokens.get(peer)
        if token is not None:
            return self._flights[token].expires_ms
        return max(now_ms, self._retry_ms.get(peer, now_ms))

    def expire(self, now_ms: int) -> None:
        """Gives up what should have been answered by now."""
        late = [token for token, flight in self._flights.items() if flight.expires_ms <= now_ms]
        for token in late:
            self.take(token)

    def clear(self) -> None:
        """Forgets all: the role has changed."""
        self._flights.clear()
        self._tokens.clear()
        self._retry_ms.clear()
