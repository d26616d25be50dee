"""Calls to a service that may move: deadlines, retries with backoff, and the way to the leader.

controllers = Client(("localhost:9093", "localhost:9094"), ControllerStub)
response = await controllers.call(lambda stub: stub.CreateTopics, request, deadline_ms=5000)
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import grpc
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay, wait_random_exponential

from quorate.errors import ApiError, ErrorCode
from quorate.runtime.statuses import error_from_call, is_retriable
from quorate.runtime.telemetry import OFF, SpanKind, Telemetry

__all__ = ["LEADER_ENDPOINT", "Client", "call", "open_channel"]

LEADER_ENDPOINT: Final = "leader_endpoint"
"""The metadata key of a refusal under which a node that does not lead says where the leader is, as host:port."""

RECEIVE_BYTES_MAX: Final = 16 << 20
SEND_BYTES_MAX: Final = 16 << 20
BACKOFF_FIRST_S: Final = 0.02
BACKOFF_MAX_S: Final = 1.0

_NOT_LEADING: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})
_ELSEWHERE: Final = _NOT_LEADING | {ErrorCode.NETWORK_EXCEPTION, ErrorCode.LEADER_NOT_AVAILABLE}
"""After these another node may do better than the same one again."""

Request = TypeVar("Request", contravariant=True)
Response = TypeVar("Response", covariant=True)
Stub = TypeVar("Stub")
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]


class Unary(Protocol[Request, Response]):
    """A unary method of a generated stub."""

    def __call__(
        self,
        request: Request,
        *,
        timeout: float | None = None,
        metadata: Any = None,
        wait_for_ready: bool | None = None,
    ) -> Awaitable[Response]: ...


def open_channel(
    address: str, *, receive_bytes_max: int = RECEIVE_BYTES_MAX, send_bytes_max: int = SEND_BYTES_MAX
) -> grpc.aio.Channel:
    """A channel to `host:port`, `unix:/path` or `dns:///name:port` that notices a dead peer and a restarted one."""
    options = (
        ("grpc.max_receive_message_length", receive_bytes_max),
        ("grpc.max_send_message_length", send_bytes_max),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # gRPC waits 1 s before it tries again, and doubles that; a node that restarts is back in less.
        ("grpc.initial_reconnect_backoff_ms", 20),
        ("grpc.min_reconnect_backoff_ms", 500),
        ("grpc.max_reconnect_backoff_ms", 500),
        # A channel of its own connection: otherwise the backoff of one is every other's to the same address.
        ("grpc.use_local_subchannel_pool", 1),
        # All retrying is done here, where the deadline and the leader are known.
        ("grpc.enable_retries", 0),
        ("grpc.lb_policy_name", "round_robin"),
    )
    return grpc.aio.insecure_channel(address, options=options)


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
    """One call, once: the response, or ApiError with the code, message and metadata the server gave.

    Without a connection it is NETWORK_EXCEPTION, past the deadline REQUEST_TIMED_OUT. The current span, if there is
    one, travels along under a client span; `server` is the address to note there. `trailing` is given the trailing
    metadata of a response.
    """
    assert deadline_ms > 0, deadline_ms
    name = _method_name(method) if telemetry.enabled else ""
    with telemetry.span(name, kind=SpanKind.CLIENT, root=False) as span:
        if (traceparent := span.traceparent) is not None:
            metadata = (*metadata, ("traceparent", traceparent.decode("ascii")))
            for key, value in (("rpc.system.name", "grpc"), ("rpc.method", name), ("server.address", server)):
                span.set(key, value)
        try:
            under_way = method(request, timeout=deadline_ms / 1000, metadata=metadata or None)
            response = await under_way
            if trailing is not None:
                assert isinstance(under_way, grpc.aio.Call), under_way
                trailing(tuple(await under_way.trailing_metadata() or ()))
        except grpc.aio.AioRpcError as error:
            span.set("rpc.response.status_code", error.code().name)
            span.fail(error.code().name)
            raise error_from_call(error) from None
        span.set("rpc.response.status_code", "OK")
        return response


class Client(Generic[Stub]):
    """A service that runs on several addresses: it calls the one that leads, or that answers.

    It begins with the first of `addresses`; a refusal that names the leader is followed at once, one without a name
    makes it go to the next. `stub` is the generated class.
    """

    def __init__(
        self, addresses: Sequence[str], stub: Callable[[grpc.aio.Channel], Stub], *, telemetry: Telemetry = OFF
    ) -> None:
        assert addresses
        self._addresses = tuple(addresses)
        self._make_stub = stub
        self._telemetry = telemetry
        self._opened: dict[str, tuple[grpc.aio.Channel, Stub]] = {}
        self._at = self._addresses[0]

    @property
    def address(self) -> str:
        """Where the next call goes."""
        return self._at

    def stub(self, address: str | None = None) -> Stub:
        """The stub of `address`, or of where the next call goes: for streams, which are the caller's to keep."""
        target = address or self._at
        if target not in self._opened:
            channel = open_channel(target)
            self._opened[target] = (channel, self._make_stub(channel))
        return self._opened[target][1]

    async def call(
        self,
        method: Callable[[Stub], Unary[Request, Response]],
        request: Request,
        *,
        deadline_ms: int,
        metadata: Metadata = (),
        retry: Callable[[ApiError], bool] = is_retriable,
    ) -> Response:
        """The response, within `deadline_ms` over all attempts; else the ApiError of the last one.

        An error for which `retry` holds is tried again, after a wait that grows and is random; one that names the
        leader, at once. A write that may not be done twice passes a `retry` of its own: after NETWORK_EXCEPTION or
        REQUEST_TIMED_OUT it is not known whether the first one was done.
        """
        ends = time.monotonic() + deadline_ms / 1000
        course = _Course()
        attempts = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ApiError) and retry(error)),
            wait=course.pause_s,
            stop=stop_before_delay(deadline_ms / 1000),
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                remaining_ms = max(1, int((ends - time.monotonic()) * 1000))
                try:
                    return await call(
                        method(self.stub()),
                        request,
                        deadline_ms=remaining_ms,
                        telemetry=self._telemetry,
                        metadata=metadata,
                        server=self._at,
                    )
                except ApiError as error:
                    course.is_hinted = self._turn_to(error)
                    raise
        raise AssertionError("tenacity ends with a result or raises")

    async def close(self) -> None:
        """Closes every connection; calls under way are cancelled."""
        opened, self._opened = self._opened, {}
        for channel, _ in opened.values():
            await channel.close()

    def _turn_to(self, error: ApiError) -> bool:
        """Chooses where the next attempt goes; True if the error named the place."""
        leader = error.metadata.get(LEADER_ENDPOINT, "")
        if error.code in _NOT_LEADING and leader and leader != self._at:
            self._at = leader
            return True
        if error.code in _ELSEWHERE:
            known = self._addresses.index(self._at) if self._at in self._addresses else -1
            self._at = self._addresses[(known + 1) % len(self._addresses)]
        return False


class _Course:
    """How long one call waits between its attempts."""

    __slots__ = ("_backoff", "_hints", "is_hinted")

    def __init__(self) -> None:
        self._backoff = wait_random_exponential(multiplier=BACKOFF_FIRST_S, max=BACKOFF_MAX_S)
        self._hints = 0
        self.is_hinted = False

    def pause_s(self, state: RetryCallState) -> float:
        """Nothing after the first hint. Two nodes that each name the other must not be asked in a circle."""
        if self.is_hinted:
            self._hints += 1
            if self._hints == 1:
                return 0.0
        return self._backoff(state)


def _method_name(method: object) -> str:
    """`pkg.Service/Method`. gRPC tells it only to interceptors, and those double the cost of a call."""
    name: object = getattr(method, "_method", b"")
    return name.decode("ascii").lstrip("/") if isinstance(name, bytes) else ""
