"""The fleet doctor: every kind of finding on a log that has it, none on one that nearly has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.protobuf import json_format

from deploy.spark import environment
from kraft.service.observer_pb2 import ExamineResponse
from quorate.cli.offline import load
from quorate.doctor import HISTORY_CODES, Limits
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from services.pipeline.exits import DONE
from tests.cli.directories import run
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.hand_made import FURNISHED, Story, below, fenced, furnished, silver_in, silver_of
from tests.pipeline.illnesses import (
    BEGINS,
    CASES,
    OTHERS_WELL,
    Case,
    fenced_and_gone,
    long_fenced,
    never_led,
    sound,
    two_lives,
)
from tests.pipeline.in_memory import InMemory
from tests.pipeline.near_illnesses import FOUND, NOT_FOUND, Logs
from tests.pipeline.test_replay import BY_COLUMN, IN_PYTHON
from tests.services.observer.pages import page_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)
ROOT = Path(__file__).parents[2]
BY_COMMAND = "DOCTOR_BY_COMMAND" in os.environ
"""Whether the command makes the tables, which takes minutes: `make doctor`. Else gold is asked over silver."""
FINDINGS = ROOT / "services" / "pipeline" / "gold" / "FINDINGS.md"


def named(logs: Mapping[str, Logs], prefix: str) -> dict[str, tuple[str, Callable[[], Story]]]:
    """Each log by a name for its cluster, with the code of its finding."""
    return {
        f"{prefix} {code} {name}".replace(" ", "-").replace("'", ""): (code, story)
        for code, some in logs.items()
        for name, story in some.items()
    }


NAMED_FOUND = named(FOUND, "found")
NAMED_NOT_FOUND = named(NOT_FOUND, "near")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all clusters' logs are, in `logs`."""
    return tmp_path_factory.mktemp("doctor")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, place: Path) -> ParquetTables | InMemory:
    """Tables of all clusters as of one fleet: silver; and gold, if the command makes them."""
    stories = {f"{case.code}-ill": case.ill() for case in CASES} | {f"{case.code}-well": case.well() for case in CASES}
    stories |= {name: story() for name, story in OTHERS_WELL.items()}
    stories |= {f"{code}-began": story for code, (story, _) in BEGINS.items()}
    stories |= {"never-led": never_led(), "two-lives": two_lives(), "fenced-and-gone": fenced_and_gone()}
    stories |= {name: story() for name, (_, story) in {**NAMED_FOUND, **NAMED_NOT_FOUND}.items()}
    return by_command(spark, place, stories) if BY_COMMAND else silver_of(spark, place, stories)


def by_command(spark: SparkSession, place: Path, stories: Mapping[str, Story]) -> ParquetTables:
    """What the command makes of these logs, in a process of its own."""
    from services.pipeline.tables import ParquetTables

    for name, story in {**stories, FURNISHED: furnished()}.items():
        story.write(place / "logs" / name, name)
    asked = ("run", "--from", place / "logs", "--to", place / "lake", "--report", place / "report.html")
    command = [sys.executable, "-m", "services.pipeline", *map(str, asked)]
    ran = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment()}, capture_output=True, text=True, check=False
    )
    assert DONE == ran.returncode, ran.stderr
    return ParquetTables(spark, str(place / "lake"))


@pytest.fixture(scope="module")
def silver(tables: ParquetTables | InMemory) -> Mapping[str, DataFrame]:
    """Silver of all clusters."""
    return silver_in(tables)


@pytest.fixture(scope="module")
def found(tables: ParquetTables | InMemory, silver: Mapping[str, DataFrame]) -> list[Row]:
    """All findings: gold's function says them; if the command was run, it has written the same."""
    from services.pipeline.gold.doctor import fleet_doctor

    rows = fleet_doctor(silver).collect()
    written = tables.read("gold/fleet_doctor")
    assert BY_COMMAND == (written is not None)
    if written is not None:
        assert Counter(rows) == Counter(written.select(*rows[0].asDict()).collect())
    return rows


