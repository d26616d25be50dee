"""P8, P9: writing a checkpoint of a large cluster and becoming one again: time, and bytes of memory a partition.

Each measurement is a process of its own, because memory that was used once is not always given back.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.nouns import OffsetAndEpoch
from quorate.records import SnapshotFooterRecord, SnapshotHeaderRecord, decode_record, encode_record
from quorate.storage.snapshots import SnapshotReader, SnapshotWriter
from quorate.wire.batch import ControlType
from quorate.wire.codec import encode
from tests.bench.measure import REPEATS, Table, calibrate, memory
from tests.bench.synthetic import Shape, cluster

SIZES: Final = (100_000, 1_000_000)
LOAD_TARGETS: Final = {1_000_000: "≤ 6 s, ≤ 600 MB (P8)", 2_000_000: "≤ 8 s, ≤ 160 B (P9)"}
SNAPSHOT: Final = OffsetAndEpoch(epoch=1, offset=1)
COLUMNS: Final = (
    *("partitions", "what", "seconds", "of CPU", "partitions/s", "per loop"),
    *("B/partition", "peak MB", "file MB", "target"),
)


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """One table for all sizes: two lines each, one for writing and one for loading."""
    rows, data = [], []
    for partitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            written = _median([_child("write", folder, partitions)])
            loaded = _median([_child("load", folder, partitions) for _ in range(REPEATS)])
        for what, found in (("write", written), ("load", loaded)):
            data.append({"partitions": partitions, "what": what, **found})
            rows.append(_row(partitions, what, found))
    return [Table(title="P8, P9: checkpoints", columns=COLUMNS, rows=rows, data=data)]


def _row(partitions: int, what: str, found: Mapping[str, float]) -> tuple[str, ...]:
    return (
        f"{partitions:,}",
        what,
        f"{found['seconds']:.2f}",
        f"{found['cpu_seconds']:.2f}",
        f"{partitions / found['cpu_seconds'] / 1000:,.0f} k/s",
        f"{partitions / found['cpu_seconds'] * found['loop']:,.0f}",
        f"{found['state_bytes'] / partitions:.0f}" if what == "load" else "",
        f"{found['peak_bytes'] / 1e6:,.0f}",
        f"{found['file_bytes'] / 1e6:,.0f}",
        LOAD_TARGETS.get(partitions, "") if what == "load" else "",
    )


def _median(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _child(what: str, folder: str, partitions: int) -> Mapping[str, float]:
    command = [sys.executable, "-m", "tests.bench.checkpoint", what, folder, str(partitions)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    found: Mapping[str, float] = json.loads(finished.stdout)
    return found


# -- in the child --------------------------------------------------------------------------------------


class Watch:
    """Two clocks that were started together."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Seconds since then, and how many of them this process had a CPU."""
        return {"seconds": time.perf_counter() - self._wall, "cpu_seconds": time.process_time() - self._cpu}


def write(folder: Path, partitions: int) -> Mapping[str, Any]:
    """Replay such a cluster, and write it down `REPEATS` times."""
    state = ClusterState()
    for offset, record in enumerate(cluster(Shape(partitions=partitions))):
        state.apply(record, offset)
    runs = []
    for _ in range(REPEATS):
        watch = Watch()
        size = _write(state, folder)
        runs.append({**watch.read(), "loop": calibrate(), **_sizes(size, before=0)})
    return _median(runs)


def _write(state: ClusterState, folder: Path) -> int:
    writer = SnapshotWriter(folder, SNAPSHOT, timestamp_ms=0)
    writer.control([(ControlType.SNAPSHOT_HEADER, encode(SnapshotHeaderRecord(), 0))])
    writer.data(encode_record(record, version) for record, version in state.records(LATEST))
    return writer.finish(encode(SnapshotFooterRecord(), 0))


def load(folder: Path, partitions: int) -> Mapping[str, Any]:
    """Open the checkpoint, check it, and become what it says, with the collector on."""
    (path,) = folder.glob("*.checkpoint")
    state = ClusterState()
    gc.collect()
    loop = calibrate()
    before = memory()["anonymous"]
    watch = Watch()
    reader = SnapshotReader(path)
    state.load(map(decode_record, reader.values()), SNAPSHOT.offset)
    seconds = watch.read()
    reader.close()
    assert state.topics.partition_count == partitions
    return {**seconds, "loop": loop, **_sizes(path.stat().st_size, before=before)}


def _sizes(file_bytes: int, *, before: int) -> Mapping[str, int]:
    found = memory()
    return {"state_bytes": found["anonymous"] - before, "peak_bytes": found["peak"], "file_bytes": file_bytes}


if __name__ == "__main__":
    _, wanted, where, how_many = sys.argv
    print(json.dumps({"write": write, "load": load}[wanted](Path(where), int(how_many))))
