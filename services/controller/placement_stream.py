"""A standing stream of requests to one placer: a message costs both of them about half of what a call does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import grpc

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.errors import ApiError, ErrorCode
from quorate.placement import PlacementSpec, UsableBroker
from quorate.runtime.clients.client import Client

__all__ = ["DEADLINE_MS", "PlacementStream", "request_of"]

DEADLINE_MS: Final = 2_500
"""How long one placer may take for an answer, in ms; then the next one is asked."""


class PlacementStream:
    """The stream to the placer that `placers` would call next; it is opened by the first request, and after a failure.

    The brokers are sent when they have changed, and left out otherwise. One request may be under way at a time.
    """

    def __init__(self, placers: Client[PlacerStub]) -> None:
        self._placers = placers
        self._call: Any = None  # a stream call; grpc's stubs have no public name for its class
        self._address = placers.address
        self._sent: Sequence[UsableBroker] | None = None

    async def place(self, brokers: Sequence[UsableBroker], specs: Sequence[PlacementSpec]) -> PlaceResponse | None:
        """Returns the placer's answer; None if the stream has ended, after which the same may be asked again.

        Raises ApiError(REQUEST_TIMED_OUT) after `DEADLINE_MS`; the next request is to another placer then.
        """
        if self._call is None:
            self._address = self._placers.address
            self._call, self._sent = self._placers.stub().PlaceStream(), None
        request = request_of(None if brokers == self._sent else brokers, specs)
        answer = None
        try:
            async with asyncio.timeout(DEADLINE_MS / 1000):
                await self._call.write(request)
                answer = await self._call.read()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # A write to a stream that has ended raises the latter. The caller asks again by a call, which says why.
            pass
        except TimeoutError:
            self._placers.turn_from(self._address)
            why = f"placer {self._address} has not answered within {DEADLINE_MS} ms"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, why) from None
        finally:
            if not isinstance(answer, PlaceResponse):
                self._call.cancel()
                self._call = None
        self._sent = brokers
        return answer if isinstance(answer, PlaceResponse) else None


def request_of(brokers: Sequence[UsableBroker] | None, specs: Sequence[PlacementSpec]) -> PlaceRequest:
    """Builds a request; `brokers` is None if they are those of the request before."""
    return PlaceRequest(
        brokers_as_before=brokers is None,
        replicas_in_one_list=True,
        brokers=[PlaceRequest.Broker(id=broker.id, rack=broker.rack, fenced=broker.fenced) for broker in brokers or ()],
        topics=[
            PlaceRequest.Topic(partition_count=spec.partition_count, replication_factor=spec.replication_factor)
            for spec in specs
        ],
    )
