"""The commands of `quorate` that ask a state by SQL: `sql`, and a listing for each noun: their options (typer)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.app_nouns import LIST
from quorate.cli.as_of import AsOf as AsOfValue
from quorate.cli.documents import TableOutput
from quorate.cli.options import (
    AsOf,
    Bootstrap,
    CommandConfig,
    Json,
    Observer,
    Offline,
    TableForm,
    WithOpenTransaction,
    chosen_output,
    loaded_from,
    needing_grpc,
    observer_of,
    only_by_observer,
    source_of,
)

__all__ = ["add_listings", "ask_by_sql"]

ROWS_MAX = 1_000_000
SECONDS_MAX = 60.0
OFFLINE_OR_OBSERVER = "--offline or --observer"
CAPS = "--rows-max and --seconds-max"
NOT_FOR_OBSERVER = "--offline, --bootstrap-controller and --with-open-transaction"


class Only(StrEnum):
    """Which partitions `quorate partitions` lists; the views of `quorate.sql.views` have these names with _."""

    UNDER_REPLICATED = "under-replicated"
    OFFLINE = "offline"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"
    NOT_PREFERRED_LEADER = "not-preferred-leader"


Name = Annotated[str | None, typer.Argument(help="Only what has this name, or begins so, with * at its end.")]
OfTopic = Annotated[
    str | None, typer.Argument(help="Only of this topic, or of those that begin so, with * at its end.")
]


def ask_by_sql(
    query: Annotated[str, typer.Argument(help="One SELECT.")],
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    as_of: AsOf = None,
    with_open_transaction: WithOpenTransaction = False,
    output: TableForm = TableOutput.TEXT,
    rows_max: Annotated[
        int | None, typer.Option("--rows-max", min=1, help=f"More rows are an error; {ROWS_MAX:,} unless given.")
    ] = None,
    seconds_max: Annotated[
        float | None,
        typer.Option("--seconds-max", min=0.1, help=f"A longer query is an error; {SECONDS_MAX:g} unless given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask the cluster's state by SQL: topics, partitions, brokers, configs and so on, a table each (SQLite's SQL).

    `select * from columns` says what they have. Nothing can be changed by a query, and passwords are redacted.
    """
    _ask(
        query,
        offline,
        bootstrap_controller,
        observer,
        command_config,
        as_of,
        with_open_transaction=with_open_transaction,
        output=chosen_output(output, as_json=as_json),
        rows_max=rows_max,
        seconds_max=seconds_max,
    )


def add_listings(app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
    """Adds a listing for each noun: as `list` to the group of that name in `groups`, or else to `app`, by the noun."""
    from quorate.sql.listings import LISTINGS, PARTITIONS

    for noun, listing in LISTINGS.items():
        command = _list_partitions if noun == PARTITIONS else _listing(noun)
        place, verb = (groups[noun], LIST) if noun in groups else (app, noun)
        place.command(verb, help=listing.about)(command)


def _listing(noun: str) -> Callable[..., None]:
    def list_all(
        name: Name = None,
        offline: Offline = None,
        bootstrap_controller: Bootstrap = None,
        observer: Observer = None,
        command_config: CommandConfig = None,
        as_of: AsOf = None,
        output: TableForm = TableOutput.TEXT,
        as_json: Json = False,
    ) -> None:
        from quorate.sql.listings import listing_query

        query = listing_query(noun, name=name)
        how = chosen_output(output, as_json=as_json)
        _ask(query, offline, bootstrap_controller, observer, command_config, as_of, output=how)

    return list_all


def _list_partitions(
    name: Annotated[
        str | None, typer.Argument(help="Only this topic's, or of those that begin so, with * at its end.")
    ] = None,
    only: Annotated[Only | None, typer.Option("--only", help="Only these.")] = None,
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    as_of: AsOf = None,
    output: TableForm = TableOutput.TEXT,
    as_json: Json = False,
) -> None:
    from quorate.sql.listings import PARTITIONS, listing_query

    query = listing_query(PARTITIONS, name=name, only=None if only is None else only.replace("-", "_"))
    how = chosen_output(output, as_json=as_json)
    _ask(query, offline, bootstrap_controller, observer, command_config, as_of, output=how)


def _ask(
    query: str,
    offline: Path | None,
    bootstrap: str | None,
    observer: str | None,
    command_config: Path | None,
    as_of: AsOfValue | None,
    *,
    output: str,
    with_open_transaction: bool = False,
    rows_max: int | None = None,
    seconds_max: float | None = None,
) -> None:
    """Asks files, a live quorum or an observer. Raises Misused unless just one is given, Failed, Corrupt, OSError."""
    observer, command_config = observer_of(observer, command_config, offline, bootstrap, with_open_transaction)
    if observer is not None:
        only_by_observer(offline, bootstrap, with_open_transaction, what=NOT_FOR_OBSERVER)
        only_by_observer(rows_max, seconds_max, what=CAPS, why=", which has caps of its own")
        with needing_grpc():
            from quorate.cli.observer_sql import ask_observer
        ask_observer(observer, command_config, query, output=output, as_of=as_of)
        return
    source = source_of(offline, OFFLINE_OR_OBSERVER, bootstrap, command_config)
    from quorate.cli.sql import ask

    (found,) = loaded_from(source, as_of, with_open_transaction=with_open_transaction)
    ask(found, query, output=output, rows_max=rows_max or ROWS_MAX, seconds_max=seconds_max or SECONDS_MAX)
