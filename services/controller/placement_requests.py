"""Client of the placer service: requests replica placements before a write, so that the write itself never waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from kraft.service.placer_pb2 import PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.controller.partitions.new_partitions import Placements
from quorate.errors import ApiError, ErrorCode, refusal_of
from quorate.placement import PlacementSpec, Replicas, UsableBroker
from quorate.runtime.clients.client import Client
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from quorate.runtime.telemetry.tracing import current_traceparent
from services.controller.own_placement import placed_here
from services.controller.placed_ahead import PlacedAhead
from services.controller.placement_stream import DEADLINE_MS, PlacementStream, request_of

log = logger(__name__)

ALONE_S: Final = 30.0
"""So long (s) no placer is asked after none has answered: who waits for one waits 2.5 s, for two 5 s."""
PLACERS: Final = "placers"
PARTITIONS_PER_TURN: Final = 1_000
REPLICAS_PER_ROUND_MAX: Final = 100_000
"""The number of replicas beyond which a round takes no other caller: some 0.4 MB, of 16, and 40 ms of the placer."""


Placed: TypeAlias = Sequence[PlaceResponse.Topic | tuple[Replicas, ...]]
"""Of each topic what a placer has answered, or what it had placed ahead."""


class _Round:
    """A request of several callers together: their specs, their replicas, and who waits for which topics.

    It is finished even if its callers go away meanwhile.
    """

    def __init__(self) -> None:
        self.specs: list[PlacementSpec] = []
        self.replica_count = 0
        self.waiting: list[tuple[slice, asyncio.Future[Placed]]] = []
        self.asking: asyncio.Future[Placed]

    def answer(self, asking: asyncio.Future[Placed]) -> None:
        """Gives each caller its topics, or the error of all; a callback of `asking`."""
        failure = asyncio.CancelledError() if asking.cancelled() else asking.exception()
        for topics, caller in self.waiting:
            if caller.done():  # it has gone
                continue
            if failure is None:
                caller.set_result(asking.result()[topics])
            elif isinstance(failure, asyncio.CancelledError):
                caller.cancel()
            else:
                caller.set_exception(failure)


async def _at_once() -> None:
    """Waits for nothing."""


class Placing:
    """Has a placer place replicas: one Place request at a time, for all callers that came since the one before.

    `due` waits until the next request is due. It waits for the commit that is under way: a topic that is placed before
    that is over can be written only after it, and so may as well share a message to the placer with others. A request
    also asks for placements in reserve, and none is sent for topics that such a reserve serves (`placed_ahead`).
    """

    def __init__(
        self,
        placers: Client[PlacerStub],
        brokers: Callable[[], Sequence[UsableBroker]],
        *,
        due: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._due = due
        self._placers = placers
        self._stream = PlacementStream(placers)
        self._brokers = brokers
        self._loop = asyncio.get_running_loop()
        self._one_message = asyncio.Lock()
        self._next: _Round | None = None
        self._ahead = PlacedAhead(self._loop.time)
        self._alone_until_s = float("-inf")
        self._told = ChangeFilter()

    async def place(self, wanted: Sequence[tuple[str, PlacementSpec]]) -> Placements:
        """Returns by topic name its replicas for each partition, or, as a value, the ApiError that refuses the topic.

        It waits for its turn and for a placer's answer. While no placer answers, this controller places them itself.
        """
        if not wanted:
            return {}
        asked = self._next
        if asked is None or asked.replica_count > REPLICAS_PER_ROUND_MAX:
            asked = self._begin_round()
        start = len(asked.specs)
        asked.specs += [spec for _, spec in wanted]
        asked.replica_count += sum([spec.partition_count * spec.replication_factor for _, spec in wanted])
        # A future of its own: to shield the one of all would cost two more turns of the loop for each caller.
        caller: asyncio.Future[Placed] = self._loop.create_future()
        asked.waiting.append((slice(start, len(asked.specs)), caller))
        topics = await caller
        placements = {
            name: topic if isinstance(topic, tuple) else _of_topic(name, spec, topic)
            for (name, spec), topic in zip(wanted, topics, strict=True)
        }
        if sum([spec.partition_count for _, spec in wanted]) > PARTITIONS_PER_TURN:
            await asyncio.sleep(0)  # others' turn, before the write that takes one of its own
        return placements

    def _begin_round(self) -> _Round:
        begun = self._next = _Round()
        begun.asking = asyncio.ensure_future(self._placed(begun))
        begun.asking.add_done_callback(lambda _: self._close(begun))  # also one that has failed before it was closed
        begun.asking.add_done_callback(begun.answer)
        return begun

    async def _placed(self, asked: _Round) -> Placed:
        """Places what is asked for by the time at which it is due, or at which the message before is answered."""
        await self._due()
        placed = self._taken(asked.specs)
        if placed and None not in placed:
            self._close(asked)
            if self._ahead.is_low and self._next is None:
                self._begin_round()
        else:
            async with self._one_message:
                self._close(asked)
                placed += self._taken(asked.specs[len(placed) :])
                await self._ask(asked.specs, placed)
        assert len(placed) == len(asked.specs), (len(placed), len(asked.specs))
        return placed

    def _close(self, asked: _Round) -> None:
        if self._next is asked:
            self._next = None

    def _taken(self, specs: Sequence[PlacementSpec]) -> list[Any]:
        """Returns what was placed ahead, None for a topic for which nothing was, or whose request is traced."""
        if current_traceparent() is not None:
            return [None] * len(specs)
        return self._ahead.take(specs, self._brokers())

    async def _ask(self, specs: Sequence[PlacementSpec], placed: list[Any]) -> None:
        """Fills the places of `placed` that are None, and has others placed ahead with them."""
        brokers = self._brokers()
        missing = [number for number, placement in enumerate(placed) if placement is None]
        ahead = self._ahead.wanted() if current_traceparent() is None else []
        asked = [*(specs[number] for number in missing), *ahead]
        if not asked:
            return
        response = await self._response(brokers, asked)
        if len(response.topics) != len(asked):
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the placer answered for {len(response.topics)} topics; it was asked for {len(asked)}",
            )
        topics = iter(response.topics)
        for number in missing:
            placed[number] = next(topics)
        for spec, topic in zip(ahead, topics, strict=True):
            self._ahead.add(spec, _of_topic("", spec, topic), brokers)

    async def _response(self, brokers: Sequence[UsableBroker], specs: Sequence[PlacementSpec]) -> PlaceResponse:
        """Asks a placer, and the next one if that has not answered in time; else they are placed here.

        An error of a placer, or of the way to it, is never the caller's: a caller asked a controller.
        """
        now_s = self._loop.time
        if now_s() >= self._alone_until_s:
            try:
                response = await self._asked_of_two(brokers, specs)
            except ApiError as error:
                self._alone_until_s = now_s() + ALONE_S
                if self._told.passes(PLACERS, error.code.name, now_s()):
                    log.warning("no placer answers: replicas are placed here", again_in_s=ALONE_S, reason=str(error))
            else:
                if self._told.settle(PLACERS):
                    log.info("a placer answers again", placer=self._placers.address)
                return response
        return await placed_here(brokers, specs)

    async def _asked_of_two(self, brokers: Sequence[UsableBroker], specs: Sequence[PlacementSpec]) -> PlaceResponse:
        at = self._placers.address
        try:
            return await self._asked(brokers, specs)
        except ApiError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT or self._placers.address == at:
                raise
        return await self._asked(brokers, specs)

    async def _asked(self, brokers: Sequence[UsableBroker], specs: Sequence[PlacementSpec]) -> PlaceResponse:
        """Asks on the stream; by a call if there is a trace, which has a span of each call, or the stream has ended."""
        if current_traceparent() is None:
            response = await self._stream.place(brokers, specs)
            if response is not None:
                return response
        return await self._placers.call(lambda stub: stub.Place, request_of(brokers, specs), deadline_ms=DEADLINE_MS)


def _of_topic(name: str, spec: PlacementSpec, topic: PlaceResponse.Topic) -> tuple[Replicas, ...] | ApiError:
    """Returns the replicas of each partition; an older placer does not have them in one list."""
    if topic.error_code:
        return refusal_of(topic.error_code, f"topic {name!r}: {topic.error_message}", {"topic": name})
    if topic.partitions:
        return tuple(tuple(partition.replicas) for partition in topic.partitions)
    count = spec.partition_count * spec.replication_factor
    if len(topic.replicas) != count:
        why = f"topic {name!r}: the placer answered {len(topic.replicas)} replicas; it was asked for {count}"
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, why, {"topic": name})
    return tuple(zip(*[iter(topic.replicas)] * spec.replication_factor, strict=True))
