"""The commands of `quorate` that say what is wrong, and plan what to do, and write nothing: their options (typer)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from quorate.cli.app_nouns import NOUNS
from quorate.cli.as_of import reader_of
from quorate.cli.documents import Output
from quorate.cli.failures import Misused
from quorate.cli.options import (
    AsOf,
    Bootstrap,
    BrokerIds,
    CommandConfig,
    Form,
    Json,
    Observer,
    Offline,
    chosen_output,
    named_or_chosen,
    state_from,
    state_to_plan_from,
)

__all__ = ["ask_doctor", "ask_for_restarts"]


class PlanOutput(StrEnum):
    """How `quorate reassign plan` prints its plan; `kafka` is the file for kafka-reassign-partitions.sh."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    KAFKA = "kafka"


@NOUNS["reassign"].command("plan")
def plan_reassignment(
    added: Annotated[
        list[int] | None,
        typer.Option("--add", parser=reader_of("--add", "a broker id"), metavar="ID", help="A broker: gets its share."),
    ] = None,
    drained: Annotated[
        list[int] | None,
        typer.Option(
            "--drain", parser=reader_of("--drain", "a broker id"), metavar="ID", help="A broker: gives all away."
        ),
    ] = None,
    factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            parser=reader_of("--replication-factor", "a number"),
            metavar="N",
            help="How many replicas each partition is to have.",
        ),
    ] = None,
    topics: Annotated[list[str] | None, typer.Option("--topic", help="Only this one; may be repeated.")] = None,
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    as_of: AsOf = None,
    output: Annotated[
        PlanOutput, typer.Option("--output", "-o", help="kafka: the file for kafka-reassign-partitions.sh.")
    ] = PlanOutput.TEXT,
    as_json: Json = False,
) -> None:
    """Plan which replicas move if brokers come or go, or the factor changes: as few as can, spread over racks.

    Nothing is written: `--output kafka > plan.json`, then `kafka-reassign-partitions.sh --execute
    --reassignment-json-file plan.json`.
    """
    how = chosen_output(output, as_json=as_json)
    from quorate.cli.reassign_plan import plan
    from quorate.what_if import Wish

    found = state_to_plan_from(offline, bootstrap_controller, observer, command_config, as_of)
    wish = Wish(added=added or (), drained=drained or (), factor=factor, topics=topics or ())
    plan(found, wish, output=how)


@NOUNS["features"].command("plan")
def plan_features(
    asked: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="The level of one feature; may be repeated."),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option("--release", metavar="RELEASE", help="All features as this release has them; else the latest."),
    ] = None,
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    as_of: AsOf = None,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Say what stands against feature levels, up or down: which node, which range, what clears it; exit 1 if anything.

    Nothing is written. Without anything against them it says which command sets them, and which records that writes.
    """
    from quorate.cli.features_plan import plan

    found = state_to_plan_from(offline, bootstrap_controller, observer, command_config, as_of)
    if not plan(found, features=asked or (), release=release, output=chosen_output(output, as_json=as_json)):
        raise typer.Exit(1)


def ask_for_restarts(
    brokers: BrokerIds = None,
    racks: Annotated[list[str] | None, typer.Option("--rack", help="A rack whose brokers are restarted.")] = None,
    controllers: Annotated[
        bool, typer.Option("--controllers", help="Of the quorum's voters, by --bootstrap-controller.")
    ] = False,
    controller_ids: Annotated[
        list[int] | None,
        typer.Option(
            "--controller", parser=reader_of("--controller", "a node id"), metavar="ID", help="Of this voter alone."
        ),
    ] = None,
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    as_of: AsOf = None,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Say which brokers or controllers can be restarted now, and which after others; exit 1 if any cannot now.

    All if none is named; if several are named, exit 1 only if one has no place in the order. Of a node that is both,
    ask twice.
    """
    how = chosen_output(output, as_json=as_json)
    if controllers or controller_ids:
        bootstrap_controller, command_config = named_or_chosen(
            "bootstrap-controller", bootstrap_controller, command_config
        )
        if (
            brokers
            or racks
            or offline is not None
            or observer is not None
            or as_of is not None
            or bootstrap_controller is None
        ):
            raise Misused(
                "--controllers goes with --bootstrap-controller alone: only the leader knows which voters keep up"
            )
        from quorate.cli.live import LiveQuorum
        from quorate.cli.restart_controllers import ask as ask_quorum

        live = LiveQuorum(bootstrap=bootstrap_controller, command_config=command_config)
        is_safe = ask_quorum(live, controllers=controller_ids or (), output=how)
    else:
        from quorate.cli.restart_safe import ask

        found = state_to_plan_from(offline, bootstrap_controller, observer, command_config, as_of)
        is_safe = ask(found, brokers=brokers or (), racks=racks or (), output=how)
    if not is_safe:
        raise typer.Exit(1)


def ask_doctor(
    offline: Offline = None,
    bootstrap_controller: Bootstrap = None,
    observer: Observer = None,
    command_config: CommandConfig = None,
    as_of: AsOf = None,
    output: Form = Output.TEXT,
    as_json: Json = False,
) -> None:
    """Say what an operator should look at, the worst first, with advice; exit 1 if something does not work."""
    from quorate.cli.doctor import diagnose

    found = state_from(offline, bootstrap_controller, observer, command_config, as_of)
    if not diagnose(found, output=chosen_output(output, as_json=as_json)):
        raise typer.Exit(1)
