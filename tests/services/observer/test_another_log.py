"""A database of the state takes nothing from another log, however alike that is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from kraft import Message
from quorate.metadata.configs import TOPIC
from quorate.nouns import Epoch, Offset
from quorate.records import ConfigRecord, RemoveTopicRecord, SnapshotHeaderRecord, TopicRecord, encode_record
from quorate.runtime.following.log_reader import CommittedBatch, Event, LoadedSnapshot
from quorate.runtime.settings.config import ConfigError
from quorate.wire.batch import ControlType, control_batch, data_batch, read_header
from quorate.wire.codec import encode
from quorate.wire.schema import layout_of
from services.observer.state_keeper import StateKeeper
from tests.controller.clusters import uuid
from tests.services.observer.test_state_keeper import POLL_S, TABLES, end_of, reached, reading, rows_of
from tests.services.scripted import WITHIN_S

CHECKPOINT_MS = 77


class Scripted:
    """A log that has these events, and then no more."""

    cluster_id = "c"

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self.high_watermark = 1_000

    async def events(self) -> AsyncIterator[Event]:
        for each in self._events:
            yield each
        await asyncio.Event().wait()


def batch(offset: Offset, *some: Message, epoch: Epoch = 1, since_ms: int = 1_000) -> CommittedBatch:
    data = in_bytes(offset, *some, epoch=epoch, timestamp_ms=since_ms + offset)
    return CommittedBatch(header=read_header(data), data=data, high_watermark=1_000)


def in_bytes(offset: Offset, *some: Message, epoch: Epoch, timestamp_ms: int) -> bytes:
    values = [encode_record(each, max(layout_of(type(each)).versions)) for each in some]
    return data_batch(base_offset=offset, epoch=epoch, timestamp_ms=timestamp_ms, values=values)


def checkpoint(end: Offset, epoch: Epoch, *some: Message) -> LoadedSnapshot:
    header = encode(SnapshotHeaderRecord(last_contained_log_timestamp=CHECKPOINT_MS), 0)
    head = control_batch(
        base_offset=0, epoch=0, timestamp_ms=CHECKPOINT_MS, records=[(ControlType.SNAPSHOT_HEADER, header)]
    )
    data = head + in_bytes(1, *some, epoch=0, timestamp_ms=CHECKPOINT_MS)
    return LoadedSnapshot(end_offset=end, epoch=epoch, data=data)


async def kept(url: str, events: Sequence[Event], *, until: Offset) -> None:
    """Keeps the database until it is so far. Raises what ends the keeper before."""
    source = partial(Scripted, events)
    keeper = StateKeeper(url, source)  # type: ignore[arg-type]  # it has what the keeper asks of a log
    running = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(WITHIN_S):
            while end_of(reading(url)) < until and not running.done():  # noqa: ASYNC110  it tells nobody
                await asyncio.sleep(POLL_S)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await keeper.close()
    if not running.cancelled():
        await running


ORDERS = [batch(0, TopicRecord("orders", uuid(1))), batch(1, TopicRecord("payments", uuid(2)))]
LATER = batch(2, TopicRecord("later", uuid(5)))
OTHERS: dict[str, tuple[Sequence[Event], str]] = {
    "it was formatted anew with its id": (
        [
            batch(0, TopicRecord("fresh", uuid(3)), since_ms=9_000),
            batch(1, TopicRecord("other", uuid(4)), since_ms=9_000),
            batch(2, RemoveTopicRecord(uuid(3)), since_ms=9_000),
        ],
        "it ends at offset 2 with a batch of 1001 ms since 1970, and the log has one of 9001 ms there: it is not the "
        "same log; name another one, or delete this one",
    ),
    "it begins with a checkpoint of an older epoch": (
        [checkpoint(3, 0, TopicRecord("fresh", uuid(3)))],
        "it ends at offset 2 in epoch 1, and a checkpoint of the log has epoch 0 at offset 3: it is not the same log",
    ),
}


@pytest.mark.parametrize("other", OTHERS)
async def test_what_another_log_has_is_refused(tmp_path: Path, other: str) -> None:
    events, reason = OTHERS[other]
    url = f"sqlite:///{tmp_path}/state.db"
    await kept(url, ORDERS, until=2)
    before = rows_of(reading(url))
    with pytest.raises(ConfigError) as refused:
        await kept(url, events, until=3)

    assert reason in str(refused.value)
    assert before == rows_of(reading(url))


async def test_the_same_log_is_taken_by_batches_and_from_a_checkpoint_on(tmp_path: Path) -> None:
    """A checkpoint may have another time than the batch that is the last one in it."""
    url = f"sqlite:///{tmp_path}/state.db"
    state = [TopicRecord("orders", uuid(1)), TopicRecord("payments", uuid(2))]
    for count, (events, until) in enumerate(
        [([checkpoint(2, 1, *state)], 2), ([*ORDERS, LATER], 3), ([checkpoint(2, 1, *state), LATER], 3)]
    ):
        await kept(url, events, until=until)
        assert (count, until) == (count, end_of(reading(url)))


@pytest.mark.parametrize("record", [RemoveTopicRecord(uuid(2)), ConfigRecord(TOPIC, "payments", "retention.ms", "2")])
async def test_a_change_of_a_row_that_is_not_there_is_refused(tmp_path: Path, record: Message) -> None:
    """Here somebody has deleted it."""
    url = f"sqlite:///{tmp_path}/state.db"
    log = [*ORDERS, batch(2, ConfigRecord(TOPIC, "payments", "retention.ms", "1"))]
    await kept(url, log, until=3)
    engine = reading(url)
    table, key = ("topics", "name 'payments'") if isinstance(record, RemoveTopicRecord) else ("configs", "'payments'")
    with engine.begin() as connection:
        connection.execute(sa.text(f"DELETE FROM {table} WHERE '{table}' = 'configs' OR name = 'payments'"))
    before = rows_of(engine)
    more = [*log, batch(3, TopicRecord("third", uuid(3)), record)]
    with pytest.raises(ConfigError, match=f"it has no row of {table} with .*{key}.*, which the record at offset 4"):
        await kept(url, more, until=5)

    assert before == rows_of(engine)
    assert 3 == end_of(engine)
    assert TABLES.keys() == before.keys()
    await reached(engine, 3)
