"""`quorate sql` on a checkpoint of a large cluster: seconds from the command's start to its end, CPU, peak memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.bench.controller_nodes import write_checkpoint
from tests.bench.measure import REPEATS, Table
from tests.bench.synthetic import Shape

SIZES: Final = (100_000, 1_000_000)
QUESTIONS: Final = {
    "topics": "SELECT count(*) FROM topics",
    "one partition": "SELECT leader FROM partitions WHERE partition_id = 0 LIMIT 1",
    "under_replicated": "SELECT count(*) FROM under_replicated",
    "under_min_isr": "SELECT count(*) FROM under_min_isr",
    "rack_load": "SELECT * FROM rack_load",
}


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """One line for each size and question, the medians of some runs."""
    data: list[Mapping[str, float | str]] = []
    for partitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint(Shape(partitions=partitions), [Path(folder)])
            for name, query in QUESTIONS.items():
                runs = [_asked(query, folder) for _ in range(REPEATS)]
                medians = {what: statistics.median(each[what] for each in runs) for what in runs[0]}
                data.append({"partitions": partitions, "question": name, **medians})
    rows = [
        (
            f"{each['partitions']:,}",
            str(each["question"]),
            *(f"{each[what]:.2f}" for what in ("seconds", "cpu_seconds")),
            f"{each['peak_mb']:,.0f}",
        )
        for each in data
    ]
    columns = ("partitions", "question", "seconds", "of CPU", "peak MB")
    return [Table(title="quorate sql --offline on a checkpoint", columns=columns, rows=rows, data=data)]


def _asked(query: str, folder: str) -> Mapping[str, float]:
    begun = time.perf_counter()
    command = [sys.executable, "-m", "quorate.cli", "sql", query, "--offline", folder]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, status
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}
