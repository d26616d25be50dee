"""A gRPC client for a service with a leader: deadlines, retries with backoff, and redirection to the leader.

controllers = Client(("localhost:9093", "localhost:9094"), ControllerStub)
response = await controllers.call(lambda stub: stub.CreateTopics, request, deadline_ms=5000)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import grpc
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay, wait_random_exponential

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.runtime.clients.patience import Patience
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.requests.decoding import parsed
from quorate.runtime.requests.statuses import BARE, error_from_call, is_overdue, is_refused_stream, is_retriable
from quorate.runtime.telemetry.tracing import OFF, SpanKind, Telemetry

__all__ = ["LEADER_ENDPOINT", "Channels", "Client", "call", "open_channel"]

LEADER_ENDPOINT: Final = "leader_endpoint"
"""The metadata key of a refusal in which a follower names the leader's address, as host:port."""

RECEIVE_BYTES_MAX: Final = 16 << 20
SEND_BYTES_MAX: Final = 16 << 20
BACKOFF_FIRST_S: Final = 0.02
BACKOFF_MAX_S: Final = 1.0

_NOT_LEADING: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})
_ELSEWHERE: Final = _NOT_LEADING | {
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""Errors after which another node may succeed where this one cannot."""

Request = TypeVar("Request", contravariant=True)
Response = TypeVar("Response", covariant=True)
Stub = TypeVar("Stub")
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]


class Unary(Protocol[Request, Response]):
    """The type of a unary method of a generated gRPC stub."""

    def __call__(
        self,
        request: Request,
        *,
        timeout: float | None = None,
        metadata: Any = None,
        wait_for_ready: bool | None = None,
    ) -> Awaitable[Response]: ...


def open_channel(
    address: str,
    transport: Transport = PLAIN,
    *,
    receive_bytes_max: int = RECEIVE_BYTES_MAX,
    send_bytes_max: int = SEND_BYTES_MAX,
) -> grpc.aio.Channel:
    """Opens a channel to `host:port`, `unix:/path` or `dns:///name:port`, by default in the clear; it connects later.

    It detects dead and restarted peers, reconnects within 0.5 s, and makes no call again by itself.
    """
    options = (
        ("grpc.max_receive_message_length", receive_bytes_max),
        ("grpc.max_send_message_length", send_bytes_max),
        # gRPC waits 1 s before it reconnects, and doubles that; a node that restarts is back sooner.
        ("grpc.initial_reconnect_backoff_ms", 20),
        ("grpc.min_reconnect_backoff_ms", 500),
        ("grpc.max_reconnect_backoff_ms", 500),
        # gRPC looks a name up again after 30 s at the earliest; a pod that is restarted has another address at once.
        ("grpc.dns_min_time_between_resolutions_ms", 500),
        # Each channel has its own connection: otherwise they share one backoff for the same address.
        ("grpc.use_local_subchannel_pool", 1),
        # All retries are done here, where the deadline and the leader are known.
        ("grpc.enable_retries", 0),
        ("grpc.lb_policy_name", "round_robin"),
    )
    return transport.open_channel(address, options)


class Channels:
    """The channels to several servers by address; `connect` opens each when it is first needed."""

    def __init__(self, connect: Callable[[str], grpc.aio.Channel]) -> None:
        self._connect = connect
        self._opened: dict[str, grpc.aio.Channel] = {}

    def __getitem__(self, address: str) -> grpc.aio.Channel:
        if address not in self._opened:
            self._opened[address] = self._connect(address)
        return self._opened[address]

    async def leave(self, address: str) -> None:
        """Closes and forgets the channel to an address, and cancels the calls on it; the next call has another."""
        if (channel := self._opened.pop(address, None)) is not None:
            await channel.close()

    async def close(self) -> None:
        """Closes and forgets every channel, and cancels the calls in progress."""
        opened, self._opened = self._opened, {}
        for channel in opened.values():
            await channel.close()


async def call(
    method: Unary[Request, Response],
    request: Request,
    *,
    deadline_ms: int,
    telemetry: Telemetry = OFF,
    metadata: Metadata = (),
    server: str = "",
    trailing: Callable[[Metadata], None] | None = None,
) -> Response:
    """Makes one call. Returns the response; raises the ApiError that the server sent.

    Without a connection it raises NETWORK_EXCEPTION, after the deadline REQUEST_TIMED_OUT, for a response that does not
    parse UNKNOWN_SERVER_ERROR. The current trace span is propagated, under a client span that names the address
    `server`. `trailing` is called with the response's trailing metadata. Only a call whose stream the server refuses is
    made again within the deadline, since nothing of it was executed (gRFC A6, transparent retries).
    """
    assert deadline_ms > 0, deadline_ms
    once = partial(
        _call_once, method, request, telemetry=telemetry, metadata=metadata, server=server, trailing=trailing
    )
    ends = asyncio.get_running_loop().time() + deadline_ms / 1000
    try:
        return await once(deadline_ms=deadline_ms)
    except ApiError as refusal:
        if not is_refused_stream(refusal):
            raise
    return await _again(once, ends)


async def _again(once: Callable[..., Awaitable[Response]], ends: float) -> Response:
    """Makes a call whose stream was refused again, until it is not or its time (of the loop's clock) `ends`."""
    now_s = asyncio.get_running_loop().time
    attempts = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, ApiError) and is_refused_stream(error)),
        wait=wait_random_exponential(multiplier=BACKOFF_FIRST_S, max=BACKOFF_MAX_S),
        stop=stop_before_delay(ends - now_s()),
        reraise=True,
    )
    async for attempt in attempts:
        with attempt:
            return await once(deadline_ms=max(1, int((ends - now_s()) * 1000)))
    raise AssertionError("tenacity ends with a result or raises")


