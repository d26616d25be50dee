"""Assembles the page: all sections, in the order in which an operator asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.pipeline.report.audit import Sentence, audit_table
from services.pipeline.report.churn import BrokerChurn, churn_table
from services.pipeline.report.cluster import Drawn, cluster_section
from services.pipeline.report.days import Calendar, Day, calendar, day_table
from services.pipeline.report.findings import Findings, findings_table
from services.pipeline.report.fleet import Fleet, cluster_table, tiles
from services.pipeline.report.incident import Incident, incident_parts
from services.pipeline.report.latency import Latency, latency_parts
from services.pipeline.report.limits import BYTES_MAX, ReportLimits, ShownRows
from services.pipeline.report.markup import NOTHING, Html, joined, tag
from services.pipeline.report.placement import Share, placement_tables
from services.pipeline.report.style import STYLE
from services.pipeline.report.times import moment
from services.pipeline.report.trust import Trust, trust_line

__all__ = ["Answers", "page"]

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""Content security policy: no script runs and nothing is loaded, whatever the page contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All data that the report shows, read within some limits."""

    fleet: Fleet
    trust: Trust
    findings: Findings | None
    incident: Incident | None
    drawn: Sequence[Drawn]
    days: ShownRows[Day]
    calendar: Calendar
    churn: ShownRows[BrokerChurn]
    placement: dict[str, ShownRows[Share]] | None
    latency: Latency | None
    audit: ShownRows[Sentence]


def page(answers: Answers, limits: ReportLimits) -> str:
    """Builds the HTML document; limits are halved until it is at most BYTES_MAX bytes or cannot become smaller."""
    while True:
        made = _document(answers, limits)
        if len(made.encode()) <= BYTES_MAX or limits == limits.halved():
            return made
        limits = limits.halved()


def _document(answers: Answers, limits: ReportLimits) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("title", "Quorate: report of a Kafka fleet"),
        tag("style", Html(STYLE)),
    )
    parts = list(_parts(answers, limits))
    links = tag("nav", *(tag("a", words, href=f"#{key}") for key, words, _ in parts))
    whole = answers.fleet.whole
    period = tag("p", f"{moment(whole.begin_ms)} to {moment(whole.end_ms)} UTC", class_="note")
    title = tag("header", tag("div", tag("h1", "Metadata of a Kafka fleet"), period), links)
    body = [title, tiles(answers.fleet), trust_line(answers.trust)]
    body += [tag("div", content, id=key) for key, _, content in parts]
    return "<!doctype html>\n" + tag("html", head, tag("body", tag("main", *body)), lang="en") + "\n"


def _parts(answers: Answers, limits: ReportLimits) -> list[tuple[str, str, Html]]:
    """Returns the anchor, the name in the navigation, and the content of each section."""
    clusters = answers.fleet.clusters
    happened = incident_parts(answers.incident, limits, clusters.total)
    parts = [("happened", "what happened", _section("What happened", happened))]
    if clusters.total > 1:
        fleet = joined((calendar(answers.calendar, limits), cluster_table(answers.fleet, limits)))
        parts.append(("clusters", "clusters", _section("Clusters", fleet)))
    drawn = answers.drawn[: limits.clusters]
    note = ShownRows(drawn, clusters.total).words("the worst", "clusters are drawn")
    pictures = [tag("p", note, class_="note") if clusters.total > len(drawn) else NOTHING]
    parts.append(("timelines", "timelines", joined((*pictures, *(cluster_section(each, limits) for each in drawn)))))
    found = findings_table(answers.findings, limits, clusters.total)
    parts.append(("findings", "findings", _section("Findings of the fleet doctor", found)))
    days = day_table(answers.days, limits)
    if clusters.total == 1:
        days = joined((calendar(answers.calendar, limits), days))
    parts.append(("availability", "availability", _section("Availability by day and partition", days)))
    parts.append(("churn", "churn", _section("Churn per broker", churn_table(answers.churn, limits))))
    placement = placement_tables(answers.placement, limits, clusters.total)
    parts.append(("placement", "placement", _section("Placement", placement)))
    latency = latency_parts(answers.latency, limits, clusters.total)
    parts.append(("latency", "latency", _section("Commit latency", latency)))
    audit = audit_table(answers.audit, limits, clusters.total)
    parts.append(("audit", "audit", _section("Audit timeline", audit)))
    return parts


def _section(title: str, content: Html) -> Html:
    return tag("section", tag("h2", title), content)