def test_the_page_counts_the_logs_that_have_a_finding_and_those_that_come_near() -> None:
    counted = {
        case.code: (
            1 + sum(code == case.code for code, _ in NAMED_FOUND.values()),
            1 + sum(code == case.code for code, _ in NAMED_NOT_FOUND.values()),
        )
        for case in CASES
    }
    rows = re.findall(r"^\| ([A-Z_]+) \| \w+ \| (\d+) \| (\d+) \|$", FINDINGS.read_text(), re.MULTILINE)

    assert counted == {code: (int(have), int(near)) for code, have, near in rows}
    have, near = (sum(each[place] for each in counted.values()) for place in (0, 1))
    assert f"{have} logs have one, and {near} come near one" in FINDINGS.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_log_that_has_it_is_told_of(found: list[Row], place: Path, case: Case) -> None:
    rows = [row for row in found if row["cluster_id"] == f"{case.code}-ill" and row["code"] == case.code]
    sentence = case.sentence.replace("LOGS", str(place / "logs"))

    assert [(case.severity, case.subject, sentence)] == [
        (row["severity"], row["subject"], row["sentence"]) for row in rows
    ]
    assert all(row["advice"] for row in rows), rows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_log_that_nearly_has_it_is_not(found: list[Row], case: Case) -> None:
    assert [] == [row for row in found if row["cluster_id"] == f"{case.code}-well" and row["code"] == case.code]


def test_each_finding_is_made_where_it_must_be_and_not_where_it_only_seems_to(found: list[Row]) -> None:
    told = {(row["cluster_id"], row["code"]) for row in found}
    missed = Counter(code for cluster, (code, _) in NAMED_FOUND.items() if (cluster, code) not in told)
    false = Counter(code for cluster, (code, _) in NAMED_NOT_FOUND.items() if (cluster, code) in told)

    assert ({}, {}) == (missed, false), sorted(told)
    codes = {case.code for case in CASES}
    assert codes == FOUND.keys() == NOT_FOUND.keys()


@pytest.mark.parametrize("cluster", OTHERS_WELL)
def test_of_a_sound_cluster_there_is_nothing_to_tell(found: list[Row], cluster: str) -> None:
    assert [] == [row for row in found if row["cluster_id"] == cluster]


def test_every_kind_of_finding_has_a_case(found: list[Row]) -> None:
    assert {case.code for case in CASES} == {row["code"] for row in found}


def test_it_is_told_since_when(found: list[Row]) -> None:
    (row,) = (
        row for row in found if (row["cluster_id"], row["code"]) == ("STALE_REGISTRATION-ill", "STALE_REGISTRATION")
    )
    fenced_at = next(each for each in long_fenced(8).logged() if each.record == fenced(6))

    assert (fenced_at.offset, fenced_at.timestamp_ms / 1000) == (row["since_offset"], row["since_time"].timestamp())


@pytest.mark.parametrize("code", BEGINS)
def test_a_finding_began_when_its_condition_did_whatever_changed_since(found: list[Row], code: str) -> None:
    story, offset = BEGINS[code]
    (row,) = (row for row in found if (row["cluster_id"], row["code"]) == (f"{code}-began", code.split()[0]))
    began = story.logged()[offset]

    assert (began.offset, began.timestamp_ms / 1000) == (row["since_offset"], row["since_time"].timestamp())


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (
            "NO_LEADER-began",
            "has no leader, the last was broker 4; "
            "replicas 4,5,6; ISR none, until 2026-11-21 14:00:00.000 it was 4; ELR 4",
        ),
        ("never-led", "has no leader, the last was broker 5; replicas 4,5; ISR none; ELR none"),
    ],
)
def test_a_partition_without_a_leader_names_the_last_one(found: list[Row], cluster: str, sentence: str) -> None:
    (row,) = (row for row in found if (row["cluster_id"], row["code"]) == (cluster, "NO_LEADER"))

    assert sentence == row["sentence"]


