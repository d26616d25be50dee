"""The observer's database drops its oldest past, and says from where on the rest is whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from kraft import Uuid
from kraft.service.observer_pb2 import DiffImagesRequest, ListChangesRequest, LogPlace, WatchImageRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from quorate.nouns import Offset
from quorate.records import ConfigRecord, NoOpRecord, RemoveTopicRecord, TopicRecord
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import CommittedBatch, Event
from quorate.sql.state_past import StateReader, UnknownState
from quorate.sql.state_tables import GAPS, NOUN_TABLES
from quorate.sql.subjects import subject_of
from services.observer import state_keeper
from services.observer.change_messages import PART_BYTES
from services.observer.changes import Changes
from services.observer.state_keeper import StateKeeper
from tests.cli.directories import run
from tests.runtime.test_log_reader import node
from tests.services.observer.test_another_log import Scripted, batch
from tests.services.observer.test_changes import failure, serving_at
from tests.services.observer.test_state_keeper import (
    POLL_S,
    append,
    batches_of,
    expected,
    history_at,
    keeping,
    reached,
    reading,
    rows_of,
)
from tests.sql.test_state_database import Written, place

YEAR_MS = 365 * 86_400_000


async def test_the_past_is_dropped_while_the_log_goes_on_and_the_present_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_keeper, "DROP_EACH_S", 0.0)
    url, batches = f"sqlite:///{tmp_path}/state.db", batches_of(120, seed=6)
    engine, reader = reading(url), StateReader(reading(url))
    async with node(tmp_path) as (driver, log), keeping(url, log, retention_ms=0):
        for batch in batches:
            await reached(engine, await append(driver, [batch]))
        end = driver.core.log.leo
        while not begins_of(reader):  # noqa: ASYNC110  it is dropped after the rows are written
            await asyncio.sleep(POLL_S)
    begins = begins_of(reader)
    with reader.reading() as past:
        assert list(past.diff(subject_of(None), begins, end))
        with pytest.raises(UnknownState, match=f"the retention has replaced the log from offset 0 to {begins - 1}"):
            list(past.diff(subject_of(None), begins - 1, end))
    reader.close()

    assert expected(batches) == rows_of(engine)
    ends = [1 + sum(map(len, batches[:count])) for count in range(1, len(batches) + 1)]
    for count, each in enumerate(ends, 1):
        if each >= begins:
            assert (each, expected(batches[:count])) == (each, history_at(engine, each))


@pytest.mark.parametrize("is_of_an_earlier_release", [False, True])
async def test_a_state_of_a_time_before_what_the_retention_has_dropped_is_refused(
    tmp_path: Path, *, is_of_an_earlier_release: bool
) -> None:
    """One that noted no time leaves that of the next change as the first that is known."""
    orders = Uuid(b"orders".ljust(16))
    log = [TopicRecord("a", Uuid(b"a" * 16)), TopicRecord("orders", orders), TopicRecord("b", Uuid(b"b" * 16))]
    log += [RemoveTopicRecord(orders), TopicRecord("c", Uuid(b"c" * 16)), TopicRecord("d", Uuid(b"d" * 16))]
    url = f"sqlite:///{tmp_path}/state.db"
    written = Written(url)
    for record in log:
        written.follow([record])
        written.write()
    written.database.drop_past(place(4).timestamp_ms)
    if is_of_an_earlier_release:
        with written.engine.begin() as connection:
            connection.execute(sa.update(GAPS).values(until_ms=None))
    written.close()
    past, known = Changes(url), 4 if is_of_an_earlier_release else 3

    def at(offset: Offset) -> LogPlace:
        return LogPlace(timestamp_ms=place(offset).timestamp_ms)

    for unknown in range(known):
        rule = f"the state at {1_000 + unknown} ms is not known: .* from offset 0 to 3, until {1_000 + known} ms"
        with pytest.raises(ApiError, match=rule):
            await anext(past.image(at(unknown)))
        for begin, end in ((unknown, 5), (unknown, unknown)):
            with pytest.raises(ApiError, match=rule):
                await anext(past.diff(DiffImagesRequest(**{"from": at(begin), "to": at(end)})))
    found = [(await anext(past.image(at(each)))).next_offset for each in range(known, 6)]
    before = (await anext(past.image(LogPlace(timestamp_ms=999)))).next_offset
    listed = await past.page(ListChangesRequest(**{"from": at(1)}))
    past.close()

    assert [each + 1 for each in range(known, 6)] == found
    assert 0 == before
    assert [4, 5] == [each.offset for each in listed.changes]


def begins_of(reader: StateReader) -> Offset:
    with reader.reading() as past:
        return past.begins()


class OneByOne(Scripted):
    """A log that goes on once a database has what was before."""

    def __init__(self, events: Sequence[CommittedBatch], engine: sa.Engine) -> None:
        super().__init__(events)
        self._engine = engine

    async def events(self) -> AsyncIterator[Event]:
        async for each in super().events():
            yield each
            assert isinstance(each, CommittedBatch)
            await reached(self._engine, each.header.next_offset)


class Standing(SystemClock):
    """A clock whose time of day stands."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def wall_ms(self) -> int:
        return self._now_ms


