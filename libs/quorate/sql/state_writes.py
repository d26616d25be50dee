"""The writes to a state database: changed rows in the order of the log, or a whole state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, assert_never

import sqlalchemy as sa

from quorate.sql.difference import Change, Difference
from quorate.sql.following import Changed, Place
from quorate.sql.nouns import Row, Value, column_names
from quorate.sql.state_tables import FROM, NOUN_TABLES, PLACE_TYPES, TO, NounTables

__all__ = ["Missing", "insert_rows", "merge_rows", "prepared", "storable_text", "write_changes"]

ROWS_AT_ONCE: Final = 10_000
"""Rows of a whole state that are given to the database in one call."""
TEXTS_CACHED: Final = 1_024
"""Statements that are cached as text: there are three for each set of columns that records change together."""
COPYING: Final = "psycopg"
"""The driver that copies rows into PostgreSQL; with another one they are inserted."""
NO_TEXT: Final = "\ufffd"
"""The character that PostgreSQL gets in place of NUL, which it refuses: the sign for what cannot be shown."""
KEY: Final = "key_{}"
"""The parameter of a column of a row's key."""
END: Final = "end_{}"
"""The parameter of a column of the record that ends a row."""

Parameters = Mapping[str, Any]  # Any: a value of whichever column


class Missing(Exception):
    """Raised for a row that a record changes, and for a schema, that are not there; the message names it."""


class _Kind(NamedTuple):
    """Changes of one kind are written by the same statements."""

    table: str
    change: Change
    columns: tuple[str, ...]


class _Statement(NamedTuple):
    """A statement, and by each of its parameters the place of its value in a change as `_flat` has it."""

    what: sa.UpdateBase
    takes: Mapping[str, int]


def write_changes(connection: sa.Connection, changes: Iterable[Changed]) -> None:
    """Writes changes in their order to the present and the past. The caller commits. Raises Missing, DBAPIError.

    Changes of one kind that follow each other are one call of the driver.
    """
    storable = _storable(connection)
    for kind, run in _runs(changes):
        rows = [storable(_flat(each)) for each in run]
        for count, (what, takes) in enumerate(_statements(kind)):
            text, order = prepared(what, connection.dialect, tuple(takes))
            told: list[Any]
            if order is None:
                told = [{name: row[at] for name, at in takes.items()} for row in rows]
            else:
                places = [takes[name] for name in order]
                told = [tuple([row[at] for at in places]) for row in rows]
            if connection.exec_driver_sql(text, told).rowcount != len(rows) and not count:
                _require_all(connection, kind, run)


def _require_all(connection: sa.Connection, kind: _Kind, run: Iterable[Changed]) -> None:
    """Raises Missing if a row is not there, when the first statement for it was executed; one may be there twice."""
    tables, text = NOUN_TABLES[kind.table], storable_text(connection)
    for place, row in run:
        key = {name: text(each) if isinstance(each, str) else each for name, each in row.key.items()}
        found = (
            sa.select(sa.true())
            .select_from(tables.present)
            .where(*(tables.present.c[name] == key[name] for name in key))
        )
        if connection.execute(found.limit(1)).first() is None:
            named = ", ".join(f"{name} {value!r}" for name, value in key.items())
            raise Missing(
                f"has no row of {kind.table} with {named}, which the record at offset {place.offset} changes: it is "
                "not of the same log, or somebody has changed it"
            )


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Iterable[Row], place: Place | None) -> None:
    """Inserts rows into a table. The caller commits. Raises DBAPIError.

    `place` is the record that made the rows, for the columns FROM; None for a table without these columns.
    """
    names = [column.name for column in table.columns]
    since = () if place is None else tuple(place)
    if connection.dialect.driver == COPYING:
        _copy(connection, table, ((*row, *since) for row in rows))
        return
    storable = _storable(connection)
    left, statement = iter(rows), sa.insert(table)
    while some := list(islice(left, ROWS_AT_ONCE)):
        if connection.dialect.name == "sqlite":
            # By place, as the driver has it: a million rows have not each to be named.
            connection.exec_driver_sql(str(statement.compile(connection)), [(*row, *since) for row in some])
            continue
        connection.execute(statement, [dict(zip(names, storable((*row, *since)), strict=True)) for row in some])


def _copy(connection: sa.Connection, table: sa.Table, rows: Iterable[Row]) -> None:
    """Inserts rows by PostgreSQL's COPY, which SQLAlchemy does not have. Raises DBAPIError, as it does."""
    dialect, raw = connection.dialect, connection.connection.driver_connection
    prepare, text = dialect.identifier_preparer, storable_text(connection)
    columns = ", ".join(map(prepare.format_column, table.columns))
    statement = f"COPY {prepare.format_table(table)} ({columns}) FROM STDIN"
    assert dialect.dbapi is not None, "it has connected"
    assert raw is not None, "it is connected"
    try:
        with raw.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row([text(each) if type(each) is str else each for each in row])
    except dialect.dbapi.Error as problem:
        raise sa.exc.DBAPIError.instance(statement, None, problem, dialect.dbapi.Error, dialect=dialect) from problem


