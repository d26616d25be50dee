"""`quorate restart-safe`: which brokers can be restarted one after the other, as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.failures import Failed
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.cli.what_if import ASSUMED, gone_of, own_state
from quorate.controller.configs.settings import ControllerSettings
from quorate.errors import ApiError
from quorate.nouns import NodeId
from quorate.what_if import Harm, Harmed, Restart, plan_restarts

__all__ = ["ask"]

VOTERS: Final = (
    "of the quorum nothing is said: restart-safe --controllers --bootstrap-controller asks which voters keep up"
)
SHOWN_MAX: Final = 20
"""Partitions of each broker that the text lists; JSON has all."""
WORDS: Final = {
    Harm.OFFLINE: "goes offline",
    Harm.UNCLEAN: "is led by a replica that is not in sync: what that one lacks is lost",
    Harm.UNDER_MIN_ISR: "refuses acks=all",
}


def ask(found: Offline, *, brokers: Sequence[NodeId], racks: Sequence[str], output: str) -> bool:
    """Prints in which order brokers can be restarted, and why others cannot; returns whether all are safe now.

    Without brokers or racks it is about all brokers that are registered. Of several that are named it returns whether
    each has a place in the order. Raises Failed for a broker or rack that is not there.
    """
    try:
        state = own_state(found)
        named = gone_of(state, brokers, racks)
        asked = named or [broker.id for broker in state.brokers]
        plan = plan_restarts(state, asked, settings=ControllerSettings(), next_offset=found.as_of_offset)
    except ApiError as refusal:
        raise Failed(f"{found.path}: {refusal.message}") from None
    notes = [*found.notes, ASSUMED, VOTERS]
    if is_document(output):
        print_document(_json(found, plan, notes), output)
    else:
        print_lines(_text(found, plan, notes))
    return all(each.has_place if len(set(named)) > 1 else each.is_safe_now for each in plan)


def _text(found: Offline, plan: Sequence[Restart], notes: Sequence[str]) -> Iterator[str]:
    safe = [each for each in plan if each.has_place]
    yield f"As of offset {found.as_of_offset}, one at a time, and the next once it is back in every ISR:"
    for place, each in enumerate(safe, 1):
        later = "" if each.is_safe_now else f", not before {_ids(each.after)} is back"
        yield f"  {place:3}. broker {each.broker_id}{later}"
    if not safe:
        yield "  none is safe"
    for each in plan[len(safe) :]:
        yield f"not safe, neither now nor after these: broker {each.broker_id}, for {len(each.harmed)} partitions"
        by_harm = sorted(each.harmed, key=lambda harmed: list(Harm).index(harmed.harm))
        for harmed in by_harm[:SHOWN_MAX]:
            yield f"  {_line(harmed)}"
        if len(by_harm) > SHOWN_MAX:
            yield f"  … and {len(by_harm) - SHOWN_MAX} more: --json has them all"
    for note in notes:
        yield f"note: {printable(note)}"


def _line(harmed: Harmed) -> str:
    partition = harmed.partition
    outside = f", not in sync {_ids(harmed.outside)}" if harmed.outside else ""
    return (
        f"{printable(harmed.topic)}-{harmed.partition_id} {WORDS[harmed.harm]}: "
        f"ISR {_ids(partition.isr)}{outside}, min.insync.replicas {harmed.min_isr}"
    )


def _ids(ids: Sequence[NodeId]) -> str:
    return ",".join(map(str, ids)) or "empty"


def _json(found: Offline, plan: Sequence[Restart], notes: Sequence[str]) -> dict[str, Any]:
    return {"asOfOffset": found.as_of_offset, "restarts": list(map(_document, plan)), "notes": list(notes)}


def _document(restart: Restart) -> dict[str, Any]:  # Any: JSON values
    return {
        "broker": restart.broker_id,
        "safe": restart.is_safe_now,
        "after": list(restart.after),
        "harmed": [
            {
                "topic": each.topic,
                "partition": each.partition_id,
                "harm": each.harm.value,
                "replicas": list(each.partition.replicas),
                "isr": list(each.partition.isr),
                "minIsr": each.min_isr,
            }
            for each in restart.harmed
        ],
    }
