"""The report: one HTML page with plots, of a fleet of any size, small enough to mail.

limits       how much is shown
markup       HTML that cannot be broken by what is in a log
style        how it looks
times        times and durations as people read them, and the axis
lanes        a picture: what was so from when to when
levels       a picture: how many there were over time
histogram    a picture: how many there were of each size
cells        tables with bars
stretches    what was so for how long, in the engine
fleet        the numbers looked at first, and every cluster
cluster      one cluster drawn: of quorum, brokers, partitions, health
findings     what the fleet doctor says
days         availability by day and partition
placement    who has more than a fair share
latency      how long writes take, and elections
churn        what brokers did to the ISRs
audit        the latest changes as sentences
trust        what could not be read or did not agree
page         all of it in order
"""

from __future__ import annotations

from services.pipeline.gold import GOLD
from services.pipeline.report.audit import read_audit
from services.pipeline.report.churn import read_churn
from services.pipeline.report.cluster import read_clusters
from services.pipeline.report.days import read_calendar, read_days
from services.pipeline.report.findings import read_findings
from services.pipeline.report.fleet import read_fleet
from services.pipeline.report.latency import read_latency
from services.pipeline.report.limits import Limits
from services.pipeline.report.page import Answers, page
from services.pipeline.report.placement import read_placement
from services.pipeline.report.trust import read_trust
from services.pipeline.silver.image import HISTORIES, SILVER
from services.pipeline.silver.write_path import WRITE_PATH
from services.pipeline.tables import Tables

__all__ = ["Limits", "answers", "report"]

DEFAULT = Limits()


def report(tables: Tables, limits: Limits = DEFAULT) -> str:
    """The page. Raises LookupError if there is no silver or no gold, or no record in it."""
    return page(answers(tables, limits), limits)


def answers(tables: Tables, limits: Limits = DEFAULT) -> Answers:
    """What the page shows: aggregated and cut in the engine, so that nothing large is ever gathered here."""
    names = (*(f"{SILVER}/{name}" for name in (*HISTORIES, "events")), *(f"{GOLD}/{name}" for name in _NEEDED))
    found = {name: tables.read(name) for name in names}
    there = {name.partition("/")[2]: frame for name, frame in found.items() if frame is not None}
    if missing := [name for name, frame in found.items() if frame is None]:
        raise LookupError(f"there is no {missing[0]} to report on: run silver and gold before")
    availability = there["availability"]
    fleet = read_fleet(there["events"], there["partition_history"], there["broker_history"], availability, limits.fleet)
    clusters = fleet.clusters.rows
    return Answers(
        fleet=fleet,
        trust=read_trust(tables),
        findings=read_findings(tables.read(f"{GOLD}/fleet_doctor"), limits.rows),
        drawn=read_clusters(clusters[: limits.clusters], there, availability, limits),
        days=read_days(availability, limits.rows),
        calendar=read_calendar(availability, [each.cluster_id for each in clusters], limits),
        churn=read_churn(there["isr_churn"], limits.rows),
        placement=read_placement(tables.read(f"{GOLD}/placement_skew"), limits.rows),
        latency=read_latency(tables.read(f"{GOLD}/commit_slo"), tables.read(f"{SILVER}/{WRITE_PATH}"), limits),
        audit=read_audit(there["audit_timeline"], limits.sentences),
    )


_NEEDED = ("audit_timeline", "availability", "isr_churn")
