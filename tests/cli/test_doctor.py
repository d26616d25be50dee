"""`quorate doctor`: on the logs by which the pipeline's doctor is held, it says the same as that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from quorate.doctor import HISTORY_CODES
from tests.cli.directories import CLUSTER_ID, FIXTURES, run
from tests.pipeline.hand_made import Story
from tests.pipeline.illnesses import CASES, OTHERS_WELL, Case
from tests.pipeline.near_illnesses import FOUND, NOT_FOUND, Logs

HERE = [case for case in CASES if case.code not in HISTORY_CODES]


def diagnosed(path: Path, story: Story) -> list[Any]:  # Any: JSON values
    """The findings on the log of a story; the exit code says whether an error is among them."""
    story.write(path, CLUSTER_ID)
    (directory,) = {found.parent.parent for found in path.rglob("*.log")}
    ran = run("doctor", "--offline", directory, "--json")
    found: list[Any] = ran.document["findings"]
    assert (int(any(each["severity"] == "error" for each in found)), "") == (ran.code, ran.err), ran
    return found


def in_one_state(sentence: str) -> str:
    """Without what the history adds: since when an ISR is as it is."""
    return re.sub(r", until [^;]* it was [0-9,]+", "", sentence)


def test_what_one_state_does_not_have_is_the_rest() -> None:
    assert len(CASES) == len(HERE) + len(HISTORY_CODES)


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.code)
def test_a_log_that_has_it_is_told_of_as_by_the_pipeline(tmp_path: Path, case: Case) -> None:
    rows = [each for each in diagnosed(tmp_path, case.ill()) if each["code"] == case.code]

    assert [(case.severity, case.subject, in_one_state(case.sentence))] == [
        (each["severity"], each["subject"], each["sentence"]) for each in rows
    ]
    assert all(each["advice"] for each in rows)


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.code)
def test_a_log_that_nearly_has_it_is_not(tmp_path: Path, case: Case) -> None:
    assert [] == [each for each in diagnosed(tmp_path, case.well()) if each["code"] == case.code]


@pytest.mark.parametrize("story", OTHERS_WELL.values(), ids=OTHERS_WELL)
def test_nothing_is_said_of_a_sound_cluster(tmp_path: Path, story: Callable[[], Story]) -> None:
    assert [] == diagnosed(tmp_path, story())


def each_log(logs: Mapping[str, Logs]) -> list[Any]:
    return [
        pytest.param(code, story, id=f"{code} {name}")
        for code, some in logs.items()
        for name, story in some.items()
        if code not in HISTORY_CODES
    ]


@pytest.mark.parametrize(("code", "story"), each_log(FOUND))
def test_these_have_it_too(tmp_path: Path, code: str, story: Callable[[], Story]) -> None:
    assert code in {each["code"] for each in diagnosed(tmp_path, story())}


@pytest.mark.parametrize(("code", "story"), each_log(NOT_FOUND))
def test_these_have_it_not(tmp_path: Path, code: str, story: Callable[[], Story]) -> None:
    assert code not in {each["code"] for each in diagnosed(tmp_path, story())}


def test_of_a_kafkas_log_as_text() -> None:
    ran = run("doctor", "--offline", FIXTURES / "three-dynamic/controller-3")

    assert (1, "") == (ran.code, ran.err)
    first, *lines = ran.out.splitlines()
    assert re.fullmatch(r"As of offset 239: \d+ error, \d+ warn, \d+ info", first)
    severities = [line.split()[0] for line in lines if line[:5].strip() in ("error", "warn", "info")]
    assert sorted(severities, key=["error", "warn", "info"].index) == severities
    assert "warn   FENCED_WITH_REPLICAS  broker 4: is fenced and holds" in ran.out
