"""The observer's database of the state: how long a checkpoint takes into SQLite, the peak of memory, and questions."""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from quorate.runtime.log_reader import LoadedSnapshot
from quorate.sql.guarded import Caps, GuardedConnection
from quorate.sql.kept import KeptDatabase
from quorate.storage.names import checkpoint_file
from services.observer.engines import engine_of
from services.observer.state_log import loaded
from tests.bench.controller_nodes import CHECKPOINT, write_checkpoint
from tests.bench.measure import REPEATS, Table
from tests.bench.synthetic import Shape

SIZES: Final = (100_000, 1_000_000)
QUESTIONS: Final = {
    "one partition": "SELECT leader FROM partitions WHERE topic = '{topic}' AND partition_id = 0",
    "under_replicated": "SELECT count(*) FROM under_replicated",
    "under_min_isr": "SELECT count(*) FROM under_min_isr",
    "history of one": "SELECT * FROM partitions_history WHERE topic = '{topic}' AND partition_id = 0",
}


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """One line for each size, the medians of some runs, each in a process of its own."""
    data: list[Mapping[str, float]] = []
    for partitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint(Shape(partitions=partitions), [Path(folder)])
            runs = [_measured(folder) for _ in range(REPEATS)]
            medians = {name: statistics.median(each[name] for each in runs) for name in runs[0]}
            data.append({"partitions": partitions, **medians})
    columns = (
        "partitions",
        "decode s",
        "write s",
        "of CPU",
        "peak MB",
        "file MB",
        *(f"{name} ms" for name in QUESTIONS),
    )
    rows = [[f"{each['partitions']:,.0f}", *(f"{each[name]:,.2f}" for name in columns[1:])] for each in data]
    return [Table(title="a checkpoint into the observer's SQLite", columns=columns, rows=rows, data=data)]


def _measured(folder: str) -> Mapping[str, float]:
    command = [sys.executable, "-m", "tests.bench.state_database", folder]
    told: Mapping[str, float] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return told


def _measure(folder: Path) -> Mapping[str, float]:
    """What one process takes for it; its peak is before the questions."""
    data = checkpoint_file(folder, CHECKPOINT).read_bytes()
    snapshot = LoadedSnapshot(end_offset=CHECKPOINT.offset, epoch=CHECKPOINT.epoch, data=data)
    begun = time.perf_counter()
    following, applied = asyncio.run(loaded(snapshot, "bench"))
    decoded, begun_cpu = time.perf_counter(), time.process_time()
    file = folder / "state.db"
    for each in folder.glob("state.db*"):
        each.unlink()
    database = KeptDatabase(engine_of(f"sqlite:///{file}", synchronous="NORMAL"))
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
        "file MB": file.stat().st_size / 1e6,
        **_questions(file),
    }


def _questions(file: Path) -> Mapping[str, float]:
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    ((topic,),) = connection.execute("SELECT name FROM topics LIMIT 1 OFFSET 5").fetchall()
    guarded = GuardedConnection(connection, now_s=time.monotonic, caps=Caps())
    took: dict[str, float] = {}
    for name, query in QUESTIONS.items():
        begun = time.perf_counter()
        assert list(guarded.ask(query.format(topic=topic)).rows)
        took[f"{name} ms"] = 1_000 * (time.perf_counter() - begun)
    return took


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]))))
