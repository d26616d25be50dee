"""The commands of `quorate context`: their options (typer)."""

from __future__ import annotations

from typing import Annotated

import typer

from quorate.cli.contexts import NAME, chosen_name, read_contexts, use_context
from quorate.cli.documents import Output, is_document, print_document
from quorate.cli.options import Form, Json, chosen_output
from quorate.cli.printable import printable

__all__ = ["context"]

context = typer.Typer(
    help="Clusters by name: options that a command lacks come from the current one.", no_args_is_help=True
)


@context.command("use")
def use(name: Annotated[str, typer.Argument(metavar="NAME", help="One that the file has.")]) -> None:
    """Make a context the current one, for all commands to come."""
    use_context(name)
    if chosen_name() not in (None, name):
        typer.echo(f"quorate: {NAME} is set, and goes before it", err=True)


@context.command("list")
def list_contexts(output: Form = Output.TEXT, as_json: Json = False) -> None:
    """List the contexts with what they have; * marks the current one."""
    contexts, how = read_contexts(), chosen_output(output, as_json=as_json)
    if is_document(how):
        document = {"file": str(contexts.path), "current": contexts.current, "contexts": contexts.by_name}
        print_document(document, how)
        return
    for name, options in contexts.by_name.items():
        told = "  ".join(f"{key}={value}" for key, value in options.items())
        typer.echo(printable(f"{'*' if name == contexts.current else ' '} {name}  {told}"))
    typer.echo(f"{len(contexts.by_name)} in {contexts.path}")
