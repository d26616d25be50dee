"""Spans of an observer that keeps them in PostgreSQL: read as those of a file are; and no text has a password."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quorate.runtime.event_loop.loop import ExitCode
from quorate.traces import SpanData
from services.observer.spans import SpanStore
from tests.pipeline.postgres import PASSWORD, absent, postgres
from tests.pipeline.traces import request, span, stored, write
from tests.services.across.test_starting import started, with_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)

SAID: dict[str, Any] = {"text": 'ä "quoted"', "whole": 2**62, "flag": True, "part": 1.5}
FIRST = [request(1, 0, 1_000), *write(1, 10, 2), span("told", "a-1", 0, 1, 3, attributes=SAID, error=True)]
SECOND = [request(2, 5_000, 6_000), *write(2, 12, at_us=5_000)]
COLUMNS = ("trace_id", "span_id", "parent_span_id", "name", "service", "instance", "start_ns", "end_ns", "error")


@pytest.fixture
def database() -> Iterator[str]:
    if (why := absent()) is not None:
        pytest.skip(why)
    # pytest's own directories are closed to the user that the server runs as.
    with tempfile.TemporaryDirectory(prefix="quorate-postgres-") as place, postgres(Path(place)) as url:
        yield url


def keep(url: str, spans: Sequence[SpanData]) -> None:
    """As the observer does it."""

    async def run() -> None:
        store = SpanStore(url)
        assert len(spans) == store.offer(spans)
        await store.close()

    asyncio.run(run())


def test_an_observer_that_the_database_does_not_let_in_says_so_and_ends(database: str) -> None:
    """That is no server that is away, for which it would wait and lose each span."""
    at, _, rest = database.rpartition("@")
    wrong = {
        'password authentication failed for user "observer"': f"postgresql+psycopg://observer:hunter2@{rest}",
        'database "elsewhere" does not exist': f"{at}@{rest.partition('/')[0]}/elsewhere",
        "server does not support SSL, but SSL was required": f"{database}?sslmode=require",
    }
    ended = {reason: started("observer", *with_database(url)) for reason, url in wrong.items()}

    assert [ExitCode.MISCONFIGURED] * len(wrong) == [each.returncode for each in ended.values()]
    for reason, each in ended.items():
        last = each.stderr.splitlines()[-1]
        assert last.startswith("fatal: 1 problem in the configuration: observer.database.url = "), last
        assert "must be a database that we may use: " in last
        assert reason in last
        assert "hunter2" not in each.stderr
        assert PASSWORD not in each.stderr


def test_spans_of_a_database_are_those_of_a_file(spark: SparkSession, tmp_path: Path, database: str) -> None:
    from services.pipeline.bronze.spans import SPAN_FILES, SPANS, ingest_spans
    from services.pipeline.tables import ParquetTables

    there, here = (ParquetTables(spark, str(tmp_path / name)) for name in ("there", "here"))
    keep(database, FIRST)
    stored(tmp_path / "spans.db", FIRST)
    counts = [
        ingest_spans(spark, there, database, cluster_id="one").spans,
        ingest_spans(spark, here, str(tmp_path / "spans.db"), cluster_id="one").spans,
        ingest_spans(spark, there, database, cluster_id="one").spans,
    ]
    keep(database, [*FIRST[:2], *SECOND])
    counts.append(ingest_spans(spark, there, database, cluster_id="one").spans)
    of_database, of_file, read = (
        tables.read(name) for tables, name in ((there, SPANS), (here, SPANS), (there, SPAN_FILES))
    )
    assert of_database is not None
    assert of_file is not None
    assert read is not None

    def rows(table: Any) -> list[tuple[Any, ...]]:
        return sorted((*row[:-1], sorted(row[-1].items())) for row in table.select(*COLUMNS, "attributes").collect())

    place = f"postgresql://{database.rpartition('@')[2]}"
    assert [len(FIRST), len(FIRST), 0, len(SECOND)] == counts
    second = {each.trace_id for each in SECOND}
    assert rows(of_file) == [row for row in rows(of_database) if row[0] not in second]
    assert len(FIRST) + len(SECOND) == of_database.count()
    assert {("one", place)} == {tuple(row) for row in of_database.select("cluster_id", "source").collect()}
    assert [place, place] == [row["source"] for row in read.collect()]


def test_how_to_get_in_is_told_nobody(spark: SparkSession, database: str, capsys: pytest.CaptureFixture[str]) -> None:
    from services.pipeline.bronze.span_database import look
    from services.pipeline.bronze.span_files import find_spans
    from services.pipeline.bronze.span_store import Store, read_stores

    keep(database, FIRST)
    (file,) = find_spans(database)
    frame = read_stores(spark, [Store(file.path, file.cluster_id, file.url)])
    frame.explain("extended")
    plan = capsys.readouterr().out
    secret = PASSWORD.replace(" ", "%20")

    assert (1, len(FIRST), len(FIRST)) == look(database)
    assert ("postgres", "postgresql://" + database.rpartition("@")[2]) == (file.cluster_id, file.path)
    assert len(FIRST) == frame.count()
    assert "span_store" in plan
    assert [] == [each for each in (secret, PASSWORD) if each in plan]
    with pytest.raises(OSError, match="it can not be read, or is no trace store: ") as refused:
        find_spans(database.replace(secret, "another"))
    assert "another" not in str(refused.value)


def test_a_database_that_is_no_trace_store_is_said(database: str) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.bronze.span_files import find_spans

    with pytest.raises(OSError, match=r'^postgresql://127.0.0.1:\d+/postgres: .* relation "spans" does not exist'):
        find_spans(database)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "mysql://root:secret@db/traces",
            "a trace store is read from postgresql and from files of SQLite, not from mysql",
        ),
        ("://", "is a database's URL, as postgresql://host/database; this is none"),
    ],
)
def test_what_is_no_such_database_is_said(url: str, words: str) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.bronze.span_files import find_spans

    with pytest.raises(OSError, match=words) as said:
        find_spans(url)
    assert "secret" not in str(said.value)
