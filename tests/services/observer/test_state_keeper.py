"""The observer's database of the state: what a real quorum node has committed, whatever happens to the observer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from string import ascii_letters
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa

from deploy.local.ports import free_ports
from kraft import Message
from kraft.service.quorum_pb2 import CreateSnapshotRequest
from quorate.metadata.configs import BROKER, GROUP, TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.nouns import NOBODY, Offset
from quorate.records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
    encode_record,
)
from quorate.runtime.clients.client import open_channel
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.settings.config import ConfigError
from quorate.sql.listings import LISTINGS, listing_query
from quorate.sql.nouns import NOUNS, Image, Row, column_names, rows
from quorate.sql.state_database import StateDatabase
from quorate.sql.state_past import StateReader
from quorate.sql.state_tables import APPLIED, GAPS, NOUN_TABLES
from quorate.sql.views import VIEWS
from quorate.wire.schema import layout_of
from services.observer import state_keeper
from services.observer.engines import is_away
from services.observer.state_keeper import StateKeeper
from services.quorum.cleaner import Cleaner
from services.quorum.driver import QuorumDriver
from services.quorum.snapshot_upload import take_snapshot
from tests.metadata.histories import STEPS, feature_level, write
from tests.metadata.test_properties import replayed
from tests.pipeline.postgres import absent, postgres
from tests.runtime.test_log_reader import ONLY_THE_LATEST, node
from tests.services.nodes import committed
from tests.services.observer.test_stop import observing
from tests.services.scripted import WITHIN_S
from tests.sql.test_state_database import Written, applied
from tests.sql.test_state_past import ALL, listed, whole

POLL_S = 0.02
ROLE = """\
    CREATE ROLE reader LOGIN PASSWORD 'theirs';
    GRANT USAGE ON SCHEMA public TO reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO reader;
    ALTER ROLE reader SET default_transaction_read_only = on;
    ALTER ROLE reader SET statement_timeout = '20s';
"""
DENIED, READ_ONLY, LATE = "42501", "25006", "57014"
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT (i + 1) & 7 FROM n)"
HOSTILE = {
    "DELETE FROM topics": DENIED,
    "UPDATE applied SET next_offset = 0": DENIED,
    "DROP VIEW offline": DENIED,
    "CREATE TABLE mine(a int)": DENIED,
    "CREATE TEMP TABLE mine(a int)": READ_ONLY,
    "COPY topics TO '/tmp/mine'": DENIED,
    "COPY topics FROM PROGRAM 'id'": DENIED,
    "SELECT pg_read_file('/etc/passwd')": DENIED,
    "SELECT lo_import('/etc/passwd')": DENIED,
    "SELECT pg_reload_conf()": DENIED,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'observer'": DENIED,
    f"{NUMBERS} SELECT count(*) FROM n": LATE,
    "SELECT count(*) FROM pg_class a, pg_class b, pg_class c, pg_class d": LATE,
}
"""What who reads PostgreSQL tries, and the SQLSTATE of the refusal."""
TABLES = {name: [tables.present.c[each] for each in column_names(name)] for name, tables in NOUN_TABLES.items()}


def batches_of(count: int, seed: int) -> list[list[Message]]:
    """A log that could have been, in batches of one to five records."""
    steps = tuple(step for step in STEPS if step is not feature_level)
    chance, found = Random(seed), list[list[Message]]([[FeatureLevelRecord("metadata.version", LATEST)]])
    log = write(chance, count, steps)
    while log:
        size = chance.randint(1, 5)
        found.append(log[:size])
        log = log[size:]
    return found


async def append(driver: QuorumDriver, batches: Sequence[Sequence[Message]]) -> Offset:
    """The records, a batch each, committed; the answer is the end of the log."""
    for batch in batches:
        values = [encode_record(each, max(layout_of(type(each)).versions)) for each in batch]
        result = driver.append(driver.core.role.epoch, driver.core.log.leo, [values])
        assert result.error == 0, result
    await committed(driver, driver.core.log.leo)
    return driver.core.log.leo


@asynccontextmanager
async def keeping(url: str, log: str, retention_ms: int = -1) -> AsyncIterator[asyncio.Task[None]]:
    """A keeper that is cut off at the block's end, whatever it is doing."""
    keeper = StateKeeper(url, partial(LogReader, [log], open_channel, replica_id=NOBODY), retention_ms=retention_ms)
    running = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(WITHIN_S):
            yield running
    finally:
        running.cancel()
        await asyncio.wait([running])
        await keeper.close()


