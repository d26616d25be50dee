"""How an observer's database follows the log: past open transactions, and while more comes than is followed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import sqlalchemy as sa

from kraft import Message
from kraft.control.leader_change_message import LeaderChangeMessage
from quorate.metadata.configs import TOPIC
from quorate.metadata.versions import LATEST
from quorate.nouns import Offset
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    VotersRecord,
    encode_record,
)
from quorate.runtime.following.log_reader import CommittedBatch
from quorate.sql.following import Following
from quorate.wire.batch import ControlType, control_batch, data_batch, read_header
from quorate.wire.codec import encode
from quorate.wire.schema import layout_of
from services.observer import state_keeper
from services.observer.state_keeper import StateKeeper
from services.observer.state_log import apply, skip
from tests.cli.directories import batch as in_bytes
from tests.services.observer.test_state_keeper import end_of, reached, reading
from tests.services.scripted import WITHIN_S

TORRENT = 20_000
"""Batches, each of which takes some tenths of a millisecond to follow."""


async def test_a_restart_passes_a_metadata_transaction_in_which_the_leader_changed() -> None:
    """As a controller of Kafka leaves it that is lost between two batches of it (KIP-868)."""
    change = encode(LeaderChangeMessage(leader_id=1), 0)
    control = [(ControlType.LEADER_CHANGE, change), (ControlType.KRAFT_VOTERS, encode(VotersRecord(), 0))]
    batches = [
        data(0, FeatureLevelRecord("metadata.version", LATEST)),
        data(1, BeginTransactionRecord("some"), FeatureLevelRecord("group.version", 1)),
        control_batch(base_offset=3, epoch=2, timestamp_ms=0, records=control),
        data(5, AbortTransactionRecord("failover")),
    ]
    first, restarted = Following(), Following()
    for batch in batches:
        event = CommittedBatch(header=read_header(batch), data=batch, high_watermark=6)
        await apply(first, event)
        await skip(restarted, event)

    assert (6, []) == (restarted.end, restarted.take())
    assert first.image.voters == restarted.image.voters == VotersRecord()
    assert list(first.image.state.records(LATEST)) == list(restarted.image.state.records(LATEST))


def data(offset: Offset, *batch: Message) -> bytes:
    values = [encode_record(each, max(layout_of(type(each)).versions)) for each in batch]
    return data_batch(base_offset=offset, epoch=1, timestamp_ms=0, values=values)


class Torrent:
    """A log of which more is always there than is followed, until the database has some of it, or too much came."""

    cluster_id = "c"
    high_watermark = 1_000_000

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self.read_to: asyncio.Future[Offset] = asyncio.get_running_loop().create_future()
        """How far the log was read when the database had something."""

    async def events(self) -> AsyncIterator[CommittedBatch]:
        for offset in range(TORRENT):
            data = in_bytes(1, offset, (NoOpRecord(), 0))
            yield CommittedBatch(header=read_header(data), data=data, high_watermark=self.high_watermark)
            if offset % 100 == 0 and (end_of(self._engine) or offset == TORRENT - 100):
                self.read_to.set_result(offset)
                break
        await asyncio.Event().wait()


async def test_what_is_there_is_written_while_more_comes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    torrent = Torrent(reading(url))
    keeper = StateKeeper(url, lambda: torrent)  # type: ignore[arg-type, return-value]
    running = asyncio.create_task(keeper.run())
    async with asyncio.timeout(WITHIN_S):
        read_to = await torrent.read_to
    running.cancel()
    await asyncio.wait([running])
    await keeper.close()

    assert read_to < TORRENT - 100


class Endless:
    """A log that has always more, and says how much of it was read."""

    cluster_id, high_watermark = "c", 0

    def __init__(self) -> None:
        self.read_bytes = 0

    async def events(self) -> AsyncIterator[CommittedBatch]:
        for offset in itertools.count():
            record = ConfigRecord(TOPIC, f"t{offset}", "retention.ms", "1" * 30_000)
            data = data_batch(base_offset=offset, epoch=1, timestamp_ms=0, values=[encode_record(record, 0)])
            self.read_bytes += len(data)
            yield CommittedBatch(header=read_header(data), data=data, high_watermark=offset + 1)
            await asyncio.sleep(0)


async def test_while_a_database_does_not_take_a_change_no_more_of_the_log_is_read_than_a_part(tmp_path: Path) -> None:
    """Records that were read meanwhile are written then, each value from the record that has it."""
    url, log = f"sqlite:///{tmp_path}/state.db", Endless()
    keeper = StateKeeper(url, lambda: log)  # type: ignore[arg-type, return-value]  # it has what the keeper asks of a log
    running = asyncio.create_task(keeper.run())
    engine = reading(url)
    async with asyncio.timeout(WITHIN_S):
        await reached(engine, 1)
        with engine.connect() as other:
            other.exec_driver_sql("BEGIN IMMEDIATE")
            held = end_of(engine)
            before = log.read_bytes
            for _ in range(500):
                await asyncio.sleep(0)
            ahead = log.read_bytes - before
        await reached(engine, held + 100)
    running.cancel()
    await asyncio.wait([running])
    await keeper.close()
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT resource_name, valid_from_offset FROM configs ORDER BY 2").all()

    assert ahead < 3 * state_keeper.AHEAD_BYTES
    assert [(f"t{offset}", offset) for offset in range(len(found))] == list(map(tuple, found))
    assert len(found) > held
