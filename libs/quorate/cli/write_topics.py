"""Writes of topics and of where their partitions are: `topics`, `leaders`, `reassign`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from quorate.cli.failures import Misused
from quorate.cli.write import Json, Write, number_of, pairs

__all__ = ["WRITES"]

BY_DEFAULT: Final = -1

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Their names.")]
Plan = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="As `reassign plan --output kafka` and kafka-reassign-partitions.sh have it."),
]


class Election(StrEnum):
    """Which replica becomes the leader: the first one, or any at all if none is in sync, which loses records."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def create_topics(
    names: Topics,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="How many each has; else num.partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", min=1, help="Replicas of each; else default.replication.factor."),
    ] = None,
    configs: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A config; may be repeated.")
    ] = None,
) -> Json:
    """Returns a CreateTopicsRequest in JSON's values; a count not given is -1, the default. Raises Misused."""
    own = [{"name": name, "value": value} for name, value in pairs("--config", configs or (), like=CONFIG).items()]
    made = {
        "num_partitions": partitions or BY_DEFAULT,
        "replication_factor": replication_factor or BY_DEFAULT,
        "configs": own,
    }
    return {"topics": [{"name": name, **made} for name in names]}


CONFIG: Final = "NAME=VALUE"


def delete_topics(names: Topics) -> Json:
    """Returns a DeleteTopicsRequest in JSON's values."""
    return {"topics": [{"name": name} for name in names]}


def add_partitions(
    names: Topics,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="How many each has then, in all.")],
) -> Json:
    """Returns a CreatePartitionsRequest in JSON's values: each topic is to have this count of partitions in all."""
    return {"topics": [{"name": name, "count": partitions} for name in names]}


def elect_leaders(
    partitions: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC-PARTITION", help="As orders-0; or --all.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All partitions that need it.")] = False,
    election: Annotated[
        Election, typer.Option("--type", help="unclean: a replica that is not in sync may lead; records are lost.")
    ] = Election.PREFERRED,
) -> Json:
    """Returns an ElectLeadersRequest in JSON's values, of partitions or, without the field, of all. Raises Misused."""
    if bool(partitions) == every:
        raise Misused("give partitions, or --all")
    asked: Json = {"election_type": list(Election).index(election)}
    if partitions:
        by_topic: dict[str, list[int]] = {}
        for each in partitions:
            topic, _, number = each.rpartition("-")
            by_topic.setdefault(topic, []).append(number_of("partition", number if topic else each, like=PARTITION))
        items = [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]
        asked["topic_partitions"] = {"items": items}
    return asked


PARTITION: Final = "TOPIC-PARTITION, as in orders-0"


def apply_plan(file: Plan) -> Json:
    """Returns an AlterPartitionReassignmentsRequest in JSON's values for a plan's file. Raises Misused, OSError."""
    return {"topics": _by_topic(file, lambda each: {"items": each["replicas"]})}


def cancel_plan(file: Plan) -> Json:
    """Returns an AlterPartitionReassignmentsRequest that cancels the reassignments of a plan's partitions.

    Raises Misused, OSError.
    """
    return {"topics": _by_topic(file, lambda _: None)}


def _by_topic(file: Path, replicas: Any) -> list[Json]:
    topics: dict[str, list[Json]] = {}
    for each in _planned(file):
        asked: Json = {"partition_index": each["partition"]}
        if (wanted := replicas(each)) is not None:
            asked["replicas"] = wanted
        topics.setdefault(each["topic"], []).append(asked)
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]


def _planned(file: Path) -> list[Json]:
    """Returns the partitions of a plan, each with topic, partition and replicas. Raises Misused, OSError."""
    from quorate.cli.given_json import given_json

    document = given_json(str(file), file.read_bytes())
    version = document.get("version") if isinstance(document, dict) else None
    if not _is_number(version) or version != 1 or not isinstance(document.get("partitions"), list):
        raise Misused(f'{file}: a plan is {{"version": 1, "partitions": […]}}')
    partitions: list[Json] = document["partitions"]
    if not partitions:
        raise Misused(f"{file}: it has no partitions")
    places: dict[tuple[str, int], int] = {}
    for place, each in enumerate(partitions):
        if (fault := _fault(each)) is not None:
            raise Misused(f"{file}: partitions[{place}] {fault}")
        first = places.setdefault((each["topic"], each["partition"]), place)
        if first != place:
            raise Misused(f"{file}: partitions[{place}] is {each['topic']}-{each['partition']}, as partitions[{first}]")
    return partitions


def _fault(planned: Any) -> str | None:  # Any: JSON's values
    """Returns what is wrong with a partition of a plan, as Kafka's tool finds it."""
    named = isinstance(planned, dict) and isinstance(planned.get("topic"), str) and _is_number(planned.get("partition"))
    replicas = planned.get("replicas") if named else None
    if not isinstance(replicas, list) or not all(map(_is_number, replicas)):
        return f"has a topic, a partition and its replicas, by numbers; this is {planned}"
    if not replicas or len(set(replicas)) < len(replicas):
        return f"has replicas {replicas}: there is one at least, and none is there twice"
    log_dirs = planned.get("log_dirs", [])
    if not isinstance(log_dirs, list):
        return f"has log_dirs {log_dirs}: they are a list"
    if any(each != "any" for each in log_dirs):
        # Kafka's tool sends them to the brokers (AlterReplicaLogDirs), which this command does not know.
        return "has log_dirs; they are the brokers', and not the controllers'"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


WRITES: Final = {
    ("topics", "create"): Write(
        "CreateTopics",
        "Create topics.",
        "created",
        create_topics,
        named_by=("name",),
        shown=("topic_id", "num_partitions", "replication_factor"),
    ),
    ("topics", "delete"): Write(
        "DeleteTopics", "Delete topics, with all their records.", "deleted", delete_topics, named_by=("name",)
    ),
    ("topics", "add-partitions"): Write(
        "CreatePartitions", "Give topics more partitions.", "changed", add_partitions, named_by=("name",)
    ),
    ("leaders", "elect"): Write(
        "ElectLeaders",
        "Elect leaders of partitions.",
        "elected",
        elect_leaders,
        named_by=("topic", "partition_id"),
        subjects=lambda _: ["all partitions"],
        fine=frozenset({"ELECTION_NOT_NEEDED"}),
        if_none="none needs an election",
    ),
    ("reassign", "apply"): Write(
        "AlterPartitionReassignments",
        "Begin what a plan says; `reassign list` tells how far it is.",
        "begun",
        apply_plan,
        named_by=("name", "partition_index"),
    ),
    ("reassign", "cancel"): Write(
        "AlterPartitionReassignments",
        "Cancel the reassignments of the partitions of a plan.",
        "cancelled",
        cancel_plan,
        named_by=("name", "partition_index"),
    ),
}
