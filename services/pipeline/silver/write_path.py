"""The write path: one row a write, from the request to each replica, with what took how long; off spans and the log.

The spans of one write hang on one request, and say offsets: `write` (decided and applied by the active controller),
`append` (a quorum node has it on its disk), `commit`, and `apply` (a replica has it in its state). The trace's id also
stands in the first record of each of its batches, so the log says whose write it is, in which epoch, and whether it
stayed. A write of which the log knows and no span tells is a row too, from the cluster's first span on.

Times are each machine's own: a duration between two of them is as good as their clocks. From the request to the commit
it is one clock, the active controller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from services.pipeline.bronze.spans import SPANS
from services.pipeline.tables import Tables

__all__ = ["SCHEMA", "WRITE_PATH", "build", "write_path"]

WRITE_PATH: Final = "write_path"
PARTS: Final = ("write", "commit", "append", "apply")
"""Names of the spans that are a write's."""
FOREVER: Final = (1 << 63) - 1

SCHEMA: Final = """
    cluster_id string, trace_id string, request_span_id string, request string, api string,
    base_offset bigint, last_offset bigint, epoch int, leader_id int, began_at timestamp, log_time timestamp,
    requested_at timestamp, decided_at timestamp, appended_at timestamp, flushed_at timestamp, committed_at timestamp,
    request_to_decided_us bigint, decided_to_appended_us bigint, appended_to_flushed_us bigint,
    flushed_to_committed_us bigint, appended_to_committed_us bigint, request_to_committed_us bigint, error string,
    voters array<struct<node_id: int, is_leader: boolean, appended_at: timestamp, flushed_at: timestamp,
        flush_us: bigint, after_leader_us: bigint>>,
    applies array<struct<service: string, instance: string, node_id: int, is_writer: boolean, applied_at: timestamp,
        apply_us: bigint, after_commit_us: bigint>>,
    missing array<string>, is_whole boolean
"""
"""`appended_at` is when the flush begins that brings it to a node's disk, `flushed_at` when that ends; outside `voters`
they are the leader's. `log_time` is the first record's timestamp, null for what is not in the log.
"""

_WRITE: Final = ("trace_id", "request_span_id", "write_offset")
"""What tells writes apart: a request may write twice, and a trace may have many requests."""
_NODE: Final = ("name", "service", "instance", "node_id")
_VOTERS: Final = "struct<leaderId: int, voters: array<struct<voterId: int>>>"


def build(counted: DataFrame, tables: Tables) -> dict[str, DataFrame]:
    """The table, written, by its name; nothing where there are no spans. `counted` are silver's events."""
    spans = tables.read(SPANS)
    return {} if spans is None else {WRITE_PATH: tables.keep(f"silver/{WRITE_PATH}", write_path(spans, counted))}


def write_path(spans: DataFrame, events: DataFrame) -> DataFrame:
    """One row a write. `missing` names what nobody tells of; with nothing missing it `is_whole`.

    Whole has the request, the write, its commit, the writer's own apply, an append by each voter of the epoch, and the
    log. Who else applies, an observer or a broker, nobody could list: `applies` has those who told.
    """
    heads = _heads(events)
    told = _with_request(_writes(_parts(spans)), spans)
    found = _in_log(told, heads)
    rows = found.unionByName(_only_in_log(heads, told), allowMissingColumns=True)
    return _row(_with_voters(rows, events))


def _parts(spans: DataFrame) -> DataFrame:
    """The spans of writes, with the write that each belongs to: the last of its request that begins at or before it."""
    noted = fn.col("attributes")
    rows = spans.where(fn.col("name").isin(*PARTS) & fn.col("parent_span_id").isNotNull()).select(
        "cluster_id",
        "trace_id",
        fn.col("parent_span_id").alias("request_span_id"),
        *("name", "service", "instance", "start_ns", "end_ns"),
        noted["kraft.node.id"].try_cast("int").alias("node_id"),
        noted["kraft.epoch"].try_cast("int").alias("epoch"),
        noted["kraft.base_offset"].try_cast("bigint").alias("offset"),
        noted["kraft.end_offset"].try_cast("bigint").alias("end_offset"),
        noted["kraft.record_count"].try_cast("bigint").alias("count"),
        noted["kraft.api"].alias("api"),
        noted["error.type"].alias("error"),
    )
    # What was refused, or changes nothing, is no write.
    rows = rows.withColumn("end_offset", fn.coalesce("end_offset", fn.col("offset") + fn.col("count")))
    place = fn.coalesce("offset", fn.col("end_offset") - 1)  # a commit tells of an end alone
    rows = rows.where(place.isNotNull() & fn.expr("not (name = 'write' and coalesce(count, 0) = 0)"))
    is_write = fn.col("name") == "write"
    order = Window.partitionBy("trace_id", "request_span_id").orderBy(place, ~is_write)
    begun = fn.last(fn.when(is_write, fn.col("offset")), ignorenulls=True)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return rows.withColumn("write_offset", begun.over(so_far))