def test_a_cause_is_of_the_brokers_last_registration(silver: Mapping[str, DataFrame]) -> None:
    from services.pipeline.gold.causes import causes

    rows = causes(silver).where("cluster_id = 'two-lives'").collect()

    assert ["broker 7 was fenced at 2026-11-21 13:01:00.000"] == [row["sentence"].split(": ", 1)[1] for row in rows]


def test_a_cause_has_the_time_of_a_broker_that_was_fenced_and_then_unregistered(
    silver: Mapping[str, DataFrame],
) -> None:
    from services.pipeline.gold.causes import causes

    rows = causes(silver).where("cluster_id = 'fenced-and-gone' and code = 'NO_LEADER'").collect()

    assert [
        (
            "broker 7 was fenced at 2026-11-21 12:01:00.000 and unregistered at 2026-11-21 13:01:00.000",
            "2026-11-21 12:01:00",
        )
    ] == [(row["sentence"].split(": ", 1)[1], f"{row['since_time']:%F %T}") for row in rows]


def test_limits_say_what_is_long_and_what_is_much(silver: Mapping[str, DataFrame]) -> None:
    from services.pipeline.gold.doctor import examination, fleet_doctor
    from services.pipeline.silver.present import present

    wide = Limits(stale_days=9, reassignment_hours=31, imbalance=0.7, flaps=4)
    rows = fleet_doctor(silver, found=examination(silver, wide, now=present(silver)))
    codes = {row["code"] for row in rows.where("cluster_id not rlike '^(found|near)-'").collect()}

    limited = {"STALE_REGISTRATION", "REASSIGNMENT_SLOW", "PREFERRED_LEADER_IMBALANCE", "FLAPPING"}
    assert {case.code for case in CASES} - limited == codes


def test_as_of_an_offset_the_later_is_not_known(silver: Mapping[str, DataFrame]) -> None:
    from services.pipeline.gold.doctor import fleet_doctor

    one = {name: table.where("cluster_id = 'FENCED_WITH_REPLICAS-ill'") for name, table in silver.items()}
    end = len(sound(fenced(6)).logged())

    assert [] == fleet_doctor(below(one, end - 1)).collect()


def test_of_a_released_kafka_whose_brokers_were_stopped_it_tells_what_that_left(lake: ParquetTables) -> None:
    table = lake.read("gold/fleet_doctor")
    assert table is not None
    told: dict[str, set[str]] = {}
    for row in table.collect():
        told.setdefault(row["code"], set()).add(row["subject"])
    layout = {"orders": 4, "manual": 4, "single": 2, "plain": 3, "cleared": 2, "guest": 1}
    partitions = {f"partition {name}-{number}" for name, count in layout.items() for number in range(count)}

    since = {(row["code"], row["subject"]): f"{row['since_time']:%H:%M:%S.%f}"[:-3] for row in table.collect()}
    advice = {(row["code"], row["subject"]): row["advice"] for row in table.collect()}

    assert {
        ("ONE_REPLICA", "topic plain"): "06:47:15.183",  # its creation
        ("ONE_REPLICA", "topic single"): "06:47:39.422",  # a reassignment's end
        ("MIN_ISR_EQUALS_REPLICAS", "topic orders"): "06:47:14.889",
        ("NO_LEADER", "partition cleared-0"): "06:48:04.735",
        ("UNDER_MIN_ISR", "partition orders-0"): "06:48:03.771",
        ("UNDER_REPLICATED", "partition cleared-0"): "06:48:03.771",
        ("FENCED_WITH_REPLICAS", "broker 4"): "06:48:04.826",
        ("CORDONED_DIRECTORIES", "broker 5"): "06:48:02.968",
    }.items() <= since.items()
    # Nothing can be added or moved: both brokers are away, one of them is cordoned, and there is no third.
    assert advice["ONE_REPLICA", "topic plain"].startswith(
        "first start brokers 4,5 and uncordon a log directory of broker 5, then add replicas"
    )
    # Of topic single one partition is on broker 5 alone, and broker 4 could take a replica of it.
    assert advice["ONE_REPLICA", "topic single"].startswith("first start brokers 4,5, then add replicas")
    assert advice["MIN_ISR_EQUALS_REPLICAS", "topic orders"].startswith(
        "lower min.insync.replicas, once every partition has a leader (it empties the ELR), or first start brokers 4,5"
        " and add a broker, then add a replica"
    )
    assert advice["FENCED_WITH_REPLICAS", "broker 4"].endswith("so they cannot be moved now")
    assert (
        "start broker 4, which may lead (ISR or ELR); then start broker 5"
        == advice["UNDER_MIN_ISR", "partition cleared-0"]
    )
    assert {
        "NO_LEADER": partitions,
        "UNDER_MIN_ISR": partitions,
        "UNDER_REPLICATED": partitions,
        "ELR_NOT_EMPTY": partitions,
        # It was killed while it had the only replica; of single-1 another has come since.
        "RECOVERING": {"partition plain-0"},
        "UNCLEAN_ELECTION": {"partition single-1"},
        "FENCED_WITH_REPLICAS": {"broker 4", "broker 5"},
        "CORDONED_DIRECTORIES": {"broker 5"},
        "ONE_REPLICA": {"topic guest", "topic plain", "topic single"},
        "MIN_ISR_EQUALS_REPLICAS": {"topic orders"},
    } == told


