"""In-flight requests: at most one for each peer and request class, with retries after an exponential backoff.

Handlers keep no list of what to send. After every step, each role sends what it still lacks (a vote, an
acknowledgement, the next records) to each peer that has no request in flight and no pause. So a request that is lost,
refused or expired is repeated without further state.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from quorate.nouns import NodeId
from quorate.raft.messages import (
    BeginQuorumEpochRequest,
    ControllerPresenceRequest,
    EpochlessRequest,
    Request,
    UpdateRaftVoterRequest,
)

DENIED_WAIT_MS = 1_000
DENIED_WAIT_MAX_MS = 10_000
"""A peer that answered CLUSTER_AUTHORIZATION_FAILED gets the same request again after the first of these times; the
wait doubles each time, up to the second. A node in Kafka ends instead."""


class RequestClass(IntEnum):
    """The classes of requests that do not wait for each other: each may have one request in flight to a peer.

    LOG: votes, epochs and fetches; a fetch may be held for a long poll. VOTERS: voter changes, which take as long as a
    commit. PROBE: ReadIndex. PRESENCE: controller presence.
    """

    LOG = 0
    VOTERS = 1
    PROBE = 2
    PRESENCE = 3


def request_class_of(request: Request) -> RequestClass:
    """Returns the class of `request`, see `RequestClass`."""
    if isinstance(request, BeginQuorumEpochRequest) and request.probe:
        return RequestClass.PROBE
    if isinstance(request, ControllerPresenceRequest):
        return RequestClass.PRESENCE
    return RequestClass.VOTERS if isinstance(request, EpochlessRequest | UpdateRaftVoterRequest) else RequestClass.LOG


class InFlightRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the peer `to` without a response yet; at `deadline_ms` the core gives it up."""

    to: NodeId
    request: Request
    deadline_ms: int

    @property
    def request_class(self) -> RequestClass:
        """The class of the request."""
        return request_class_of(self.request)


class Requests:
    """The requests in flight, the retry pauses, and the failures of each peer.

    A change of role clears requests and pauses: the new role sends its own. Counts of failures and denials stay.
    """

    __slots__ = ("_denied", "_failures", "_flights", "_retry_at_ms", "_token", "_tokens")

    def __init__(self) -> None:
        self._token = 0
        self._failures: dict[tuple[NodeId, RequestClass], int] = {}
        self._denied: dict[tuple[NodeId, type[Request]], tuple[int, int]] = {}
        """For each peer and request type that was not authorized: until when it is not sent, and the length of that
        wait."""
        self._flights: dict[int, InFlightRequest] = {}
        self._tokens: dict[tuple[NodeId, RequestClass], int] = {}
        self._retry_at_ms: dict[tuple[NodeId, RequestClass], int] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def next_token(self) -> int:
        """Returns a number that no earlier request of this process had."""
        self._token += 1
        return self._token

    def add(self, token: int, flight: InFlightRequest) -> None:
        """Records that `flight` was sent under `token`. None may be in flight to its peer in its class."""
        slot = (flight.to, flight.request_class)
        assert slot not in self._tokens, flight  # one request in flight in each slot: a peer and a class
        assert token not in self._flights, (token, flight)
        self._flights[token] = flight
        self._tokens[slot] = token
        assert len(self._tokens) == len(self._flights), (self._tokens, self._flights)

    def take(self, token: object) -> InFlightRequest | None:
        """Removes and returns the request that `token` answers; None if it is no longer awaited."""
        flight = self._flights.pop(token, None) if isinstance(token, int) else None
        if flight is not None:
            del self._tokens[flight.to, flight.request_class]
        assert len(self._tokens) == len(self._flights), (self._tokens, self._flights)
        return flight

    def fail(self, peer: NodeId, request_class: RequestClass = RequestClass.LOG, *, retry_at_ms: int) -> None:
        """Gives up the request in flight to `peer`, counts a failure, and sends the next not before `retry_at_ms`."""
        token = self._tokens.pop((peer, request_class), None)
        if token is not None:
            del self._flights[token]
        assert len(self._tokens) == len(self._flights), (self._tokens, self._flights)
        self._failures[peer, request_class] = self.failures(peer, request_class) + 1
        self._retry_at_ms[peer, request_class] = retry_at_ms

    def succeed(self, peer: NodeId, request_class: RequestClass) -> None:
        """Resets the count of failures of `peer` in this class after a good response."""
        self._failures.pop((peer, request_class), None)

    def deny(self, flight: InFlightRequest, *, now_ms: int) -> None:
        """Records that the peer did not authorize `flight`: requests of this type are not sent to it for a time.

        That is a second at first, doubled each time up to ten. A change of role does not end it: only an operator can
        help.
        """
        what = flight.to, type(flight.request)
        _, waited_ms = self._denied.get(what, (0, DENIED_WAIT_MS // 2))
        wait_ms = min(DENIED_WAIT_MAX_MS, 2 * waited_ms)
        self._denied[what] = now_ms + wait_ms, wait_ms

    def allow(self, flight: InFlightRequest) -> None:
        """Records that the peer authorized `flight`: ends the wait that `deny` has begun for requests of this type."""
        self._denied.pop((flight.to, type(flight.request)), None)

    def failures(self, peer: NodeId, request_class: RequestClass = RequestClass.LOG) -> int:
        """Returns how many requests to `peer` have failed in a row, over all roles."""
        return self._failures.get((peer, request_class), 0)

    def is_failing(self, peer: NodeId, request_class: RequestClass = RequestClass.LOG) -> bool:
        """Returns whether the last request to `peer` failed and none is in flight now."""
        return self.failures(peer, request_class) > 0 and not self.is_asked(peer, request_class)

    def is_asked(self, peer: NodeId, request_class: RequestClass = RequestClass.LOG) -> bool:
        """Returns whether a request to `peer` is in flight."""
        return (peer, request_class) in self._tokens

    def free_at_ms(self, peer: NodeId, request_class: RequestClass = RequestClass.LOG, *, now_ms: int) -> int:
        """Returns from which moment (ms of the core's clock) on `peer` may be sent the next request of this class.

        That is now, the end of its pause, or the deadline of the request in flight.
        """
        token = self._tokens.get((peer, request_class))
        if token is not None:
            return self._flights[token].deadline_ms
        return max(now_ms, self._retry_at_ms.get((peer, request_class), now_ms))

    def allowed_at_ms(self, peer: NodeId, request: Request, *, now_ms: int) -> int:
        """Returns when (ms of the core's clock) a peer that denied such a request may be sent it; else `now_ms`."""
        return self._denied.get((peer, type(request)), (now_ms, 0))[0]

    def expire(self, now_ms: int) -> None:
        """Gives up the requests whose deadline has passed: no failure is counted, and the next may be sent at once."""
        late = [token for token, flight in self._flights.items() if flight.deadline_ms <= now_ms]
        for token in late:
            self.take(token)

    def clear(self) -> None:
        """Forgets requests in flight and pauses, because the role has changed; responses to them will be ignored."""
        self._flights.clear()
        self._tokens.clear()
        self._retry_at_ms.clear()