def _writes(parts: DataFrame) -> DataFrame:
    """One row a write: `write`, `commit`, and lists of `appends` and `applies`, one a node."""
    # A replica that starts anew, or lost its disk, does it again: the first time counts.
    once = parts.groupBy(*_WRITE, *_NODE, "offset").agg(
        *(
            fn.min_by(name, "end_ns").alias(name)
            for name in ("cluster_id", "start_ns", "epoch", "end_offset", "api", "error")
        ),
        fn.min("end_ns").alias("end_ns"),
    )
    # A large write is several batches.
    nodes = once.groupBy(*_WRITE, *_NODE).agg(
        *(fn.min(name).alias(name) for name in ("cluster_id", "start_ns", "epoch", "offset", "api", "error")),
        fn.max("end_ns").alias("end_ns"),
        fn.max("end_offset").alias("end_offset"),
    )
    said = fn.struct(
        "node_id", "service", "instance", "start_ns", "end_ns", "epoch", "offset", "end_offset", "api", "error"
    )
    grouped = nodes.groupBy(*_WRITE).agg(
        fn.min("cluster_id").alias("told_cluster"),
        fn.min("start_ns").alias("first_ns"),
        *(_first_of(name, said) for name in ("write", "commit")),
        _all_of("append", said).alias("appends"),
        _all_of("apply", said).alias("applies"),
    )
    # A commit alone is that of a request which wrote nothing, and waited for others' writes.
    told = grouped.where("write is not null or size(appends) + size(applies) > 0")
    writer = fn.coalesce("write.instance", "commit.instance")
    own = fn.filter("applies", lambda each: each["instance"] == fn.col("writer"))
    return told.withColumn("writer", writer).withColumn("own_apply", fn.try_element_at(own, fn.lit(1)))


def _with_request(writes: DataFrame, spans: DataFrame) -> DataFrame:
    """With the request that each hangs on, and the offsets that the spans tell."""
    requests = spans.select(
        "trace_id",
        fn.col("span_id").alias("request_span_id"),
        fn.struct("name", "start_ns").alias("request"),
    )
    rows = writes.join(requests, ["trace_id", "request_span_id"], "left")
    # A write that is decided again, after an election, ends up behind the offset that its span tells.
    base = fn.coalesce(fn.array_min("appends.offset"), fn.col("write_offset"), fn.array_min("applies.offset"))
    end = fn.coalesce(
        fn.col("commit.end_offset"), fn.array_max("appends.end_offset"), "write.end_offset", "own_apply.end_offset"
    )
    told = fn.coalesce(fn.array_max("appends.epoch"), "commit.epoch", fn.array_max("applies.epoch"))
    return rows.withColumns({"told_base": base, "told_end": end, "told_epoch": told})


def _heads(events: DataFrame) -> DataFrame:
    """The first records of traced batches."""
    traced = events.where("trace_id is not null and not is_base")
    return traced.select("cluster_id", "trace_id", "offset", "epoch", "timestamp")


def _in_log(told: DataFrame, heads: DataFrame) -> DataFrame:
    """With the cluster, the epoch and the begin that the log has; null for what is not in it."""
    joined = told.alias("told").join(heads.alias("head"), _of_write(), "left")
    rest = [fn.col(f"told.{name}") for name in told.columns]
    found = fn.row_number().over(Window.partitionBy(*_WRITE).orderBy("offset"))
    rows = joined.select(
        *rest,
        fn.col("head.cluster_id").alias("log_cluster"),
        fn.col("head.offset").alias("offset"),
        fn.col("head.epoch").alias("log_epoch"),
        fn.col("head.timestamp").alias("log_time"),
    )
    return rows.withColumn("place", found).where("place = 1").drop("place")


