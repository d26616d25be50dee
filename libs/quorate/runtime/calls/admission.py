"""Admission control: limits on concurrent calls and streams, for each purpose in total and for each client address.

Kafka limits connections (`max.connections`, `max.connections.per.ip`) and has a separate listener for controllers. Here
one listener serves all clients, and a connection carries many calls, so calls are limited, by purpose. Streams may stay
open for ever, so only a part of each limit may be streams: there is always room for unary calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.late_refusals import LateRefusals
from quorate.runtime.requests.room import ROOM_BYTES, WAIT_S, Room

__all__ = ["DEFAULT_LIMITS", "Admission", "CallLimits", "Ledger", "MethodLedger"]

HEALTH: Final = "health"
REQUESTS: Final = "requests"
PEERS: Final = "peers"
CONTROLLER: Final = "the controller"
WITHOUT_ROOM: Final = frozenset({PEERS, CONTROLLER})
"""Purposes whose large requests never wait for memory: those of the cluster's own processes, on which raft depends."""

_SERVICES: Final = {
    "grpc.health.v1.Health": HEALTH,
    "grpc.reflection.v1.ServerReflection": "reflection",
    "grpc.reflection.v1alpha.ServerReflection": "reflection",
    "kraft.service.Multiplexed": "multiplexed calls",
    "kraft.service.Quorum": PEERS,
    "kraft.service.RaftClient": CONTROLLER,
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
}
"""The purpose of the calls of a gRPC service; each purpose has its own limits."""

