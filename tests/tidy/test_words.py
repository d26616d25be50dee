"""What a caller or an operator is told has no word that has made such texts hard to read (`services/WORDS.md`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.reading import read
from tests.tidy.test_shape import OURS, named

INSTEAD: Final = {
    r"\bit takes\b|\btakes (?:a|an|one or more|at least)\b": "it must be, it must have, it needs",
    r"\b(?:has|have|had) not(?=[;,.]|$)": "does not have it",
    r"\bgoes? with no\b": "cannot be combined with",
    r"\bonce is right\b": "it may be there once",
    r"\blies? not\b": "is not",
    r"\b(?:is|are) ours\b": "this node's own",
    r"\bshall\b": "must, or will",
    r"\b(?:is|are) to be had\b": "there is, serves",
    r"\b(?:is|are) wanted\b": "must be, is needed",
    r"\bwas meant\b": "the request is for",
    r"\b\w+s no more(?=[;,.]|$| in epoch)": "no longer",
}
"""Words, and what to write instead."""


def faults_of(text: str) -> dict[str, str]:
    """The words of a text that are hard to read, each with what to write instead.

    >>> faults_of("CreateTopics: it takes CREATE, which the caller has not")
    {'it takes': 'it must be, it must have, it needs', 'has not': 'does not have it'}
    """
    return {match.group(): better for word, better in INSTEAD.items() for match in re.finditer(word, text)}


@pytest.mark.parametrize("path", OURS, ids=named)
def test_a_text_has_no_word_that_is_hard_to_read(path: Path) -> None:
    found = [(line, faults) for line, text in read(path).texts if (faults := faults_of(text))]

    assert [] == found


def test_a_part_of_a_text_with_values_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text('"""It takes a day."""\n\nraise ValueError(f"{x}: it takes {y}")\n')

    assert [(3, ": it takes ")] == list(read(path).texts)
