"""A database that follows a log has the rows of its state at each offset, also if its process ends and begins again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft import Message
from quorate.controller.secrets import REDACTED
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.records import VotersRecord
from quorate.sql.following import Following, Place
from quorate.sql.nouns import NOUNS, Image, Row, column_names, rows
from quorate.sql.state_database import Applied, StateDatabase, Superseded
from quorate.sql.state_tables import GAPS, NOUN_TABLES, TO
from tests.cli.test_no_secret import FORMS, with_secrets
from tests.metadata.histories import histories, write
from tests.metadata.test_properties import replayed
from tests.sql.test_touched import batches

CLUSTER = "kLSz5GMuQvqdRUR2aG8teA"


def place(offset: Offset) -> Place:
    return Place(offset, 1 + offset // 7, 1_000 + offset)


def applied(end: Offset) -> Applied:
    return Applied(CLUSTER, end, *place(end - 1)[1:3])


class Written:
    """What an observer does with a database, without its threads and its reading."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url)
        self.database = StateDatabase(self.engine)
        assert self.database.lock()
        self.at = self.database.applied()
        self.following = Following()

    def begin(self, log: list[Message]) -> None:
        """Follows the log up to where the database is."""
        end = 0 if self.at is None else self.at.next_offset
        self.following = Following(replayed(log[:end]), end=end)

    def load(self, log: list[Message]) -> None:
        """Takes the state of a log as a checkpoint."""
        self.following = Following(replayed(log), end=len(log))
        after = applied(len(log))
        self.database.replace(self.following.image, before=self.at, after=after)
        self.at = after

    def follow(self, records: list[Message]) -> None:
        first = self.following.end
        for _ in self.following.apply(records, place(first), end=first + len(records)):
            pass

    def write(self) -> None:
        """Writes what has changed, unless a transaction is open."""
        if self.following.is_between_transactions and self.following.end:
            after = applied(self.following.end)
            self.database.write(self.following.take(), before=self.at, after=after)
            self.at = after

    def rows_at(self, end: Offset) -> dict[str, list[Row]]:
        """The rows of the history that hold after the records below an offset."""
        with self.engine.connect() as connection:
            return {
                name: [
                    tuple(row)
                    for row in connection.exec_driver_sql(
                        f"SELECT {', '.join(column_names(name))} FROM {tables.history} "
                        f"WHERE valid_from_offset < {end} AND (valid_to_offset IS NULL OR valid_to_offset >= {end})"
                    )
                ]
                for name, tables in NOUN_TABLES.items()
            }

    def present(self) -> dict[str, list[Row]]:
        selected = {
            name: [tables.present.c[each] for each in column_names(name)] for name, tables in NOUN_TABLES.items()
        }
        with self.engine.connect() as connection:
            return {name: list(map(tuple, connection.execute(sa.select(*each)))) for name, each in selected.items()}

    def close(self) -> None:
        self.database.close()


def expected(state: ClusterState, voters: VotersRecord | None = None) -> dict[str, list[Row]]:
    return {name: in_order(rows(noun, Image(state=state, voters=voters))) for name, noun in NOUNS.items()}


def in_order(found: Iterator[Row] | list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: repr([int(each) if isinstance(each, bool) else each for each in row]))


