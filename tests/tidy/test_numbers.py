"""Invariants, faults and planted bugs: each number that is cited has its row, and each row is cited."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "tests/INVARIANTS.md"
CITED = re.compile(r"(?<![\w-])([ISCP]-\d\d)(?![\w-])")
RANGES = re.compile(r"\b([ISC])-(\d\d) (?:…|to) \1-(\d\d)")


def rows() -> set[str]:
    return set(re.findall(r"^\| ([ISCP]-\d\d) \|", ROWS.read_text(), re.MULTILINE))


def kept_for_later() -> set[str]:
    """The numbers that INVARIANTS.md keeps without a row: alone, and as a range."""
    sentence = re.search(r"^I-56 .*?yet\.$", ROWS.read_text(), re.MULTILINE | re.DOTALL)
    assert sentence is not None
    return set(CITED.findall(sentence.group())) | ranges(sentence.group())


def ranges(text: str) -> set[str]:
    return {
        f"{letter}-{number:02}"
        for letter, first, last in RANGES.findall(text)
        for number in range(int(first), int(last) + 1)
    }


def sources() -> list[Path]:
    return sorted(
        path
        for folder in ("libs/quorate", "services", "deploy", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".txt"} and path != ROWS and path != Path(__file__).resolve()
    )


def cited() -> dict[str, str]:
    """Each number with a file that cites it."""
    found: dict[str, str] = {}
    for path in sources():
        text = path.read_text()
        for number in set(CITED.findall(text)) | ranges(text):
            found.setdefault(number, str(path.relative_to(ROOT)))
    return found


def test_a_number_that_is_cited_has_a_row() -> None:
    missing = {number: path for number, path in cited().items() if number not in rows() | kept_for_later()}

    assert {} == missing


def test_a_row_is_cited() -> None:
    assert set() == rows() - cited().keys()
