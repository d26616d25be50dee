"""Which questions are under way: at most one a peer and lane, asked again after a pause that grows by failures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from quorate.nouns import NodeId
from quorate.raft.messages import BeginQuorumEpochRequest, EpochlessRequest, Request, UpdateRaftVoterRequest


class Lane(IntEnum):
    """What does not wait for each other: a fetch may be held, and a voter change takes as long as its commit."""

    LOG = 0
    VOTERS = 1
    PROBE = 2


def lane_of(request: Request) -> Lane:
    """The lane of `request`."""
    if isinstance(request, BeginQuorumEpochRequest) and request.probe:
        return Lane.PROBE
    return Lane.VOTERS if isinstance(request, EpochlessRequest | UpdateRaftVoterRequest) else Lane.LOG


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A request without an answer yet."""

    to: NodeId
    request: Request
    expires_ms: int

    @property
    def lane(self) -> Lane:
        """Where it is the only one to its peer."""
        return lane_of(self.request)


class Requests:
    """The requests of the present role. A new role asks its own, so the old ones' answers are no longer waited for."""

    __slots__ = ("_failures", "_flights", "_retry_ms", "_token", "_tokens")

    def __init__(self) -> None:
        self._token = 0
        self._failures: dict[tuple[NodeId, Lane], int] = {}
        self._flights: dict[int, Flight] = {}
        self._tokens: dict[tuple[NodeId, Lane], int] = {}
        self._retry_ms: dict[tuple[NodeId, Lane], int] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def next_token(self) -> int:
        """A number that no request of this life had before."""
        self._token += 1
        return self._token

    def add(self, token: int, flight: Flight) -> None:
        """`flight` leaves."""
        way = (flight.to, flight.lane)
        assert way not in self._tokens, flight  # one request in flight to each peer and lane
        self._flights[token] = flight
        self._tokens[way] = token

    def take(self, token: object) -> Flight | None:
        """The request that `token` answers, which is then done; None if nobody waits for it any more."""
        flight = self._flights.pop(token, None) if isinstance(token, int) else None
        if flight is not None:
            del self._tokens[flight.to, flight.lane]
        return flight

    def fail(self, peer: NodeId, lane: Lane = Lane.LOG, *, retry_ms: int) -> None:
        """What was asked of `peer` will not be answered; not before `retry_ms` is it asked again."""
        token = self._tokens.pop((peer, lane), None)
        if token is not None:
            del self._flights[token]
        self._failures[peer, lane] = self.failures(peer, lane) + 1
        self._retry_ms[peer, lane] = retry_ms

    def succeed(self, peer: NodeId, lane: Lane) -> None:
        """`peer` has answered well: its next failure is the first again."""
        self._failures.pop((peer, lane), None)

    def failures(self, peer: NodeId, lane: Lane = Lane.LOG) -> int:
        """How often in a row `peer` gave no good answer, in whatever role we asked."""
        return self._failures.get((peer, lane), 0)

    def is_failing(self, peer: NodeId, lane: Lane = Lane.LOG) -> bool:
        """Did the last request to `peer` fail, and is none under way?"""
        return self.failures(peer, lane) > 0 and not self.is_asked(peer, lane)

    def is_asked(self, peer: NodeId, lane: Lane = Lane.LOG) -> bool:
        """Is a request to `peer` under way?"""
        return (peer, lane) in self._tokens

    def free_ms(self, peer: NodeId, lane: Lane = Lane.LOG, *, now_ms: int) -> int:
        """The first moment at which `peer` may be asked; `now_ms` if it may be at once."""
        token = self._tokens.get((peer, lane))
        if token is not None:
            return self._flights[token].expires_ms
        return max(now_ms, self._retry_ms.get((peer, lane), now_ms))

    def expire(self, now_ms: int) -> None:
        """Gives up what should have been answered by now."""
        late = [token for token, flight in self._flights.items() if flight.expires_ms <= now_ms]
        for token in late:
            self.take(token)

    def clear(self) -> None:
        """Forgets what was asked, and who is not to be asked yet: the role has changed."""
        self._flights.clear()
        self._tokens.clear()
        self._retry_ms.clear()
