"""`quorate what-if`: what becomes of the partitions if brokers, racks or log directories go, as text or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.failures import Failed, Misused
from quorate.cli.image_diff import in_json
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.controller.configs.settings import ControllerSettings
from quorate.errors import ApiError
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.nouns import NodeId, parse_uuid
from quorate.sql.sentences import sentence
from quorate.what_if import Becomes, Changed, Counts, Outcome, brokers_of_rack, take_away

__all__ = ["ASSUMED", "ask", "gone_of", "own_state"]

ASSUMED: Final = (
    "min.insync.replicas and unclean.leader.election.enable are those of the log and Kafka's defaults: "
    "the controllers' files are not known"
)
LABELS: Final = {"offline": "offline", "under_min_isr": "under min ISR", "under_replicated": "under-replicated"}
"""The last two have a leader, as in Kafka's metrics; kafka-topics and the listings also count those without one."""
WORDS: Final = {
    Becomes.OFFLINE: "without a leader",
    Becomes.UNCLEAN: "led by a replica that was not in sync: what it lacks is lost",
    Becomes.MOVES: "led by another broker",
    Becomes.SHRINKS: "led as before, by fewer in the ISR",
}
SHOWN_MAX: Final = 100
"""Partitions of each of these that the text lists; JSON has all."""


def ask(
    found: Offline, *, brokers: Sequence[NodeId], racks: Sequence[str], directories: Sequence[str], output: str
) -> None:
    """Prints what becomes of the partitions if brokers, racks or log directories go; changes nothing.

    Raises Misused if nothing goes, or for an id that is none; Failed for what is not there.
    """
    if not (brokers or racks or directories):
        raise Misused("give --broker, --rack or --directory: what goes")
    try:
        ids = [parse_uuid(each) for each in directories]
    except ValueError as problem:
        raise Misused(f"--directory: {problem}") from None
    try:
        gone = gone_of(found.state, brokers, racks)
        outcome = take_away(
            own_state(found),
            brokers=gone,
            directories=ids,
            settings=ControllerSettings(),
            next_offset=found.as_of_offset,
        )
    except ApiError as refusal:
        raise Failed(f"{found.path}: {refusal.message}") from None
    notes = [*found.notes, ASSUMED]
    if is_document(output):
        print_document(_json(found, gone, directories, outcome, notes), output)
    else:
        print_lines(_text(found, gone, directories, outcome, notes))


def gone_of(state: ClusterState, brokers: Sequence[NodeId], racks: Sequence[str]) -> list[NodeId]:
    """Returns these brokers and those of these racks, each once. Raises ApiError for a rack that no broker is in."""
    return list(dict.fromkeys([*brokers, *(each for rack in racks for each in brokers_of_rack(state, rack))]))


def own_state(found: Offline) -> ClusterState:
    """Returns the state of `found` as one to which records can be applied: a copy of it if a transaction is open.

    With an open transaction `found` has a view of the state before it, which takes no records.
    """
    if found.transaction is None:
        return found.state
    copy = ClusterState()
    copy.load((record for record, _ in found.state.records(LATEST)), found.as_of_offset)
    return copy


def _text(
    found: Offline, gone: Sequence[NodeId], directories: Sequence[str], outcome: Outcome, notes: Sequence[str]
) -> Iterator[str]:
    parts = [("broker", list(map(str, gone))), ("log directory", list(map(printable, directories)))]
    absent = " and ".join(f"{what} {', '.join(which)}" for what, which in parts if which)
    yield f"Without {absent}, as of offset {found.as_of_offset}:"
    for name, label in LABELS.items():
        before, after = (getattr(each, name) for each in (outcome.before, outcome.after))
        yield f"  {label:16}  {before} → {after} partitions"
    of_fate = {each: each.becomes for each in {each.fate for each in outcome.changed}}
    counted = Counter(of_fate[each.fate] for each in outcome.changed)
    for becomes, meaning in WORDS.items():
        if counted[becomes]:
            yield f"{counted[becomes]} {meaning}:"
            shown = (each for each in outcome.changed if of_fate[each.fate] is becomes)
            for each in islice(shown, SHOWN_MAX):
                yield f"  {printable(str(sentence(each.difference)))}"
            if counted[becomes] > SHOWN_MAX:
                yield f"  … and {counted[becomes] - SHOWN_MAX} more: --json has them all"
    if not outcome.changed:
        yield "no partition changes"
    for note in notes:
        yield f"note: {printable(note)}"


def _json(
    found: Offline, gone: Sequence[NodeId], directories: Sequence[str], outcome: Outcome, notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "asOfOffset": found.as_of_offset,
        "brokers": list(gone),
        "directories": list(directories),
        "before": _camel(outcome.before),
        "after": _camel(outcome.after),
        "partitions": list(map(_document, outcome.changed)),
        "notes": list(notes),
    }


def _document(changed: Changed) -> dict[str, Any]:  # Any: JSON values
    found = changed.difference
    return {
        "becomes": changed.fate.becomes,
        "key": in_json(found.key),
        "before": in_json(found.before),
        "after": in_json(found.after),
    }


def _camel(counts: Counts) -> dict[str, int]:
    return {
        "offline": counts.offline,
        "underMinIsr": counts.under_min_isr,
        "underReplicated": counts.under_replicated,
    }
