"""Assembles the page: all sections, in the order in which an operator asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pyspark.sql import Row

from services.pipeline.report import library
from services.pipeline.report.audit import audit_table
from services.pipeline.report.churn import churn_table
from services.pipeline.report.cluster import Drawn, cluster_parts
from services.pipeline.report.days import Calendar, calendar, day_table
from services.pipeline.report.findings import Findings, findings_table
from services.pipeline.report.fleet import Fleet, cluster_table, tiles
from services.pipeline.report.incident import Incident, cause_parts, story_parts
from services.pipeline.report.latency import Latency, latency_parts
from services.pipeline.report.limits import BYTES_MAX, ReportLimits, ShownRows
from services.pipeline.report.parts import Heading, Note, Part, Section, clean
from services.pipeline.report.placement import placement_tables
from services.pipeline.report.plan import plan_parts
from services.pipeline.report.times import moment
from services.pipeline.report.trust import Trust, trust_lines

__all__ = ["Answers", "page"]

_TEMPLATES: Final = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All data that the report shows, read within some limits."""

    fleet: Fleet
    trust: Trust
    findings: Findings
    incident: Incident
    drawn: Sequence[Drawn]
    days: ShownRows[Row]
    calendar: Calendar
    churn: ShownRows[Row]
    placement: dict[str, ShownRows[Row]]
    latency: Latency
    audit: ShownRows[Row]


def page(answers: Answers, limits: ReportLimits) -> str:
    """Builds the HTML document; limits are halved until it is at most BYTES_MAX bytes or cannot become smaller."""
    while True:
        made = _document(answers, limits)
        if len(made.encode()) <= BYTES_MAX or limits == limits.halved():
            return made
        limits = limits.halved()


def _document(answers: Answers, limits: ReportLimits) -> str:
    whole = answers.fleet.whole
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            period=f"{moment(whole.begin_ms)} to {moment(whole.end_ms)} UTC",
            tiles=tiles(answers.fleet, answers.findings),
            trust=trust_lines(answers.trust),
            sections=list(_sections(answers, limits)),
            # Made by this project and its library, so it is not escaped: a log's names cannot be in it.
            style=Markup((_TEMPLATES / "style.css").read_text()),
            script=Markup(library.script()),
            policy=library.policy(),
            licence=library.licence(),
        )
    )


@cache
def _environment() -> Environment:
    """Returns Jinja2's environment for the page: it escapes all text, and raises UndefinedError for an unknown name."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return made


def _printable(value: object) -> object:
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value)
    return "" if value is None else value


def _sections(answers: Answers, limits: ReportLimits) -> Iterator[Section]:
    """Yields the sections in order."""
    clusters = answers.fleet.clusters
    happened = [
        *cause_parts(answers.incident, limits, clusters.total),
        *plan_parts(answers.incident, answers.findings, limits, clusters.total),
        *story_parts(answers.incident, limits, clusters.total),
    ]
    yield _section("happened", "What happened", happened)
    if clusters.total > 1:
        fleet = [*calendar(answers.calendar, limits), *cluster_table(answers.fleet, limits)]
        yield _section("clusters", "Clusters", fleet)
    yield Section(anchor="timelines", name="timelines", cards=_timelines(answers, limits))
    found = findings_table(answers.findings, limits, clusters.total)
    yield _section("findings", "Findings of the doctor", found, "findings")
    days = day_table(answers.days, limits)
    if clusters.total == 1:
        days = [*calendar(answers.calendar, limits), *days]
    yield _section("availability", "Availability by day and partition", days, "availability")
    yield _section("churn", "Churn per broker", churn_table(answers.churn, limits), "churn")
    yield _section("placement", "Placement", placement_tables(answers.placement, limits, clusters.total))
    yield _section("latency", "Commit latency", latency_parts(answers.latency, limits, clusters.total), "latency")
    yield _section("audit", "Audit timeline", audit_table(answers.audit, limits, clusters.total), "audit")


def _section(anchor: str, title: str, parts: Sequence[Part], name: str = "") -> Section:
    return Section(anchor=anchor, name=name or title.lower(), cards=[[Heading(title, level=2), *parts]])


def _timelines(answers: Answers, limits: ReportLimits) -> list[list[Part]]:
    drawn = answers.drawn[: limits.clusters]
    cards = [cluster_parts(each, limits) for each in drawn]
    total = answers.fleet.clusters.total
    if cards and total > len(drawn):
        cards[0] = [Note(ShownRows(drawn, total).words("the worst", "clusters are drawn")), *cards[0]]
    return cards
