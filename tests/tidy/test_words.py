"""No text of an error, no docstring, no comment and no page has a word that has made such texts hard to read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.reading import read
from tests.tidy.test_links import FILES
from tests.tidy.test_shape import CODE, OURS, named

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
"""Words in the texts of errors and of the log, and what to write instead (`services/WORDS.md`)."""

INSTEAD_IN_PROSE: Final = {
    r"^\W*(?:What|Whatever|Who|Whoever)\b(?!-)(?!.*\?\W*$)": "a caller that, the records that, the cost of",
    r"\b[Ww]hoever\b": "a caller that, each reader that",
    r"\b[Tt]old\b": "gets, knows, is sent, is logged",
}
"""How a sentence must not begin, words that it must not have, and what to write instead."""
OF_TESTS: Final = re.compile(r"^\W*Whatever\b|\b[Ww]hoever\b|\b[Tt]old\b")
"""The least of it, also for tests, whose docstrings may be half a sentence."""
BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#+ .*$", re.MULTILINE)
PARTS: Final = re.compile(r"\n\s*\n|\n\s*[*-] |\||(?<=[.!?;:])\s|(?<=\?\*\*)\s")
"""Paragraphs, items of lists, cells of tables, and what ends with a full stop, a semicolon or a colon."""


def sentences_of(text: str) -> list[str]:
    """The sentences of a docstring, a comment or a page, without headings, and names in backticks.

    >>> sentences_of("# What\\nOne `told`.  What\\nis two: three\\n\\n* four | five")
    ['One .', 'What is two:', 'three', 'four', 'five']
    """
    plain = re.sub(r"`[^`\n]*`", "", HEADING.sub("", BLOCK.sub("", text)))
    return [" ".join(part.split()).removeprefix("* ") for part in PARTS.split(plain) if part.strip()]


def hard_sentences(text: str) -> dict[str, str]:
    """The sentences that begin with a relative clause, or have a word with a plainer one, which is beside it.

    >>> sorted(hard_sentences("What is read counts. What is read? It is told. Who, then? One reads, whatever it is."))
    ['It is told.', 'What is read counts.']
    """
    return {
        each: better
        for each in sentences_of(text)
        for word, better in INSTEAD_IN_PROSE.items()
        if re.search(word, each)
    }


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


@pytest.mark.parametrize("path", OURS, ids=named)
def test_a_docstring_or_a_comment_is_understood_at_once(path: Path) -> None:
    assert {} == {sentence: better for text in read(path).prose for sentence, better in hard_sentences(text).items()}


@pytest.mark.parametrize("path", [p for p in CODE if p not in OURS and p != Path(__file__)], ids=named)
def test_a_docstring_of_a_test_names_its_subject(path: Path) -> None:
    sentences = [each for text in read(path).prose for each in sentences_of(text)]

    assert [] == [each for each in sentences if OF_TESTS.search(each)]


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_page_is_understood_at_once(path: Path) -> None:
    assert {} == hard_sentences(path.read_text())


def test_docstrings_and_comments_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text('"""One."""\n\nX = 1  # two\n"""Three."""\n\n# four\n# and five\n\n# six\n')

    assert ("One.", "Three.", "two", "four and five", "six") == read(path).prose
