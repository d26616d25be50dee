"""The commands of `quorate` and their options (typer). Each command imports the module that does its work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.app_context import context
from quorate.cli.app_live import add_call, add_quorum, trace
from quorate.cli.app_nouns import NOUNS
from quorate.cli.app_plans import ask_doctor, ask_for_restarts
from quorate.cli.app_sql import add_listings, ask_by_sql
from quorate.cli.as_of import offset_to_follow, read_range, reader_of, reader_of_time
from quorate.cli.documents import Output
from quorate.cli.failures import Misused
from quorate.cli.options import (
    AsOf,
    Bootstrap,
    BrokerIds,
    CommandConfig,
    Config,
    Form,
    Json,
    Observer,
    Offline,
    WithOpenTransaction,
    chosen_output,
    loaded_from,
    needing_grpc,
    observer_of,
    only_by_observer,
    source_of,
    state_from,
    state_to_plan_from,
)
from quorate.cli.writes import add_writes

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes around the help cost more time than all else: 0.4 s instead of 0.15 s
    context_settings={"help_option_names": ["-h", "--help"]},
)
storage = typer.Typer(help="The directories of one node.", no_args_is_help=True)
log = typer.Typer(help="Files of a metadata log, read and never written.", no_args_is_help=True)
image = typer.Typer(help="The state that a metadata log amounts to.", no_args_is_help=True)
app.add_typer(storage, name="storage")
app.add_typer(log, name="log")
app.add_typer(image, name="image")


def _print_version(asked: bool) -> None:
    """Prints the version and ends the command, if `asked`."""
    if not asked:
        return
    from quorate.cli.version import version_lines

    for line in version_lines():
        typer.echo(line)
    raise typer.Exit


@app.callback()
def take_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="The version, and the releases it knows."
        ),
    ] = False,
) -> None:
    """Kafka's metadata log, and the cluster's state by it: format, look, ask, check."""


@storage.command("format")
def format_directories(
    config: Config,
    cluster_id: Annotated[str, typer.Option("--cluster-id", "-t", help="The cluster's id; `storage random-uuid`.")],
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="This controller is the whole quorum, and others may join it.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option("--initial-controllers", "-I", help="The first voters: id@host:port:directory-id, …"),
    ] = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option("--no-initial-controllers", "-N", help="The voters are not known here: this node joins."),
    ] = False,
    release_version: Annotated[
        str | None, typer.Option("--release-version", "-r", help="The release whose features are on, such as 4.3.")
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="The level of one feature.")
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option("--add-scram", "-S", help="A user: 'SCRAM-SHA-256=[name=…,password=…,iterations=…,salt=…]'."),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Pass over directories that are formatted.")
    ] = False,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Format the directories of a node, as kafka-storage.sh does."""
    from quorate.cli.formatting import FormatOptions
    from quorate.cli.storage import format_node

    asked = FormatOptions(
        cluster_id=cluster_id,
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
        release_version=release_version,
        features=tuple(feature or ()),
        scram=tuple(add_scram or ()),
        ignore_formatted=ignore_formatted,
    )
    format_node(config, asked, output=chosen_output(output, as_json=as_json))


@storage.command("info")
def show_directories(config: Config, output: Form = Output.TEXT, as_json: Json = False) -> None:
    """Show the meta.properties of a node's directories; exit 1 if something is wrong."""
    from quorate.cli.storage import show_info

    show_info(config, output=chosen_output(output, as_json=as_json))


@storage.command("random-uuid")
def print_uuid(output: Form = Output.TEXT, as_json: Json = False) -> None:
    """Print a new random id, for a cluster or a directory."""
    from quorate.cli.storage import print_random_uuid

    print_random_uuid(output=chosen_output(output, as_json=as_json))


