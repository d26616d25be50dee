"""Silver against `ClusterState` over logs that could have been: every kind of record, transactions, unknown ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from kraft import Message
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from tests.metadata.histories import STEPS, abort, begin, end, unknown, write, zk_migration_state
from tests.pipeline.in_memory import InMemory
from tests.pipeline.logs import batches, node, segment
from tests.pipeline.walks import state_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)

LOG_COUNT: Final = 6
OPEN_COUNT: Final = 2
"""Logs that end within a transaction."""
RECORD_COUNT: Final = 300
ENDS: Final = (EndTransactionRecord, AbortTransactionRecord)


def logs() -> dict[str, list[Message]]:
    """Logs by cluster."""
    steps = (*STEPS, begin, end, abort, unknown, zk_migration_state)
    whole = {f"cluster-{seed:02d}": write(Random(seed), RECORD_COUNT, steps, traced=True) for seed in range(LOG_COUNT)}
    return whole | {
        f"open-{cluster}": in_a_transaction(records) for cluster, records in list(whole.items())[:OPEN_COUNT]
    }


def in_a_transaction(records: list[Message]) -> list[Message]:
    """The log as it was just before its longest transaction came to its end."""
    (first, last), *_ = sorted(transactions(records), key=lambda each: each[0] - each[1])
    assert last - first > 2
    return records[:last]


def transactions(records: list[Message]) -> list[tuple[int, int]]:
    """Where each begins, and where its last record is."""
    marks = [offset for offset, record in enumerate(records) if type(record) in (BeginTransactionRecord, *ENDS)]
    return [(first, last) for first, last in pairwise(marks) if isinstance(records[first], BeginTransactionRecord)]


def unseen(records: list[Message]) -> set[int]:
    """Offsets at which a transaction is open that will be aborted, or is open at the log's end."""
    marks = [
        (offset, type(record))
        for offset, record in enumerate(records)
        if type(record).__name__ in ("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord")
    ]
    ranges = [
        range(begin + 1, end + 1)
        for (begin, first), (end, second) in pairwise(marks)
        if (first, second) == (BeginTransactionRecord, AbortTransactionRecord)
    ]
    last, mark = marks[-1]
    is_open = [range(last + 1, len(records) + 1)] if mark is BeginTransactionRecord else []
    return {offset for each in (*ranges, *is_open) for offset in each}


def test_every_state_of_every_log_is_the_replayed_one(spark: SparkSession, tmp_path: Path) -> None:
    from services.pipeline import bronze
    from services.pipeline.silver.image import build, image_history

    written = logs()
    for cluster, records in written.items():
        segment(node(tmp_path / "logs" / cluster, cluster), batches([[record] for record in records]))
    tables = InMemory()
    counts = bronze.ingest(spark.read.format("kraft").load(str(tmp_path / "logs")), tables)
    assert bronze.RowCounts(sum(map(len, written.values())), 0, 0) == counts
    bronze_records = tables.read(bronze.RECORDS)
    assert bronze_records is not None
    image = image_history(build(bronze_records, None, tables)).collect()

    compared = 0
    for cluster, records in written.items():
        rows = [row for row in image if row["cluster_id"] == cluster]
        state, hidden = ClusterState(), unseen(records)
        for offset, record in enumerate(records):
            state.apply(record, offset)
            if offset + 1 in hidden or (offset % 5 and offset + 1 < len(records)):
                continue  # not the whole log five hundred times over
            held = [
                row
                for row in rows
                if row["valid_from_offset"] <= offset
                and (row["valid_to_offset"] is None or row["valid_to_offset"] > offset)
            ]
            compared += 1

            assert list(state.all_records(LATEST)) == list(state_of(held, offset + 1).all_records(LATEST)), (
                cluster,
                offset,
            )
        if state.transactions.open is not None:
            now = state_of([row for row in rows if row["valid_to_offset"] is None], len(records))

            assert list(state.at(state.transactions.open.start).all_records(LATEST)) == list(now.all_records(LATEST))
    assert compared > 30 * LOG_COUNT, compared
    assert OPEN_COUNT == len([records for records in written.values() if len(records) in unseen(records)])


def test_the_logs_have_every_kind_of_record() -> None:
    from quorate.records import RECORDS

    seen = {type(record) for records in logs().values() for record in records}

    assert set(RECORDS.values()) <= seen
