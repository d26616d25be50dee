"""Reads the past of a state database: what changed between two offsets, and what differs between the states at them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from kraft import Message
from quorate.controller.secrets import REDACTED
from quorate.nouns import Offset
from quorate.sql.difference import Difference, compared
from quorate.sql.following import Changed, Place
from quorate.sql.nouns import NOUNS, Row, Value, column_names
from quorate.sql.records import IN_IMAGE, records_of
from quorate.sql.state_database import Applied
from quorate.sql.state_tables import APPLIED, FROM, GAPS, NOUN_TABLES, TO, NounTables
from quorate.sql.state_writes import storable_text
from quorate.sql.subjects import Subject

__all__ = ["ROWS_MAX", "Cursor", "Gap", "Page", "StatePast", "StateReader", "TooMany", "UnknownState"]

ROWS_MAX: Final = 100_000
"""Rows of one table that are looked at together."""
CHARACTERS_MAX: Final = 64 << 20
"""Characters of the rows of one table that are looked at together."""
PAGE_CHARACTERS: Final = 4 << 20
"""Characters of the rows of one table that are read for a page, and one row more."""
ROWS_AT_ONCE: Final = 100
"""Rows that PostgreSQL sends at once."""
STREAMED: Final = {"stream_results": True, "max_row_buffer": ROWS_AT_ONCE}
_MOST: Final = f"{ROWS_MAX:,} rows or {CHARACTERS_MAX:,} characters"


class UnknownState(Exception):
    """Raised for an offset or a time as of which the database cannot give the state; the message says why."""


class TooMany(Exception):
    """Raised if more rows are asked for than are looked at together; the message says what takes fewer."""


class Cursor(NamedTuple):
    """How far a list of changes is read: all below `offset`, and the first `skip` of those at it."""

    offset: Offset
    skip: int = 0


class Gap(NamedTuple):
    """A part of the log that a checkpoint has replaced: all changes in it are written as one, at `until_offset`.

    `after_offset` is the last one before it; -1 if the history begins there: with a checkpoint, as its retention has
    dropped what was before, or as tables have grown there.
    `until_ms` is when the last change in it was; None if an earlier release, which noted no time, has written it.
    """

    after_offset: Offset
    until_offset: Offset
    until_ms: int | None

    @property
    def what(self) -> str:
        """Says for an error what has replaced the log, and from which offset to which."""
        by = "a checkpoint" if self.after_offset >= 0 else "a checkpoint, an upgrade or the retention"
        return f"{by} has replaced the log from offset {self.after_offset + 1} to {self.until_offset}"


class Page(NamedTuple):
    """Changes in the order of the log, and where the next ones are; None if these are the last."""

    changes: Sequence[Changed]
    following: Cursor | None
    begun: Cursor
    """Where it begins."""

    def cut(self, count: int) -> Page:
        """Returns a page of the first `count` changes, followed by the others; itself if it has no more than these."""
        if count >= len(self.changes):
            return self
        offset = self.changes[count].place.offset
        skip = sum(each.place.offset == offset for each in self.changes[:count])
        if offset == self.begun.offset:
            skip += self.begun.skip
        return Page(self.changes[:count], Cursor(offset, skip), self.begun)


class StateReader:
    """Reads a state database, also while another process writes it. It may be used by several threads."""

    def __init__(self, engine: sa.Engine) -> None:
        """`engine` is for this alone: its transactions see one state, and write nothing."""
        self._engine = engine
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", _begin_nothing_by_itself)
            sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))

    @contextmanager
    def reading(self) -> Iterator[StatePast]:
        """Reads in one transaction: what it yields answers as of one moment, and only within the `with`.

        Raises sqlalchemy.exc.DBAPIError.
        """
        with self._engine.connect() as connection:
            if self._engine.dialect.name != "sqlite":
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield StatePast(connection)

    def close(self) -> None:
        """Lets go of the connections."""
        self._engine.dispose()


class StatePast:
    """Answers what a state database has of the present and the past, as of one moment (see `StateReader.reading`)."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def applied(self) -> Applied | None:
        """Returns up to where the database has the log; None if nothing was ever written."""
        found = self._connection.execute(sa.select(*(APPLIED.c[name] for name in Applied._fields))).one_or_none()
        return None if found is None else Applied(*found)

    def gaps(self) -> Sequence[Gap]:
        """Returns the parts of the log that a checkpoint has replaced, in the order of the log."""
        columns = [GAPS.c[name] for name in Gap._fields]
        return [Gap(*row) for row in self._connection.execute(sa.select(*columns).order_by(*columns))]

    def gaps_within(self, begin: Offset, end: Offset, *, since_ms: int | None = None) -> Sequence[Gap]:
        """Returns the gaps that have an offset from `begin` to `end`, which is exclusive.

        With `since_ms` (ms since 1970) also the gaps below `begin` that end later than that time. If `begin` is the
        first change known after it, such a gap may hide an earlier one that is after it, too.
        """
        found = (gap for gap in self.gaps() if gap.after_offset + 1 < end)
        return [
            gap
            for gap in found
            if begin <= gap.until_offset or (since_ms is not None and since_ms < self._until_ms(gap))
        ]

    def begins(self) -> Offset:
        """Returns the offset from which on changes are known: 0, or the end of the checkpoint that was read first.

        With a retention it is after what that has dropped, and after an upgrade that has grown tables after that.
        """
        return max((gap.until_offset + 1 for gap in self.gaps() if gap.after_offset < 0), default=0)

    def offset_at(self, timestamp_ms: int, *, end: Offset) -> Offset:
        """Returns the lowest offset of a change that is later than `timestamp_ms` (ms since 1970), at most `end`."""
        found = [end]
        for tables in NOUN_TABLES.values():
            for table, names in ((tables.present, FROM), (tables.past, FROM), (tables.past, TO)):
                offset, ms = table.c[names[0]], table.c[names[2]]
                first = self._connection.scalar(sa.select(sa.func.min(offset)).where(ms > timestamp_ms))
                found += [] if first is None else [first]
        return min(found)

    def offset_of_state_at(self, timestamp_ms: int, *, end: Offset) -> Offset:
        """Returns the offset below which all records make the state at `timestamp_ms` (ms since 1970), at most `end`.

        Raises UnknownState if a gap that begins below this offset ends later: the first later change may be in the gap.
        """
        offset = self.offset_at(timestamp_ms, end=end)
        for gap in self.gaps():
            until_ms = self._until_ms(gap)
            if gap.after_offset + 1 < offset and timestamp_ms < until_ms:
                raise UnknownState(f"the state at {timestamp_ms} ms is not known: {gap.what}, until {until_ms} ms")
        return offset

    def _until_ms(self, gap: Gap) -> int:
        return self._first_ms_after(gap) if gap.until_ms is None else gap.until_ms

    def _first_ms_after(self, gap: Gap) -> int:
        """Returns when the first change was that is after a gap, or else the last record: not before the gap's end."""
        applied = self.applied()
        found = [] if applied is None else [(applied.next_offset, applied.timestamp_ms)]
        for tables in NOUN_TABLES.values():
            for table, names in ((tables.present, FROM), (tables.past, FROM), (tables.past, TO)):
                offset, ms = table.c[names[0]], table.c[names[2]]
                after = sa.select(offset, ms).where(offset > gap.until_offset).order_by(offset).limit(1)
                found += [tuple(row) for row in self._connection.execute(after)]
        return min(found)[1]

    def changes(self, subject: Subject, *, begin: Cursor, end: Offset, limit: int) -> Page:
        """Returns at most `limit` changes of the subject's rows, from a cursor on, below `end`.

        A page may have fewer, also none, where it is not the last: a limited part of the tables is looked at for each.
        Raises TooMany if one record has changed more rows than are looked at together.
        """
        at = self._events(subject, begin.offset, end, _Bound(begin.skip + limit, PAGE_CHARACTERS))
        if at.complete_to <= begin.offset < end:
            at = self._events(subject, begin.offset, begin.offset + 1, _Bound(ROWS_MAX, CHARACTERS_MAX))
            if at.complete_to <= begin.offset:
                raise TooMany(
                    f"more than {_MOST} of one table changed at offset {begin.offset}, the most that is "
                    "looked at together: ask for a topic or another subject, or from the next offset on"
                )
        found = [each for each in at.changes() if subject.has(each.row)]
        skip = sum(each.place.offset == begin.offset for each in found[: begin.skip])
        following = Cursor(at.complete_to) if at.complete_to < end else None
        return Page(found[skip:], following, begin).cut(limit)

    def diff(self, subject: Subject, before: Offset, after: Offset) -> Iterator[Difference]:
        """Yields the subject's rows that differ between the states of all records below two offsets; by table and key.

        A row whose secret was written anew between them was changed, also if it is the same secret again: what it was
        is in no table. Raises TooMany, and UnknownState for an offset within a gap, while rows are taken.
        """
        for offset in (before, after):
            self._require_known(offset)
        left = _Bound(ROWS_MAX, CHARACTERS_MAX)
        for name in (each for each in NOUNS if each in subject.tables):
            tables = NOUN_TABLES[name]
            old = self._rows(tables, subject, _holds_at(tables, before, until=after), left)
            new = self._rows(tables, subject, _holds_at(tables, after, since=before), left)
            if old is None or new is None or (left := left.less(max(old, new, key=len))).is_passed:
                raise TooMany(
                    f"more than {_MOST} differ between offset {before} and offset {after}, the most that is "
                    "compared: take offsets nearer to each other, or ask for the rows of one topic"
                )
            again = {row for row in set(old).intersection(new) if _has_secret(name, row)}
            yield from filter(subject.has, compared(tables.noun, old, new, again))

    def records(self, offset: Offset) -> Iterator[Message]:
        """Yields the records that rebuild the state with all records below an offset, without secrets.

        In an order in which `ClusterState.load` takes them. Raises UnknownState for an offset within a gap.
        """
        self._require_known(offset)
        for name in IN_IMAGE:
            yield from records_of(NOUNS[name], self._held(NOUN_TABLES[name], offset))

    def _held(self, tables: NounTables, offset: Offset) -> Iterator[Row]:
        """Yields the rows that hold at an offset."""
        holds, names = _holds_at(tables, offset), column_names(tables.noun.name)
        for table, condition in ((tables.past, holds["past"]), (tables.present, holds["present"])):
            query = sa.select(*(table.c[name] for name in names)).where(condition)
            with self._connection.execute(query, execution_options=STREAMED) as result:
                yield from map(tuple, result)

    def _require_known(self, offset: Offset) -> None:
        for gap in self.gaps():
            if gap.after_offset + 1 < offset <= gap.until_offset:
                raise UnknownState(f"the state at offset {offset} is not known: {gap.what}")

    def _rows(self, tables: NounTables, subject: Subject, holds: Mapping[str, Any], left: _Bound) -> list[Row] | None:
        """Returns rows of the past and the present; None if they are more than `left`."""
        found: list[Row] = []
        for table, condition in ((tables.past, holds["past"]), (tables.present, holds["present"])):
            columns = [table.c[name] for name in column_names(tables.noun.name)]
            query = sa.select(*columns).where(condition, *self._own(table, subject, tables))
            rows, is_whole = self._taken(query, left)
            if not is_whole:
                return None
            found += [tuple(row) for row in rows]
        return found

    def _taken(self, query: sa.Select[Any], bound: _Bound) -> tuple[list[sa.Row[Any]], bool]:
        """Returns the rows up to a bound and the first one beyond it, and whether these are all."""
        rows, left = list[sa.Row[Any]](), bound
        with self._connection.execute(query.limit(bound.rows + 1), execution_options=STREAMED) as result:
            for row in result:
                rows.append(row)
                left = left.less([row])
                if left.is_passed:
                    return rows, False
        return rows, True

    def _own(self, table: sa.Table, subject: Subject, tables: NounTables) -> list[sa.ColumnElement[bool]]:
        wanted = subject.tables[tables.noun.name]
        text = storable_text(self._connection)
        return [table.c[name] == (text(each) if isinstance(each, str) else each) for name, each in wanted.items()]

    def _events(self, subject: Subject, begin: Offset, end: Offset, bound: _Bound) -> _Events:
        """Returns the rows that ended and began from `begin` on, below the offset up to which all are there."""
        events, complete_to = _Events(), end
        for tables in (NOUN_TABLES[name] for name in NOUNS if name in subject.tables):
            for table, names in ((tables.past, TO), (tables.past, FROM), (tables.present, FROM)):
                offset = table.c[names[0]]
                where = [offset >= begin, offset < end, *self._own(table, subject, tables)]
                if table is tables.past:
                    # A row that began and ended with one record never was: tables that were grown have it.
                    where.append(table.c[FROM[0]] < table.c[TO[0]])
                columns = [table.c[name] for name in (*names, *column_names(tables.noun.name))]
                rows, is_whole = self._taken(sa.select(*columns).where(*where).order_by(offset), bound)
                if not is_whole:
                    complete_to = min(complete_to, rows[-1][0])
                events.note(tables.noun.name, names is FROM, rows)
        events.complete_to = complete_to
        return events


