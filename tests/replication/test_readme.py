"""The package's README tells of each of the 72 rules, once; code and tests cite what its table says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "libs/quorate/replication"
TESTS = Path(__file__).parent
RULES = ROOT / "services/broker/RULES.md"
README = (PACKAGE / "README.md").read_text()


def numbers(text: str) -> set[int]:
    """The rules that a text names, alone and as ranges.

    >>> sorted(numbers("R1 and R2, R11 … R13, R21–R23"))
    [1, 2, 11, 12, 13, 21, 22, 23]
    """
    ranges = re.findall(r"\bR(\d+) ?[…–] ?R(\d+)\b", text)
    spans = (range(int(first), int(last) + 1) for first, last in ranges)
    return {int(number) for number in re.findall(r"\bR(\d+)\b", text)}.union(*spans)


def rows() -> list[tuple[str, str, str]]:
    """(rules, modules, tests) of each row of the table."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in README.splitlines() if line.startswith("| R")]
    return [(rules, where, tests) for rules, _, where, tests in cells if where]


def test_each_rule_has_its_place() -> None:
    table = README.partition("## The rules")[2]

    assert set(range(1, 73)) == numbers(table)


@pytest.mark.parametrize(("rules", "where", "tests"), rows(), ids=lambda cell: cell.split(",")[0])
def test_a_row_names_code_and_a_test_that_cite_the_rule(rules: str, where: str, tests: str) -> None:
    wanted = numbers(rules)
    code = "".join((PACKAGE / name).read_text() for name in re.findall(r"`(\w+\.py)`", where))
    shown = "".join((TESTS / name).read_text() for name in re.findall(r"`(\w+\.py)`", tests))

    assert set() == wanted - numbers(code)
    assert numbers(shown) & wanted


def rules() -> list[list[str]]:
    """The cells of each row of the broker's table."""
    lines = [line for line in RULES.read_text().splitlines() if line.startswith("| R")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_the_table_of_a_broker_has_each_rule_once() -> None:
    assert [f"R{number}" for number in range(1, 73)] == [cells[0] for cells in rules()]


def missing(cells: list[str]) -> list[str]:
    """What a row names and nobody has: files, and tests in files."""
    _, _, code, tests, simulator = cells
    gone = [each for each in re.findall(r"`([^`]+)`", code) if not (ROOT / each).is_file()]
    for file, test in re.findall(r"`(\S+\.py)::(\w+)`", tests):
        if not (ROOT / file).is_file() or f"def {test}(" not in (ROOT / file).read_text():
            gone.append(f"{file}::{test}")
    if "::" not in tests and not simulator.startswith("not done: "):
        gone.append("a test, or the reason why it is not done")
    return gone


@pytest.mark.parametrize("cells", rules(), ids=lambda cells: cells[0])
def test_a_row_of_it_names_files_and_tests_that_are_there(cells: list[str]) -> None:
    assert [] == missing(cells)


def test_what_a_row_names_in_vain_is_told() -> None:
    gone = missing(["R1", "all", "`services/nobody.py`", "`tests/replication/test_readme.py::test_nothing`", "–"])

    assert ["services/nobody.py", "tests/replication/test_readme.py::test_nothing"] == gone
    assert ["a test, or the reason why it is not done"] == missing(["R1", "all", "`README.md`", "–", "–"])
