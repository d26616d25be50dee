"""A gRPC channel whose credentials may be replaced while it is in use; gRPC's own keep theirs for ever.

Calls go over the channel with the present credentials. An earlier one takes no more calls, and is closed when those
that it has are over: the stream by which a follower reads the log never breaks for a new certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

__all__ = ["Credentials", "ReloadingChannel"]


class Credentials:
    """A client's gRPC credentials, compared by identity: another object means that new certificates are there."""

    __slots__ = ("value",)

    def __init__(self, value: grpc.ChannelCredentials) -> None:
        self.value = value


class _Connected:
    """A channel with the credentials that it was opened with, its methods, and how many calls it has."""

    __slots__ = ("calls", "channel", "credentials", "methods")

    def __init__(self, channel: grpc.aio.Channel, credentials: Credentials) -> None:
        self.channel = channel
        self.credentials = credentials
        self.methods: dict[_Method, Callable[..., Any]] = {}
        self.calls = 0

    def end_call(self, call: object) -> None:
        self.calls -= 1


class _Method:
    """A method of a stub: it is looked up for each call on the channel of the time."""

    def __init__(self, channel: ReloadingChannel, kind: str, path: str, args: Any, kwargs: Any) -> None:
        self._channel = channel
        self._kind = kind
        self._method = path.encode("ascii")  # by which name gRPC's own has it, and `call` writes it on a span
        self._args = args
        self._kwargs = kwargs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        connected = self._channel.connected()
        method = connected.methods.get(self)
        if method is None:
            make = getattr(connected.channel, self._kind)
            method = connected.methods[self] = make(self._method.decode("ascii"), *self._args, **self._kwargs)
        call = method(*args, **kwargs)
        connected.calls += 1
        call.add_done_callback(connected.end_call)
        return call


class ReloadingChannel(grpc.aio.Channel):
    """A channel for generated stubs. `credentials` returns the present ones, `connect` opens a channel with them.

    Each call looks whether they are others by now, and is made over a new channel then. `close_retired` is to be called
    from time to time.
    """

    def __init__(
        self, credentials: Callable[[], Credentials], connect: Callable[[Credentials], grpc.aio.Channel]
    ) -> None:
        self._credentials = credentials
        self._connect = connect
        self._retired: list[_Connected] = []
        self._now = self._open()

    def connected(self) -> _Connected:
        """Returns the channel with the present credentials; if they are new, opens it and retires the one before."""
        if self._now.credentials is not self._credentials():
            self._retired.append(self._now)
            self._now = self._open()
        return self._now

    async def close_retired(self) -> None:
        """Closes the channels with earlier credentials that have no call any more."""
        over = [each for each in self._retired if not each.calls]
        self._retired = [each for each in self._retired if each.calls]
        for each in over:
            await each.channel.close()

    def _open(self) -> _Connected:
        credentials = self._credentials()
        return _Connected(self._connect(credentials), credentials)

    # For the interface of a channel.

    async def __aenter__(self) -> ReloadingChannel:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Closes the channels, and cancels their calls after `grace` seconds, at once without."""
        retired, self._retired = self._retired, []
        for each in (*retired, self._now):
            await each.channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Returns the state of the present channel."""
        return self.connected().channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Waits until the present channel has another state."""
        await self._now.channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Waits until the present channel is connected."""
        await self.connected().channel.channel_ready()

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Returns a callable for a unary method; each call goes over the channel with the present credentials."""
        return _Method(self, "unary_unary", method, args, kwargs)

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """As `unary_unary`, for a method that answers with a stream."""
        return _Method(self, "unary_stream", method, args, kwargs)

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """As `unary_unary`, for a method that takes a stream."""
        return _Method(self, "stream_unary", method, args, kwargs)

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """As `unary_unary`, for a method that takes and answers with a stream."""
        return _Method(self, "stream_stream", method, args, kwargs)
