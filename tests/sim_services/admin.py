"""Operators: each asks any controller for topics of its own, and holds every answer against the committed log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from grpc.aio import AioRpcError

from kraft.api.create_partitions_pb2 import CreatePartitionsRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.api.list_partition_reassignments_pb2 import ListPartitionReassignmentsRequest
from kraft.service.admin_pb2 import AdminRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.controller.engine.deduplication import ID_BYTES
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Offset, parse_uuid
from quorate.runtime.requests.statuses import UNTOUCHED, error_from_call
from services.controller.pending import OFFSET as REFUSED_AT
from tests.sim_driver.checker import require
from tests.sim_driver.loop import Life, context_of
from tests.sim_driver.wire import Channel

if TYPE_CHECKING:
    from tests.sim_services.world import ServicesWorld

FIRST_HOST: Final = 400
OFFSET: Final = "kraft-offset"
TRIES_MAX: Final = 60
UNKNOWN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""After these it may have been done, or may still be."""


class Admin:
    """One operator with one request at a time; a topic of which it does not know what became is left alone."""

    def __init__(self, world: ServicesWorld, number: int) -> None:
        self.host = FIRST_HOST + number
        self.answer_count = 0
        self.read_count = 0
        self.untouched_count = 0
        self._world = world
        self._random = world.stream(f"operator{number}")
        self._topics: dict[str, int] = {}
        """Those that are there for certain, and how many partitions they have."""
        self._made = 0
        self._life = Life(self, f"operator {self.host}")

    def start(self) -> None:
        self._world.loop.create_task(self._live(), context=context_of(self._life))

    async def _live(self) -> None:
        deeds: tuple[Callable[[], Awaitable[None]], ...] = (
            *((self._create,) * 3),
            *((self._create_once,) * 2),
            *((self._read,) * self._world.cluster.read_share),
            self._look,
            self._grow,
            self._delete,
        )
        try:
            while True:
                await asyncio.sleep(self._random.randrange(2 * self._world.cluster.admin_every_ms) / 1000)
                await self._random.choice(deeds)()
        except Exception as error:
            self._world.failed(self._life, error)

    # What is asked.

    async def _create(self) -> None:
        name, count = self._new()
        answer = await self._ask("CreateTopics", _creation(name, count))
        if answer is not None and answer[0].topics[0].error_code == 0:
            self._created(name, count, answer[0].topics[0].topic_id, answer[1])
        elif isinstance(self._refusal, ApiError) and UNTOUCHED in self._refusal.metadata:
            self.untouched_count += 1
            self._world.network.after_ms(5_000, self._require_absent, name)

    def _require_absent(self, name: str) -> None:
        require("I-42", not self._world.ledger.was_created(name), "was refused as not begun, and is there", name)

    async def _create_once(self) -> None:
        """Sent again until it is known what became of it, by whichever controller: it is done once."""
        name, count = self._new()
        request = AdminRequest(request_id=self._random.randbytes(ID_BYTES), create_topics=_creation(name, count))
        for _ in range(TRIES_MAX):
            answer = await self._ask("Submit", request)
            if answer is None:
                if self._refusal is None or self._refusal.code not in UNKNOWN:
                    return
                await asyncio.sleep(self._random.randrange(20, 200) / 1000)
                continue
            told = answer[0].create_topics.topics[0]
            is_again = told.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            # A checkpoint has no request ids (`quorate.controller.engine.deduplication`): a load loses them.
            is_known = not any(each.counts()["loads"] for each in self._world.controllers)
            require("I-42", not (is_again and is_known), "a request with an id was done twice", name)
            if told.error_code == 0:
                self._created(name, count, told.topic_id, answer[0].offset)
            return

    def _created(self, name: str, count: int, topic_id: str, offset: Offset) -> None:
        found = self._world.ledger.topics_at(offset).get(name)
        expected = bytes(parse_uuid(topic_id)), count
        require("I-41", found == expected, "created, it is said, and is not so", name, offset, found, expected)
        self._topics[name] = count

    async def _grow(self) -> None:
        name = self._any()
        if name is None:
            return
        count = self._topics.pop(name) + 1
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count)
        answer = await self._ask("CreatePartitions", CreatePartitionsRequest(topics=[topic]))
        if answer is not None and answer[0].results[0].error_code == 0:
            found = self._world.ledger.topics_at(answer[1]).get(name)
            require("I-41", found is not None and found[1] == count, "has other partitions", name, found, count)
            self._topics[name] = count

    async def _delete(self) -> None:
        name = self._any()
        if name is None:
            return
        del self._topics[name]
        request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)])
        answer = await self._ask("DeleteTopics", request)
        if answer is not None and answer[0].responses[0].error_code == 0:
            found = self._world.ledger.topics_at(answer[1]).get(name)
            require("I-41", found is None, "deleted, it is said, and is there", name, answer[1])

    async def _read(self) -> None:
        """All topics, as they are at the offset that the answer names; not from before any earlier answer."""
        answer = await self._ask("DescribeTopicPartitions", DescribeTopicPartitionsRequest())
        if answer is None:
            return
        self.read_count += 1
        told = {topic.name: (bytes(parse_uuid(topic.topic_id)), len(topic.partitions)) for topic in answer[0].topics}
        known = self._world.ledger.topics_at(answer[1])
        require("I-39", told == known, "reads what is not so", answer[1], sorted(told.items() ^ known.items()))

    async def _look(self) -> None:
        """At what needs no leader: a standby may answer by what it has applied, but never what is not committed."""
        controller = self._random.choice(self._world.controllers)
        stub: Any = ControllerStub(Channel(self._world.network, self._life, controller.address))  # type: ignore[arg-type]
        call = stub.ListPartitionReassignments(ListPartitionReassignmentsRequest(), timeout=2.0)
        try:
            await call
        except AioRpcError:
            return
        trailing, end = dict(call.trailing), self._world.checker.end
        require("I-39", int(trailing[OFFSET]) <= end, "answered with what is not committed", trailing, end)
        if "kraft-standby" in trailing:
            self._world.fired("answered without a leader")

    # How.

    _refusal: ApiError | None = None

    async def _ask(self, rpc: str, request: Any) -> tuple[Any, Offset] | None:
        """The answer, and the offset that it speaks of; None if it was refused, which `_refusal` tells."""
        asked_at = self._world.ledger.told
        controller = self._random.choice(self._world.controllers)
        stub: Any = ControllerStub(Channel(self._world.network, self._life, controller.address))  # type: ignore[arg-type]
        call = getattr(stub, rpc)(request, timeout=self._random.choice((0.3, 2.0, 6.0)))
        try:
            answer = await call
        except AioRpcError as refused:
            self._refusal = error_from_call(refused)
            if REFUSED_AT in self._refusal.metadata:  # a refusal speaks of a state, too
                self._world.ledger.hear(int(self._refusal.metadata[REFUSED_AT]), asked_at=asked_at)
            return None
        self.answer_count += 1
        offset = answer.offset if rpc == "Submit" else int(dict(call.trailing)[OFFSET])
        self._world.ledger.hear(offset, asked_at=asked_at)
        return answer, offset

    def _new(self) -> tuple[str, int]:
        self._made += 1
        return f"t{self.host}-{self._made}", self._random.choice((1, 1, 2))

    def _any(self) -> str | None:
        return self._random.choice(sorted(self._topics)) if self._topics else None


def _creation(name: str, count: int) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
    return CreateTopicsRequest(topics=[topic])
