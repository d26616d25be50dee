"""Makes the tables and views of a state database, and adds what those of an earlier release lack."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from quorate.sql.state_tables import APPLIED, LONG_KEYS, METADATA, NOUN_TABLES
from quorate.sql.tables import COLUMNS, described
from quorate.sql.views import POSTGRESQL, VIEWS, views_in

__all__ = ["make"]


def make(connection: sa.Connection) -> Sequence[str]:
    """Makes the tables, columns, indexes and views that are missing; the caller commits.

    Returns the names of the views that PostgreSQL does not replace: they are as another release made them. If tables
    that were there lack a table or a column, the mark `whole` of `applied` becomes null (see `whole_at`).

    A column that this release does not know is left as it is, and is null in rows of this release.
    """
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    known = {table.name: table for table in METADATA.sorted_tables if table.name in there}
    grown = bool(known) and len(known) < len(METADATA.tables)
    METADATA.create_all(connection)
    for name, table in known.items():
        has = {column["name"] for column in inspector.get_columns(name)}
        for column in (each for each in table.columns if each.name not in has):
            added = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {added}")
            grown = True
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    if grown:
        connection.execute(sa.update(APPLIED).values(whole=None))
    if connection.dialect.name == "postgresql":
        _drop_indexes_of_whole_keys(connection)
    if connection.dialect.name == "sqlite":
        _make_what_sqlite_lacks(connection)
        return []
    return _make_views_on_postgresql(connection)


def _drop_indexes_of_whole_keys(connection: sa.Connection) -> None:
    """Drops indexes of an earlier release that refuse long texts."""
    for tables in map(NOUN_TABLES.__getitem__, LONG_KEYS):
        for table in (tables.present, tables.past):
            connection.exec_driver_sql(f"DROP INDEX IF EXISTS {table.name}_key")


def _make_views_on_postgresql(connection: sa.Connection) -> Sequence[str]:
    """Makes the views, or replaces them: so they keep who may read them, and what others have built on them.

    Returns those that are left as they are, as where a later release's view has a column more.
    """
    inspector, left = sa.inspect(connection), list[str]()
    views = set(inspector.get_view_names())
    for tables in NOUN_TABLES.values():
        had = [each["name"] for each in inspector.get_columns(tables.history)] if tables.history in views else []
        if not _is_replaced(connection, tables.history, tables.history_query(had)):
            left.append(tables.history)
    for name, view in views_in(POSTGRESQL).items():
        if not _is_replaced(connection, name, view.query):
            left.append(name)
            continue
        about = view.about.replace("'", "''")
        connection.exec_driver_sql(f"COMMENT ON VIEW {name} IS '{about}'")
    return left


def _is_replaced(connection: sa.Connection, name: str, query: str) -> bool:
    """Makes or replaces a view, if PostgreSQL lets us. Raises DBAPIError if there is none afterwards."""
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"CREATE OR REPLACE VIEW {name} AS {query}")
    except sa.exc.DBAPIError:
        if not sa.inspect(connection).has_table(name):
            raise
        return False
    return True


def _make_what_sqlite_lacks(connection: sa.Connection) -> None:
    """Makes the views, and the table of the columns' comments, which PostgreSQL has by itself."""
    histories = {tables.history: tables.history_query() for tables in NOUN_TABLES.values()}
    for name, query in {**histories, **{name: view.query for name, view in VIEWS.items()}}.items():
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")
    COLUMNS.create(connection, checkfirst=True)
    connection.execute(sa.delete(COLUMNS))
    names = [column.name for column in COLUMNS.columns]
    connection.execute(sa.insert(COLUMNS), [dict(zip(names, row, strict=True)) for row in described()])
