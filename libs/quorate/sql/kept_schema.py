"""Makes the tables and views of a kept database, and adds what those of an earlier release lack."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from quorate.sql.kept_tables import APPLIED, KEPT, LONG_KEYS, METADATA
from quorate.sql.tables import COLUMNS, described
from quorate.sql.views import POSTGRESQL, VIEWS, views_in

__all__ = ["make"]


def make(connection: sa.Connection) -> None:
    """Makes what is missing.

    A column that this release does not know is left as it is, and is null in rows of this release.
    """
    inspector = sa.inspect(connection)
    there, views = set(inspector.get_table_names()), set(inspector.get_view_names())
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
    for kept in KEPT.values():
        if kept.history not in views or grown:
            connection.exec_driver_sql(f"DROP VIEW IF EXISTS {kept.history}")
            connection.exec_driver_sql(f"CREATE VIEW {kept.history} AS {kept.history_query}")
    if connection.dialect.name == "sqlite":
        _make_what_sqlite_lacks(connection)
    else:
        _make_views_on_postgresql(connection)


def _drop_indexes_of_whole_keys(connection: sa.Connection) -> None:
    """Drops indexes of an earlier release that refuse long texts."""
    for kept in map(KEPT.__getitem__, LONG_KEYS):
        for table in (kept.present, kept.past):
            connection.exec_driver_sql(f"DROP INDEX IF EXISTS {table.name}_key")


def _make_views_on_postgresql(connection: sa.Connection) -> None:
    """Makes the views, or replaces them: so they keep who may read them, and what others have built on them."""
    for name, view in views_in(POSTGRESQL).items():
        connection.exec_driver_sql(f"CREATE OR REPLACE VIEW {name} AS {view.query}")
        about = view.about.replace("'", "''")
        connection.exec_driver_sql(f"COMMENT ON VIEW {name} IS '{about}'")


def _make_what_sqlite_lacks(connection: sa.Connection) -> None:
    """Makes the views, and the table of the columns' comments, which PostgreSQL has by itself."""
    for name, view in VIEWS.items():
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {view.query}")
    COLUMNS.create(connection, checkfirst=True)
    connection.execute(sa.delete(COLUMNS))
    names = [column.name for column in COLUMNS.columns]
    connection.execute(sa.insert(COLUMNS), [dict(zip(names, row, strict=True)) for row in described()])
