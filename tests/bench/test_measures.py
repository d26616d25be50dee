"""How figures are put side by side, which no run of a bench would show to be wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench import __main__ as command
from tests.bench import instructions
from tests.bench.measure import cpu_seconds, ratio_table
from tests.bench.quorum_observing import lags
from tests.bench.targets import Target, target_table
from tests.bench.write_profile import GRPC, MAIN, OTHERS, part_of


def test_a_ratio_above_1_is_better_of_rates_and_of_seconds() -> None:
    found: dict[str, dict[str, list[float]]] = {
        "commits/s": {"theirs": [99, 100, 101], "ours": [400]},
        "p50": {"theirs": [0.002], "ours": [0.0005]},
    }
    table = ratio_table("title", "what", found, ("theirs", "ours", "other"))

    assert ("what", "theirs", "ours", "better by", "other", "better by") == table.columns
    assert [
        ("commits/s", "100", "400", "4.00", "", ""),
        ("p50", "2.00 ms", "500 µs", "4.00", "", ""),
    ] == table.rows


def test_a_target_is_of_the_ratio_to_the_first_side() -> None:
    targets = [Target("MB/s", at_least=0.6), Target("s", at_most=0.7), Target("CPU"), Target("not asked", at_least=1)]
    found = {
        "MB/s": {"theirs": [9.0, 10.0, 11.0], "ours": [6.0]},
        "s": {"theirs": [10.0], "ours": [7.5]},
        "CPU": {"theirs": [2.0], "ours": [1.0]},
    }

    assert [
        ("MB/s", "10", "6", "0.60", "≥ 0.6", "met"),
        ("s", "10", "7.5", "0.75", "≤ 0.7", "missed"),
        ("CPU", "2", "1", "0.50", "", ""),
    ] == target_table("title", targets, found, ("theirs", "ours")).rows


def test_a_lag_is_from_the_acknowledgement_until_the_first_sight_of_all_of_it() -> None:
    told = [(10, 1.0), (20, 2.0), (30, 3.0)]
    one, other = [(5, 0.5), (10, 1.5), (25, 1.75)], [(30, 4.0)]

    assert [0.5, -0.25, 3.0, 2.0, 1.0] == lags(told, [one, other])


def test_cpu_is_that_of_the_process() -> None:
    with pytest.raises(FileNotFoundError):
        cpu_seconds(2**22 + 1)  # above the largest process id
    assert cpu_seconds(1) >= 0


@pytest.mark.parametrize(
    ("thread_id", "name", "expected"),
    [(7, "python", MAIN), (8, "python3.11", OTHERS), (9, "event_engine", GRPC)],
)
def test_a_thread_is_grpcs_if_grpc_has_named_it(thread_id: int, name: str, expected: str) -> None:
    assert expected == part_of(7, thread_id, name)


def test_a_bench_whose_program_is_absent_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["bench", "instructions"])
    command.main()

    assert f"instructions is left out: {instructions.HOW_TO_GET}" in capsys.readouterr().out
