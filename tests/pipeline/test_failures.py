"""Brokers fail: the audit timeline names each failure in order, and availability is what the failures came to.

First a Kafka cluster, driven through failures (`tests/interop/fixtures/three-dynamic`, made by the story
`three_dynamic`): what was done to it when is in its timeline.json.
`test_availability` has logs by hand and by chance, for what that cluster has not seen.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests.pipeline.conftest import FIXTURES
from tests.pipeline.walks import agree, days_of, logged, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)

CLUSTER: Final = FIXTURES / "three-dynamic"
LOG: Final = CLUSTER / "controller-3" / "__cluster_metadata-0" / "00000000000000000000.log"


class Failure(NamedTuple):
    """What was done to which node; then the events of brokers and the quorum, and those of partitions, until the next.

    `led_by_4` have lost their leader to broker 4, `led_by_none` have none, `led_by_5` are led by broker 5 again.
    """

    do: str
    node: int
    told: tuple[str, ...]
    led_by_4: frozenset[str] = frozenset()
    led_by_none: frozenset[str] = frozenset()
    led_by_5: frozenset[str] = frozenset()


def partitions(text: str) -> frozenset[str]:
    """Partitions by name."""
    return frozenset(text.split())


ALL: Final = partitions(
    "orders-0 orders-1 orders-2 orders-3 manual-0 manual-1 manual-2 manual-3 single-1 plain-1 plain-2 cleared-0"
    " cleared-1 guest-0"
)
FAILURES: Final = (
    # SIGKILL: the session ends. Of two topics broker 5 had the only replica.
    Failure(
        "kill",
        5,
        ("broker 5 is fenced",),
        led_by_4=partitions("orders-0 orders-3 manual-1 manual-2 cleared-0"),
        led_by_none=partitions("plain-0 single-1"),
    ),
    # After a kill it has to register again. The one replica is elected as the last leader known (KIP-966); then a
    # reassignment of single-0 to it, which had waited, ends, and it is elected where it is preferred (cleared-0).
    Failure(
        "start",
        5,
        ("broker 5 registers in epoch 100, fenced", "broker 5 is unfenced"),
        led_by_5=partitions("plain-0 single-1 single-0 cleared-0"),
    ),
    # In order: it leads, so it waits in controlled shutdown. Its heartbeats' end fences it once more.
    Failure(
        "stop",
        5,
        ("broker 5 enters controlled shutdown", "broker 5 is fenced", "broker 5 is written again, unchanged"),
        led_by_4=partitions("single-1 cleared-0"),
        led_by_none=partitions("plain-0 single-0"),
    ),
    Failure(
        "start",
        5,
        ("broker 5 registers in epoch 147, fenced", "broker 5 is unfenced"),
        led_by_5=partitions("plain-0 single-0"),
    ),
    # A new broker leads guest-0 until the partition is given to broker 4.
    Failure(
        "start", 6, ("broker 6 registers in epoch 181, fenced", "broker 6 is unfenced"), led_by_4=partitions("guest-0")
    ),
    # It leads nothing, so it may go at once.
    Failure("stop", 6, ("broker 6 is fenced",)),
    Failure("unregister", 6, ("broker 6 is unregistered",)),
    Failure("kill", 1, ("controller 2 becomes the active controller in epoch 3",)),
    Failure("start", 1, ()),
    Failure("stop", 2, ("controller 1 becomes the active controller in epoch 4",)),
    Failure(
        "start",
        2,
        ("quorum voters 1,2,3 → 1,3", "quorum voters 1,3 → 1,2,3"),
    ),
    Failure(
        "stop",
        5,
        ("broker 5 enters controlled shutdown", "broker 5 is fenced"),
        led_by_none=partitions("plain-0 single-0"),
    ),
    Failure("stop", 4, ("broker 4 enters controlled shutdown", "broker 4 is fenced"), led_by_none=ALL),
)
LEADER_CHANGES: Final = {
    "plain-0": 2,  # after the kill, and after the stop
    "single-0": 2,  # by reassignment, and after the stop
    "single-1": 2,  # after the kill; broker 4 has joined by the time of the stop
    "cleared-0": 3,  # the kill, the election that was asked for, the stop
    **dict.fromkeys(("manual-1", "manual-2", "orders-0", "orders-3", "guest-0"), 1),
}
UNCLEAN_ELECTIONS: Final = {"plain-0": 1, "single-1": 1}
"""Where the killed broker had the only replica: what it had not flushed is lost."""


class Window(NamedTuple):
    """A state that began within a span of wall-clock time and ended within another, in ms."""

    begun: tuple[int, int]
    over: tuple[int, int]


def rows_of(table: DataFrame | None) -> list[Row]:
    """All rows of a table."""
    assert table is not None
    return table.collect()


@pytest.fixture(scope="module")
def done() -> list[dict[str, Any]]:
    """What was done to the cluster, and when, by the hand that did it."""
    return [json.loads(line) for line in (CLUSTER / "timeline.json").read_text().splitlines()]


@pytest.fixture(scope="module")
def told(lake: ParquetTables) -> list[Row]:
    """The audit timeline, in order."""
    return sorted(rows_of(lake.read("gold/audit_timeline")), key=lambda row: row["offset"])


def times(done: list[dict[str, Any]]) -> list[int]:
    """When each failure of the table was begun; they are all there, in order, and no others."""
    acts = [each for each in done if each["do"] in ("kill", "start", "stop", "unregister")]
    acts = [each for each in acts if each.get("answer", {"ok": True}) == {"ok": True}]
    known = [(each.do, each.node) for each in FAILURES]

    assert known == [(each["do"], each.get("node", each.get("broker"))) for each in acts[: len(known)]]
    # No broker is left by then: the controllers stop each other's service.
    assert [("stop", 2), ("stop", 3), ("stop", 1)] == [(each["do"], each["node"]) for each in acts[len(known) :]]
    return [each["ms"] for each in acts[: len(known)]]


def test_the_audit_timeline_names_each_failure_in_order(told: list[Row], done: list[dict[str, Any]]) -> None:
    begun = [*times(done), 1 << 62]
    speaks_of = ("broker 4", "broker 5", "broker 6", "quorum")
    for failure, begin_ms, end_ms in zip(FAILURES, begun, begun[1:], strict=False):
        rows = [row for row in told if begin_ms <= row["time"].timestamp() * 1000 < end_ms]
        elected = "becomes the active controller"
        sentences = [row["sentence"] for row in rows if row["subject"] in speaks_of or elected in row["sentence"]]
        sentences = [each for each in sentences if "directories" not in each and "cordoned" not in each]

        assert list(failure.told) == sentences, failure


def test_the_audit_timeline_names_who_leads_after_each_failure(told: list[Row], done: list[dict[str, Any]]) -> None:
    begun = [*times(done), 1 << 62]
    for failure, begin_ms, end_ms in zip(FAILURES, begun, begun[1:], strict=False):
        rows = [row for row in told if begin_ms <= row["time"].timestamp() * 1000 < end_ms]
        moved = [row for row in rows if " leader " in row["sentence"] and "is created" not in row["sentence"]]
        led_by: dict[str, set[str]] = {"4": set(), "5": set(), "none": set()}
        for row in moved:
            words = row["sentence"].split(";")[0].split(" → ")
            led_by[words[1]].add(row["subject"].removeprefix("partition "))

        assert {"4": failure.led_by_4, "5": failure.led_by_5, "none": failure.led_by_none} == led_by, failure


def test_availability_is_what_a_walk_over_the_records_says(lake: ParquetTables) -> None:
    expected = walk(logged(LOG))

    agree(expected, days_of(rows_of(lake.read("gold/availability"))))
    assert len(expected) == 21, sorted(expected)


def test_elections_are_those_that_the_failures_made(lake: ParquetTables) -> None:
    rows = {f"{row['topic']}-{row['partition_id']}": row for row in rows_of(lake.read("gold/availability"))}

    assert LEADER_CHANGES == {name: row["leader_changes"] for name, row in rows.items() if row["leader_changes"]}
    assert UNCLEAN_ELECTIONS == {
        name: row["unclean_elections"] for name, row in rows.items() if row["unclean_elections"]
    }


def windows(done: list[dict[str, Any]]) -> dict[str, list[Window]]:
    """By partition, when it was offline, as far as the hand knows that did it; a release may act in between."""
    at = {(each["do"], each.get("node"), number): each["ms"] for number, each in enumerate(done)}
    kill, *_ = (ms for (do, node, _), ms in at.items() if (do, node) == ("kill", 5))
    seen_fenced = next(each["ms"] for each in done if each["do"] == "broker 5 is fenced")
    starts = [ms for (do, node, _), ms in at.items() if (do, node) == ("start", 5)]
    started = [ms for (do, node, _), ms in at.items() if (do, node) == ("started", 5)]
    stops = [ms for (do, node, _), ms in at.items() if (do, node) == ("stop", 5)]
    stopped = [ms for (do, node, _), ms in at.items() if (do, node) == ("stopped", 5)]
    stop_4 = next(ms for (do, node, _), ms in at.items() if (do, node) == ("stop", 4))
    stopped_4 = next(ms for (do, node, _), ms in at.items() if (do, node) == ("stopped", 4))
    last = max(each.timestamp_ms for each in logged(LOG))
    killed = Window((kill, seen_fenced), (starts[0], started[0]))
    restarted = Window((stops[0], stopped[0]), (starts[1], started[1]))
    at_the_end = Window((stops[1], stopped[1]), (last, last))
    of_4 = Window((stop_4, stopped_4), (last, last))
    alone = {"plain-0": [killed, restarted, at_the_end], "single-0": [restarted, at_the_end]}
    return {name: [of_4] for name in ALL} | alone | {"single-1": [killed, of_4]}


def test_availability_equals_what_was_done_to_the_cluster(lake: ParquetTables, done: list[dict[str, Any]]) -> None:
    rows = {f"{row['topic']}-{row['partition_id']}": row for row in rows_of(lake.read("gold/availability"))}
    expected = windows(done)

    assert set(expected) == {name for name, row in rows.items() if row["offline_seconds"]}
    for name, spans in expected.items():
        least = sum(max(0, span.over[0] - span.begun[1]) for span in spans) / 1000
        most = sum(max(0, span.over[1] - span.begun[0]) for span in spans) / 1000

        assert least <= rows[name]["offline_seconds"] <= most, (name, spans)
