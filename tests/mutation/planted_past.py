"""Bugs in what an observer says of the past, and of a database that is not what it seems: each names its test."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

GAPS: Final = "tests/services/observer/test_gaps.py"

PAST_BUGS: Final = (
    Planted(
        number="C190",
        what="of a part of the log within a gap it is said that nothing has changed",
        file="libs/quorate/sql/kept_reads.py",
        right="            if begin <= gap.until_offset or",
        wrong="            if begin <= gap.until_offset < end or",
        test=f"{GAPS}::test_a_list_names_each_gap_that_has_a_part_in_it",
    ),
    Planted(
        number="C191",
        what="a watch passes a gap without a word",
        file="services/observer/changes.py",
        right="next_offset=following.offset, gaps=map(gap_message, gaps))",
        wrong="next_offset=following.offset)",
        test=f"{GAPS}::test_a_watch_names_the_gap_that_it_passes",
    ),
)