def sorted_rows(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    return {name: in_order(found) for name, found in tables.items()}


def is_open(log: list[Message]) -> bool:
    return replayed(log).transactions.open is not None


class Cut(Exception):
    """The end of a process in the middle of a transaction."""


def cut_off(written: Written, *, statements: int) -> None:
    """Ends it after some statements of a transaction, if that has as many."""

    @sa.event.listens_for(written.engine, "before_cursor_execute")
    def count(*_: object) -> None:
        nonlocal statements
        statements -= 1
        if statements < 0:
            raise Cut

    with suppress(Cut):
        written.write()
    written.close()


@settings(max_examples=8)
@given(histories(max_size=40), st.randoms(use_true_random=False))
def test_rows_and_history_are_those_of_a_replay_however_often_it_begins_again(
    log: list[Message], chance: Random
) -> None:
    """It ends between transactions of the database, within one, or with changes that are not written yet."""
    with TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/state.db"
        written, end = Written(url), 0
        for batch in batches(log, chance):
            if chance.random() < 0.2:
                written.close()
                written = Written(url)
                written.begin(log)
                written.follow(log[written.following.end : end])
            written.follow(batch)
            end += len(batch)
            if chance.random() < 0.2:
                cut_off(written, statements=chance.randrange(6))
                written = Written(url)
                written.begin(log)
                written.follow(log[written.following.end : end])
            elif chance.random() < 0.6:
                written.write()
        written.follow([])
        written.write()
        states = {end: replayed(log[:end]) for end in range(1, len(log) + 1) if not is_open(log[:end])}
        found = {end: sorted_rows(written.rows_at(end)) for end in states}
        now = sorted_rows(written.present())
        written.close()

    assert expected(replayed(log)) == now
    for end, state in states.items():
        assert (end, expected(state)) == (end, found[end])


def test_a_table_of_an_earlier_release_grows_and_its_rows_with_it(tmp_path: Path) -> None:
    """Here one without the epochs of brokers, and without any ACL entry; the first start of the later one is killed."""
    log = write(Random(5), 200)
    url = f"sqlite:///{tmp_path}/state.db"
    written = Written(url)
    written.load(log)
    written.close()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        for (view,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall():
            connection.execute(f"DROP VIEW {view}")
        for statement in ("ALTER TABLE brokers DROP COLUMN broker_epoch", "DROP TABLE acls", "DROP TABLE acls_past"):
            connection.execute(statement)
    connection.close()
    Written(url).close()
    written = Written(url)
    is_grown = written.database.is_grown
    written.begin(log)
    written.database.replace(written.following.image, before=written.at, after=applied(len(log)))
    now = sorted_rows(written.present())
    written.close()
    written = Written(url)
    is_grown_again = written.database.is_grown
    written.close()

    assert is_grown
    assert not is_grown_again
    assert now["brokers"]
    assert now["acls"]
    assert expected(replayed(log)) == now


def test_what_an_earlier_release_has_written_in_between_is_made_whole(tmp_path: Path) -> None:
    """It moves the offset, and knows neither this release's columns nor its mark."""
    url = f"sqlite:///{tmp_path}/state.db"
    written = Written(url)
    written.load(write(Random(5), 200))
    written.close()
    written = Written(url)
    is_grown = [written.database.is_grown]
    written.close()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("UPDATE applied SET next_offset = next_offset + 1")
    connection.close()
    written = Written(url)
    is_grown.append(written.database.is_grown)
    written.close()

    assert [False, True] == is_grown


def test_what_is_too_old_is_dropped_and_all_that_is_later_is_whole(tmp_path: Path) -> None:
    """Here all that ended before the middle of the log, by its time."""
    log = write(Random(7), 200)
    written = Written(f"sqlite:///{tmp_path}/state.db")
    for record in log:
        written.follow([record])
        written.write()
    written.follow([])
    written.write()
    middle = place(len(log) // 2).timestamp_ms
    is_more = written.database.drop_past(middle)
    with written.engine.connect() as connection:
        (begins,) = [until + 1 for after, until, _ in connection.execute(sa.select(GAPS)) if after == -1]
        left = [connection.scalar(sa.select(sa.func.min(each.past.c[TO[2]]))) for each in NOUN_TABLES.values()]
    ends = [end for end in range(begins, len(log) + 1) if not is_open(log[:end])]
    found = {end: sorted_rows(written.rows_at(end)) for end in ends}
    written.close()

    assert not is_more
    assert 0 < begins <= len(log) // 2
    assert middle <= min(each for each in left if each is not None)
    assert {end: expected(replayed(log[:end])) for end in ends} == found


def test_nothing_is_written_where_another_process_has_written(tmp_path: Path) -> None:
    written = Written(f"sqlite:///{tmp_path}/state.db")
    log = write(Random(6), 20)
    written.load(log)
    before = written.present()
    for stale in (None, applied(len(log) - 1)):
        with pytest.raises(Superseded, match=r"is not at|was empty"):
            written.database.replace(Following().image, before=stale, after=applied(len(log) + 1))
    at, now = written.database.applied(), written.present()
    written.close()

    assert (applied(len(log)), before) == (at, now)


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    """Neither of the present rows nor of the past ones, whether they came by records or by a checkpoint."""
    file = tmp_path / "state.db"
    written, log = Written(f"sqlite:///{file}"), list[Message]()
    for number in range(3):
        records = [record for record, _ in with_secrets(number)]
        written.follow(records)
        written.write()
        log += records
    written.load([*log, *(record for record, _ in with_secrets(3))])
    written.close()
    found = file.read_bytes()

    assert REDACTED.encode() in found
    assert b"alice" in found
    assert [] == [form for form in FORMS if form.encode() in found]