async def _call_once(
    method: Unary[Request, Response],
    request: Request,
    *,
    deadline_ms: int,
    telemetry: Telemetry,
    metadata: Metadata,
    server: str,
    trailing: Callable[[Metadata], None] | None,
) -> Response:
    name = _method_name(method) if telemetry.enabled else ""
    with telemetry.span(name, kind=SpanKind.CLIENT, root=False) as span:
        if telemetry.enabled and (traceparent := span.traceparent) is not None:
            metadata = (*metadata, ("traceparent", traceparent.decode("ascii")))
            for key, value in (("rpc.system.name", "grpc"), ("rpc.method", name), ("server.address", server)):
                span.set(key, value)
        try:
            under_way = method(request, timeout=deadline_ms / 1000, metadata=metadata or None)
            response = parsed(await under_way)
            if trailing is not None:
                finished: Any = under_way  # a call of gRPC's, or one that is multiplexed
                trailing(tuple(await finished.trailing_metadata() or ()))
        except grpc.aio.AioRpcError as error:
            span.set("rpc.response.status_code", error.code().name)
            span.fail(error.code().name)
            raise error_from_call(error) from None
        except Corrupt as nonsense:
            span.fail(grpc.StatusCode.INTERNAL.name)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(nonsense)) from None
        span.set("rpc.response.status_code", "OK")
        return response


