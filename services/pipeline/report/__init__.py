"""The report: one HTML page with charts for a fleet of any size, small enough to mail.

limits       how many rows of each kind are shown
parts        the parts of the page as data
library      Vega-Lite with the page's script, and the policy by which nothing else runs
times        formats times and durations
lanes        the data of timelines
areas        the data of step charts of counts over time, and histograms
cells        makes tables with bars
intervals    merges rows into intervals of unchanged state, in Spark
fleet        the key figures, and the table of clusters
cluster      the charts of one cluster
quorum       the active controllers
brokers      the states of brokers
partitions   the leaders and ISRs of partitions
health       how many partitions were offline or under min ISR
incident     the present problems by cause, and the story of each cluster
findings     the doctor's findings, by kind
plan         the steps over all findings, in the order in which they are to be taken
days         availability by day and partition
placement    replicas and leaders against a fair share
latency      commit latencies and election gaps
churn        ISR exits, lost leaderships and fencings by broker
audit        the latest changes of each kind as sentences
trust        whether the replay equals the checkpoints
page         all sections in order
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from services.pipeline.gold import GOLD, TABLES
from services.pipeline.report.audit import read_audit
from services.pipeline.report.churn import read_churn
from services.pipeline.report.cluster import read_clusters
from services.pipeline.report.days import read_calendar, read_days
from services.pipeline.report.findings import read_findings
from services.pipeline.report.fleet import read_fleet
from services.pipeline.report.incident import read_incident
from services.pipeline.report.latency import read_latency
from services.pipeline.report.limits import ReportLimits
from services.pipeline.report.page import Answers, page
from services.pipeline.report.placement import read_placement
from services.pipeline.report.trust import read_trust
from services.pipeline.silver.image import HISTORIES, SILVER
from services.pipeline.silver.write_path import WRITE_PATH
from services.pipeline.tables import Tables

__all__ = ["ReportLimits", "answers", "report"]

DEFAULT = ReportLimits()
T = TypeVar("T")


def report(
    tables: Tables,
    limits: ReportLimits = DEFAULT,
    *,
    left_out: Sequence[str] = (),
    on_section: Callable[[str], None] = lambda _: None,
) -> str:
    """Builds the page; `on_section` is called with the name of each section that was read.

    `left_out` are clusters that the page is not about, but names. Raises LookupError if a table or record is missing.
    """
    return page(answers(tables, limits, left_out=left_out, on_section=on_section), limits)


def answers(
    tables: Tables,
    limits: ReportLimits = DEFAULT,
    *,
    left_out: Sequence[str] = (),
    on_section: Callable[[str], None] = lambda _: None,
) -> Answers:
    """Reads the data that the report page shows; Spark aggregates and limits it, so that little is collected here.

    Raises LookupError if a table or record is missing.
    """

    def reported(part: str, answer: T) -> T:
        on_section(f"report: {part}")
        return answer

    names = (*(f"{SILVER}/{name}" for name in (*HISTORIES, "events")), *(f"{GOLD}/{name}" for name in TABLES))
    found = {name: tables.read(name) for name in names}
    there = {name.partition("/")[2]: frame for name, frame in found.items() if frame is not None}
    if missing := [name for name, frame in found.items() if frame is None]:
        raise LookupError(f"there is no {missing[0]} to report on: run silver and gold before")
    availability = there["availability"]
    fleet = read_fleet(there["events"], there["partition_history"], there["broker_history"], availability, limits.fleet)
    clusters = reported("the fleet", fleet.clusters.rows)
    ids = [each.cluster_id for each in clusters]
    drawn, causes, paths = clusters[: limits.clusters], there["causes"], tables.read(f"{SILVER}/{WRITE_PATH}")
    return Answers(
        fleet=fleet,
        trust=reported("what can be trusted", read_trust(tables, left_out)),
        findings=reported("findings", read_findings(there["fleet_doctor"], limits.each)),
        incident=reported("what happened", read_incident(causes, there["story"], ids[: limits.clusters], limits)),
        drawn=reported("timelines", read_clusters(drawn, there, availability, limits)),
        days=reported("days", read_days(availability, limits.rows)),
        calendar=reported("calendar", read_calendar(availability, ids, limits)),
        churn=reported("churn", read_churn(there["isr_churn"], limits.rows)),
        placement=reported("placement", read_placement(there["placement_skew"], limits.rows)),
        latency=reported("latency", read_latency(there["commit_slo"], paths, limits)),
        audit=reported("audit timeline", read_audit(there["audit_timeline"], limits.sentences)),
    )
