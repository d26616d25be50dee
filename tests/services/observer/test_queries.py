"""Questions in SQL to an observer's database of the state: they only read, are bounded, and hold nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import grpc
import pytest

from deploy.local.ports import free_ports
from kraft.service.observer_pb2 import ListChangesRequest, ListTracesRequest, QueryRequest, QueryResponse
from kraft.service.observer_pb2_grpc import ObserverStub, add_ObserverServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Offset
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.statuses import error_from_call
from quorate.runtime.telemetry.tracing import OFF
from quorate.sql.guarded import Caps
from services.observer import queries
from services.observer.queries import QUERIES_MAX
from services.observer.query_process import PART_ROWS, Kind, frames
from services.observer.servicer import ObserverService
from services.observer.spans import SpanStore
from tests.cli.directories import Ran, run
from tests.metadata.histories import write
from tests.services.observer.test_changes import failure
from tests.services.scripted import WITHIN_S, listening
from tests.sql.test_state_database import Written

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
PAGE_BYTES = 4_096
ENDLESS = f"{NUMBERS} SELECT count(*) FROM n"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Written]:
    """A database, and what has written it."""
    path = tmp_path_factory.mktemp("state") / "state.db"
    written = Written(f"sqlite:///{path}")
    written.load(write(Random(1), 100))
    written.close()
    return path, written


@asynccontextmanager
async def serving(url: str | None) -> AsyncIterator[ObserverStub]:
    async with serving_at(url) as address, open_channel(address) as channel:
        yield ObserverStub(channel)


@asynccontextmanager
async def serving_at(url: str | None) -> AsyncIterator[str]:
    server, store = Server(), SpanStore()
    replica = Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF)
    server.add("kraft.service.Observer", add_ObserverServicer_to_server, ObserverService(replica, store, state_url=url))
    async with asyncio.timeout(WITHIN_S), listening(server) as address:
        yield address
    await store.close()


async def asked(stub: ObserverStub, sql: str) -> tuple[list[str], list[tuple[object, ...]], Offset]:
    """The columns, the rows and the offset of an answer. Raises ApiError."""
    parts: list[QueryResponse] = []
    try:
        async for part in stub.Query(QueryRequest(sql=sql)):
            parts.append(part)
    except grpc.aio.AioRpcError as status:
        raise (error_from_call(status) or status) from None
    rows = [tuple(map(value_of, row.values)) for part in parts for row in part.rows]
    return list(parts[0].columns), rows, parts[0].next_offset


def value_of(value: QueryResponse.Value) -> object:
    kind = value.WhichOneof("kind")
    return None if kind is None else getattr(value, kind)


async def test_an_answer_is_what_the_database_has_at_an_offset(state: tuple[Path, Written]) -> None:
    path, written = state
    values = "SELECT -5 AS a, 1.5 AS b, 'größe' AS c, x'00ff' AS d, NULL AS e"
    async with serving(f"sqlite:///{path}") as stub:
        topics = await asked(stub, "SELECT name, topic_id FROM topics")
        of_each_kind = await asked(stub, values)
        many = await asked(stub, f"{NUMBERS} SELECT i FROM n LIMIT {PART_ROWS + 1}")
        none = await asked(stub, "SELECT name FROM topics WHERE false")

    assert written.at is not None
    assert (["name", "topic_id"], written.present()["topics"], written.at.next_offset) == topics
    assert (["a", "b", "c", "d", "e"], [(-5, 1.5, "größe", b"\x00\xff", None)]) == of_each_kind[:2]
    assert [(number,) for number in range(1, PART_ROWS + 2)] == many[1]
    assert (["name"], []) == none[:2]


async def test_the_command_prints_what_an_observer_answers(state: tuple[Path, Written]) -> None:
    path, written = state
    (nobody,) = free_ports(1)
    async with serving_at(f"sqlite:///{path}") as address:
        text = await by_command("SELECT -5 AS a, NULL AS b", f"127.0.0.1:{nobody},{address}")
        past = await by_command("SELECT * FROM topics_history", address, "--json")
        refused = await by_command("DELETE FROM topics", address)
        unreached = await by_command("SELECT 1", f"127.0.0.1:{nobody}")
        beyond = await by_command("SELECT 1", address, "--as-of", "999999")
        misused = await by_command("SELECT 1", address, "--with-open-transaction")
        caps = [await by_command("SELECT 1", address, *each) for each in (("--rows-max", "1"), ("--seconds-max", "1"))]
    async with serving_at(None) as address:
        without = await by_command("SELECT 1", address)

    assert written.at is not None
    assert Ran(0, f"  a   b\n  -5  -\n1 row, as of offset {written.at.next_offset}\n", "") == text
    assert {written.at.next_offset - 1} == {row["valid_from_offset"] for row in past.document["rows"]}
    assert (1, "") == (refused.code, refused.out)
    assert "a write to topics is refused" in refused.err
    assert "observer.state.database.url is not set" in without.err
    assert (3, True) == (unreached.code, f"127.0.0.1:{nobody}: " in unreached.err)
    assert (1, True) == (beyond.code, "999999: the database has the log from 0 up to" in beyond.err)
    assert (2, True) == (misused.code, "--with-open-transaction are not for --observer" in misused.err)
    assert [(2, True)] * 2 == [(each.code, "which has caps of its own" in each.err) for each in caps]


async def by_command(query: str, observer: str, *options: str) -> Ran:
    return await asyncio.to_thread(run, "sql", query, "--observer", observer, *options)


HOSTILE = {
    "DELETE FROM topics": "a write to topics is refused",
    "UPDATE applied SET next_offset = 0": "a write to applied is refused",
    "DROP VIEW offline": "is refused",
    "CREATE TEMP TABLE mine(a)": "is refused",
    "ATTACH '/etc/passwd' AS other": "ATTACH is refused",
    "PRAGMA query_only = OFF": "PRAGMA query_only is refused",
    "COMMIT": "COMMIT is refused",
    "VACUUM INTO '/tmp/copy'": "cannot VACUUM from within a transaction",
    "SELECT load_extension('evil')": "load_extension",
    "SELECT readfile('/etc/passwd')": "readfile",
    "SELECT writefile('/tmp/mine', 'x')": "writefile",
    "SELECT 1; DROP TABLE topics": "one statement at a time",
    "SELECT * FROM secrets": "no such table: secrets; there are ",
    "SELEC": "syntax error",
    f"{NUMBERS} SELECT i FROM n": "the answer has more than 1,000 rows, the cap",
    f"{NUMBERS} SELECT hex(zeroblob(1000)) FROM n": "the answer has more than 100,000 characters, the cap",
    "SELECT zeroblob(1 << 30)": "string or blob too big",
    ENDLESS: "the query takes longer than 0.2 s, the cap",
    "SELECT count(*) FROM columns a, columns b, columns c, columns d, columns e": "takes longer than 0.2 s, the cap",
    f"{NUMBERS} SELECT group_concat(i) OVER () FROM n": "the cap",
}


@pytest.mark.parametrize("sql", HOSTILE)
def test_a_query_that_would_do_more_than_read_or_take_too_much_is_refused(
    state: tuple[Path, Written], sql: str
) -> None:
    path, _ = state
    before = path.read_bytes()
    caps = Caps(rows=1_000, characters=100_000, seconds=0.2)
    *_, (kind, content) = frames(str(path), sql, caps)

    assert Kind.REFUSED is kind
    assert HOSTILE[sql] in content.decode()
    assert before == path.read_bytes()


def test_a_row_that_fits_no_message_is_refused(state: tuple[Path, Written]) -> None:
    *_, (kind, content) = frames(str(state[0]), "SELECT hex(zeroblob(300000))")

    assert (Kind.REFUSED, b"a row has more than 524,288 characters, the cap: substr returns a part") == (kind, content)


async def test_rows_of_long_texts_take_no_more_memory_than_their_process_may_have(state: tuple[Path, Written]) -> None:
    """Python has four bytes of each character, where SQLite has one."""
    texts = ", ".join(f"x || {number}" for number in range(99))
    async with serving(f"sqlite:///{state[0]}") as stub:
        with pytest.raises(ApiError, match="need more than 256 MiB of memory, the cap") as many:
            await asked(stub, f"WITH a(x) AS (SELECT hex(zeroblob(900000)) || char(128512)) SELECT {texts} FROM a")
        with pytest.raises(ApiError, match="string or blob too big") as long:
            await asked(stub, "SELECT length(zeroblob(3 << 20))")

    assert {ErrorCode.INVALID_REQUEST} == {many.value.code, long.value.code}


async def test_a_function_that_takes_too_long_is_ended_from_outside(
    state: tuple[Path, Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "ANSWERED_S", 1.0)
    monkeypatch.setattr(queries, "TAKEN_S", 8.0)
    within = "SELECT instr(zeroblob(2000000), CAST(zeroblob(1000000) || 'b' AS BLOB))"
    async with serving(f"sqlite:///{state[0]}") as stub:
        with pytest.raises(ApiError, match="the query takes longer than 20 s, the cap") as refused:
            await asked(stub, within)

    assert ErrorCode.INVALID_REQUEST is refused.value.code


async def test_refusals_name_the_reason_and_endless_queries_hold_nobody_up(state: tuple[Path, Written]) -> None:
    """Those that are cancelled make room."""
    path, _ = state
    async with serving(f"sqlite:///{path}") as stub:
        with pytest.raises(ApiError, match="a query reads tables and views, and does nothing else") as refused:
            await asked(stub, "DELETE FROM topics")
        endless = [stub.Query(QueryRequest(sql=ENDLESS)) for _ in range(QUERIES_MAX)]
        waiting = [asyncio.ensure_future(anext(aiter(each))) for each in endless]
        codes = set[ErrorCode]()
        while ErrorCode.THROTTLING_QUOTA_EXCEEDED not in codes:
            try:
                await asked(stub, "SELECT 1")
            except ApiError as full:
                codes.add(full.code)
        await stub.ListTraces(ListTracesRequest())
        for each in endless:
            each.cancel()
        await asyncio.wait(waiting)
        answer = None
        while answer is None:
            try:
                answer = await asked(stub, "SELECT count(*) > 0 FROM topics")
            except ApiError as full:
                codes.add(full.code)

    assert ErrorCode.INVALID_REQUEST is refused.value.code
    assert {ErrorCode.THROTTLING_QUOTA_EXCEEDED} == codes
    assert [(1,)] == answer[1]


@pytest.mark.parametrize(
    ("url", "code", "reason"),
    [
        (None, ErrorCode.INVALID_REQUEST, "observer.state.database.url is not set"),
        ("postgresql+psycopg://host/name", ErrorCode.INVALID_REQUEST, "is of PostgreSQL"),
        ("sqlite:////nowhere/state.db", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "has no state yet"),
    ],
)
async def test_without_a_database_that_can_be_asked_it_says_so(url: str | None, code: ErrorCode, reason: str) -> None:
    async with serving(url) as stub:
        with pytest.raises(ApiError, match=reason) as refused:
            await asked(stub, "SELECT 1")

    assert code is refused.value.code


@pytest.mark.parametrize(
    ("made", "code", "reason"),
    [
        ("letter", ErrorCode.UNKNOWN_SERVER_ERROR, "of the state is damaged: file is not a database"),
        ("torn", ErrorCode.UNKNOWN_SERVER_ERROR, "of the state is damaged: database disk image is malformed"),
        ("directory", ErrorCode.COORDINATOR_NOT_AVAILABLE, "the database of the state cannot be read now: "),
    ],
)
async def test_of_a_database_that_is_damaged_query_and_changes_say_so(
    state: tuple[Path, Written], tmp_path: Path, made: str, code: ErrorCode, reason: str
) -> None:
    path = tmp_path / "state.db"
    match made:
        case "letter":
            path.write_text("so long, " * 1_000)
        case "torn":
            whole = state[0].read_bytes()
            path.write_bytes(whole[:PAGE_BYTES] + b"\xff" * (len(whole) - PAGE_BYTES))
        case _:
            path.mkdir()
    async with serving(f"sqlite:///{path}") as stub:
        with pytest.raises(ApiError, match=reason) as refused:
            await asked(stub, "SELECT * FROM topics")
        error = await failure(stub.ListChanges(ListChangesRequest()))

    assert (code, code, True) == (refused.value.code, error.code, reason in error.message), error