@pytest.mark.parametrize(("is_ahead", "left"), [(False, 0), (True, 4)])
async def test_a_leader_whose_clock_is_ahead_drops_no_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ahead: bool, left: int
) -> None:
    """Here by two years; the observer's own clock says the same, or not."""
    monkeypatch.setattr(state_keeper, "DROP_EACH_S", 0.0)
    url, now_ms, later_ms = f"sqlite:///{tmp_path}/state.db", 1_000, 1_000 + 2 * YEAR_MS
    log = [batch(each, ConfigRecord(TOPIC, "t", "retention.ms", str(each)), since_ms=now_ms) for each in range(5)]
    log += [batch(each, NoOpRecord(), since_ms=later_ms) for each in (5, 6)]
    engine, clock = reading(url), Standing(now_ms if is_ahead else later_ms)
    source = partial(OneByOne, log, engine)
    keeper = StateKeeper(url, source, retention_ms=YEAR_MS, clock=clock)  # type: ignore[arg-type]  # as good as a log
    running = asyncio.create_task(keeper.run())
    await reached(engine, 7)  # what is too old was dropped before
    running.cancel()
    await asyncio.wait([running])
    await keeper.close()
    with engine.connect() as connection:
        found = connection.scalar(sa.select(sa.func.count()).select_from(NOUN_TABLES["configs"].past))

    assert left == found


async def test_a_watch_that_the_retention_has_passed_ends_with_the_first_offset_that_is_there(tmp_path: Path) -> None:
    """It does not go on behind what is lost; the command names no other offset to go on from."""
    url, large = f"sqlite:///{tmp_path}/state.db", "1" * PART_BYTES
    written = Written(url)
    for each in range(8):
        written.follow([ConfigRecord(TOPIC, "t", "retention.ms", f"{each}{large}")])
    written.write()
    async with serving_at(url) as address, open_channel(address) as channel:
        call = ObserverStub(channel).WatchImage(WatchImageRequest(from_offset=0))
        begun = [await call.read(), await call.read()]
        written.database.drop_past(place(6).timestamp_ms)
        error = await failure(call)
        ran = await asyncio.to_thread(run, "history", "--follow", "--from", "0", "--observer", address)
    written.close()

    assert 0 <= begun[-1].next_offset < 5
    assert (ErrorCode.OFFSET_OUT_OF_RANGE, True) == (error.code, "are known from offset 6 on now" in error.message)
    assert (1, True, False) == (ran.code, "are known from offset 6 on" in ran.err, "goes on" in ran.err)


async def test_a_list_of_what_lies_before_the_history_says_so_and_one_backwards_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    written = Written(url)
    written.load([*(NoOpRecord() for _ in range(8)), TopicRecord("a", Uuid(b"a" * 16))])
    written.follow([TopicRecord("b", Uuid(b"b" * 16))])
    written.write()
    written.close()
    async with serving_at(url) as address:
        of = ("history", "--observer", address)
        before, across, backwards = [
            await asyncio.to_thread(run, *of, "--from", begin, "--to", end)
            for begin, end in (("2", "5"), ("2", "10"), ("6", "5"))
        ]
    note = "note: of what lies before offset 9 there is no log"

    assert ["0 changes between offset 5 and offset 5", note] == before.out.splitlines()
    assert ["1 change between offset 9 and offset 10", note] == across.out.splitlines()[1:]
    assert (1, "", True) == (backwards.code, backwards.out, "from 6 to 5: the second offset is below" in backwards.err)


async def test_a_list_that_the_retention_has_passed_between_two_pages_ends_with_the_first_offset_that_is_there(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    written = Written(url)
    for each in range(8):
        written.follow([ConfigRecord(TOPIC, "t", "retention.ms", str(each))])
    written.write()
    past = Changes(url)
    first = await past.page(ListChangesRequest(limit=2))
    written.database.drop_past(place(6).timestamp_ms)
    with pytest.raises(ApiError, match="the list was at offset 2: changes are known from offset 6 on now") as refused:
        await past.page(ListChangesRequest(page_token=first.next_page_token))
    past.close()
    written.close()

    assert [0, 1] == [each.offset for each in first.changes]
    assert ErrorCode.OFFSET_OUT_OF_RANGE is refused.value.code
