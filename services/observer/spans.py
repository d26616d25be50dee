"""The span store: trace spans in one database table, written in batches by a thread; the oldest traces are dropped."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from quorate.errors import ApiError, ErrorCode
from quorate.runtime.event_loop.daemon_threads import DaemonThreads
from quorate.runtime.logging.logs import logger
from quorate.traces import SpanData
from services.observer.engines import engine_of, is_away

__all__ = ["ROWS_MAX", "SPANS", "SpanStore", "TraceSummary"]

log = logger(__name__)

ROWS_MAX: Final = 200_000
"""Most spans that are kept: about 20,000 traces, 100 MB."""
BYTES_MAX: Final = 128 << 20
"""Most bytes of spans that are kept, as `_size` counts them."""
PENDING_MAX: Final = 50_000
"""Most spans that wait to be written; more are refused, so that a slow disk loses spans instead of filling memory."""
PENDING_BYTES_MAX: Final = 16 << 20
"""Most bytes of these, as `_size` counts them."""
BESIDE_BYTES: Final = 100
"""The bytes of a span beside its texts: ids, times, numbers."""
BATCH_ROWS: Final = 2_000
"""Spans that are written in one database transaction."""
TRACE_MAX: Final = 10_000
"""Most spans of one trace that are read at once."""
ROWS_AT_ONCE: Final = 100
"""Rows that are read from the database before their bytes are counted."""
LIST_DEFAULT: Final = 20
LIST_MAX: Final = 1_000

CLOSE_S: Final = 1.0
"""How long (s) a close waits for the thread that opens the database."""
SCHEMA_LOCK: Final = 0x7370616E73
"""The number of PostgreSQL's advisory lock under which the table is created: "spans" in ASCII."""

T = TypeVar("T")

METADATA: Final = sa.MetaData()

# Attributes keep their types as JSON; on PostgreSQL they can be indexed.
_JSON: Final = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
# SQLite generates row numbers only for an INTEGER key.
_SEQUENCE: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