_METHODS: Final = {
    "kraft.service.Heartbeat/BrokerHeartbeat": "heartbeats",
    "kraft.service.Heartbeat/BrokerHeartbeatStream": "heartbeats",
    "kraft.service.Heartbeat/BrokerHeartbeats": "heartbeats",
    "kraft.service.Heartbeat/KeepAlive": "heartbeats",
    "kraft.service.Controller/AllocateProducerIds": "brokers",
    "kraft.service.Controller/AlterPartition": "brokers",
    "kraft.service.Controller/AssignReplicasToDirs": "brokers",
    "kraft.service.Controller/BrokerRegistration": "brokers",
    "kraft.service.Controller/ChangeBrokerState": "brokers",
    "kraft.service.Controller/ClaimSessions": "brokers",
    "kraft.service.Controller/ControllerRegistration": "brokers",
}
"""The purpose of a method's calls where it differs from its service's; all other methods are `requests`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """The limits on concurrent calls of one purpose."""

    calls: int = 2_000
    """The setting `max.calls`: all calls together."""
    calls_per_ip: int = 500
    """The setting `max.calls.per.ip`: the calls of one client address."""
    streams: int = 1_500
    """The setting `max.streams`: how many of `calls` may be streams."""
    streams_per_ip: int = 250
    """The setting `max.streams.per.ip`: how many of `calls_per_ip` may be streams."""
    large_bytes: int = ROOM_BYTES
    """The memory that large requests may take together."""
    large_wait_s: float = WAIT_S
    """How long one waits for it."""
    refused_at_once: int = 50
    """So many calls beyond a limit are refused as they come."""
    refused_per_s: float = 400
    """Of more, so many a second."""
    refused_late_max: int = 2_000
    """While so many wait for that, further ones are refused as they come."""


DEFAULT_LIMITS: Final = CallLimits()


class Ledger:
    """The concurrent calls of one purpose, counted. Each `enter` must be followed by one `leave`."""

    __slots__ = ("_calls", "_calls_by_ip", "_limits", "_purpose", "_streams", "_streams_by_ip", "room", "stream_room")

    def __init__(self, purpose: str, limits: CallLimits) -> None:
        self._purpose = purpose
        self._limits = limits
        self._calls = 0
        self._streams = 0
        self._calls_by_ip: dict[str, int] = {}
        self._streams_by_ip: dict[str, int] = {}
        self.room = None if purpose in WITHOUT_ROOM else Room(purpose, limits.large_bytes, limits.large_wait_s)
        """The memory that its large requests take; None where they never wait."""
        self.stream_room = None if self.room is None else Room(purpose, limits.large_bytes, limits.large_wait_s)
        """The same for the messages of its streams: a stream whose answers are not taken holds up no other call."""

    def enter(self, peer: str, *, is_stream: bool) -> str:
        """Admits and counts a call of `peer` (gRPC's name of the other end); returns its address, for `leave`.

        The address has gRPC's kind before it and no port: `ipv4:10.0.0.1`. If a limit is reached it counts nothing, and
        raises ApiError(THROTTLING_QUOTA_EXCEEDED).
        """
        ip, limits = peer.rpartition(":")[0], self._limits
        of_ip = self._calls_by_ip.get(ip, 0)
        if is_stream:
            streams_of_ip = self._streams_by_ip.get(ip, 0)
            if streams_of_ip >= limits.streams_per_ip:
                raise self._full(ip, "streams", streams_of_ip, "max.streams.per.ip")
            if self._streams >= limits.streams:
                raise self._full("all callers", "streams", self._streams, "max.streams")
        if of_ip >= limits.calls_per_ip:
            raise self._full(ip, "calls", of_ip, "max.calls.per.ip")
        if self._calls >= limits.calls:
            raise self._full("all callers", "calls", self._calls, "max.calls")
        self._calls += 1
        self._calls_by_ip[ip] = of_ip + 1
        if is_stream:
            self._streams += 1
            self._streams_by_ip[ip] = streams_of_ip + 1
        return ip

    def leave(self, ip: str, *, is_stream: bool) -> None:
        """Counts the end of a call that was admitted; `ip` is what `enter` has returned for it."""
        self._calls -= 1
        _decrease(self._calls_by_ip, ip)
        if is_stream:
            self._streams -= 1
            _decrease(self._streams_by_ip, ip)

    def _full(self, whose: str, what: str, count: int, key: str) -> ApiError:
        # THROTTLING_QUOTA_EXCEEDED is retriable: the client may try again, as Kafka's do after a refused connection.
        return ApiError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"{whose}: {count} {what} for {self._purpose} are under way, as many as {key} allows",
            {"limit": key, "count": str(count)},
        )


def _decrease(counts: dict[str, int], ip: str) -> None:
    left = counts[ip] - 1
    if left:
        counts[ip] = left
    else:
        del counts[ip]


class MethodLedger:
    """Counts the calls of one RPC that are under way. The limits are those of its purpose, for all RPCs together."""

    __slots__ = ("_of_purpose", "room", "stream_room", "unary")

    def __init__(self, of_purpose: Ledger) -> None:
        self._of_purpose = of_purpose
        self.room, self.stream_room = of_purpose.room, of_purpose.stream_room
        self.unary = 0
        """The calls under way that are no streams."""

    def enter(self, peer: str, *, is_stream: bool) -> str:
        """Admits and counts a call of `peer`, also for the purpose; returns what `Ledger.enter` returns, for `leave`.

        Raises ApiError(THROTTLING_QUOTA_EXCEEDED) if a limit of the purpose is reached.
        """
        ip = self._of_purpose.enter(peer, is_stream=is_stream)
        self.unary += not is_stream
        return ip

    def leave(self, ip: str, *, is_stream: bool) -> None:
        """Counts the end of a call that was admitted; `ip` is what `enter` has returned for it."""
        self._of_purpose.leave(ip, is_stream=is_stream)
        self.unary -= not is_stream


class Admission:
    """The call limits of one server: one count for each purpose."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._ledgers: dict[str, Ledger] = {}
        self._of_methods: dict[str, MethodLedger] = {}
        self.late = LateRefusals(
            at_once=limits.refused_at_once, per_s=limits.refused_per_s, waiting_max=limits.refused_late_max
        )
        """When those are refused that a ledger does not admit."""

    def ledger(self, method: str) -> MethodLedger:
        """Returns the count of a method's calls (`pkg.Service/Method`): the same object for each request of it.

        Its limits are shared with the other methods of the same purpose.
        """
        purpose = _METHODS.get(method) or _SERVICES.get(method.rpartition("/")[0], REQUESTS)
        of_purpose = self._ledgers.setdefault(purpose, Ledger(purpose, self._limits))
        return self._of_methods.setdefault(method, MethodLedger(of_purpose))

    @property
    def under_way(self) -> Mapping[str, int]:
        """How many calls of each method are under way; no streams, which may stay for ever."""
        return {method: ledger.unary for method, ledger in self._of_methods.items() if ledger.unary}
