"""The waterfall as it is printed, to the letter."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.waterfall import waterfall_lines, waterfall_svg, waterfall_text
from quorate.traces import AttributeValue, SpanData

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def span(
    number: int,
    parent: int,
    name: str,
    who: str,
    start_ms: float,
    end_ms: float,
    *,
    error: bool = False,
    attributes: dict[str, AttributeValue] | None = None,
) -> SpanData:
    service, _, instance = who.partition("-")
    return SpanData(
        trace_id=TRACE_ID,
        span_id=f"{number:016x}",
        parent_span_id=f"{parent:016x}" if parent else "",
        name=name,
        service=service,
        instance=who if instance == "2" else instance,
        start_ns=int(start_ms * 1e6),
        end_ns=int(end_ms * 1e6),
        error=error,
        attributes=attributes or {},
    )


WRITE = [
    span(1, 0, "kraft.service.Controller/CreateTopics", "controller-2", 100, 106.1),
    span(
        2,
        1,
        "write",
        "controller-2",
        100.2,
        101.4,
        attributes={"kraft.epoch": 3, "kraft.base_offset": 17, "kraft.api": "x"},
    ),
    span(3, 2, "commit", "quorum-2", 101.4, 105.6, attributes={"kraft.epoch": 3, "kraft.end_offset": 18}),
    span(4, 2, "apply", "controller-1", 105.7, 105.9, attributes={"kraft.base_offset": 17}),
    span(5, 2, "apply", "observer-1", 105.9, 107.9, error=True, attributes={"error.type": "CORRUPT_MESSAGE"}),
    span(6, 99, "apply", "broker-4", 105.95, 106),
]

WRITE_AS_TEXT = """\
trace 0af7651916cd43dd8448eb211c80319c · 7.9 ms · 6 spans · 5 processes
CreateTopics  controller-2  ├───────────────────────────────────────┤              6.1 ms
  write       controller-2   ├──────┤                                              1.2 ms  epoch=3 offset=17
    commit    quorum-2               ├───────────────────────────┤                 4.2 ms  epoch=3 end_offset=18
    apply     controller-1                                        ├┤              0.20 ms  offset=17
    apply     observer-1                                           ├────────────┤  2.0 ms  CORRUPT_MESSAGE
  apply       broker-4                                             │              0.05 ms  (parent missing)"""


def test_a_write_is_a_tree_of_bars_on_one_scale() -> None:
    assert WRITE_AS_TEXT.splitlines() == waterfall_lines(WRITE, width=112)


def test_who_asked_for_a_write_is_told() -> None:
    asked = span(1, 0, "write", "controller-1", 100, 101, attributes={"kraft.principal": "User:al\x1bice"})

    assert waterfall_lines([asked])[-1].endswith("  by=User:al?ice")


def test_why_a_broker_was_fenced_is_told() -> None:
    told = {"kraft.broker.id": 103, "kraft.broker.state": "fenced", "kraft.reason": "its session expired"}
    changed = span(1, 0, "change a broker's state", "controller-1", 100, 101, attributes=told)

    assert waterfall_lines([changed])[-1].endswith("  broker=103 state=fenced reason=its session expired")


def test_the_order_in_which_spans_arrive_does_not_matter() -> None:
    assert waterfall_lines(WRITE) == waterfall_lines(WRITE[::-1])
    assert waterfall_svg(WRITE) == waterfall_svg(WRITE[::-1])


def test_no_spans_are_no_lines() -> None:
    assert [] == waterfall_lines([])
    assert "" == waterfall_svg([])
    assert "" == waterfall_text([]).plain


def test_in_colours_it_says_the_same() -> None:
    assert waterfall_lines(WRITE) == waterfall_text(WRITE).plain.splitlines()


@pytest.mark.parametrize(("start_ms", "end_ms"), [(5, 5), (0, 0), (0, 86_400_000)])
def test_one_span_fills_the_scale_however_short_or_long(start_ms: float, end_ms: float) -> None:
    (_, line) = waterfall_lines([span(1, 0, "x", "quorum-1", start_ms, end_ms)], width=60)

    assert line.startswith("x  quorum-1  ├" if end_ms > start_ms else "x  quorum-1  │")


def test_the_svg_is_well_formed_and_has_a_bar_a_span_on_the_same_scale() -> None:
    root = ElementTree.fromstring(waterfall_svg(WRITE))
    bars = root.findall("{http://www.w3.org/2000/svg}rect")
    places = [(float(bar.attrib["x"]), float(bar.attrib["width"])) for bar in bars]
    left, scale = places[0][0], 480 / 7.9

    expected = [(0, 6.1), (0.2, 1.2), (1.4, 4.2), (5.7, 0.2), (5.9, 2.0), (5.95, 0.05)]
    assert [
        (pytest.approx(left + x * scale, abs=0.11), pytest.approx(max(w * scale, 2), abs=0.11)) for x, w in expected
    ] == places
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"CreateTopics", "controller-2", "6.1 ms", "epoch=3 offset=17", "(parent missing)"} <= set(words)


@given(
    st.lists(
        st.builds(
            SpanData,
            trace_id=st.just(TRACE_ID),
            span_id=st.sampled_from(["1", "2", "3", "4"]),
            parent_span_id=st.sampled_from(["", "1", "2", "9"]),
            name=st.text(),
            service=st.text(max_size=5),
            instance=st.text(max_size=5),
            start_ns=st.integers(0, 2**63 - 1),
            end_ns=st.integers(0, 2**63 - 1),
            error=st.booleans(),
            attributes=st.dictionaries(st.sampled_from(["kraft.base_offset", "error.type"]), st.text()),
        ),
        max_size=5,
    )
)
def test_whatever_spans_say_the_lines_stay_lines_and_the_svg_well_formed(spans: list[SpanData]) -> None:
    spans = [each for each in spans if each.start_ns <= each.end_ns]
    lines = waterfall_lines(spans)

    assert (len({each.span_id for each in spans}) + 1 if spans else 0) == len(lines)
    assert all(line.splitlines() in ([line], []) for line in lines)
    if spans:
        ElementTree.fromstring(waterfall_svg(spans))
