"""The write path: one row for each write, with the time of each step, from the request to the last replica.

Rows are joined from trace spans and the log. All spans of a write have the request's span as parent and carry offsets:
`write` (the active controller has decided and applied it), `append` (a quorum node has flushed it to disk), `commit`,
and `apply` (a replica has applied it to its state). The first record of each batch carries the trace id, so the log
has the request and the epoch of each write, and shows whether the write was kept. A write without any span is a row
too, if it comes after the cluster's first traced write.

Timestamps come from each machine's own clock, so a duration between two machines includes their clock difference.
From the request to the commit it is one clock, the active controller's.
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
"""Names of the spans that belong to a write."""
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
"""`appended_at` is the start of the flush that brings a write to a node's disk, `flushed_at` its end; outside
`voters` they are the leader's. `log_time` is the timestamp of the write's first record, null if it is not in the log.
"""

_WRITE: Final = ("trace_id", "request_span_id", "write_offset")
"""The key of a write: a request may write several times, and a trace may have several requests."""
_NODE: Final = ("name", "service", "instance", "node_id")
_VOTERS: Final = "struct<leaderId: int, voters: array<struct<voterId: int>>>"


def build(counted: DataFrame, tables: Tables) -> dict[str, DataFrame]:
    """Builds and writes the table `write_path`; returns it by its name, or nothing if there are no trace spans.

    `counted` are silver's events.
    """
    spans = tables.read(SPANS)
    return {} if spans is None else {WRITE_PATH: tables.keep(f"silver/{WRITE_PATH}", write_path(spans, counted))}


def write_path(spans: DataFrame, events: DataFrame) -> DataFrame:
    """Builds one row for each write. `missing` lists the steps without a span; `is_whole` is true if none is missing.

    A whole write has the request, the write, the commit, the writer's own apply, an append by each voter of the epoch,
    and its record in the log. The set of other replicas is not known: `applies` has those that sent a span.
    """
    heads = _heads(events)
    traced = _with_request(_writes(_parts(spans)), spans)
    found = _in_log(traced, heads)
    rows = found.unionByName(_only_in_log(heads, traced), allowMissingColumns=True)
    return _row(_with_voters(rows, events))


def _parts(spans: DataFrame) -> DataFrame:
    """Selects the spans of writes and assigns each to its request's last write at or below the span's offset."""
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
    # A span without offsets, or of no records, is not a write: the request was refused or changed nothing.
    rows = rows.withColumn("end_offset", fn.coalesce("end_offset", fn.col("offset") + fn.col("count")))
    place = fn.coalesce("offset", fn.col("end_offset") - 1)  # a commit span has only an end offset
    rows = rows.where(place.isNotNull() & fn.expr("not (name = 'write' and coalesce(count, 0) = 0)"))
    is_write = fn.col("name") == "write"
    order = Window.partitionBy("trace_id", "request_span_id").orderBy(place, ~is_write)
    begun = fn.last(fn.when(is_write, fn.col("offset")), ignorenulls=True)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return rows.withColumn("write_offset", begun.over(so_far))


def _writes(parts: DataFrame) -> DataFrame:
    """Combines the spans into one row a write: `write`, `commit`, and lists of `appends` and `applies` by node."""
    # A replica that restarts or has lost its disk repeats these steps; the first time counts.
    once = parts.groupBy(*_WRITE, *_NODE, "offset").agg(
        *(
            fn.min_by(name, "end_ns").alias(name)
            for name in ("cluster_id", "start_ns", "epoch", "end_offset", "api", "error")
        ),
        fn.min("end_ns").alias("end_ns"),
    )
    # A large write has several batches.
    nodes = once.groupBy(*_WRITE, *_NODE).agg(
        *(fn.min(name).alias(name) for name in ("cluster_id", "start_ns", "epoch", "offset", "api", "error")),
        fn.max("end_ns").alias("end_ns"),
        fn.max("end_offset").alias("end_offset"),
    )
    span_fields = fn.struct(
        "node_id", "service", "instance", "start_ns", "end_ns", "epoch", "offset", "end_offset", "api", "error"
    )
    grouped = nodes.groupBy(*_WRITE).agg(
        fn.min("cluster_id").alias("traced_cluster"),
        fn.min("start_ns").alias("first_ns"),
        *(_first_of(name, span_fields) for name in ("write", "commit")),
        _all_of("append", span_fields).alias("appends"),
        _all_of("apply", span_fields).alias("applies"),
    )
    # A commit span without the others belongs to a request that wrote nothing and waited for earlier writes.
    traced = grouped.where("write is not null or size(appends) + size(applies) > 0")
    writer = fn.coalesce("write.instance", "commit.instance")
    own = fn.filter("applies", lambda each: each["instance"] == fn.col("writer"))
    return traced.withColumn("writer", writer).withColumn("own_apply", fn.try_element_at(own, fn.lit(1)))


def _with_request(writes: DataFrame, spans: DataFrame) -> DataFrame:
    """Adds the request's span to each write, and its offsets and epoch according to the spans."""
    requests = spans.select(
        "trace_id",
        fn.col("span_id").alias("request_span_id"),
        fn.struct("name", "start_ns").alias("request"),
    )
    rows = writes.join(requests, ["trace_id", "request_span_id"], "left")
    # A write that is decided again after an election gets higher offsets than its `write` span has.
    base = fn.coalesce(fn.array_min("appends.offset"), fn.col("write_offset"), fn.array_min("applies.offset"))
    end = fn.coalesce(
        fn.col("commit.end_offset"), fn.array_max("appends.end_offset"), "write.end_offset", "own_apply.end_offset"
    )
    epoch = fn.coalesce(fn.array_max("appends.epoch"), "commit.epoch", fn.array_max("applies.epoch"))
    return rows.withColumns({"traced_base": base, "traced_end": end, "traced_epoch": epoch})