def _only_in_log(heads: DataFrame, told: DataFrame) -> DataFrame:
    """Writes of which no span tells, of clusters that have spans and from their first on."""
    found = (
        heads.alias("head")
        .join(told.alias("told"), _of_write(), "left_semi")
        .select("cluster_id", "offset", "timestamp")
    )
    of_cluster = found.groupBy("cluster_id").agg(fn.min("timestamp").alias("since"))
    lost = heads.alias("head").join(told.alias("told"), _of_write(), "left_anti")
    since = lost.join(fn.broadcast(of_cluster), "cluster_id").where("timestamp >= since")
    return since.select(
        "trace_id",
        "offset",
        fn.col("cluster_id").alias("log_cluster"),
        fn.col("epoch").alias("log_epoch"),
        fn.col("timestamp").alias("log_time"),
    )


def _of_write() -> Column:
    """`head` begins a batch of the write `told`."""
    same = fn.expr("head.trace_id = told.trace_id and head.offset >= told.told_base and head.offset < told.told_end")
    return same & fn.expr("told.told_epoch is null or told.told_epoch = head.epoch")


def _with_voters(rows: DataFrame, events: DataFrame) -> DataFrame:
    """With the voters of the time, and the leader: every epoch begins by telling both (KIP-595, KIP-853)."""
    placed = rows.withColumns(
        {
            "cluster_id": fn.coalesce("log_cluster", "told_cluster"),
            "epoch": fn.coalesce("log_epoch", "told_epoch"),
            "base_offset": fn.coalesce("offset", "told_base"),
        }
    )
    control = events.where("type in ('LEADER_CHANGE', 'KRAFT_VOTERS')").withColumn(
        "r", fn.from_json("payload", _VOTERS)
    )
    epoch = Window.partitionBy("cluster_id", "epoch").orderBy("offset", fn.desc("type"))
    sets = control.select(
        "cluster_id",
        "epoch",
        fn.col("offset").alias("since"),
        fn.lead("offset", 1, FOREVER).over(epoch).alias("until"),
        fn.last("r.leaderId", ignorenulls=True).over(epoch).alias("leader"),
        fn.array_sort("r.voters.voterId").alias("voter_ids"),
    )
    then = fn.expr(
        "row.cluster_id = voters.cluster_id and row.epoch = voters.epoch "
        "and row.base_offset >= voters.since and row.base_offset < voters.until"
    )
    joined = placed.alias("row").join(fn.broadcast(sets).alias("voters"), then, "left")
    return joined.select("row.*", "voters.leader", "voters.voter_ids")


def _row(rows: DataFrame) -> DataFrame:
    leader = fn.coalesce("leader", "own_apply.node_id")
    rows = rows.withColumn("leader_id", leader).withColumns(
        {
            "leader_append": fn.try_element_at(
                fn.filter("appends", lambda each: each["node_id"] == fn.col("leader_id")), fn.lit(1)
            ),
            "commit_ns": fn.when(fn.col("commit.error").isNull(), fn.col("commit.end_ns")),
        }
    )
    rows = rows.withColumn("missing", _missing())
    return rows.select(
        "cluster_id",
        "trace_id",
        "request_span_id",
        fn.col("request.name").alias("request"),
        fn.coalesce("write.api", "commit.api").alias("api"),
        "base_offset",
        (fn.col("told_end") - 1).alias("last_offset"),
        "epoch",
        "leader_id",
        fn.coalesce(_moment("request.start_ns"), _moment("first_ns"), "log_time").alias("began_at"),
        "log_time",
        *(_moment(ns).alias(name) for name, ns in _MOMENTS.items()),
        *(_us(begin, end).alias(name) for name, (begin, end) in _DURATIONS.items()),
        fn.col("commit.error").alias("error"),
        _voters().alias("voters"),
        _applies().alias("applies"),
        "missing",
        (fn.size("missing") == 0).alias("is_whole"),
    )


