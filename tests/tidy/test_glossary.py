"""The glossary names files that exist, and each term once."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "GLOSSARY.md").read_text()


def test_each_file_exists() -> None:
    named = re.findall(r"`((?:libs|services|tests|protos|deploy)/[\w/.]+)`", TEXT)

    assert named
    assert [] == [path for path in named if not (ROOT / path).exists()]


def test_each_term_has_one_row() -> None:
    terms = [row.split("|")[1].strip() for row in TEXT.splitlines() if row.startswith("| ") and "---" not in row]
    terms = [term for term in terms if term != "term"]

    assert len(terms) == len(set(terms))
