"""The commands of `quorate` that ask a running cluster: `quorum`, `trace`, `call`: their options (typer)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from quorate.cli.app_nouns import DESCRIBE, LIST
from quorate.cli.documents import Output, TableOutput
from quorate.cli.failures import Misused
from quorate.cli.options import (
    Bootstrap,
    CommandConfig,
    Controller,
    Form,
    Json,
    Observer,
    Offline,
    PrintGrpcurl,
    SecondsMax,
    TableForm,
    chosen_output,
    named_or_chosen,
    needing_grpc,
    source_of,
)

__all__ = ["add_call", "add_quorum", "trace"]

SECONDS_MAX = 30.0
WIDTH = 120

trace = typer.Typer(help="Traces of requests that an observer keeps.", no_args_is_help=True)


def add_quorum(quorum: typer.Typer) -> None:
    """Adds the command `describe` to the group `quorum`."""
    quorum.command(DESCRIBE)(_describe_quorum)


def _describe_quorum(
    controller: Controller = None,
    bootstrap_controller: Bootstrap = None,
    offline: Offline = None,
    command_config: CommandConfig = None,
    seconds_max: SecondsMax = SECONDS_MAX,
    output: TableForm = TableOutput.TEXT,
    as_json: Json = False,
) -> None:
    """Describe the quorum: leader, epoch, voters, observers, and how far each is; of files, what they can tell."""
    how = chosen_output(output, as_json=as_json)
    if offline is None and bootstrap_controller is None:
        controller, command_config = named_or_chosen("controller", controller, command_config)
    if controller is not None:
        if offline is not None or bootstrap_controller is not None:
            raise Misused("--offline and --bootstrap-controller are not for --controller: give one of them")
        with needing_grpc("--controller"):
            from quorate.cli.controller_quorum import described_by_controllers
            from quorate.cli.grpc_call import Servers
        servers = Servers(option="--controller", named=controller, command_config=command_config)
        found = described_by_controllers(servers, within_s=seconds_max)
    else:
        source = source_of(offline, "--controller or --offline", bootstrap_controller, command_config)
        from quorate.cli.quorum import described_by_files, described_live

        found = described_by_files(source) if isinstance(source, Path) else described_live(source)
    from quorate.cli.quorum import print_quorum

    print_quorum(found, how)


@trace.command(LIST)
def list_traces(
    observer: Observer = None,
    command_config: CommandConfig = None,
    span: Annotated[str, typer.Option("--span", metavar="NAME", help="Only those with a span of this name.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="The highest number.")] = 20,
    output: TableForm = TableOutput.TEXT,
    as_json: Json = False,
) -> None:
    """List the latest traces, newest first."""
    how = chosen_output(output, as_json=as_json)
    observers, command_config = _observers(observer, command_config)
    with needing_grpc():
        from quorate.cli.trace import list_traces as listed
    listed(observers, command_config, span_name=span, limit=limit, output=how)


@trace.command("show")
def show_trace(
    trace_id: Annotated[str, typer.Argument(metavar="ID", help="32 hexadecimal digits; `history` tells them, too.")],
    observer: Observer = None,
    command_config: CommandConfig = None,
    width: Annotated[int, typer.Option("--width", min=40, help="Columns of a line.")] = WIDTH,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Show a trace as a waterfall: which process did what, when and how long."""
    if len(trace_id) != 32 or set(trace_id) - set("0123456789abcdef"):
        raise Misused(f"trace {trace_id!r}: an id is 32 hexadecimal digits, in lower case")
    observers, command_config = _observers(observer, command_config)
    with needing_grpc():
        from quorate.cli.trace import show_trace as shown
    shown(observers, command_config, trace_id, width=width, output=chosen_output(output, as_json=as_json))


def _observers(observer: str | None, command_config: Path | None) -> tuple[str, Path | None]:
    observers, command_config = named_or_chosen("observer", observer, command_config)
    if observers is None:
        raise Misused("give --observer HOST:PORT,…: it is who keeps traces")
    return observers, command_config


class _WithApis(TyperCommand):
    """A command whose help lists the APIs; they are read from the protos for no other help."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Adds the APIs by the option that says where they are. Both are of typer's own click."""
        try:
            from quorate.cli.call import api_lines
        except ModuleNotFoundError:
            return  # gRPC is not installed; the command says so when it runs
        formatter.write("\n")
        with formatter.section("APIs"):
            for line in api_lines():
                formatter.write_text(line)
                formatter.write("\n")


def call_api(
    api: Annotated[str, typer.Argument(metavar="API", help="Its name, as CreateTopics.")],
    request: Annotated[
        str,
        typer.Argument(metavar="JSON|-|@FILE", help="The request: itself, or from standard input, or of a file."),
    ] = "{}",
    controller: Controller = None,
    quorum: Annotated[
        str | None, typer.Option("--quorum", metavar="HOST:PORT,…", help="Nodes of the quorum of Quorate.")
    ] = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    print_grpcurl: PrintGrpcurl = False,
    seconds_max: SecondsMax = SECONDS_MAX,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Call any API of the gRPC services; each answer is a document, JSON or YAML, by the names of the protos."""
    how = chosen_output(output, as_json=as_json)
    given = {"--controller": controller, "--quorum": quorum, "--observer": observer}
    named = [(option, where) for option, where in given.items() if where is not None]
    if len(named) > 1:
        raise Misused(f"give one of {', '.join(given)}: who is called")
    with needing_grpc(named[0][0] if named else "call"):
        from quorate.cli.call import call, option_of
        from quorate.cli.grpc_call import Servers
    option, where = named[0] if named else (option_of(api), None)
    where, command_config = named_or_chosen(option.removeprefix("--"), where, command_config)
    if where is None:
        raise Misused(f"give {option} HOST:PORT,…: {api} is there")
    servers = Servers(option=option, named=where, command_config=command_config)
    call(
        servers,
        api,
        request,
        within_s=seconds_max,
        print_grpcurl=print_grpcurl,
        output=Output.JSON if how == Output.TEXT else how,
    )


def add_call(app: typer.Typer) -> None:
    """Adds `quorate call`."""
    app.command("call", cls=_WithApis)(call_api)
