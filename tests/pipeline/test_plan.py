"""The plan of action: every kind of finding has its place, and the incident of a Kafka cluster its steps in order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

from pyspark.sql import Row

from services.pipeline.report.findings import Findings
from services.pipeline.report.incident import Incident
from services.pipeline.report.limits import ReportLimits, ShownRows
from services.pipeline.report.parts import Heading
from services.pipeline.report.plan import BY_CAUSE, STAGES, plan_parts, steps
from tests.pipeline.illnesses import CASES

if TYPE_CHECKING:
    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)

WELL = Incident(causes=ShownRows((), 0), events=())


def finding(code: str, subject: str, advice: str) -> Row:
    return Row(
        cluster_id="c", severity="warn", code=code, subject=subject, sentence="is so", advice=advice, since_ms=None
    )


def test_every_kind_of_finding_has_one_place() -> None:
    placed = Counter(code for codes in STAGES.values() for code in codes)

    assert {case.code for case in CASES} == placed.keys()
    assert {1} == set(placed.values())


def test_findings_of_one_advice_are_one_step_and_later_stages_come_later() -> None:
    rows = [finding("ONE_REPLICA", f"topic {name}", "add replicas") for name in "abcde"]
    rows += [finding("ONE_REPLICA", "topic f", "first start broker 4, then add replicas")]
    rows += [finding(code, "broker 4", "start it") for code in ("NO_RACK", "OFFLINE_DIRECTORY")]
    found = steps(WELL, Findings(counts=(), rows=rows))

    assert [
        ("OFFLINE_DIRECTORY", "broker 4: is so"),
        ("NO_RACK", "broker 4: is so"),
        ("ONE_REPLICA", "topic a, topic b, topic c and 2 more: ONE_REPLICA"),
        ("ONE_REPLICA", "topic f: is so"),
    ] == [(step.code, step.why) for step in found]


def test_a_finding_of_another_version_comes_last() -> None:
    """Its table was written before or after this code was."""
    found = steps(WELL, Findings(counts=(), rows=[finding("OF_ANOTHER", "s", "a"), finding("TOKEN_EXPIRED", "t", "b")]))

    assert [("TOKEN_EXPIRED", "clear away what is left"), ("OF_ANOTHER", "clear away what is left")] == [
        (step.code, step.stage) for step in found
    ]


def test_what_the_causes_say_for_all_partitions_is_not_said_of_each() -> None:
    assert () == tuple(steps(WELL, Findings(counts=(), rows=[finding(code, "s", "a") for code in BY_CAUSE])))


def test_the_heading_says_of_which_kinds_not_all_were_read() -> None:
    def words(one_replica: int, no_leader: int, causes: int) -> str | None:
        counts = [
            Row(severity="warn", code=code, count=count, clusters=1)
            for code, count in (("ONE_REPLICA", one_replica), ("NO_LEADER", no_leader))
        ]
        rows = [finding(code, f"topic {name}", "act") for code in ("ONE_REPLICA", "NO_LEADER") for name in "ab"]
        incident = Incident(causes=ShownRows((), causes), events=())
        heading = plan_parts(incident, Findings(counts=counts, rows=rows), ReportLimits(), clusters=1)[0]
        assert isinstance(heading, Heading)
        return heading.note

    whole = "1 step, in this order; run the report again after each group"

    assert whole == words(2, 1_000, 0)
    assert f"{whole}; more steps follow then, as these are of 2 of 1,234 ONE_REPLICA" == words(1_234, 2, 0)
    assert f"{whole}; more steps follow then, as these are of 0 of 3 causes, 2 of 3 ONE_REPLICA" == words(3, 2, 3)


def test_a_released_kafka_whose_brokers_were_stopped_gets_leaders_before_replicas(lake: ParquetTables) -> None:
    from services.pipeline.report.findings import read_findings
    from services.pipeline.report.incident import read_incident

    limits = ReportLimits()
    incident = read_incident(lake.read("gold/causes"), lake.read("gold/story"), [], limits)
    findings = read_findings(lake.read("gold/fleet_doctor"), limits.each)
    assert incident is not None
    assert findings is not None
    found = steps(incident, findings)

    leads = "which may lead (ISR or ELR)"
    wanted = [
        ("before anything else", "do not wipe the logs of the ELR's members"),
        ("get leaders back", f"start broker 4, {leads}; then start broker 5"),
        ("get leaders back", f"start one of the brokers 4,5, {leads}; then start the others"),
        ("get leaders back", f"start broker 4, {leads}"),
        ("get leaders back", f"start broker 5, {leads}"),
        ("see what was lost", "records may be lost; it recovers when it has a leader that changes the ISR"),
        ("see what was lost", "what that leader lacked is in no replica now"),
        ("prepare for the next failure", "first start brokers 4,5 and uncordon a log directory of broker 5, then"),
        ("prepare for the next failure", "first start brokers 4,5, then add replicas"),
        ("prepare for the next failure", "lower min.insync.replicas, once every partition has a leader"),
        ("clear away what is left", "when they are to be used again, delete cordoned.log.dirs"),
    ]
    assert len(wanted) == len(found)
    assert wanted == [(step.stage, step.action[: len(begin)]) for step, (_, begin) in zip(found, wanted, strict=True)]
