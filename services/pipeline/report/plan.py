"""The plan of action: what to do first and what then, over all findings, so that no step spoils a later one.

Partitions and brokers come back before replicas are added or moved, since these need a leader and room; what was lost
is looked for once its records can be read; kraft.version is raised before voters are added, racks are set before
replicas are spread over them, and features are upgraded last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pyspark.sql import Row

from services.pipeline.report.cells import Column, table
from services.pipeline.report.findings import Findings
from services.pipeline.report.incident import Incident
from services.pipeline.report.limits import ReportLimits, ShownRows
from services.pipeline.report.parts import Heading, Part, Words, code

__all__ = ["BY_CAUSE", "STAGES", "Step", "plan_parts", "steps"]

BY_CAUSE: Final = ("NO_LEADER", "UNDER_MIN_ISR", "UNDER_REPLICATED", "FENCED_WITH_REPLICAS")
"""Findings whose steps are those of the causes: these say once for all partitions which brokers to start."""
STAGES: Final = {
    "before anything else": ("ELR_NOT_EMPTY",),
    "get leaders back": (
        "NO_LEADER",
        "OFFLINE_DIRECTORY",
        "UNREGISTERED_WITH_REPLICAS",
        "FENCED_WITH_REPLICAS",
        "FEATURE_NOT_SUPPORTED",
    ),
    "get replicas in sync": ("UNDER_MIN_ISR", "REASSIGNMENT_STUCK", "UNDER_REPLICATED", "REASSIGNMENT_SLOW"),
    "see what was lost": ("RECOVERING", "UNCLEAN_ELECTION", "DEPOSED_RECORDS"),
    "find what caused it": ("CONTROLLER_SILENT", "FLAPPING"),
    "prepare for the next failure": (
        "KRAFT_VERSION_BEHIND",
        "VOTER_WITHOUT_DIRECTORY",
        "SINGLE_VOTER",
        "EVEN_VOTERS",
        "NO_RACK",
        "RACK_VIOLATION",
        "ONE_REPLICA",
        "MIN_ISR_ABOVE_REPLICAS",
        "MIN_ISR_EQUALS_REPLICAS",
        "UNCLEAN_ELECTION_ENABLED",
        "PREFERRED_LEADER_IMBALANCE",
    ),
    "clear away what is left": (
        "STALE_REGISTRATION",
        "BLOCKS_FEATURE",
        "FEATURE_BEHIND",
        "CORDONED_DIRECTORIES",
        "CONFIG_OF_NOTHING",
        "ACL_OF_NO_TOPIC",
        "TOKEN_EXPIRED",
    ),
}
"""The codes of all findings, in the order in which they are acted on."""
_STAGE_OF: Final = {each: stage for stage, codes in STAGES.items() for each in codes}
assert len(_STAGE_OF) == sum(map(len, STAGES.values())), STAGES
assert _STAGE_OF.keys() >= set(BY_CAUSE), BY_CAUSE
_PLACES: Final = {each: place for place, each in enumerate(_STAGE_OF)}
_LAST: Final = next(reversed(STAGES))
"""The stage of a code that is in none: of a table that another version has written."""
_SUBJECTS_MAX: Final = 3
"""Most subjects that one step names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One act: for the findings of one code in one cluster that have the same advice."""

    cluster_id: str
    stage: str
    code: str
    action: str
    why: str


def steps(incident: Incident, findings: Findings) -> list[Step]:
    """Returns the steps in order, made of the causes and the findings that were read."""
    made = [
        Step(
            cluster_id=each.cluster_id,
            stage=_STAGE_OF.get(each.code, _LAST),
            code=each.code,
            action=each.advice,
            why=each.sentence,
        )
        for each in incident.causes.rows
    ]
    made += _of_findings([row for row in findings.rows if row.code not in BY_CAUSE])
    # The causes are the worst first, the findings the longest-lasting, and stay so within a code.
    return sorted(made, key=lambda step: _place(step.code))


def plan_parts(incident: Incident, findings: Findings, limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds the table of the steps; nothing without findings."""
    if not findings.total:
        return []
    found = steps(incident, findings)
    shown = ShownRows(found, len(found)).first(limits.rows)
    numbers = {id(step): number for number, step in enumerate(shown.rows, 1)}
    columns: list[Column[Step]] = [
        Column("step", lambda step: str(numbers[id(step)]), "number"),
        Column("to", lambda step: Words(step.stage, element="b"), "time"),
        Column("what to do", lambda step: step.action, "prose"),
        Column("because", lambda step: step.why, "prose"),
    ]
    if clusters > 1:
        columns.insert(1, Column("cluster", lambda step: code(step.cluster_id), "time"))
    words = shown.words("the first", "steps") + ", in this order; run the report again after each group"
    if unread := _unread(incident, findings):
        words += f"; more steps follow then, as these are of {unread}"
    return [Heading("What to do, first to last", words), table(shown.rows, columns)]


def _unread(incident: Incident, findings: Findings) -> str:
    """Names the kinds of which not all were read, and so are not in the steps; empty if there are none."""
    causes, read = incident.causes, Counter(row.code for row in findings.rows)
    kinds = [("causes", len(causes.rows), causes.total)]
    kinds += [(each.code, read[each.code], each["count"]) for each in findings.counts if each.code not in BY_CAUSE]
    return ", ".join(f"{count:,} of {total:,} {name}" for name, count, total in kinds if count < total)


def _place(kind: str) -> int:
    return _PLACES.get(kind, len(_PLACES))


def _of_findings(rows: Sequence[Row]) -> Iterator[Step]:
    def of(row: Row) -> tuple[int, str, str, str]:
        return _place(row.code), row.code, row.cluster_id, row.advice

    for (_, kind, cluster_id, advice), same in groupby(sorted(rows, key=of), key=of):
        found = list(same)
        named = ", ".join(row.subject for row in found[:_SUBJECTS_MAX])
        more = len(found) - _SUBJECTS_MAX
        what = f"{named} and {more} more" if more > 0 else named
        why = f"{what}: {found[0].sentence}" if len(found) == 1 else f"{what}: {kind}"
        yield Step(cluster_id=cluster_id, stage=_STAGE_OF.get(kind, _LAST), code=kind, action=advice, why=why)
