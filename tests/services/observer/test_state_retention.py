"""The observer's database drops its oldest past, and says from where on the rest is whole."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quorate.nouns import Offset
from quorate.sql.kept_reads import KeptReader, UnknownState
from quorate.sql.subjects import subject_of
from services.observer import state_keeper
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


def begins_of(reader: KeptReader) -> Offset:
    with reader.reading() as past:
        return past.begins()