def _heads(events: DataFrame) -> DataFrame:
    """Returns the first record of each traced batch."""
    traced = events.where("trace_id is not null and not is_base")
    return traced.select("cluster_id", "trace_id", "offset", "epoch", "timestamp")


def _in_log(traced: DataFrame, heads: DataFrame) -> DataFrame:
    """Adds cluster, epoch, offset and time of each write's first record in the log; null if it is not in the log."""
    joined = traced.alias("traced").join(heads.alias("head"), _of_write(), "left")
    rest = [fn.col(f"traced.{name}") for name in traced.columns]
    found = fn.row_number().over(Window.partitionBy(*_WRITE).orderBy("offset"))
    rows = joined.select(
        *rest,
        fn.col("head.cluster_id").alias("log_cluster"),
        fn.col("head.offset").alias("offset"),
        fn.col("head.epoch").alias("log_epoch"),
        fn.col("head.timestamp").alias("log_time"),
    )
    return rows.withColumn("place", found).where("place = 1").drop("place")


def _only_in_log(heads: DataFrame, traced: DataFrame) -> DataFrame:
    """Returns the writes in the log that no span belongs to, from the cluster's first write with spans on."""
    found = (
        heads.alias("head")
        .join(traced.alias("traced"), _of_write(), "left_semi")
        .select("cluster_id", "offset", "timestamp")
    )
    of_cluster = found.groupBy("cluster_id").agg(fn.min("timestamp").alias("since"))
    lost = heads.alias("head").join(traced.alias("traced"), _of_write(), "left_anti")
    since = lost.join(fn.broadcast(of_cluster), "cluster_id").where("timestamp >= since")
    return since.select(
        "trace_id",
        "offset",
        fn.col("cluster_id").alias("log_cluster"),
        fn.col("epoch").alias("log_epoch"),
        fn.col("timestamp").alias("log_time"),
    )


def _of_write() -> Column:
    """Returns the join condition: `head` is the first record of a batch of the write `traced`."""
    same = fn.expr(
        "head.trace_id = traced.trace_id and head.offset >= traced.traced_base and head.offset < traced.traced_end"
    )
    return same & fn.expr("traced.traced_epoch is null or traced.traced_epoch = head.epoch")


def _with_voters(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds the leader and the voters at that time: every epoch begins with records of both (KIP-595, KIP-853)."""
    placed = rows.withColumns(
        {
            "cluster_id": fn.coalesce("log_cluster", "traced_cluster"),
            "epoch": fn.coalesce("log_epoch", "traced_epoch"),
            "base_offset": fn.coalesce("offset", "traced_base"),
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
        (fn.col("traced_end") - 1).alias("last_offset"),
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
    """Returns the names of the steps without a span, in the order in which they happen."""
    steps = (
        ("request", fn.col("request").isNull()),
        ("write", fn.col("write").isNull()),
        ("apply", fn.col("own_apply").isNull()),
        ("voters", fn.col("voter_ids").isNull()),
    )
    appended = fn.coalesce(fn.col("appends.node_id"), fn.array().cast("array<int>"))
    silent = fn.array_except(fn.coalesce("voter_ids", fn.array().cast("array<int>")), appended)
    named = fn.transform(silent, lambda each: fn.concat(fn.lit("append by voter "), each.cast("string")))
    last = (("commit", fn.col("commit").isNull()), ("log", fn.col("log_cluster").isNull()))
    return fn.concat(_those(*steps), named, _those(*last))


def _those(*named: tuple[str, Column]) -> Column:
    return fn.array_compact(fn.array(*(fn.when(is_so, fn.lit(name)) for name, is_so in named)))


def _voters() -> Column:
    """Returns a struct for each voter, by id; its times are null without a span.

    Without voters in the log: nodes with spans.
    """
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
    """Returns a struct for each process that sent a span, by service and instance.

    The writer applies before it appends.
    """

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


def _first_of(name: str, span_fields: Column) -> Column:
    is_it = fn.col("name") == name
    return fn.min_by(fn.when(is_it, span_fields), fn.when(is_it, fn.col("end_ns"))).alias(name)


def _all_of(name: str, span_fields: Column) -> Column:
    return fn.array_sort(fn.collect_list(fn.when(fn.col("name") == name, span_fields)))


def _moment(ns: str) -> Column:
    return _moment_of(fn.col(ns))


def _moment_of(ns: Column) -> Column:
    """Converts ns to a timestamp in µs by integer division; a double would lose more digits."""
    return fn.timestamp_micros(fn.call_function("div", ns, fn.lit(1000)))


def _us(begin: str, end: str) -> Column:
    return _us_of(fn.col(begin), fn.col(end))


def _us_of(begin: Column, end: Column) -> Column:
    return fn.round((end - begin) / 1000).cast("bigint")
