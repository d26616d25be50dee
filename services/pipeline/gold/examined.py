"""The findings of the doctor's core about each cluster: `quorate.doctor` in Python workers, on its state.

The rules, sentences and advice are those of the command and of the observer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.doctor import Facts, Limits, Moment, Severity, causes, examine
from services.pipeline.gold.clusters import Cluster, clusters, rows_of_clusters
from services.pipeline.silver.present import Present
from services.pipeline.tables import Computed

__all__ = ["examined", "said"]

_SCHEMA: Final = pa.schema(
    {
        "cluster_id": pa.string(),
        "partitions": pa.int64(),
        "severity": pa.string(),
        "code": pa.string(),
        "subject": pa.string(),
        "sentence": pa.string(),
        "advice": pa.string(),
        "since_offset": pa.int64(),
        "since_ms": pa.int64(),
    }
)
_Said: TypeAlias = tuple[int | None, Severity, str, str | None, str, str, Moment | None]


def examined(now: Present, told: Sequence[DataFrame], limits: Limits) -> DataFrame:
    """Returns all findings and all causes, distinguished by `partitions`: how many a cause has, null for a finding.

    `told` are rows of `told`. The other columns are those of `_SCHEMA`, with `since_time` in place of `since_ms`.
    """

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        return (said(cluster, limits) for cluster in clusters(batches))

    found = Computed(rows_of_clusters(now, told), compute, _SCHEMA).frame()
    return found.withColumn("since_time", fn.timestamp_millis("since_ms")).drop("since_ms")


def said(cluster: Cluster, limits: Limits) -> pa.Table:
    """Returns the findings and the causes of a cluster, with the columns of `_SCHEMA`."""
    facts = Facts(
        state=cluster.state,
        voters=cluster.voters,
        kraft_version=cluster.kraft_version,
        now_ms=cluster.end.time_ms,
        elected=cluster.elected,
        limits=limits,
        past=cluster.past,
    )
    rows: list[_Said] = [
        (None, each.severity, each.code, each.subject, each.sentence, each.advice, each.since)
        for each in examine(facts)
    ]
    rows += [
        (each.partitions, each.severity, each.code, None, each.sentence, each.advice, each.since)
        for each in causes(facts)
    ]
    *columns, since = zip(*rows, strict=True) if rows else [()] * 7
    moments = [(None, None) if each is None else each for each in since]
    offsets, times = [each[0] for each in moments], [each[1] for each in moments]
    return pa.table([[cluster.id] * len(rows), *map(list, columns), offsets, times], schema=_SCHEMA)