_MOMENTS: Final[Mapping[str, str]] = {
    "requested_at": "request.start_ns",
    "decided_at": "write.end_ns",
    "appended_at": "leader_append.start_ns",
    "flushed_at": "leader_append.end_ns",
    "committed_at": "commit_ns",
}
_DURATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "request_to_decided_us": ("request.start_ns", "write.end_ns"),
    "decided_to_appended_us": ("write.end_ns", "leader_append.start_ns"),
    "appended_to_flushed_us": ("leader_append.start_ns", "leader_append.end_ns"),
    "flushed_to_committed_us": ("leader_append.end_ns", "commit_ns"),
    "appended_to_committed_us": ("leader_append.start_ns", "commit_ns"),
    "request_to_committed_us": ("request.start_ns", "commit_ns"),
}


def _missing() -> Column:
    """Names of what nobody told of, in the order in which it happens."""
    told = (
        ("request", fn.col("request").isNull()),
        ("write", fn.col("write").isNull()),
        ("apply", fn.col("own_apply").isNull()),
        ("voters", fn.col("voter_ids").isNull()),
    )
    appended = fn.coalesce(fn.col("appends.node_id"), fn.array().cast("array<int>"))
    silent = fn.array_except(fn.coalesce("voter_ids", fn.array().cast("array<int>")), appended)
    named = fn.transform(silent, lambda each: fn.concat(fn.lit("append by voter "), each.cast("string")))
    last = (("commit", fn.col("commit").isNull()), ("log", fn.col("log_cluster").isNull()))
    return fn.concat(_those(*told), named, _those(*last))


def _those(*named: tuple[str, Column]) -> Column:
    return fn.array_compact(fn.array(*(fn.when(is_so, fn.lit(name)) for name, is_so in named)))


def _voters() -> Column:
    """One struct a voter, in order; its times are null if it did not tell. Without the log: those who told."""
    ids = fn.coalesce("voter_ids", fn.array_sort("appends.node_id"))

    def one(node_id: Column) -> Column:
        of = fn.try_element_at(fn.filter("appends", lambda each: each["node_id"] == node_id), fn.lit(1))
        return fn.struct(
            node_id.alias("node_id"),
            (node_id == fn.col("leader_id")).alias("is_leader"),
            _moment_of(of["start_ns"]).alias("appended_at"),
            _moment_of(of["end_ns"]).alias("flushed_at"),
            _us_of(of["start_ns"], of["end_ns"]).alias("flush_us"),
            _us_of(fn.col("leader_append.end_ns"), of["end_ns"]).alias("after_leader_us"),
        )

    return fn.transform(ids, one)


def _applies() -> Column:
    """One struct a process that told, by service and instance. The writer applies before it appends."""

    def one(of: Column) -> Column:
        is_writer = fn.coalesce(of["instance"] == fn.col("writer"), fn.lit(False))
        return fn.struct(
            of["service"].alias("service"),
            of["instance"].alias("instance"),
            of["node_id"].alias("node_id"),
            is_writer.alias("is_writer"),
            _moment_of(of["end_ns"]).alias("applied_at"),
            _us_of(of["start_ns"], of["end_ns"]).alias("apply_us"),
            fn.when(~is_writer, _us_of(fn.col("commit_ns"), of["end_ns"])).alias("after_commit_us"),
        )

    return fn.array_sort(fn.transform("applies", one))


def _first_of(name: str, said: Column) -> Column:
    is_it = fn.col("name") == name
    return fn.min_by(fn.when(is_it, said), fn.when(is_it, fn.col("end_ns"))).alias(name)


def _all_of(name: str, said: Column) -> Column:
    return fn.array_sort(fn.collect_list(fn.when(fn.col("name") == name, said)))


def _moment(ns: str) -> Column:
    return _moment_of(fn.col(ns))


def _moment_of(ns: Column) -> Column:
    """A timestamp has µs: the last three digits of ns go. As a double, ns since 1970 would lose more."""
    return fn.timestamp_micros(fn.call_function("div", ns, fn.lit(1000)))


def _us(begin: str, end: str) -> Column:
    return _us_of(fn.col(begin), fn.col(end))


def _us_of(begin: Column, end: Column) -> Column:
    return fn.round((end - begin) / 1000).cast("bigint")
