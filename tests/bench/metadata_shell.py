"""One partition of a large checkpoint: `quorate sql --offline` beside Kafka's metadata shell, in turns."""

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

from deploy.kafka.release import SERVER, NotFetched, java
from quorate.metadata.versions import level_of
from quorate.storage.names import checkpoint_file
from tests.bench.controller_nodes import CHECKPOINT, write_checkpoint
from tests.bench.measure import REPEATS, Missing, Table
from tests.bench.synthetic import Shape, topic_name

SIZES: Final = (100_000, 1_000_000)
LEVEL: Final = "4.2-IV1"
"""The shell is 4.3.1's, which reads no checkpoint of a later level than its own."""
HEAP: Final = "4g"
"""What the shell needs at a million partitions."""


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """One line for each size and program: medians of some runs, each a process of its own. Raises Missing."""
    data: list[Mapping[str, float | str]] = []
    for partitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint(Shape(partitions=partitions, level=level_of(LEVEL)), [Path(folder)])
            commands = {"quorate sql": _ours(folder), "Kafka's metadata shell": _kafkas(folder)}
            runs = [{name: _asked(command) for name, command in commands.items()} for _ in range(REPEATS)]
            for name in commands:
                medians = {what: statistics.median(each[name][what] for each in runs) for what in runs[0][name]}
                data.append({"partitions": partitions, "program": name, **medians})
    columns = ("partitions", "program", "seconds", "of CPU", "peak MB")
    rows = [
        (
            f"{each['partitions']:,}",
            str(each["program"]),
            *(f"{each[what]:.2f}" for what in ("seconds", "cpu_seconds")),
            f"{each['peak_mb']:,.0f}",
        )
        for each in data
    ]
    return [Table(title="one partition of a checkpoint", columns=columns, rows=rows, data=data)]


def _ours(folder: str) -> list[str]:
    query = f"SELECT leader FROM partitions WHERE topic = '{topic_name(0)}' AND partition_id = 0"
    return [sys.executable, "-m", "quorate.cli", "sql", query, "--offline", folder]


def _kafkas(folder: str) -> list[str]:
    shell, path = "org.apache.kafka.shell.MetadataShell", f"/image/topics/byName/{topic_name(0)}/0"
    try:
        file = checkpoint_file(Path(folder), CHECKPOINT)
        return java(shell, "--snapshot", file, "cat", path, heap=HEAP, options=SERVER)
    except NotFetched as problem:
        raise Missing(str(problem)) from None


def _asked(command: Sequence[str]) -> Mapping[str, float]:
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, printed
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}
