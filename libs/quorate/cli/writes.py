"""All writes by noun and verb, each a row, and the commands that are made of the rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_type_hints

import typer

from quorate.cli import write_acls, write_cluster, write_topics, write_users
from quorate.cli.documents import Output
from quorate.cli.options import (
    CommandConfig,
    Controller,
    Form,
    Json,
    PrintGrpcurl,
    SecondsMax,
    chosen_output,
    named_or_chosen,
    needing_grpc,
)
from quorate.cli.write import Write

__all__ = ["WRITES", "add_writes"]

WRITES: Final[Mapping[tuple[str, str], Write]] = {
    **write_topics.WRITES,
    **write_cluster.WRITES,
    **write_acls.WRITES,
    **write_users.WRITES,
}
"""In the order of their files."""

SECONDS_MAX: Final = 30.0
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Write nothing: the controller says what it would write, or why it would not.")
]


def add_writes(groups: Mapping[str, typer.Typer]) -> None:
    """Adds a command for each row of `WRITES` to the group of its noun in `groups`."""
    for (noun, verb), write in WRITES.items():
        groups[noun].command(verb, help=write.about)(_command(write))


def _command(write: Write) -> Callable[..., None]:
    """Returns the command of a row: its options are those of `write.request`, and those of `_common`."""

    def run(**given: Any) -> None:  # Any: what typer makes of the options
        how = {name: given.pop(name) for name in common}
        where = named_or_chosen("controller", how["controller"], how["command_config"])
        how["controller"], how["command_config"] = where
        how["output"] = chosen_output(how["output"], as_json=how.pop("as_json"))
        with needing_grpc("--controller"):
            from quorate.cli.writing import Asked, do
        if not do(write, write.request(**given), Asked(**how)):
            raise typer.Exit(1)

    own, common = _parameters(write.request), _parameters(_common)
    every = {**own, **common}
    run.__signature__ = inspect.Signature(list(every.values()))  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {name: each.annotation for name, each in every.items()}
    return run


def _common(
    controller: Controller = None,
    command_config: CommandConfig = None,
    dry_run: DryRun = False,
    print_grpcurl: PrintGrpcurl = False,
    seconds_max: SecondsMax = SECONDS_MAX,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """The options of each write."""


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Returns a function's parameters with their types as typer takes them, each by its name alone."""
    hints = get_type_hints(function, include_extras=True)
    return {
        name: each.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in inspect.signature(function).parameters.items()
    }
