"""Which commands there are, and their options. The work is imported only by the command that does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.failures import Misused

__all__ = ["app"]

app = typer.Typer(
    help="Kafka's metadata log: format, look, check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # drawing help in boxes takes longer than all the rest of it: 0.4 s instead of 0.15 s
    context_settings={"help_option_names": ["-h", "--help"]},
)
storage = typer.Typer(help="The directories of one node.", no_args_is_help=True)
log = typer.Typer(help="Files of a metadata log, read and never written.", no_args_is_help=True)
image = typer.Typer(help="The state that a metadata log amounts to.", no_args_is_help=True)
app.add_typer(storage, name="storage")
app.add_typer(log, name="log")
app.add_typer(image, name="image")

Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text; errors too.")]
Config = Annotated[Path, typer.Option("--config", "-c", help="The node's server.properties.")]


def _offset(option: str) -> Callable[[str], int]:
    """Reads the value of `option`. Typer's own words for what is no number do not say what was given."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()):
            raise Misused(f"{option} {text!r}: an offset is a number from 0 on")
        return int(text)

    return read


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
    as_json: Json = False,
) -> None:
    """Format the directories of a node, as kafka-storage.sh does."""
    from quorate.cli.formatting import Asked
    from quorate.cli.storage import format_node

    asked = Asked(
        cluster_id=cluster_id,
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
        release_version=release_version,
        features=tuple(feature or ()),
        scram=tuple(add_scram or ()),
        ignore_formatted=ignore_formatted,
    )
    format_node(config, asked, as_json=as_json)


@storage.command("info")
def show_directories(config: Config, as_json: Json = False) -> None:
    """What the directories of a node say of themselves; exit 1 if something is wrong."""
    from quorate.cli.storage import show_info

    show_info(config, as_json=as_json)


@storage.command("random-uuid")
def print_uuid(as_json: Json = False) -> None:
    """A new id, for a cluster or a directory."""
    from quorate.cli.storage import print_random_uuid

    print_random_uuid(as_json=as_json)


@log.command("dump")
def dump_files(
    path: Annotated[Path, typer.Argument(help="A file of a metadata log, or a directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines: file, batch, record, entry, error.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Every byte: place, name, type, value.")] = False,
    from_offset: Annotated[
        int | None,
        typer.Option("--from", parser=_offset("--from"), metavar="OFFSET", help="Pass over what ends before it."),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to", parser=_offset("--to"), metavar="OFFSET", help="Pass over what begins here or later."),
    ] = None,
) -> None:
    """Show batches and records, one a line, as kafka-dump-log.sh does; or every byte of them.

    With --from and --to: whole batches that reach into [from, to), and without --explain only those of their records
    that are in it. In a checkpoint the offsets are the file's own, from 0 on.
    """
    from quorate.cli.dump import dump

    dump(path, as_json=as_json, explain=explain, from_offset=from_offset or 0, to_offset=to_offset)


@log.command("verify")
def verify_files(
    path: Annotated[Path, typer.Argument(help="A log directory, its metadata partition, or one file.")],
    cluster_id: Annotated[str | None, typer.Option("--cluster-id", help="The cluster that it should be of.")] = None,
    as_json: Json = False,
) -> None:
    """Check everything in a metadata directory and change nothing; exit 1 if something does not hold."""
    from quorate.cli.verify import verify

    verify(path, cluster_id=cluster_id, as_json=as_json)


@image.command("show")
def show_image(
    offline: Annotated[
        Path, typer.Option("--offline", metavar="PATH", help="A log directory, a checkpoint or a log to read.")
    ],
    as_of: Annotated[
        int | None,
        typer.Option(
            "--as-of", parser=_offset("--as-of"), metavar="OFFSET", help="With all records below this offset."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """The cluster's state: the latest checkpoint and the log after it."""
    from quorate.cli.image import show

    show(offline, as_of=as_of, as_json=as_json)


@app.command(
    "pipeline",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def hand_to_pipeline(context: typer.Context) -> None:
    """Metadata logs of many clusters as tables and a report, on Spark: ingest, silver, gold, verify, report, run."""
    from quorate.cli.pipeline import hand_over

    hand_over(context.args)
