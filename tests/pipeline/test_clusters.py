"""Clusters that a Python worker builds of rows: wherever Spark cuts the batches, they are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from kraft import Message
from quorate.doctor import Limits
from quorate.metadata.state import ClusterState
from quorate.pipeline.json_text import writer
from quorate.wire.json_names import type_name
from quorate.wire.schema import layout_of
from tests.pipeline.extremes import EXTREMES
from tests.pipeline.hand_made import brokers, feature, topic

pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

if TYPE_CHECKING:
    import pyarrow as pa

END = 1_000
STATES = {
    "one": [feature("metadata.version", 25), *brokers(1, 2), *topic("t", [1, 2], [2, 1])],
    "other": [feature("metadata.version", 20), *brokers(3), *topic("u", [3])],
}


def rows() -> list[tuple[Any, ...]]:
    """Of each cluster its end, and then its records."""
    found: list[tuple[Any, ...]] = []
    for cluster, records in STATES.items():
        found += [(cluster, 1, "at", None, None, None, END, None), *rows_of(cluster, records, {})]
    return found


def rows_of(cluster: str, records: Sequence[Message], kinds: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    """A row of each record; most are only read by their type."""
    known = {"PartitionRecord": "partition", **kinds}
    for record in records:
        text = writer(type(record), layout_of(type(record)).last_version)(record)
        yield cluster, 2, known.get(type(record).__name__, ""), type_name(type(record)), text, None, None, None


def batch(some: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    types = [text, number, text, text, text, pa.binary(), number, number]
    names = ["cluster_id", "place", "kind", "type", "value", "raw", "at_offset", "at_ms"]
    columns = [[row[place] for row in some] for place in range(len(names))]
    return pa.record_batch([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], names)


@pytest.mark.parametrize("cut", range(len(rows()) + 1))
def test_a_cluster_is_whole_wherever_its_rows_are_cut(cut: int) -> None:
    from services.pipeline.gold.clusters import clusters

    expected = {}
    for name, records in STATES.items():
        expected[name] = ClusterState()
        expected[name].load(records, END)
    found = {each.id: each for each in clusters(iter([batch(rows()[:cut]), batch([]), batch(rows()[cut:])]))}

    assert expected == {name: each.state for name, each in found.items()}
    assert [END, END] == [each.end.offset for each in found.values()]


@pytest.mark.parametrize("name", sorted(EXTREMES))
def test_no_record_stops_an_examination(name: str) -> None:
    """Also one that contradicts the state: the others count."""
    from services.pipeline.gold.clusters import clusters
    from services.pipeline.gold.examined import said

    kinds = {"VotersRecord": "voters", "KRaftVersionRecord": "kraft_version", "LeaderChangeMessage": "elected"}
    records = [*STATES["one"], *EXTREMES[name], *topic("behind", [2])]
    some = [("one", 1, "at", None, None, None, END, 0), *rows_of("one", records, kinds)]
    (cluster,) = clusters(iter([batch(some)]))
    codes = {row["code"] for row in said(cluster, Limits()).to_pylist() if row["subject"] == "topic behind"}

    assert {"ONE_REPLICA"} <= codes
