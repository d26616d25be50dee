"""The observer's database of the state: how long a checkpoint takes into it, the peak of memory, and questions.

SQLite, and PostgreSQL if there is one here: the CPU of its server is not this process's, and so is not counted.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quorate.runtime.following.log_reader import LoadedSnapshot
from quorate.sql.state_database import StateDatabase
from quorate.storage.names import checkpoint_file
from services.observer.engines import engine_of, reading_engine_of
from services.observer.state_log import loaded
from tests.bench.controller_nodes import CHECKPOINT, write_checkpoint
from tests.bench.measure import REPEATS, Table
from tests.bench.synthetic import Shape
from tests.pipeline.postgres import absent, postgres

SIZES: Final = (100_000, 1_000_000)
ASKED: Final = 3
QUESTIONS: Final = {
    "one partition": "SELECT leader FROM partitions WHERE topic = '{topic}' AND partition_id = 0",
    "under_replicated": "SELECT count(*) FROM under_replicated",
    "under_min_isr": "SELECT count(*) FROM under_min_isr",
    "history of one": "SELECT * FROM partitions_history WHERE topic = '{topic}' AND partition_id = 0",
}


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """One line for each size and database, the medians of some runs, each in a process of its own."""
    data: list[Mapping[str, float | str]] = []
    for partitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint(Shape(partitions=partitions), [Path(folder)])
            for name, place in DATABASES.items():
                if name != SQLITE and absent() is not None:
                    continue
                runs = []
                for _ in range(REPEATS):
                    with place() as url:
                        runs.append(_measured(folder, url))
                medians = {what: statistics.median(each[what] for each in runs) for what in runs[0]}
                data.append({"database": name, "partitions": partitions, **medians})
    figures = ("decode s", "write s", "of CPU", "peak MB", *(f"{name} ms" for name in QUESTIONS))
    rows = [
        [str(each["database"]), f"{each['partitions']:,}", *(f"{each[name]:,.2f}" for name in figures)] for each in data
    ]
    columns = ("database", "partitions", *figures)
    return [Table(title="a checkpoint into the observer's database", columns=columns, rows=rows, data=data)]


@contextmanager
def _file() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/state.db"


@contextmanager
def _server() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="quorate-postgres-") as folder, postgres(Path(folder)) as url:
        yield url


SQLITE: Final = "SQLite"
DATABASES: Final = {SQLITE: _file, "PostgreSQL": _server}


def _measured(folder: str, url: str) -> Mapping[str, float]:
    command = [sys.executable, "-m", "tests.bench.state_database", folder, url]
    told: Mapping[str, float] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return told


def _measure(folder: Path, url: str) -> Mapping[str, float]:
    """What one process takes for it; its peak is before the questions."""
    data = checkpoint_file(folder, CHECKPOINT).read_bytes()
    snapshot = LoadedSnapshot(end_offset=CHECKPOINT.offset, epoch=CHECKPOINT.epoch, data=data)
    begun = time.perf_counter()
    following, applied = asyncio.run(loaded(snapshot, "bench"))
    decoded, begun_cpu = time.perf_counter(), time.process_time()
    database = StateDatabase(engine_of(url, synchronous="NORMAL"))
    assert database.claim()
    database.replace(following.image, before=None, after=applied)
    written, cpu = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    database.close()
    return {
        "decode s": decoded - begun,
        "write s": written - decoded,
        "of CPU": cpu - begun_cpu,
        "peak MB": peak,
        **_questions(url),
    }


def _questions(url: str) -> Mapping[str, float]:
    """How long each question takes by the driver, the median of some times."""
    took: dict[str, float] = {}
    engine = reading_engine_of(url)
    with engine.connect() as connection:
        ((topic,),) = connection.exec_driver_sql("SELECT name FROM topics LIMIT 1 OFFSET 5").fetchall()
        for name, query in QUESTIONS.items():
            times = []
            for _ in range(ASKED):
                begun = time.perf_counter()
                assert connection.exec_driver_sql(query.format(topic=topic)).fetchall()
                times.append(time.perf_counter() - begun)
            took[f"{name} ms"] = 1_000 * statistics.median(times)
    engine.dispose()
    return took


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), sys.argv[2])))
