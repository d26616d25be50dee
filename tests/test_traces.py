"""The tree that spans make, however they arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.traces import SpanData, TreeRow, tree


def span(number: int, parent: int = 0, start_ns: int = 0) -> SpanData:
    return SpanData(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        parent_span_id=f"{parent:016x}" if parent else "",
        name=str(number),
        start_ns=start_ns,
        end_ns=start_ns + 1,
    )


def told(*spans: SpanData) -> list[tuple[str, int, bool]]:
    return [(row.span.name, row.depth, row.is_orphan) for row in tree(spans)]


def test_children_stand_below_their_parent_by_start() -> None:
    assert [("1", 0, False), ("3", 1, False), ("4", 2, False), ("2", 1, False)] == told(
        span(2, 1, 9), span(4, 3, 20), span(3, 1, 5), span(1)
    )


def test_a_span_without_its_parent_stands_under_the_root_with_its_children() -> None:
    assert [("1", 0, False), ("2", 1, False), ("7", 1, True), ("8", 2, False)] == told(
        span(8, 7, 1), span(7, 99), span(2, 1, 3), span(1)
    )


def test_without_a_root_the_orphans_are_the_top() -> None:
    assert [("2", 0, True), ("3", 1, False)] == told(span(2, 1), span(3, 2))


def test_a_span_given_twice_counts_once_and_a_circle_is_shown() -> None:
    assert [("1", 0, False)] == told(span(1), span(1))
    assert [("1", 0, False), ("2", 1, True), ("3", 1, True), ("4", 1, True)] == told(
        span(1), span(2, 3), span(3, 2), span(4, 4)
    )


def test_a_trace_may_be_deeper_than_the_stack() -> None:
    rows = tree([span(number, number - 1) for number in range(1, 3000)])

    assert TreeRow(span(2999, 2998), 2998) == rows[-1]


@given(st.lists(st.builds(span, st.integers(1, 8), st.integers(0, 8), st.integers(0, 3))), st.randoms())
def test_every_span_is_shown_once_and_in_whatever_order_they_come_alike(spans: list[SpanData], chance: object) -> None:
    unique = list({each.span_id: each for each in spans}.values())
    shuffled = unique[:]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]

    assert sorted(each.span_id for each in unique) == sorted(row.span.span_id for row in tree(unique))
    assert tree(unique) == tree(shuffled)