class _Bound(NamedTuple):
    """How many rows, and characters in them, may be read yet; below 0 it is passed."""

    rows: int
    characters: int

    @property
    def is_passed(self) -> bool:
        return min(self) < 0

    def less(self, rows: Collection[Sequence[Any]]) -> _Bound:
        """Returns the bound that is left after these rows were read."""
        size = sum(len(value) for row in rows for value in row if isinstance(value, str))
        return _Bound(self.rows - len(rows), self.characters - size)


class _Events:
    """Rows that ended and began at offsets; all of those below `complete_to`."""

    def __init__(self) -> None:
        self.complete_to: Offset = 0
        self._places: dict[Offset, Place] = {}
        self._rows: dict[tuple[Offset, str], tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))

    def note(self, table: str, began: bool, rows: Iterable[sa.Row[Any]]) -> None:
        """Notes rows of a table, each behind the place at which it began, or at which it ended if not `began`."""
        for row in rows:
            place = Place(*row[: len(Place._fields)])
            self._places[place.offset] = place
            self._rows[place.offset, table][began].append(tuple(row[len(Place._fields) :]))

    def changes(self) -> Iterator[Changed]:
        """Yields the changes that these rows show, in the order of the log, of the tables and of their keys."""
        order = {name: count for count, name in enumerate(NOUNS)}
        for offset, table in sorted(self._rows, key=lambda each: (each[0], order[each[1]])):
            if offset >= self.complete_to:
                return
            old, new = self._rows[offset, table]
            # The same row ended and began: a secret became another one, which is in no table.
            for each in compared(NOUNS[table], old, new, set(old).intersection(new)):
                yield Changed(self._places[offset], each)


def _holds_at(
    tables: NounTables, offset: Offset, *, since: Offset | None = None, until: Offset | None = None
) -> Mapping[str, sa.ColumnElement[bool]]:
    """Returns the conditions of the rows that hold at an offset, and began since another one, or end until one."""
    past_from, past_to, present_from = tables.past.c[FROM[0]], tables.past.c[TO[0]], tables.present.c[FROM[0]]
    past = sa.and_(past_from < offset, past_to >= offset)
    present: sa.ColumnElement[bool] = present_from < offset
    if since is not None:
        past, present = sa.and_(past, past_from >= since), sa.and_(present, present_from >= since)
    if until is not None:
        past, present = sa.and_(past, past_to < until), sa.false()
    return {"past": past, "present": present}


def _has_secret(table: str, row: Sequence[Value]) -> bool:
    return table == "scram_users" or (table == "configs" and row[column_names(table).index("value")] == REDACTED)


# SQLAlchemy has no type of the driver's connection.
def _begin_nothing_by_itself(connection: Any, _: object) -> None:
    connection.isolation_level = None
