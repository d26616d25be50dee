"""Clusters that a Python worker builds of rows: wherever Spark cuts the batches, they are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from quorate.metadata.state import ClusterState
from quorate.pipeline.json_text import writer
from quorate.wire.json_names import type_name
from quorate.wire.schema import layout_of
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
    kinds = {"TopicRecord": "topic", "PartitionRecord": "partition"}
    found: list[tuple[Any, ...]] = []
    for cluster, records in STATES.items():
        found.append((cluster, 1, "at", None, None, None, END, None))
        for record in records:
            text = writer(type(record), layout_of(type(record)).last_version)(record)
            kind = kinds.get(type(record).__name__, "")
            found.append((cluster, 2, kind, type_name(type(record)), text, None, None, None))
    return found


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