def reading(url: str) -> sa.Engine:
    return sa.create_engine(url, poolclass=sa.NullPool)


def end_of(engine: sa.Engine) -> Offset:
    """How far a database is; 0 while it has nothing."""
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table(APPLIED.name):
            return 0
        return connection.scalar(sa.select(APPLIED.c.next_offset)) or 0


async def reached(engine: sa.Engine, end: Offset) -> None:
    while end_of(engine) < end:  # noqa: ASYNC110  another process writes it, which tells nobody
        await asyncio.sleep(POLL_S)


def rows_of(engine: sa.Engine) -> dict[str, list[Row]]:
    with engine.connect() as connection:
        return {name: in_order(map(tuple, connection.execute(sa.select(*each)))) for name, each in TABLES.items()}


def history_at(engine: sa.Engine, end: Offset) -> dict[str, list[Row]]:
    """The rows that the history has after all records below an offset."""
    with engine.connect() as connection:
        return {
            name: in_order(
                tuple(row)
                for row in connection.exec_driver_sql(
                    f"SELECT {', '.join(column_names(name))} FROM {tables.history} "
                    f"WHERE valid_from_offset < {end} AND (valid_to_offset IS NULL OR valid_to_offset >= {end})"
                )
            )
            for name, tables in NOUN_TABLES.items()
        }


def expected(batches: Sequence[Sequence[Message]]) -> dict[str, list[Row]]:
    """The rows of the state after these batches, which begin after the leader's own record."""
    state, offset = ClusterState(), 1
    for batch in batches:
        state.apply_all(batch, offset)
        offset += len(batch)
    return {name: in_order(rows(noun, Image(state=state))) for name, noun in NOUNS.items()}


def in_order(found: Iterable[Row]) -> list[Row]:
    return sorted(found, key=lambda row: repr([int(each) if isinstance(each, bool) else each for each in row]))


