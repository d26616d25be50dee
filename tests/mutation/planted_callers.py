"""Bugs by which one caller stops the others: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

TEXT: Final = "tests/growth/test_text.py::test_text_of_a_caller_costs_no_more_than_its_length"

CALLER_BUGS: Final = (
    Planted(
        number="C1",
        what="a word is looked through again from each of its letters",
        file="libs/quorate/runtime/hidden.py",
        right=r"(?<![\w.-])[\w.-]++(?:",
        wrong=r"[\w.-]+(?:",
        test=TEXT,
    ),
    Planted(
        number="C2",
        what="the end of a word is looked for at each address in it",
        file="libs/quorate/runtime/hidden.py",
        right="if user.end() > word_end:",
        wrong="if True:",
        test=TEXT,
    ),
    Planted(
        number="C3",
        what="a value is logged as long as a caller makes it",
        file="libs/quorate/runtime/hidden.py",
        right='return f"{hidden[:limit]} … {len(text)} characters"',
        wrong="return hidden",
        test="tests/runtime/test_logs.py::test_a_long_value_is_cut_and_no_part_of_a_secret_is_left",
    ),
)
