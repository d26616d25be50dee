"""Options that several commands of `quorate` have, and what those that name a log amount to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.as_of import AsOf as AsOfValue
from quorate.cli.as_of import read_as_of, reader_of
from quorate.cli.documents import Output, TableOutput
from quorate.cli.failures import Failed, Misused

if TYPE_CHECKING:
    from quorate.cli.live import LiveQuorum
    from quorate.cli.offline import Offline as Loaded
    from quorate.cli.offline import Watch

__all__ = [
    "AsOf",
    "Bootstrap",
    "BrokerIds",
    "CommandConfig",
    "Config",
    "Controller",
    "Form",
    "Json",
    "Observer",
    "Offline",
    "PrintGrpcurl",
    "SecondsMax",
    "TableForm",
    "WithOpenTransaction",
    "chosen_output",
    "loaded_from",
    "named_or_chosen",
    "needing_grpc",
    "observer_of",
    "only_by_observer",
    "source_of",
    "state_from",
    "state_to_plan_from",
]

Json = Annotated[bool, typer.Option("--json", help="As --output json.")]
Form = Annotated[Output, typer.Option("--output", "-o", help="Text, or documents for programs; errors too.")]
TableForm = Annotated[
    TableOutput, typer.Option("--output", "-o", help="How the rows are printed; errors too, as documents.")
]
Config = Annotated[Path, typer.Option("--config", "-c", help="The node's server.properties.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        metavar="HOST:PORT,…",
        help="Controllers of a live Kafka cluster: read from, never written to.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="A client's properties: TLS and SASL, by Kafka's names."),
]
Observer = Annotated[
    str | None,
    typer.Option(
        "--observer", metavar="HOST:PORT,…", help="An observer of Quorate; for the past, one that keeps a database."
    ),
]
Controller = Annotated[
    str | None,
    typer.Option(
        "--controller", metavar="HOST:PORT,…", help="Controllers of Quorate; each passes on to the active one."
    ),
]
PrintGrpcurl = Annotated[
    bool, typer.Option("--print-grpcurl", help="Call nothing: print the line of grpcurl that does the same.")
]
SecondsMax = Annotated[
    float, typer.Option("--seconds-max", min=0.1, help="How long a leader is waited for, and an answer.")
]
Offline = Annotated[
    Path | None, typer.Option("--offline", metavar="PATH", help="A log directory, a checkpoint or a log to read.")
]
AsOf = Annotated[
    int | None,  # or a Moment; typer knows the type by the parser
    typer.Option(
        "--as-of", parser=read_as_of, metavar="OFFSET|TIME", help="With all records below this offset, or up to a time."
    ),
]
WithOpenTransaction = Annotated[
    bool,
    typer.Option("--with-open-transaction", help="With what an open transaction says so far; a failover aborts it."),
]
BrokerIds = Annotated[
    list[int] | None,
    typer.Option(
        "--broker", parser=reader_of("--broker", "a broker id"), metavar="ID", help="A broker; may be repeated."
    ),
]


def chosen_output(output: StrEnum, *, as_json: bool) -> str:
    """Returns the output that the options ask for. Raises Misused if they differ, or Arrow cannot be printed here."""
    if as_json and output not in (Output.TEXT, Output.JSON):
        raise Misused(f"--json and --output {output}: give one of them")
    if output == TableOutput.ARROW:
        from quorate.cli.tables import check_arrow

        check_arrow()
    return Output.JSON if as_json else output


def source_of(path: Path | None, named: str, bootstrap: str | None, command_config: Path | None) -> Path | LiveQuorum:
    """Returns what is to be read: files, or a live quorum, also that of the current context if neither is given.

    `named` is for the error: the option of `path`. Raises Misused if there is none or both, OSError.
    """
    if path is not None and bootstrap is None:
        if command_config is not None:
            raise Misused("--command-config is for --bootstrap-controller: files need no login")
        return path
    if path is None and bootstrap is None:
        bootstrap, command_config = named_or_chosen("bootstrap-controller", None, command_config)
    if path is not None or bootstrap is None:
        raise Misused(f"give {named} or --bootstrap-controller, one of them, or choose a context: quorate context use")
    from quorate.cli.live import LiveQuorum

    return LiveQuorum(bootstrap=bootstrap, command_config=command_config)


def loaded_from(
    source: Path | LiveQuorum, *as_of: AsOfValue | None, with_open_transaction: bool, watch: Watch | None = None
) -> list[Loaded]:
    """Returns the state of files or of a live quorum at each `as_of`. Raises Failed, Corrupt, OSError, Unreached."""
    if isinstance(source, Path):
        from quorate.cli.offline import load

        return [load(source, as_of=each, with_open_transaction=with_open_transaction, watch=watch) for each in as_of]
    from quorate.cli.live import load_live

    return load_live(source, *as_of, with_open_transaction=with_open_transaction, watch=watch)


def state_from(
    offline: Path | None,
    bootstrap: str | None,
    observer: str | None,
    command_config: Path | None,
    as_of: AsOfValue | None,
    *,
    with_open_transaction: bool = False,
) -> Loaded:
    """Returns the state at `as_of` of files, of a live quorum or of an observer, the context's if none is given.

    Raises Misused unless it is one of them; Failed, Corrupt, OSError, Unreached.
    """
    others = (offline, bootstrap, with_open_transaction)
    observer, command_config = observer_of(observer, command_config, *others)
    if observer is not None:
        only_by_observer(*others, what="--offline, --bootstrap-controller and --with-open-transaction")
        with needing_grpc():
            from quorate.cli.observer_image import load_observed
        return load_observed(observer, command_config, as_of)
    named = "--offline" if with_open_transaction else "--offline or --observer"
    source = source_of(offline, named, bootstrap, command_config)
    (found,) = loaded_from(source, as_of, with_open_transaction=with_open_transaction)
    return found


def state_to_plan_from(
    offline: Path | None,
    bootstrap: str | None,
    observer: str | None,
    command_config: Path | None,
    as_of: AsOfValue | None,
) -> Loaded:
    """Returns the state by which somebody will act: as `state_from`, and Failed for one that may be outdated."""
    found = state_from(offline, bootstrap, observer, command_config, as_of)
    if found.outdated:
        raise Failed(f"{found.path}: {found.outdated}; --as-of {found.as_of_offset} asks it all the same")
    return found


def named_or_chosen(option: str, given: str | None, command_config: Path | None) -> tuple[str | None, Path | None]:
    """Returns the servers that an option names, and the client's properties; else those of the current context.

    A context's properties are for its own servers alone. Raises Misused, OSError.
    """
    if given is not None:
        return given, command_config
    from quorate.cli.contexts import COMMAND_CONFIG, chosen

    found, config = chosen(option), chosen(COMMAND_CONFIG)
    own = Path(config) if found is not None and config is not None else None
    return found, command_config or own


def observer_of(observer: str | None, command_config: Path | None, *others: object) -> tuple[str | None, Path | None]:
    """Returns the observer to ask, and the client's properties; the context's only if none of `others` is given.

    `others` are the values of options that do not go with an observer. Raises Misused, OSError.
    """
    if any(each not in (None, False) for each in others):
        return observer, command_config
    return named_or_chosen("observer", observer, command_config)


def only_by_observer(*others: object, what: str, why: str = "") -> None:
    """Raises Misused if any of `others`, options that do not go with --observer, is given; `what` names them."""
    if any(each not in (None, False) for each in others):
        raise Misused(f"{what} are not for --observer{why}")


@contextmanager
def needing_grpc(option: str = "--observer") -> Iterator[None]:
    """A block in which the import of gRPC raises Misused if it is not installed; `option` is named as the reason."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise Misused(f"{option} needs gRPC, and {missing.name} is not installed: the extra services") from None