def merge_rows(connection: sa.Connection, tables: NounTables, rows: Iterable[Row], place: Place) -> None:
    """Makes `rows` the present rows of a table. The caller commits.

    A row that is there and not among them moves to the past, ended at `place`; one that is not there begins at `place`.
    """
    tables.incoming.create(connection)
    insert_rows(connection, tables.incoming, rows, None)
    gone = ~sa.exists().where(_is_same(tables))
    connection.execute(_ended(tables, gone), _end(place))
    connection.execute(sa.delete(tables.present).where(gone))
    names = column_names(tables.noun.name)
    since = [sa.literal(value, kind) for value, kind in zip(place, PLACE_TYPES, strict=True)]
    came = sa.select(*(tables.incoming.c[name] for name in names), *since).where(~sa.exists().where(_is_same(tables)))
    connection.execute(sa.insert(tables.present).from_select([*names, *FROM], came))
    tables.incoming.drop(connection)


def _is_same(tables: NounTables) -> sa.ColumnElement[bool]:
    """Returns the condition that a row of the present is an incoming one; the key by =, for which there is an index."""
    pairs = [(name, tables.present.c[name], tables.incoming.c[name]) for name in column_names(tables.noun.name)]
    of_key = tables.noun.identity
    return sa.and_(*(old == new if name in of_key else old.is_not_distinct_from(new) for name, old, new in pairs))


def _runs(changes: Iterable[Changed]) -> Iterator[tuple[_Kind, list[Changed]]]:
    """Yields changes of one kind that follow each other; no row is twice in a run."""
    kind, run, keys = None, list[Changed](), set[tuple[Value, ...]]()
    for each in changes:
        its, key = _kind(each.row), tuple(each.row.key.values())
        if kind is not None and (its != kind or key in keys):
            yield kind, run
            run, keys = [], set()
        kind = its
        run.append(each)
        keys.add(key)
    if kind is not None:
        yield kind, run


def _kind(row: Difference) -> _Kind:
    return _Kind(row.noun.name, row.change, tuple(row.after))


def _flat(each: Changed) -> Row:
    """Returns the values of a change's key, of the columns that are others, and of its place."""
    place, row = each
    return (*row.key.values(), *row.after.values(), *place)


@cache
def _statements(kind: _Kind) -> Sequence[_Statement]:
    """Returns what is executed for each change of a kind, one after the other."""
    tables = NOUN_TABLES[kind.table]
    identity, columns = tables.noun.identity, kind.columns
    key = {KEY.format(name): place for place, name in enumerate(identity)}
    after = {name: place for place, name in enumerate(columns, len(key))}
    since = {name: place for place, name in enumerate(FROM, len(key) + len(after))}
    end = dict(zip(map(END.format, TO), since.values(), strict=True))
    found = sa.and_(sa.true(), *(tables.present.c[name] == sa.bindparam(KEY.format(name)) for name in identity))
    ended = _Statement(_ended(tables, found), {**key, **end})
    match kind.change:
        case Change.CREATED:
            made = {name: place for place, name in enumerate(identity)}
            return (_Statement(sa.insert(tables.present), {**made, **after, **since}),)
        case Change.CHANGED:
            changed = sa.update(tables.present).where(found)
            return ended, _Statement(changed, {**key, **after, **since})
        case Change.DELETED:
            return ended, _Statement(sa.delete(tables.present).where(found), key)
        case _:
            assert_never(kind.change)


@lru_cache(TEXTS_CACHED)
def prepared(what: sa.UpdateBase, dialect: sa.Dialect, names: tuple[str, ...]) -> tuple[str, Sequence[str] | None]:
    """Returns a statement as the driver takes it, and the order of its parameters if they have no names there.

    SQLAlchemy would look at each parameter of each row again: a third of the time that a change takes.
    """
    compiled = what.compile(dialect=dialect, column_keys=names)
    return str(compiled), compiled.positiontup


def _ended(tables: NounTables, found: sa.ColumnElement[bool]) -> sa.Insert:
    """Returns what copies rows of the present to the past; its parameters are those of `_end`."""
    ends = [sa.bindparam(END.format(name), type_=kind) for name, kind in zip(TO, PLACE_TYPES, strict=True)]
    columns = [column.name for column in tables.past.columns]
    return sa.insert(tables.past).from_select(columns, sa.select(*tables.present.columns, *ends).where(found))


def _end(place: Place) -> Parameters:
    return dict(zip(map(END.format, TO), place, strict=True))


def _storable(connection: sa.Connection) -> Callable[[Row], Row]:
    """Returns what makes values such as the database takes."""
    if connection.dialect.name == "sqlite":
        return lambda row: row
    text = storable_text(connection)
    return lambda row: tuple([text(value) if isinstance(value, str) else value for value in row])


def storable_text(connection: sa.Connection) -> Callable[[str], str]:
    """Returns the function that makes a text one that the database takes: PostgreSQL refuses NUL, which is replaced."""
    return str if connection.dialect.name == "sqlite" else lambda text: text.replace("\0", NO_TEXT)
