"""`quorate doctor`: what an operator should look at in a cluster's state, as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.doctor import HISTORY_CODES, Facts, Finding, Severity, examine

__all__ = ["diagnose"]

FIELDS: Final = ("severity", "code", "subject", "sentence", "advice")
PRESENT: Final = f"of what takes the history nothing is said ({', '.join(HISTORY_CODES)}): quorate pipeline does"
NO_QUORUM: Final = (
    "an observer's image has no voters, no kraft.version and no time: nothing is said of them, nor of configs of voters"
)
ASSUMED: Final = "the brokers' and controllers' own files are not known: Kafka's defaults are taken in their place"


def diagnose(found: Offline, *, output: str) -> bool:
    """Prints what an operator should look at in this state, the worst first; returns whether none of it is an error."""
    facts = Facts(
        state=found.state,
        voters=found.voters,
        kraft_version=found.kraft_version if found.has_quorum else None,
        now_ms=found.last_timestamp,
        elected=found.elected,
    )
    findings = examine(facts)
    notes = [*found.notes, *(() if found.has_quorum else (NO_QUORUM,)), ASSUMED, PRESENT]
    if is_document(output):
        print_document(_json(found, findings, notes), output)
    else:
        print_lines(_text(found, findings, notes))
    return not any(each.severity is Severity.ERROR for each in findings)


def _text(found: Offline, findings: Sequence[Finding], notes: Sequence[str]) -> Iterator[str]:
    counts = ", ".join(f"{sum(each.severity is of for each in findings)} {of}" for of in Severity)
    yield f"As of offset {found.as_of_offset}: {counts}"
    for each in findings:
        yield f"{each.severity:5}  {each.code}  {printable(each.subject)}: {printable(each.sentence)}"
        yield f"       {printable(each.advice)}"
    for note in notes:
        yield f"note: {printable(note)}"


def _json(found: Offline, findings: Sequence[Finding], notes: Sequence[str]) -> dict[str, Any]:
    rows = [{name: getattr(each, name) for name in FIELDS} for each in findings]
    return {"asOfOffset": found.as_of_offset, "findings": rows, "notes": list(notes)}
