"""The observer's database drops its oldest past, and says from where on the rest is whole."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from kraft import Uuid
from kraft.service.observer_pb2 import DiffImagesRequest, ListChangesRequest, LogPlace
from quorate.errors import ApiError
from quorate.nouns import Offset
from quorate.records import RemoveTopicRecord, TopicRecord
from quorate.sql.kept_reads import KeptReader, UnknownState
from quorate.sql.kept_tables import GAPS
from quorate.sql.subjects import subject_of
from services.observer import state_keeper
from services.observer.changes import Changes
from tests.runtime.test_log_reader import node
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
from tests.sql.test_kept import Kept, place


async def test_the_past_is_dropped_while_the_log_goes_on_and_the_present_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_keeper, "DROP_EACH_S", 0.0)
    url, batches = f"sqlite:///{tmp_path}/state.db", batches_of(120, seed=6)
    engine, reader = reading(url), KeptReader(reading(url))
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
    kept = Kept(url)
    for record in log:
        kept.follow([record])
        kept.write()
    kept.database.drop_past(place(4).timestamp_ms)
    if is_of_an_earlier_release:
        with kept.engine.begin() as connection:
            connection.execute(sa.update(GAPS).values(until_ms=None))
    kept.close()
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


def begins_of(reader: KeptReader) -> Offset:
    with reader.reading() as past:
        return past.begins()