SPANS: Final = sa.Table(
    "spans",
    METADATA,
    sa.Column("seq", _SEQUENCE, primary_key=True, autoincrement=True, comment="Order of arrival."),
    sa.Column("trace_id", sa.String(32), nullable=False),
    sa.Column("span_id", sa.String(16), nullable=False),
    sa.Column("parent_span_id", sa.String(16), nullable=False, comment="Empty for a root."),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("instance", sa.Text, nullable=False),
    sa.Column("start_ns", sa.BigInteger, nullable=False, comment="Nanoseconds since 1970."),
    sa.Column("end_ns", sa.BigInteger, nullable=False),
    sa.Column("error", sa.Boolean, nullable=False),
    sa.Column("attributes", _JSON, nullable=False),
    sa.UniqueConstraint("trace_id", "span_id"),
    sa.Index("spans_by_start", "start_ns", "trace_id"),
    sa.Index("spans_by_name", "name", "start_ns", "trace_id"),
    # Row numbers are never reused, as retention counts by them.
    sqlite_autoincrement=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """A summary of one trace. `root` is the name of its root span, or of its first span while the root is missing.

    `start_ns` is since 1970, and `duration_ns` to the end of its last span.
    """

    trace_id: str
    root: str
    start_ns: int
    duration_ns: int
    span_count: int


class SpanStore:
    """Stores spans in a database by its SQLAlchemy URL: `sqlite://` (in memory), `sqlite:////path`, or PostgreSQL.

    `offer` never blocks, as a thread of the store writes. Queries see every span that was offered before a `flush`.
    The database is opened by that thread: at `open`, or with the first spans or query, until an attempt succeeds.
    """

    def __init__(self, url: str = "sqlite://", *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX) -> None:
        assert rows_max > 0, rows_max
        assert bytes_max > 0, bytes_max
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        # A power loss may lose spans, so that a commit needs no fsync.
        self._engine = engine_of(url, synchronous="OFF")
        self._writer = DaemonThreads(1, "spans-writer")  # a database may hang for ever, too
        # An SQLite database in memory has one connection: its reads queue behind its writes.
        in_memory = self._engine.pool.__class__ is sa.StaticPool
        self._reader = self._writer if in_memory else DaemonThreads(1, "spans-reader")
        self._lock = threading.Lock()
        self._pending: deque[tuple[SpanData, int]] = deque()
        self._pending_bytes = 0
        self._draining = False
        self._is_open = False
        self._sizes: deque[tuple[int, int]] = deque()
        """The bytes of the spans that are kept, piece by piece: the last row number of each piece, and its bytes."""

    async def open(self) -> None:
        """Connects, and creates the table if there is none. Raises sqlalchemy.exc.DBAPIError."""
        if not self._is_open:
            await self._run(self._writer, self._open)

    def offer(self, spans: Sequence[SpanData]) -> int:
        """Queues spans and returns how many; the rest is refused for lack of room. A duplicate is stored once."""
        with self._lock:
            taken = 0
            for span in spans:
                size = _size(span)
                if len(self._pending) >= PENDING_MAX or self._pending_bytes + size > PENDING_BYTES_MAX:
                    break
                self._pending.append((span, size))
                self._pending_bytes += size
                taken += 1
            begins = bool(taken) and not self._draining
            self._draining = self._draining or begins
        if begins:
            self._writer.submit(self._drain)
        return taken

    async def flush(self) -> None:
        """Waits until all spans offered before are written. A span that cannot be is lost, with a line in the log."""
        if self._draining:
            await self._run(self._writer, self._drain)

    async def trace(self, trace_id: str, *, skip: int = 0, bytes_max: int = BYTES_MAX) -> tuple[SpanData, ...]:
        """Returns a trace's spans by start without the first `skip`, at most `TRACE_MAX`; an unknown trace has none.

        After one with which there are more than `bytes_max`, as `_size` counts them, it returns no others.
        Raises ApiError for a malformed trace id, or a negative `skip`.
        """
        if len(trace_id) != 32 or not set(trace_id) <= set("0123456789abcdef"):
            message = f"trace_id {trace_id!r} is not 32 lower-case hexadecimal digits"
            raise ApiError(ErrorCode.INVALID_REQUEST, message, {"field": "trace_id", "trace_id": trace_id})
        if skip < 0:
            message = f"skip {skip} is negative; it is the number of spans to leave out"
            raise ApiError(ErrorCode.INVALID_REQUEST, message, {"field": "skip", "skip": str(skip)})
        found = sa.select(SPANS).where(SPANS.c.trace_id == trace_id).order_by(SPANS.c.start_ns, SPANS.c.seq)
        page = found.offset(skip).limit(TRACE_MAX)
        return await self._read(lambda: self._up_to(page, bytes_max))

    async def span_count(self, trace_id: str) -> int:
        """Returns how many spans of a trace are stored."""
        count = sa.select(sa.func.count()).where(SPANS.c.trace_id == trace_id)
        return await self._read(lambda: int(self._all(count)[0][0]))

    async def traces(self, span_name: str = "", limit: int = 0) -> tuple[TraceSummary, ...]:
        """Returns summaries of the latest traces, newest first; with `span_name` only traces that have such a span.

        At most `limit` of them: 0 means 20, and 1,000 is the maximum. Raises ApiError for a negative `limit`.
        """
        if limit < 0:
            message = f"limit {limit} is negative; it is the number of traces to list, or 0 for {LIST_DEFAULT}"
            raise ApiError(ErrorCode.INVALID_REQUEST, message, {"field": "limit", "limit": str(limit)})
        return await self._read(lambda: self._summaries(span_name, min(limit or LIST_DEFAULT, LIST_MAX)))

    async def close(self) -> None:
        """Writes the queued spans, then closes the database, unless it hangs while it is opened."""
        try:
            await self.flush()
        finally:
            # By the writer's thread, which may be opening it: SQLite ends a process that closes what another one uses.
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._run(self._writer, self._engine.dispose)

    async def _read(self, work: Callable[[], T]) -> T:
        await self.open()
        return await self._run(self._reader, work)

    async def _run(self, executor: DaemonThreads, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    def _open(self) -> None:
        """Opens the database unless it is open. Runs only in the writer's thread."""
        if self._is_open:
            return
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                # CREATE TABLE IF NOT EXISTS fails, too, if another observer creates the table at the same time.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(SCHEMA_LOCK)))
            METADATA.create_all(connection)
        self._sizes.extend(self._stored_sizes())
        self._is_open = True

    def _drain(self) -> None:
        """Writes the queued spans in batches until the queue is empty. Runs only in the writer's thread."""
        while batch := self._next_batch():
            self._write(batch)

    def _write(self, batch: Sequence[tuple[SpanData, int]]) -> None:
        """Writes spans in one transaction, so that one that the database does not take costs no other."""
        try:
            self._open()
            with self._engine.begin() as connection:
                connection.execute(self._insert(), [_row(span) for span, _ in batch])
                self._drop_oldest(connection, sum(size for _, size in batch))
        except Exception as error:  # of a driver, too: some refuse a text with an error of their own
            if self._is_open and len(batch) > 1 and not is_away(error):
                self._write(batch[: len(batch) // 2])
                self._write(batch[len(batch) // 2 :])
                return
            # Dropped after one attempt, so that the queue does not grow while the database is away.
            log.error("spans could not be written and are lost", exception=error, span_count=len(batch))

    def _next_batch(self) -> list[tuple[SpanData, int]]:
        with self._lock:
            count = min(BATCH_ROWS, len(self._pending))
            self._draining = count > 0
            batch = [self._pending.popleft() for _ in range(count)]
            self._pending_bytes -= sum(size for _, size in batch)
            assert self._pending_bytes >= 0, self._pending_bytes
            assert self._pending or not self._pending_bytes, f"{self._pending_bytes} bytes would be missing for ever"
            return batch

    def _insert(self) -> sa.Executable:
        # OTLP clients send a batch again when its answer is lost.
        if self._engine.dialect.name == "postgresql":
            return postgresql.insert(SPANS).on_conflict_do_nothing(index_elements=("trace_id", "span_id"))
        return sqlite.insert(SPANS).on_conflict_do_nothing(index_elements=("trace_id", "span_id"))

    def _drop_oldest(self, connection: sa.Connection, written: int) -> None:
        """Deletes every trace that has a span older than the last `rows_max` spans, or the last `bytes_max` bytes."""
        last = connection.scalar(sa.select(sa.func.max(SPANS.c.seq))) or 0
        self._sizes.append((last, written))
        cut, total = last - self._rows_max, sum(size for _, size in self._sizes)
        while self._sizes and (total > self._bytes_max or self._sizes[0][0] <= cut):
            end, size = self._sizes.popleft()
            cut, total = max(cut, end), total - size
        if cut > 0:
            old = sa.select(SPANS.c.trace_id).where(SPANS.c.seq <= cut)
            connection.execute(sa.delete(SPANS).where(SPANS.c.trace_id.in_(old)))

    def _stored_sizes(self) -> list[tuple[int, int]]:
        """Returns the bytes of the spans that an earlier process has left, in pieces of `BATCH_ROWS` row numbers."""
        texts = (SPANS.c.name, SPANS.c.service, SPANS.c.instance, sa.cast(SPANS.c.attributes, sa.Text))
        size = sum((sa.func.length(each) for each in texts), sa.literal(BESIDE_BYTES))
        columns = sa.func.max(SPANS.c.seq).label("last"), sa.func.sum(size).label("total")
        pieces = sa.select(*columns).group_by(SPANS.c.seq // BATCH_ROWS).order_by(columns[0])
        return [(int(row.last), int(row.total)) for row in self._all(pieces)]

    def _up_to(self, query: sa.Select[Any], bytes_max: int) -> tuple[SpanData, ...]:
        found: list[SpanData] = []
        with self._engine.connect() as connection:
            for row in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query):
                found.append(_span(row))
                bytes_max -= _size(found[-1])
                if bytes_max < 0:
                    break
        return tuple(found)

    def _all(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        with self._engine.connect() as connection:
            return connection.execute(query).all()

    def _summaries(self, span_name: str, limit: int) -> tuple[TraceSummary, ...]:
        began = sa.func.min(SPANS.c.start_ns)
        newest = sa.select(SPANS.c.trace_id).group_by(SPANS.c.trace_id).order_by(began.desc()).limit(limit)
        if span_name:
            newest = newest.where(SPANS.c.name == span_name)
        columns = (SPANS.c.trace_id, SPANS.c.parent_span_id, SPANS.c.name, SPANS.c.start_ns, SPANS.c.end_ns)
        rows = self._all(
            sa.select(*columns).where(SPANS.c.trace_id.in_(newest)).order_by(SPANS.c.start_ns, SPANS.c.seq)
        )
        traces: dict[str, list[sa.Row[Any]]] = {}
        for row in rows:
            traces.setdefault(row.trace_id, []).append(row)
        return tuple(_summary(spans) for spans in sorted(traces.values(), key=lambda spans: -spans[0].start_ns))


def _size(span: SpanData) -> int:
    """Returns about how many bytes a span takes."""
    texts = len(span.name) + len(span.service) + len(span.instance)
    return BESIDE_BYTES + texts + sum(len(key) + len(str(value)) for key, value in span.attributes.items())


def _row(span: SpanData) -> dict[str, object]:
    return {
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "service": span.service,
        "instance": span.instance,
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "error": span.error,
        "attributes": dict(span.attributes),
    }


def _span(row: sa.Row[Any]) -> SpanData:
    fields = dict(row._mapping)
    del fields["seq"]
    return SpanData(**fields)


def _summary(spans: Sequence[sa.Row[Any]]) -> TraceSummary:
    """Summarizes one trace from its spans, which are ordered by start."""
    root = next((span for span in spans if not span.parent_span_id), spans[0])
    start_ns = spans[0].start_ns
    return TraceSummary(
        trace_id=root.trace_id,
        root=root.name,
        start_ns=start_ns,
        duration_ns=max(span.end_ns for span in spans) - start_ns,
        span_count=len(spans),
    )
