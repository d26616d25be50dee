"""P9: bytes of memory a partition, and what it costs to hold a state while a tenth of its partitions change.

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
from itertools import islice
from pathlib import Path
from typing import Final

from kraft import Uuid
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.engine.engine import Engine
from quorate.metadata.state import ClusterState
from quorate.records import PartitionChangeRecord, decode_record
from quorate.storage.snapshots import SnapshotReader
from tests.bench.controller_core import commit, write
from tests.bench.controller_nodes import CHECKPOINT, write_checkpoint
from tests.bench.measure import Table, memory
from tests.bench.synthetic import Shape

SIZES: Final = (100_000, 1_000_000)
RUNS: Final = 3
"""Bytes hardly differ from one process to the next."""
ONE_OF: Final = 10
"""So many partitions, one changes."""
BATCH: Final = 1_000
COLUMNS: Final = (
    *("partitions", "state MB", "B/partition", "changed", "MB more", "changes/s", "MB more, held", "changes/s, held"),
    *("price B/change", "of the state"),
)


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """One line for each size. A small state is mostly the lists of replicas, which all partitions share."""
    rows, data = [], []
    for partitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint(Shape(partitions=partitions), [Path(folder)])
            held, free = (_median(what, folder) for what in ("held", "free"))
        rows.append(_row(partitions, held, free))
        data.append({"partitions": partitions, "held": held, "free": free})
    title = f"P9: memory of a state, RF 3, while one partition in {ONE_OF} changes; median of {RUNS} processes"
    return [Table(title=title, columns=COLUMNS, rows=rows, data=data)]


def _row(partitions: int, held: Mapping[str, float], free: Mapping[str, float]) -> tuple[str, ...]:
    price = held["changed_bytes"] - free["changed_bytes"]
    return (
        f"{partitions:,}",
        f"{held['state_bytes'] / 1e6:,.0f}",
        f"{held['state_bytes'] / partitions:,.0f}",
        f"{held['changes']:,.0f}",
        f"{free['changed_bytes'] / 1e6:,.1f}",
        f"{free['changes'] / free['cpu_seconds']:,.0f}",
        f"{held['changed_bytes'] / 1e6:,.1f}",
        f"{held['changes'] / held['cpu_seconds']:,.0f}",
        f"{price / held['changes']:,.0f}",
        f"{price / held['state_bytes']:.1%}",
    )


def _median(what: str, folder: str) -> dict[str, float]:
    runs = [_child(what, folder) for _ in range(RUNS)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _child(what: str, folder: str) -> Mapping[str, float]:
    command = [sys.executable, "-m", "tests.bench.controller_memory", what, folder]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    found: Mapping[str, float] = json.loads(finished.stdout)
    return found


# -- in the child --------------------------------------------------------------------------------------


def measure(what: str, folder: Path) -> Mapping[str, float]:
    """Become what the checkpoint says, hold that or not, and change a tenth of it as a controller does."""
    engine = Engine(ClusterState())
    before = _anonymous()
    _load(engine, folder)
    loaded = _anonymous()
    changing = [(found.topic.id, found.partition_id) for found in islice(engine.state.topics.all(), None, None, ONE_OF)]
    engine.claim(1, CHECKPOINT.offset)
    held = engine.hold_stable() if what == "held" else None
    prepared = _anonymous()
    begun = time.process_time()
    for at in range(0, len(changing), BATCH):
        commit(engine, write(engine, _shrink(changing[at : at + BATCH])))
    seconds = time.process_time() - begun
    changed = _anonymous()
    assert (held is not None) == (CHECKPOINT.offset in engine.state.registry), engine.state.registry.offsets
    return {
        "state_bytes": loaded - before,
        "changes": len(changing),
        "changed_bytes": changed - prepared,
        "cpu_seconds": seconds,
    }


def _load(engine: Engine, folder: Path) -> None:
    (path,) = folder.glob("*.checkpoint")
    reader = SnapshotReader(path)
    engine.load(map(decode_record, reader.values()), end_offset=CHECKPOINT.offset)
    reader.close()


def _shrink(partitions: Sequence[tuple[Uuid, int]]) -> Command[None]:
    """The last replica of each leaves the ISR."""

    def command(state: ClusterState, _: Moment) -> Decision[None]:
        records = []
        for topic_id, partition_id in partitions:
            partition = state.topics.partition(topic_id, partition_id)
            assert partition is not None, (topic_id, partition_id)
            records.append(PartitionChangeRecord(partition_id, topic_id, isr=partition.isr[:-1]))
        return Decision(None, tuple(records))

    return command


def _anonymous() -> int:
    gc.collect()
    return memory()["anonymous"]


if __name__ == "__main__":
    _, wanted, where = sys.argv
    print(json.dumps(measure(wanted, Path(where))))
