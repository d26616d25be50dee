"""An observer's image is the state at one offset, whatever is applied while it is sent, and no secret is in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from kraft import Message
from kraft.service.observer_pb2 import GetImageResponse
from quorate.controller.secrets import redacted
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, record_version
from quorate.nouns import Offset
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    decode_record,
    encode_record,
)
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import CommittedBatch
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from quorate.wire.batch import data_batch, read_header
from services.observer.changes import Changes
from services.observer.image_messages import PART_BYTES
from services.observer.images import IMAGES_MAX, Images
from tests.cli.test_no_secret import FORMS, with_secrets
from tests.services.observer.test_state_keeper import batches_of

COUNT = 400
"""Configs of 1 KB: some parts."""


class Log:
    """A log to which batches are appended while it is read."""

    cluster_id, leader_id, is_led_elsewhere, high_watermark = "c", 1, False, 0

    def __init__(self) -> None:
        self._queue: asyncio.Queue[CommittedBatch] = asyncio.Queue()
        self.end: Offset = 0

    def append(self, *records: Message) -> None:
        values = [encode_record(record, record_version(record, LATEST)) for record in records]
        data = data_batch(base_offset=self.end, epoch=1, timestamp_ms=0, values=values)
        self.end += len(records)
        self._queue.put_nowait(CommittedBatch(header=read_header(data), data=data, high_watermark=self.end))

    async def events(self) -> AsyncIterator[CommittedBatch]:
        while True:
            yield await self._queue.get()


class Followed:
    """A replica of a log, and its images."""

    def __init__(self) -> None:
        self.log = Log()
        self.replica = Replica(self.log, SystemClock(), OFF)
        self.images = Images(self.replica, Changes(None))

    async def take(self, *records: Message) -> None:
        """Appends a batch, and waits until it is replayed."""
        self.log.append(*records)
        async for replayed in self.replica.changes():
            if replayed == self.log.end:
                return


@pytest.fixture
async def followed() -> AsyncIterator[Followed]:
    made = Followed()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = group.create_task(made.replica.run())
        for batch in batches_of(60, seed=1):
            await made.take(*batch)
        await made.take(*a_lot("1"))
        yield made
        running.cancel()


def a_lot(value: str) -> list[Message]:
    return [ConfigRecord(TOPIC, f"t{number}", "retention.ms", value * 1_000) for number in range(COUNT)]


def rebuilt(parts: Sequence[GetImageResponse]) -> ClusterState:
    state = ClusterState()
    state.load((decode_record(value) for part in parts for value in part.records), parts[0].next_offset)
    return state


def copy_of(state: ClusterState, offset: Offset) -> ClusterState:
    """The state without secrets, as it is now."""
    copy = ClusterState()
    copy.load((redacted(record) for record, _ in state.records()), offset)
    return copy


async def test_what_is_applied_meanwhile_is_not_in_it(followed: Followed) -> None:
    before, offset = copy_of(followed.replica.state, followed.log.end), followed.log.end
    async with aclosing(followed.images.tell()) as telling:
        parts = [await anext(telling), await anext(telling)]
        await followed.take(*a_lot("2"))
        parts += [part async for part in telling]

    assert offset == parts[0].next_offset
    assert before == rebuilt(parts) != copy_of(followed.replica.state, followed.log.end)
    assert len(parts) > COUNT * 1_000 // PART_BYTES
    assert max(part.ByteSize() for part in parts) < 2 * PART_BYTES
    await followed.take(*a_lot("3")[:1])
    assert () == followed.replica.state.registry.offsets  # nothing is kept for it any more


async def test_of_a_transaction_it_has_nothing_until_its_end(followed: Followed) -> None:
    before, offset = copy_of(followed.replica.state, followed.log.end), followed.log.end
    await followed.take(BeginTransactionRecord("changes"), *a_lot("2")[:3])
    async with aclosing(followed.images.tell()) as telling:
        parts = [await anext(telling)]
        await followed.take(AbortTransactionRecord("no"))
        await followed.take(*a_lot("3")[:3])
        parts += [part async for part in telling]

    assert (offset, before) == (parts[0].next_offset, rebuilt(parts))


async def test_no_secret_is_in_it(followed: Followed) -> None:
    await followed.take(*(record for record, _ in with_secrets(1)))
    told = b"".join([part.SerializeToString() async for part in followed.images.tell()])

    assert b"redacted" in told
    assert [] == [form for form in FORMS if form.encode() in told]


async def test_so_many_are_told_at_once_and_one_more_is_refused(followed: Followed) -> None:
    telling = [followed.images.tell() for _ in range(IMAGES_MAX)]
    for each in telling:
        await anext(each)
    with pytest.raises(ApiError, match="4 images are being sent already") as refused:
        await anext(followed.images.tell())
    await telling[0].aclose()

    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED == refused.value.code
    again = [part async for part in followed.images.tell()]
    assert copy_of(followed.replica.state, followed.log.end).features.finalized() == rebuilt(again).features.finalized()
    for each in telling:
        await each.aclose()