class Client(Generic[Stub]):
    """A client of a service at several addresses. It calls the leader, or a node that answers.

    It starts with the first of `addresses`. A refusal that names the leader is followed at once; after one that does
    not, or if nobody has answered in time, the next address is tried. `stub` is the generated class.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        stub: Callable[[grpc.aio.Channel], Stub],
        *,
        telemetry: Telemetry = OFF,
        transport: Transport = PLAIN,
    ) -> None:
        assert addresses
        self._channels = Channels(lambda address: open_channel(address, transport))
        self._addresses = tuple(addresses)
        self._make_stub = stub
        self._telemetry = telemetry
        self._stubs: dict[str, Stub] = {}
        self._silent_since: dict[str, float] = {}
        """By address, when the first of the calls began that had no answer in time, with none answered after it."""
        self._at = self._addresses[0]

    @property
    def address(self) -> str:
        """The server address of the next call; it changes with redirections and failed calls."""
        return self._at

    def stub(self, address: str | None = None) -> Stub:
        """Returns the stub for `address`, by default that of the next call; for streams, which the caller manages."""
        target = address or self._at
        if target not in self._stubs:
            self._stubs[target] = self._make_stub(self._channels[target])
        return self._stubs[target]

    async def call(
        self,
        method: Callable[[Stub], Unary[Request, Response]],
        request: Request,
        *,
        deadline_ms: int,
        metadata: Metadata = (),
        retry: Callable[[ApiError], bool] = is_retriable,
        patience: Patience | None = None,
    ) -> Response:
        """Calls with retries, and returns the response. Raises the last ApiError after `deadline_ms` in total.

        An error for which `retry` returns true is tried again, after exponential backoff with jitter; at once if it
        names the leader. Others are raised at once. Pass your own `retry` for a write that must not be done twice:
        after NETWORK_EXCEPTION or REQUEST_TIMED_OUT it is unknown whether the server has done it.

        A connection on which no call is answered in time is closed once its silence is longer than `patience` allows,
        and the next call opens another. Without `patience` it is left once the keepalive finds it dead
        (`transport.KEEPALIVE`).
        """
        now_s = asyncio.get_running_loop().time
        ends = now_s() + deadline_ms / 1000
        pauses = _RetryPauses()
        attempts = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ApiError) and retry(error)),
            wait=pauses.pause_s,
            stop=stop_before_delay(deadline_ms / 1000),
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                began = now_s()
                remaining_ms = max(1, int((ends - began) * 1000))
                at = self._at
                try:
                    answer = await call(
                        method(self.stub(at)),
                        request,
                        deadline_ms=remaining_ms,
                        telemetry=self._telemetry,
                        metadata=metadata,
                        server=at,
                    )
                except ApiError as error:
                    pauses.is_hinted = self._turn_to(error, at)
                    if patience is not None:
                        await self._bear(at, began, patience, error)
                    raise
                if patience is not None:
                    await self._bear(at, began, patience)
                return answer
        raise AssertionError("tenacity ends with a result or raises")

    async def close(self) -> None:
        """Closes every connection, and cancels the calls in progress."""
        self._stubs.clear()
        await self._channels.close()

    def turn_from(self, address: str) -> None:
        """If the next call would go to `address`, has it go to the configured address after that one."""
        if self._at == address:
            known = self._addresses.index(address) if address in self._addresses else -1
            self._at = self._addresses[(known + 1) % len(self._addresses)]

    async def _bear(self, at: str, began: float, patience: Patience, error: ApiError | None = None) -> None:
        """Hears how a call ended, and closes the connection if it has been silent for longer than patience lasts."""
        if error is None or BARE not in error.metadata:
            patience.answered()
        if error is None or not is_overdue(error):
            self._silent_since.pop(at, None)
        elif patience.runs_out(silent_since=self._silent_since.setdefault(at, began)):
            del self._silent_since[at]
            self._stubs.pop(at, None)
            await self._channels.leave(at)

    def _turn_to(self, error: ApiError, at: str) -> bool:
        """Sets the address for the next attempt after this error of `at`. Returns true if it named the leader."""
        leader = error.metadata.get(LEADER_ENDPOINT, "")
        if error.code in _NOT_LEADING and leader and leader != at:
            self._at = leader
            return True
        if error.code in _ELSEWHERE:
            self.turn_from(at)
        return False


class _RetryPauses:
    """The pauses between the attempts of one call."""

    __slots__ = ("_backoff", "_hints", "is_hinted")

    def __init__(self) -> None:
        self._backoff = wait_random_exponential(multiplier=BACKOFF_FIRST_S, max=BACKOFF_MAX_S)
        self._hints = 0
        self.is_hinted = False

    def pause_s(self, state: RetryCallState) -> float:
        """Returns the pause in seconds: none after the first redirect, then backoff.

        Two nodes that each name the other as the leader would otherwise be called in a fast loop.
        """
        if self.is_hinted:
            self._hints += 1
            if self._hints == 1:
                return 0.0
        return self._backoff(state)


def _method_name(method: object) -> str:
    """Returns `pkg.Service/Method`. gRPC gives it only to interceptors, and these double the cost of a call."""
    name: object = getattr(method, "_method", b"")
    return name.decode("ascii").lstrip("/") if isinstance(name, bytes) else ""