def in_one_state(code: str, subject: str, sentence: str, advice: str) -> tuple[str, str, str, str]:
    """A finding without what the history adds to its sentence."""
    return code, subject, re.sub(r", until [^;]* it was [0-9,]+|, the last was broker \\d+", "", sentence), advice


def by_pipeline(rows: Iterable[Row]) -> list[tuple[str, str, str, str]]:
    """What one state has of its findings."""
    told = (row for row in rows if row["code"] not in HISTORY_CODES)
    return sorted(in_one_state(row["code"], row["subject"], row["sentence"], row["advice"]) for row in told)


def by_files(directory: Path) -> list[tuple[str, str, str, str]]:
    """What the command says of a directory."""
    findings = run("doctor", "--offline", directory, "--json").document["findings"]
    return sorted(
        in_one_state(*(each[name] for name in ("code", "subject", "sentence", "advice"))) for each in findings
    )


async def by_observer(directory: Path) -> list[tuple[str, str, str, str]]:
    """What an observer says that has applied the directory's records."""
    read = load(directory)
    replica = Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF)
    replica.state.load([record for record, _ in read.state.records()], read.as_of_offset)
    replica.applied = read.as_of_offset
    async with page_of(replica=replica) as served:
        answer = await served.call("Examine", {"limit": 1_000})
    found = json_format.Parse(answer.body, ExamineResponse()).findings
    return sorted(in_one_state(each.code, each.subject, each.sentence, each.advice) for each in found)


@pytest.mark.parametrize("case", [case for case in CASES if case.code not in HISTORY_CODES], ids=lambda case: case.code)
def test_command_and_pipeline_say_the_same_of_one_log(found: list[Row], place: Path, case: Case) -> None:
    cluster = f"{case.code}-ill"

    assert by_pipeline(row for row in found if row["cluster_id"] == cluster) == by_files(place / "logs" / cluster)


async def test_command_observer_and_pipeline_say_the_same_of_a_kafkas_log(lake: ParquetTables) -> None:
    table = lake.read("gold/fleet_doctor")
    assert table is not None
    directory = FIXTURES / "three-dynamic" / "controller-3"
    said = by_pipeline(table.collect())
    # An observer's image has no voters, no kraft.version and no time.
    of_image = [each for each in said if each[1] not in ("quorum", "feature kraft.version")]

    assert len(said) > 50
    assert said == by_files(directory)
    assert of_image == await by_observer(directory)


@pytest.mark.usefixtures("whole_plans")
def test_only_states_of_partitions_pass_through_python_and_as_columns(silver: Mapping[str, DataFrame]) -> None:
    from services.pipeline.gold.doctor import fleet_doctor

    plan = fleet_doctor(silver)._jdf.queryExecution().toString()  # the only way to a plan as text

    assert [BY_COLUMN] == [name for name in IN_PYTHON if name in plan]
