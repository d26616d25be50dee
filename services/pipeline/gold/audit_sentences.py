"""The sentences about each change but those of partitions: `quorate.sql.sentences`, in Python workers.

They are made of the records before and after, as JSON, by the kinds of the image.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.controller.secrets import redacted
from quorate.metadata.features import KRAFT_VERSION
from quorate.records import ConfigRecord
from quorate.sql.nouns import NOUNS, Value, column_names, rows_of
from quorate.sql.sentences import Sentence, elected, sentence_of, voters
from services.pipeline.gold.audit_rows import not_followed, with_before
from services.pipeline.gold.partition_sentences import SCHEMA
from services.pipeline.silver.image import UNKNOWN_KIND, other_rows, record_of
from services.pipeline.silver.kept import KINDS
from services.pipeline.silver.validity import SPAN, at_begin, at_end
from services.pipeline.tables import Computed

__all__ = ["QUIET", "TABLES", "changes", "sentences"]

QUIET: Final = ("zk_migration_state", UNKNOWN_KIND)
"""Kinds of which nothing is said."""
TABLES: Final = {
    "topic": "topics",
    "config": "configs",
    "broker": "brokers",
    "controller": "controllers",
    "feature": "features",
    "client_quota": "client_quotas",
    "acl": "acls",
    "scram": "scram_users",
    "delegation_token": "delegation_tokens",
    "producer_ids": "producer_ids",
}
"""The table of `quorate.sql` that has a kind's rows; leaders, voters and kraft.version are apart."""
assert TABLES.keys() >= {each.name for each in KINDS}.difference(QUIET), (TABLES, KINDS)
assert NOUNS.keys() >= set(TABLES.values()), (NOUNS.keys(), TABLES)
_KEY: Final = ("kind", "key")
_LEADER: Final = "leader"
_TASKS: Final = 8
"""Sentences are made in at most so many tasks: where tables adopt files, each task writes its own."""
_BATCHES_A_FILE: Final = 26
"""Where tables adopt files, a file has the rows of so many batches of Spark's, each of at most 10,000 rows.

10,000 is the default of spark.sql.execution.arrow.maxRecordsPerBatch.
"""


def changes(silver: Mapping[str, DataFrame]) -> DataFrame:
    """Returns a row for each record that sets or removes something: its kind, and what `was` and is `now`, as JSON.

    Partitions, unknown records and those of ZooKeeper's migration are not among them; the elections of active
    controllers are.
    """
    rows = other_rows(silver, SPAN).where(~fn.col("kind").isin(*QUIET))
    changed = ("kind", "type", fn.col("was_value").alias("was"), fn.col("value").alias("now"))
    began = at_begin(with_before(rows, _KEY, ("value",)), "trace_id", *changed)
    # A thing that is removed with its topic has no row of its own.
    gone = not_followed(rows, _KEY).where("valid_to_offset is not null and (kind <> 'config' or end_type <=> type)")
    gone = gone.withColumns({"was_value": fn.col("value"), "value": fn.lit(None).cast("string")})
    leaders = (
        silver["events"]
        .where("type = 'LEADER_CHANGE'")
        .select(
            "cluster_id",
            "offset",
            fn.col("timestamp").alias("time"),
            "trace_id",
            fn.lit(_LEADER).alias("kind"),
            "type",
            fn.col("epoch").cast("string").alias("was"),
            fn.col("payload").alias("now"),
        )
    )
    return began.unionByName(at_end(gone, fn.col("end_trace_id").alias("trace_id"), *changed)).unionByName(leaders)


def sentences(found: DataFrame) -> Computed:
    """Returns the rows of the audit timeline (SCHEMA) about `changes`; workers compute them when they are needed."""

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        said = (_said(pa.Table.from_batches([each])) for each in batches)
        while some := list(islice(said, _BATCHES_A_FILE)):
            yield pa.concat_tables(some)

    return Computed(found.coalesce(_TASKS), compute, SCHEMA)


def _said(rows: pa.Table) -> pa.Table:
    told = [
        _sentence(*row)
        for row in zip(*(rows[name].to_pylist() for name in ("kind", "type", "was", "now")), strict=True)
    ]
    made = {"subject": [each.subject for each in told], "sentence": list(map(str, told))}
    columns = [pa.array(made[name], pa.string()) if name in made else rows[name] for name in SCHEMA.names]
    return pa.table(columns, names=SCHEMA.names).cast(SCHEMA)


def _sentence(kind: str, type_: str, was: str | None, now: str | None) -> Sentence:
    """Returns what is said of a kind's records before and after; of a leader, `was` is its epoch."""
    if kind == _LEADER:
        return elected(json.loads(str(now))["leaderId"], int(str(was)))
    if kind == "voters":
        before, after = (None if each is None else _voter_ids(each) for each in (was, now))
        return voters(before, after or [])
    if kind == "kraft_version":
        levels = (None if each is None else json.loads(each)["kRaftVersion"] for each in (was, now))
        return sentence_of(
            "features",
            *({"name": KRAFT_VERSION, "feature_level": each} if each is not None else None for each in levels),
        )
    return sentence_of(TABLES[kind], *(None if each is None else _row(kind, type_, each) for each in (was, now)))


def _voter_ids(text: str) -> list[int]:
    return sorted(each["voterId"] for each in json.loads(text)["voters"])


def _row(kind: str, type_: str, text: str) -> dict[str, Value]:
    """Returns a metadata record as the row of its table, by column name; a secret is redacted, or has no column."""
    table, record = TABLES[kind], record_of(kind, type_, text, None)
    shown = redacted(record) if isinstance(record, ConfigRecord) else record
    (row,) = rows_of(NOUNS[table], [((), shown)])
    return dict(zip(column_names(table), row, strict=True))