@storage.command("reset-epoch")
def reset_node_epoch(
    config: Config,
    epoch: Annotated[
        int,
        typer.Option(
            "--epoch",
            parser=reader_of("--epoch", "an epoch"),
            metavar="EPOCH",
            help="Above every epoch in which a voter of this cluster has ever voted; FindQuorum says theirs.",
        ),
    ],
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Set the epoch of a stopped node to a lower one, if it took over another cluster's epoch or the highest possible.

    The node forgets its vote and leader with it: an epoch that is too low may elect two leaders.
    """
    from quorate.cli.epoch import reset_epoch

    reset_epoch(config, epoch, output=chosen_output(output, as_json=as_json))


@log.command("dump")
def dump_files(
    path: Annotated[Path | None, typer.Argument(help="A file of a metadata log, or a directory.")] = None,
    bootstrap_controller: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="A document for each file, batch, record, entry, error.")
    ] = Output.TEXT,
    as_json: Json = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Every byte, secrets too: place, name, type, value.")
    ] = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Passwords and credentials as they are, as kafka-dump-log.sh does.")
    ] = False,
    from_offset: Annotated[
        int | None,
        typer.Option("--from", parser=reader_of("--from"), metavar="OFFSET", help="Pass over what ends before it."),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to", parser=reader_of("--to"), metavar="OFFSET", help="Pass over what begins here or later."),
    ] = None,
) -> None:
    """Show batches and records, one per line, as kafka-dump-log.sh does; or every byte of them.

    With --from and --to: batches that overlap [from, to), and without --explain only their records in it. In a
    checkpoint the offsets are the file's own, from 0 on. Of a live Kafka cluster: what is committed.
    """
    source = source_of(path, "a file or directory", bootstrap_controller, command_config)
    show: Callable[..., None]
    if isinstance(source, Path):
        from quorate.cli.dump import dump

        show = partial(dump, source)
    else:
        from quorate.cli.live import dump_live

        show = partial(dump_live, source)
    show(
        output=chosen_output(output, as_json=as_json),
        explain=explain,
        with_secrets=show_secrets,
        from_offset=from_offset or 0,
        to_offset=to_offset,
    )


@log.command("verify")
def verify_files(
    path: Annotated[Path, typer.Argument(help="A log directory, its metadata partition, or one file.")],
    cluster_id: Annotated[str | None, typer.Option("--cluster-id", help="The cluster that it should be of.")] = None,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Check all files of a metadata directory and change nothing; exit 1 if a check fails."""
    from quorate.cli.verify import verify

    verify(path, cluster_id=cluster_id, output=chosen_output(output, as_json=as_json))


@image.command("show")
def show_image(
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    as_of: AsOf = None,
    with_open_transaction: WithOpenTransaction = False,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Show the cluster's state, from the latest checkpoint and the log after it, or as an observer has it."""
    found = state_from(
        offline,
        bootstrap_controller,
        observer,
        command_config,
        as_of,
        with_open_transaction=with_open_transaction,
    )
    from quorate.cli.image import show

    show(found, output=chosen_output(output, as_json=as_json))


@image.command("diff")
def diff_images(
    between: Annotated[
        str, typer.Argument(metavar="A..B", help="Two offsets or times; without B, the end. Each as --as-of takes it.")
    ],
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    with_open_transaction: WithOpenTransaction = False,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Show what differs between the cluster's states at two offsets or times."""
    how = chosen_output(output, as_json=as_json)
    first, last = read_range(between)
    observer, command_config = observer_of(
        observer, command_config, offline, bootstrap_controller, with_open_transaction
    )
    if observer is not None:
        what = "--offline, --bootstrap-controller and --with-open-transaction"
        only_by_observer(offline, bootstrap_controller, with_open_transaction, what=what)
        with needing_grpc():
            from quorate.cli.observer_changes import diff_by_observer
        diff_by_observer(observer, command_config, first=first, last=last, output=how)
        return
    source = source_of(offline, "--offline or --observer", bootstrap_controller, command_config)
    before, after = loaded_from(source, first, last, with_open_transaction=with_open_transaction)
    from quorate.cli.image_diff import show

    show(before, after, output=how)


@app.command("history")
def tell_history(
    subject: Annotated[
        str | None,
        typer.Argument(metavar="[topic/NAME|broker/ID|controller/ID|user/NAME|TABLE]", help="Of what; else of all."),
    ] = None,
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    since: Annotated[
        int | None,
        typer.Option("--from", parser=reader_of_time("--from"), metavar="OFFSET|TIME", help="Changes from it on."),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option("--to", parser=reader_of_time("--to"), metavar="OFFSET|TIME", help="Changes before it."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="With --observer: also what comes, until it is ended; without --from only that."),
    ] = False,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Tell what changed, record by record: offset, time, epoch, before and after, and the trace of the request."""
    from quorate.cli.history import Teller, read_subject

    how = chosen_output(output, as_json=as_json)
    wanted = read_subject(subject)
    observer, command_config = observer_of(observer, command_config, offline, bootstrap_controller)
    if observer is not None:
        only_by_observer(offline, bootstrap_controller, what="--offline and --bootstrap-controller")
        with needing_grpc():
            from quorate.cli.observer_changes import tell_by_observer, watch_by_observer
        if follow:
            begin = offset_to_follow(since, until)
            watch_by_observer(observer, command_config, subject, since=begin, output=how)
            return
        tell_by_observer(observer, command_config, subject, since=since, until=until, output=how)
        return
    if follow:
        raise Misused("--follow is for --observer: files end")
    teller = Teller(wanted, 0 if since is None else since, output=how)
    source = source_of(offline, "--offline or --observer", bootstrap_controller, command_config)
    (found,) = loaded_from(source, until, with_open_transaction=False, watch=teller)
    teller.end(found)


@app.command("what-if")
def ask_what_if(
    brokers: BrokerIds = None,
    racks: Annotated[list[str] | None, typer.Option("--rack", help="A rack whose brokers go.")] = None,
    directories: Annotated[
        list[str] | None, typer.Option("--directory", metavar="ID", help="A log directory that fails, by its id.")
    ] = None,
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    as_of: AsOf = None,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Say what becomes of the partitions if brokers, racks or log directories go. Nothing is written."""
    from quorate.cli.what_if import ask

    found = state_to_plan_from(offline, bootstrap_controller, observer, command_config, as_of)
    how = chosen_output(output, as_json=as_json)
    ask(found, brokers=brokers or (), racks=racks or (), directories=directories or (), output=how)


app.command("restart-safe")(ask_for_restarts)
app.command("doctor")(ask_doctor)


app.command("sql")(ask_by_sql)
add_listings(app, NOUNS)
add_writes(NOUNS)
add_quorum(NOUNS["quorum"])
app.add_typer(trace, name="trace")
add_call(app)
app.add_typer(context, name="context")
for noun, group in NOUNS.items():
    app.add_typer(group, name=noun)


@app.command(
    "pipeline",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def hand_to_pipeline(context: typer.Context) -> None:
    """Turn metadata logs of many clusters into tables and a report, on Spark: ingest, silver, gold, verify, report."""
    from quorate.cli.pipeline import hand_over

    hand_over(context.args)
