"""What a state database says of its past is what a replay of the log says: changes by offset, and differences."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from kraft import Message, Uuid
from quorate.controller.secrets import redacted
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.nouns import Offset
from quorate.records import (
    ConfigRecord,
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    TopicRecord,
    with_trace,
)
from quorate.sql import state_past
from quorate.sql.as_of import query_as_of
from quorate.sql.difference import Change, Difference, differences
from quorate.sql.following import Changed, Following
from quorate.sql.nouns import NOUNS, Image, rows
from quorate.sql.records import IN_IMAGE
from quorate.sql.sentences import sentence
from quorate.sql.state_past import Cursor, Gap, StatePast, StateReader, TooMany, UnknownState
from quorate.sql.subjects import subject_of
from tests.metadata.histories import histories, write
from tests.metadata.test_properties import replayed
from tests.sql.test_state_database import Written, applied, is_open, place

ALL = subject_of(None)
SUBJECTS = ("topic/orders", "topic/größe", "broker/1", "broker/01", "controller/2", "user/alice", "configs", "acls")
TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@contextmanager
def past_of(log: list[Message], *, checkpoint: Offset = 0) -> Iterator[StatePast]:
    """The database of a log, of which the records below a checkpoint came with that."""
    with TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/state.db"
        written = Written(url)
        if checkpoint:
            written.load(log[:checkpoint])
        written.follow(log[checkpoint:])
        written.follow([])
        written.write()
        written.close()
        reader = StateReader(sa.create_engine(url))
        with reader.reading() as past:
            yield past
        reader.close()


def whole(log: list[Message]) -> list[Message]:
    """The log up to where no transaction is open."""
    while log and is_open(log):
        log = log[:-1]
    return log


@settings(max_examples=6)
@given(histories(max_size=40).map(whole))
def test_a_query_as_of_any_offset_has_the_rows_of_the_state_there(log: list[Message]) -> None:
    with TemporaryDirectory() as directory:
        written = Written(f"sqlite:///{directory}/state.db")
        written.follow(log)
        written.follow([])
        written.write()
        written.close()
        connection = sqlite3.connect(f"{directory}/state.db")
        for offset in (each for each in range(len(log) + 1) if log and not is_open(log[:each])):
            image = Image(state=replayed(log[:offset]))
            for name in NOUNS:
                found = connection.execute(query_as_of(f"SELECT * FROM {name}", offset)).fetchall()
                assert Counter(rows(NOUNS[name], image)) == Counter(found), (name, offset)
            assert ["replicas"] == [
                each[0] for each in connection.execute(query_as_of("with n AS (SELECT 'replicas') SELECT * FROM n", 0))
            ]
        connection.close()


def followed(log: list[Message]) -> list[Changed]:
    following = Following()
    for _ in following.apply(log, place(0), end=len(log)):
        pass
    return following.changes


def of_tables(state: ClusterState) -> list[str]:
    """The records of a state that are in tables, without secrets, as texts: a quota may be no number."""
    in_tables = tuple(NOUNS[name].record for name in IN_IMAGE)
    return [repr(redacted(record)) for record, _ in state.records(LATEST) if isinstance(record, in_tables)]


def listed(past: StatePast, subject: str | None, *, limit: int, begin: Offset = 0, end: Offset) -> list[Changed]:
    """All changes, page by page."""
    found, cursor = list[Changed](), Cursor(begin)
    while True:
        page = past.changes(subject_of(subject), begin=cursor, end=end, limit=limit)
        assert len(page.changes) <= limit
        found += page.changes
        if page.following is None:
            return found
        assert page.following > cursor
        cursor = page.following


def at_their_places(changes: list[Changed]) -> list[tuple[Offset, Difference]]:
    return [(each.place.offset, each.row) for each in changes]


@pytest.mark.parametrize(
    "query",
    [
        "-- which\n/* of\n all */ WITH a AS (SELECT name FROM topics) SELECT * FROM a",
        "WITH -- of all\n RECURSIVE/**/a(name) AS (SELECT name FROM topics) SELECT * FROM a -- there are",
        "/* WITH */ SELECT name FROM topics",
    ],
)
def test_a_query_as_of_an_offset_may_have_comments_and_may_be_explained(tmp_path: Path, query: str) -> None:
    written = Written(f"sqlite:///{tmp_path}/state.db")
    written.follow([TopicRecord(name, Uuid(name.encode() * 16)) for name in "abc"])
    written.write()
    written.close()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        found = connection.execute(query_as_of(query, 2)).fetchall()
        plan = connection.execute(query_as_of(f"/**/ EXPLAIN /**/ QUERY\nPLAN {query}", 2)).fetchall()
    connection.close()

    assert [("a",), ("b",)] == found
    assert any("topics" in each[3] for each in plan)


@settings(max_examples=8)
@given(histories(max_size=40).map(whole), st.integers(1, 7), st.randoms(use_true_random=False))
def test_its_changes_are_those_of_a_replay_and_its_differences_those_of_the_states(
    log: list[Message], limit: int, chance: Random
) -> None:
    begin, end = sorted(chance.randrange(len(log) + 1) for _ in range(2))
    expected = followed(log)
    if not log:
        return
    with past_of(log) as past:
        found = listed(past, None, limit=limit, begin=begin, end=end)
        subjects = {each: listed(past, each, limit=limit, end=len(log)) for each in SUBJECTS}
        diff = list(past.diff(ALL, begin, end))
        rebuilt = ClusterState()
        rebuilt.load(past.records(end), end)

    assert of_tables(replayed(whole(log[:end]))) == of_tables(rebuilt)
    within = [each for each in at_their_places(expected) if begin <= each[0] < end]
    assert within == at_their_places(found)
    assert [str(sentence(each)) for _, each in within] == [str(sentence(each.row)) for each in found]
    for text, its in subjects.items():
        assert [each for each in at_their_places(expected) if subject_of(text).has(each[1])] == at_their_places(its)
    between = list(differences(*(Image(state=replayed(whole(log[:offset]))) for offset in (begin, end))))
    assert between == [each for each in diff if each in between]
    assert {"configs", "scram_users"} >= {each.noun.name for each in diff if each not in between}
    assert all(each.change is Change.CHANGED and not each.after for each in diff if each not in between)


def test_a_page_may_end_between_changes_of_one_record_and_rows_beyond_the_most_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = write(Random(1), 100)
    with past_of(whole(log), checkpoint=len(whole(log))) as past:
        end, gaps = len(whole(log)), past.gaps()
        found = listed(past, None, limit=3, end=end)
        diff = list(past.diff(ALL, 0, end))
        for bound in ("ROWS_MAX", "CHARACTERS_MAX"):
            with monkeypatch.context() as bounded:
                bounded.setattr(state_past, bound, 1)
                with pytest.raises(TooMany, match=f"of one table changed at offset {end - 1}, the most that is"):
                    listed(past, None, limit=1, end=end)
                with pytest.raises(TooMany, match=f"differ between offset 0 and offset {end}, the most that is"):
                    list(past.diff(ALL, 0, end))

    assert [Gap(-1, end - 1, place(end - 1).timestamp_ms)] == gaps
    assert {end - 1} == {each.place.offset for each in found}
    assert diff == [each.row for each in found]
    assert len(found) > 9


def test_large_rows_are_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    log = whole(write(Random(3), 60))
    monkeypatch.setattr(state_past, "PAGE_CHARACTERS", 1)
    with past_of(log) as past:
        found = listed(past, None, limit=1_000, end=len(log))
        first = past.changes(ALL, begin=Cursor(0), end=len(log), limit=1_000)

    assert at_their_places(followed(log)) == at_their_places(found)
    assert len(first.changes) < len(found) // 4


def test_what_a_checkpoint_has_replaced_is_not_known_and_times_are_found_by_what_changed() -> None:
    log = whole(write(Random(2), 90))
    with past_of(log, checkpoint=40) as past:
        first, *_ = changes = listed(past, None, limit=1_000, begin=40, end=len(log))
        begins = past.begins()
        at = past.offset_at(first.place.timestamp_ms - 1, end=len(log)), past.offset_at(10_000, end=len(log))
        for unknown in (1, 39):
            with pytest.raises(
                UnknownState, match=f"at offset {unknown} is not known: a checkpoint, an upgrade or the retention has"
            ):
                list(past.diff(ALL, unknown, 50))
        known = list(past.diff(ALL, 40, 50))

    assert 40 == begins
    assert at_their_places(changes) == [each for each in at_their_places(followed(log)) if each[0] >= 40]
    assert (first.place.offset, len(log)) == at
    assert known


def test_the_trace_of_the_request_is_that_of_its_batch() -> None:
    first, second = (TopicRecord(name, Uuid(name.encode() * 16)) for name in "ab")
    with past_of([with_trace(first, TRACEPARENT), second]) as past:
        traced = [each.place for each in listed(past, None, limit=9, end=2)]
    with past_of([with_trace(first, b"no trace")]) as past:
        none = [each.place.trace_id for each in listed(past, None, limit=9, end=1)]

    trace_id = "0af7651916cd43dd8448eb211c80319c"
    assert [(0, trace_id), (1, trace_id)] == [(each.offset, each.trace_id) for each in traced]
    assert [None] == none


def test_what_is_again_as_it_was_is_no_difference() -> None:
    """Of a secret nobody knows: it was written anew."""
    public = [ConfigRecord(TOPIC, "t", "retention.ms", value) for value in "121"]
    hidden = [ConfigRecord(TOPIC, "t", "plugin.of.somebody", value) for value in "121"]
    with past_of([public[0], hidden[0], *public[1:], *hidden[1:]]) as past:
        (found,) = past.diff(ALL, 2, 6)

    assert ("plugin.of.somebody", {}, {}) == (found.key["name"], found.before, found.after)


def test_a_token_is_of_its_owner_when_it_is_made_renewed_and_removed() -> None:
    made = DelegationTokenRecord("User:alice", "User:bob", ("User:bob",), 1, 3, 2, "token")
    with past_of([made, structs.replace(made, expiration_timestamp=3), RemoveDelegationTokenRecord("token")]) as past:
        changes = [each.row.change for each in listed(past, "user/alice", limit=9, end=3)]
        of_another = listed(past, "user/bob", limit=9, end=3)

    assert [Change.CREATED, Change.CHANGED, Change.DELETED] == changes
    assert [] == of_another


def test_a_subject_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'nonsense': a history is of topic/…, broker/…"):
        subject_of("nonsense")
    assert set(NOUNS) == set(ALL.tables)


def test_after_tables_have_grown_the_history_begins_anew(tmp_path: Path) -> None:
    """Here the earlier release had no epochs of brokers: no state of before is known, and that was no change."""
    log = whole(write(Random(5), 200))
    more, end = [ConfigRecord(TOPIC, "t", "retention.ms", "1")], len(log)
    url = f"sqlite:///{tmp_path}/state.db"
    written = Written(url)
    for record in log:
        written.follow([record])
        written.write()
    written.close()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        for (view,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall():
            connection.execute(f"DROP VIEW {view}")
        for table in ("brokers", "brokers_past"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN broker_epoch")
    connection.close()
    written = Written(url)
    written.begin(log)
    written.database.replace(written.following.image, before=written.at, after=written.at or applied(0))
    written.follow(more)
    written.write()
    written.close()
    reader = StateReader(sa.create_engine(url))
    with reader.reading() as past:
        begins, changes = past.begins(), listed(past, None, limit=1_000, begin=past.begins(), end=end + 1)
        for unknown in (1, end - 1):
            with pytest.raises(
                UnknownState, match=f"{unknown} is not known: a checkpoint, an upgrade or the retention"
            ):
                list(past.records(unknown))
        states = [ClusterState(), ClusterState()]
        for at, state in zip((end, end + 1), states, strict=True):
            state.load(past.records(at), at)
    reader.close()

    assert end == begins
    assert at_their_places(followed([*log, *more]))[-1:] == at_their_places(changes)
    assert [of_tables(replayed(each)) for each in (log, [*log, *more])] == [of_tables(each) for each in states]


def test_a_page_of_a_topic_reads_no_more_of_its_past_than_it_tells(tmp_path: Path) -> None:
    """Also in a database of an earlier release, which had no index for that."""
    url, log = f"sqlite:///{tmp_path}/state.db", whole(write(Random(3), 60))
    written = Written(url)
    written.follow(log)
    written.write()
    with written.engine.begin() as connection:
        for (index,) in plan_indexes(connection):
            connection.exec_driver_sql(f"DROP INDEX {index}")
    written.close()
    Written(url).close()
    engine = sa.create_engine(url)
    asked = list[tuple[str, Any]]()
    sa.event.listen(engine, "before_cursor_execute", lambda *of: asked.append((of[2], of[3])))
    reader = StateReader(engine)
    with reader.reading() as past:
        past.changes(subject_of("topic/orders"), begin=Cursor(3), end=len(log), limit=5)
        of_partitions = [each for each in asked if "FROM partitions" in each[0]]
        with engine.connect() as connection:
            plans = [
                [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", of)]
                for text, of in of_partitions
            ]
    reader.close()

    used = [f"partitions{each}" for each in ("_past_topic_valid_to", "_past_topic_valid_from", "_topic_valid_from")]
    assert [True] * 3 == [
        f"INDEX {each}_offset (topic=? AND" in plan[0] for each, plan in zip(used, plans, strict=True)
    ]
    assert [1] * 3 == [len(plan) for plan in plans], "nothing is sorted"


def plan_indexes(connection: sa.Connection) -> list[Any]:
    named = "SELECT name FROM sqlite_schema WHERE type = 'index' AND name LIKE 'partitions%topic%'"
    return list(connection.exec_driver_sql(named))