async def test_rows_and_their_history_are_those_of_the_log_across_restarts(tmp_path: Path) -> None:
    url, batches, rounds = f"sqlite:///{tmp_path}/state.db", batches_of(120, seed=1), 4
    engine = reading(url)
    async with node(tmp_path) as (driver, log):
        for part in range(rounds):
            async with keeping(url, log):
                some = batches[part * len(batches) // rounds : (part + 1) * len(batches) // rounds]
                await append(driver, some[: len(some) // 2])
                await reached(engine, driver.core.log.leo)
                await append(driver, some[len(some) // 2 :])  # the keeper is cut off while it writes
        async with keeping(url, log):
            await reached(engine, driver.core.log.leo)

    assert expected(batches) == rows_of(engine)
    end = 1
    for count, batch in enumerate(batches, 1):
        end += len(batch)
        assert (end, expected(batches[:count])) == (end, history_at(engine, end))


async def test_what_a_checkpoint_has_replaced_is_written_as_one_change_and_named(tmp_path: Path) -> None:
    url, batches = f"sqlite:///{tmp_path}/state.db", batches_of(120, seed=2)
    engine = reading(url)
    before, between, after = batches[: len(batches) // 3], batches[len(batches) // 3 : -9], batches[-9:]
    async with node(tmp_path) as (driver, log):
        async with keeping(url, log):
            had = await append(driver, before)
            await reached(engine, had)
        await take_checkpoint(driver, before)
        until = await append(driver, between)
        await take_checkpoint(driver, [*before, *between])
        Cleaner(driver, ONLY_THE_LATEST).clean()
        assert until == driver.core.log.start
        async with keeping(url, log):
            await reached(engine, until)
            at_checkpoint = rows_of(engine)
            await reached(engine, await append(driver, after))

    assert expected([*before, *between]) == at_checkpoint
    assert expected(batches) == rows_of(engine)
    assert expected(before) == history_at(engine, had)
    with engine.connect() as connection:
        assert [(had - 1, until - 1)] == [tuple(each)[:2] for each in connection.execute(sa.select(GAPS))]


async def take_checkpoint(driver: QuorumDriver, batches: Sequence[Sequence[Message]]) -> None:
    """Has the node write a checkpoint of the state at the log's end, as a controller does."""
    state, offset = ClusterState(), 1
    for batch in batches:
        state.apply_all(batch, offset)
        offset += len(batch)
    values = [encode_record(record, version) for record, version in state.records(LATEST)]

    async def pieces() -> AsyncIterator[CreateSnapshotRequest]:
        yield CreateSnapshotRequest(end_offset=offset, epoch=driver.core.role.epoch, values=values)
        yield CreateSnapshotRequest()

    await take_snapshot(driver, pieces())


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("cluster_id", "another", "it has the state of cluster another; the log is of cluster c; name another one"),
        ("epoch", 7, "it ends at offset {end} in epoch 7, and the log has epoch 1 there: it is not the same log"),
    ],
)
async def test_a_database_of_another_log_is_refused(tmp_path: Path, column: str, value: object, reason: str) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    engine = reading(url)
    async with node(tmp_path) as (driver, log):
        end = await append(driver, batches_of(20, seed=3))
        async with keeping(url, log):
            await reached(engine, end)
        with engine.begin() as connection:
            connection.execute(sa.update(APPLIED).values({column: value}))
        written = rows_of(engine)
        async with keeping(url, log) as running:
            with pytest.raises(ConfigError) as refused:
                await running

    assert f"observer.state.database.url = {url}: must be a database" in str(refused.value)
    assert reason.format(end=end) in str(refused.value)
    assert written == rows_of(engine)


async def test_what_a_database_refuses_is_told_and_is_written_once_it_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_keeper, "REFUSED_S", POLL_S)
    url, batches = f"sqlite:///{tmp_path}/state.db", batches_of(20, seed=3)
    engine = reading(url)
    async with node(tmp_path) as (driver, log), keeping(url, log) as running:
        await reached(engine, await append(driver, batches[:1]))
        with engine.begin() as connection:
            connection.exec_driver_sql(
                "CREATE TRIGGER refuses BEFORE UPDATE ON applied BEGIN SELECT RAISE(ABORT, 'not this'); END"
            )
        end = await append(driver, batches[1:])
        while not (told := [each for each in caplog.records if each.levelname == "ERROR"]):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        assert not running.done()
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TRIGGER refuses")
        await reached(engine, end)

    assert "the state's database refuses a write" in told[0].getMessage()
    assert expected(batches) == rows_of(engine)


STATES = {
    "08006": True,
    "25006": True,
    "40001": True,
    "53100": True,
    "55P03": True,
    "57P01": True,
    "58030": True,
    "22P05": False,
    "42501": False,
    "42P16": False,
    "54000": False,
    None: True,
}
"""By SQLSTATE: would the same be taken later?"""


def test_only_what_passes_by_itself_counts_as_away() -> None:
    class Failed(Exception):
        def __init__(self, sqlstate: str | None) -> None:
            self.sqlstate = sqlstate

    assert STATES == {each: is_away(sa.exc.OperationalError("", None, Failed(each))) for each in STATES}
    assert not is_away(ValueError())


async def test_of_two_observers_one_writes_and_the_other_takes_over(tmp_path: Path) -> None:
    await one_writes_at_a_time(f"sqlite:///{tmp_path}/state.db", tmp_path)


async def one_writes_at_a_time(url: str, directory: Path) -> None:
    engine, batches = reading(url), batches_of(60, seed=4)
    async with node(directory) as (driver, log), AsyncExitStack() as first:
        await first.enter_async_context(keeping(url, log))
        await reached(engine, await append(driver, batches[:3]))
        async with keeping(url, log) as second:
            await reached(engine, await append(driver, batches[3:6]))
            await first.aclose()
            await reached(engine, await append(driver, batches[6:]))
            assert not second.done()

    assert expected(batches) == rows_of(engine)
    assert expected(batches[:6]) == history_at(engine, 1 + sum(map(len, batches[:6])))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if (why := absent()) is not None:
        pytest.skip(why)
    # pytest's own directories are closed to the user that the server runs as.
    with TemporaryDirectory(prefix="quorate-postgres-") as place, postgres(Path(place)) as url:
        yield url


async def test_of_two_observers_on_one_postgresql_one_writes_and_the_other_takes_over(
    tmp_path: Path, server: str
) -> None:
    await one_writes_at_a_time(server, tmp_path)


async def test_a_schema_that_is_not_there_ends_the_start(server: str) -> None:
    """By its lock alone it would look as if another observer wrote it."""
    url = f"{server}?options=-csearch_path%3Dnowhere"
    keeper = StateKeeper(url, partial(LogReader, ["127.0.0.1:1"], open_channel))
    with pytest.raises(
        ConfigError, match="it has no schema for our tables: its search_path is nowhere, and names none"
    ):
        async with asyncio.timeout(WITHIN_S):
            await keeper.run()
    await keeper.close()


def test_views_and_past_are_the_same_on_postgresql_and_sqlite(tmp_path: Path, server: str) -> None:
    schema, log = "views", whole(write(Random(3), 300))
    log += [
        ConfigRecord(TOPIC, topic.name, "min.insync.replicas", value)
        for topic, value in zip(replayed(log).topics, ("2", "none", " 3", "2.5", "", "-1"), strict=False)
    ]
    with reading(server).begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    urls = f"sqlite:///{tmp_path}/state.db", f"{server}?options=-csearch_path%3D{schema}"
    (views, *past), (views_there, *past_there) = (told_of(url, log) for url in urls)

    assert [] == [name for name, found in views.items() if not found]
    assert views == views_there
    assert past == past_there


def test_names_of_any_length_are_written_to_postgresql_by_record_and_by_checkpoint(server: str) -> None:
    """A B-tree takes rows of up to 2,704 bytes; one is there from an earlier release."""
    schema, name = "long", "".join(Random(1).choices(ascii_letters, k=4_000))
    with reading(server).begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    url = f"{server}?options=-csearch_path%3D{schema}"
    written = Written(url)
    with written.engine.begin() as connection:
        connection.exec_driver_sql("CREATE INDEX configs_key ON configs (resource_type, resource_name, name)")
    written.close()
    entity, entities = ClientQuotaRecord.EntityData, ("user", name)
    log: list[Message] = [
        ClientQuotaRecord((entity(*entities),), "producer_byte_rate", 1.0),
        ClientQuotaRecord((entity(*entities),), "producer_byte_rate", 2.0),
        ConfigRecord(GROUP, name, "consumer.session.timeout.ms", "45000"),
        ConfigRecord(BROKER, "1", name, name),
        UserScramCredentialRecord(name, 1, b"s", b"k", b"v", 4096),
    ]
    more = [*log, ConfigRecord(BROKER, "2", name, name)]
    written = Written(url)
    written.follow(log)
    written.write()
    by_record = written.present(), written.rows_at(1)
    written.load(more)
    by_checkpoint = written.present()
    written.close()

    assert rows_after(log) == {each: in_order(found) for each, found in by_record[0].items()}
    assert rows_after(log[:1]) == {each: in_order(found) for each, found in by_record[1].items()}
    assert rows_after(more) == {each: in_order(found) for each, found in by_checkpoint.items()}


def test_a_server_notices_within_half_a_minute_that_the_host_of_the_writer_has_died(server: str) -> None:
    """Else the lock of its session stays for hours: the settings are those of the session that has it."""
    engine = sa.create_engine(server, poolclass=sa.StaticPool)
    database = StateDatabase(engine)
    assert database.lock()
    with engine.connect() as connection:
        idle, interval, count, unread_ms = (
            int(connection.scalar(sa.text("SELECT setting FROM pg_settings WHERE name = :name"), {"name": name}) or 0)
            for name in ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
        )
    database.close()

    assert 0 < idle + interval * count <= 30
    assert 0 < unread_ms <= 30_000


def test_views_of_a_later_release_and_of_others_stay_on_postgresql(server: str) -> None:
    """A rollback finds a view with a column more; then a table grows, on whose history somebody's view stands."""
    schema, log = "rollback", whole(write(Random(5), 200))
    with reading(server).begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    url = f"{server}?options=-csearch_path%3D{schema}"
    written = Written(url)
    written.load(log)
    with written.engine.begin() as connection:
        connection.exec_driver_sql("DROP VIEW rack_load")
        connection.exec_driver_sql("CREATE VIEW rack_load AS SELECT 1 AS broker_id, 2 AS more")
        for table in ("brokers", "brokers_past"):
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN rack CASCADE")
        connection.exec_driver_sql("CREATE VIEW brokers_history AS SELECT valid_to_ms, broker_id FROM brokers_past")
        connection.exec_driver_sql("CREATE VIEW mine AS SELECT broker_id FROM brokers_history")
    written.close()
    written = Written(url)
    left = written.database.left_views
    written.begin(log)
    written.database.replace(written.following.image, before=written.at, after=applied(len(log)))
    now = written.rows_at(len(log) + 1)
    with written.engine.connect() as connection:
        mine = [broker for (broker,) in connection.exec_driver_sql("SELECT broker_id FROM mine")]
    written.close()

    assert ["rack_load"] == left
    assert rows_after(log) == {each: in_order(found) for each, found in now.items()}
    assert {row[0] for row in now["brokers"]} <= set(mine)


def rows_after(log: list[Message]) -> dict[str, list[Row]]:
    return {name: in_order(rows(noun, Image(state=replayed(log)))) for name, noun in NOUNS.items()}


def told_of(url: str, log: list[Message]) -> list[Any]:
    """The rows of views and listings, changes, a difference, the offset at a time, a state, after a second start."""
    written = Written(url)
    written.follow(log)
    written.follow([])
    written.write()
    written.close()
    written = Written(url)
    with written.engine.connect() as connection:
        views = {name: in_order(map(tuple, connection.exec_driver_sql(f"SELECT * FROM {name}"))) for name in VIEWS}
        listings = [
            in_order(map(tuple, connection.exec_driver_sql(listing_query(noun, name=name))))
            for noun in LISTINGS
            for name in (None, "1*")
        ]
    written.close()
    reader = StateReader(sa.create_engine(url))
    with reader.reading() as past:
        changes = listed(past, None, limit=50, end=len(log))
        found = [views, listings, changes, list(past.diff(ALL, 50, 200)), past.offset_at(1_100, end=len(log))]
        found.append(sorted(map(repr, past.records(150))))
    reader.close()
    return found


def test_checkpoints_are_the_same_rows_on_postgresql_and_sqlite(tmp_path: Path, server: str) -> None:
    """The first one is copied, of the second one the difference is written; whatever a text has."""
    schema, log = "checkpoints", whole(write(Random(8), 300))
    log += [
        ConfigRecord(TOPIC, topic.name, "retention.ms", value)
        for topic, value in zip(replayed(log).topics, ("\t\n\r\\N", "\0", "\\.", '"', "größe"), strict=False)
    ]
    with reading(server).begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    urls = f"sqlite:///{tmp_path}/state.db", f"{server}?options=-csearch_path%3D{schema}"
    here, there = (loaded_twice(url, log) for url in urls)

    assert here == there
    assert "\t\n\r\\N" in {row[3] for row in there[0]["configs"]}


def loaded_twice(url: str, log: list[Message]) -> list[dict[str, list[Row]]]:
    """The present rows, and those of the first checkpoint's offset, after two checkpoints of a log."""
    written = Written(url)
    written.load(log[: len(log) // 2])
    written.load(log)
    found = written.present(), written.rows_at(len(log) // 2)
    written.close()
    return [{name: in_order(shown(each)) for name, each in tables.items()} for tables in found]


def shown(found: Iterable[Row]) -> list[Row]:
    """Rows as PostgreSQL has them, which takes no NUL."""
    return [tuple(each.replace("\0", "\ufffd") if isinstance(each, str) else each for each in row) for row in found]


def test_on_postgresql_the_role_of_who_reads_can_do_nothing_else(server: str) -> None:
    """The role is made as the README says; each statement gets the reason of its refusal, and nothing has changed."""
    schema, log = "hostile", whole(write(Random(9), 100))
    kept_url = f"{server}?options=-csearch_path%3D{schema}"
    with reading(server).begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    written = Written(kept_url)
    with written.engine.begin() as connection:
        for line in (each.strip() for each in ROLE.splitlines()):
            connection.exec_driver_sql(line.replace("public", schema).replace("20s", "200ms"))
    written.load(log)
    before = written.present()
    url = sa.make_url(kept_url).set(username="reader", password="theirs")
    told = dict[str, str]()
    for sql, why in HOSTILE.items():
        with reading(url.render_as_string(hide_password=False)).connect() as connection:
            lifted = f"SET SESSION CHARACTERISTICS AS TRANSACTION READ {'WRITE' if why is DENIED else 'ONLY'}"
            connection.exec_driver_sql(lifted)
            connection.commit()
            with pytest.raises(sa.exc.DBAPIError) as refused:
                connection.exec_driver_sql(sql).fetchall()
            told[sql] = getattr(refused.value.orig, "sqlstate", "")
    after = written.present()
    written.close()

    assert HOSTILE == told
    assert before == after
    assert before["topics"]
    assert ROLE in (Path(__file__).parents[3] / "services/observer/DATABASE.md").read_text()


async def test_an_observer_that_is_killed_at_any_point_neither_loses_nor_repeats_a_change(tmp_path: Path) -> None:
    """`make observer-kills` does it a hundred times."""
    await killed(tmp_path, f"sqlite:///{tmp_path}/state.db", kills=2, seed=5)


async def killed(directory: Path, url: str, *, kills: int, seed: int) -> None:
    """Kills an observer's process again and again while records are written, each time once a drawn offset is there."""
    engine, batches, chance = reading(url), batches_of(60 * (kills + 1), seed), Random(seed)
    async with node(directory) as (driver, log):
        for part in range(kills + 1):
            some = batches[part * len(batches) // (kills + 1) : (part + 1) * len(batches) // (kills + 1)]
            cut = chance.randrange(1, len(some)) if part < kills else len(some)
            (port,) = free_ports(1)
            async with observing(log, port, f"127.0.0.1:{port}", **{"observer.state.database.url": url}) as process:
                await reached(engine, await append(driver, some[:cut]))
                await append(driver, some[cut:])
                process.kill()
                await process.wait()
            assert expected_by(batches, end_of(engine)) == rows_of(engine)

    for count in range(1, len(batches), kills):
        end = 1 + sum(map(len, batches[:count]))
        assert (end, expected(batches[:count])) == (end, history_at(engine, end))


def expected_by(batches: Sequence[Sequence[Message]], end: Offset) -> dict[str, list[Row]]:
    """The rows after the batches below an offset, which one of them must end at."""
    ends = list(accumulate(map(len, batches), initial=1))
    return expected(batches[: ends.index(end)])


async def test_a_file_that_is_no_database_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text(100 * "so long, ")
    keeper = StateKeeper(f"sqlite:///{tmp_path}/letter", partial(LogReader, ["127.0.0.1:1"], open_channel))
    with pytest.raises(ConfigError, match="must be a database that we may use: file is not a database"):
        await keeper.run()
    await keeper.close()
