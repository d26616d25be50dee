"""`quorate reassign plan`: a reassignment as text, JSON, or the file that kafka-reassign-partitions takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from quorate.cli.documents import Output, is_document, print_document, print_lines
from quorate.cli.failures import Failed, Misused
from quorate.cli.image import columns
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.controller.configs.settings import ControllerSettings
from quorate.errors import ApiError
from quorate.nouns import NodeId
from quorate.what_if import Load, Plan, Wish, plan_reassignment

__all__ = ["plan"]

BYTES: Final = "of bytes the metadata says nothing: kafka-log-dirs.sh tells how large each replica is"
SHOWN_MAX: Final = 50
"""Partitions that the text lists; JSON and Kafka's file have all."""


def plan(found: Offline, wish: Wish, *, output: str) -> None:
    """Prints which replicas move to fulfil `wish`, and changes nothing. `output` is text, json, yaml or kafka.

    Raises Misused if nothing is wished for; Failed for brokers or topics that are not there, or what cannot be done.
    """
    if not (wish.added or wish.drained or wish.factor is not None):
        raise Misused("give --add, --drain or --replication-factor: what the reassignment is for")
    try:
        planned = plan_reassignment(found.state, wish)
    except ApiError as refusal:
        raise Failed(f"{found.path}: {refusal.message}") from None
    notes = [*found.notes, *_notes(found, planned)]
    if output == "kafka":
        print_document(_document(planned, is_after=True), Output.JSON)
    elif is_document(output):
        print_document(_json(found, planned, notes), output)
    else:
        print_lines(_text(found, planned, notes))


def _notes(found: Offline, planned: Plan) -> Iterator[str]:
    if planned.copied:
        yield BYTES
    changed = {(each.topic, each.partition_id) for each in planned.moves}
    moving = [each for each in found.state.topics.reassigning() if (each.topic.name, each.partition_id) in changed]
    if moving:
        which = f"{moving[0].topic.name}-{moving[0].partition_id}"
        yield f"{len(moving)} of them are being reassigned now, {which} for one: the plan goes on from where that leads"
    yield from _waits(found, planned)
    yield from _too_few(found, planned)


def _waits(found: Offline, planned: Plan) -> Iterator[str]:
    """Says which partitions with fewer replicas keep one that is away: all that stay have to be in sync (KIP-455)."""
    waiting: list[tuple[str, NodeId]] = []
    for each in planned.moves:
        topic = found.state.topics.by_name(each.topic)
        assert topic is not None, each
        isr = topic.partitions[each.partition_id].isr
        away = [id_ for id_ in each.after if id_ not in isr and not found.state.brokers.is_active(id_)]
        if away and len(each.after) < len(each.before):
            waiting.append((f"{each.topic}-{each.partition_id}", away[0]))
    if waiting:
        name, broker_id = waiting[0]
        count = len(waiting)
        yield f"{count} of them end only once brokers that are away are back, {name} for one: broker {broker_id}"


def _too_few(found: Offline, planned: Plan) -> Iterator[str]:
    """Says of which topics the factor goes below min.insync.replicas: what the log says of it, else Kafka's default."""
    settings, fewest = ControllerSettings(), dict[str, int]()
    for each in planned.moves:
        if len(each.after) < len(each.before):
            fewest[each.topic] = min(len(each.after), fewest.get(each.topic, len(each.after)))
    below = [
        (topic, count, least)
        for topic, count in fewest.items()
        if count < (least := settings.min_insync_replicas(found.state, topic))
    ]
    if below:
        topic, count, least = below[0]
        yield (
            f"{len(below)} topics get fewer replicas than their min.insync.replicas, {topic} for one: "
            f"{count}, and min.insync.replicas is {least}"
        )


def _text(found: Offline, planned: Plan, notes: Sequence[str]) -> Iterator[str]:
    deleted = sum(len(each.going) for each in planned.moves)
    yield (
        f"As of offset {found.as_of_offset}: {len(planned.moves)} partitions change, "
        f"{planned.copied} replicas are copied to another broker, {deleted} are deleted"
    )
    heads = ["broker", "rack", "replicas", "preferred leader of", "copied to it", "deleted"]
    rows = [_row(found, broker_id, load) for broker_id, load in planned.loads.items()]
    yield from (f"  {line}" for line in columns([heads, *rows]))
    for each in planned.moves[:SHOWN_MAX]:
        yield f"  {printable(each.topic)}-{each.partition_id}  {_ids(each.before)} → {_ids(each.after)}"
    if len(planned.moves) > SHOWN_MAX:
        yield f"  … and {len(planned.moves) - SHOWN_MAX} more: --output json or kafka has them all"
    for note in notes:
        yield f"note: {printable(note)}"


def _row(found: Offline, broker_id: NodeId, load: Load) -> list[Any]:
    broker = found.state.brokers.get(broker_id)
    rack = None if broker is None else broker.rack
    return [
        broker_id,
        "-" if rack is None else rack,
        f"{load.replicas_before} → {load.replicas_after}",
        f"{load.preferred_before} → {load.preferred_after}",
        load.coming,
        load.going,
    ]


def _json(found: Offline, planned: Plan, notes: Sequence[str]) -> dict[str, Any]:
    cost = {
        "partitions": len(planned.moves),
        "replicasCopied": planned.copied,
        "replicasDeleted": sum(len(each.going) for each in planned.moves),
        "bytes": None,
        "brokers": [{"broker": broker_id, **_camel(load)} for broker_id, load in planned.loads.items()],
    }
    return {
        "asOfOffset": found.as_of_offset,
        "reassignment": _document(planned, is_after=True),
        "previous": _document(planned, is_after=False),
        "cost": cost,
        "notes": list(notes),
    }


def _document(planned: Plan, *, is_after: bool) -> dict[str, Any]:  # Any: JSON values
    """Returns what kafka-reassign-partitions takes as --reassignment-json-file (version 1)."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition_id,
                "replicas": list(each.after if is_after else each.before),
            }
            for each in planned.moves
        ],
    }


def _camel(load: Load) -> dict[str, int]:
    words = {name: name.split("_") for name in asdict(load)}
    return {first + "".join(map(str.title, rest)): getattr(load, name) for name, (first, *rest) in words.items()}


def _ids(ids: Sequence[NodeId]) -> str:
    return ",".join(map(str, ids)) or "none"
