"""Logs and checkpoints that a Kafka release wrote: replay, and compare at every checkpoint.

Looks for `*.log` and `*.checkpoint` below `tests/interop/fixtures`. The bytes are read by kafka-python, which
shares no code with ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.record import MemoryRecords

from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.records import decode_record, encode_record
from tests.metadata.test_kafka_images import in_our_order

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
LOGS = sorted({path.parent for path in FIXTURES.rglob("*.log") if path.stem.isdigit()})
# The one at offset 0 holds what the cluster was formatted with, not what a log amounts to.
CHECKPOINTS = sorted(path for path in FIXTURES.rglob("*.checkpoint") if path.name[:20].strip("0").isdigit())

needs_logs = pytest.mark.skipif(
    not LOGS, reason=f"no logs of Kafka nodes below {FIXTURES.name}/: `make interop` makes them"
)
needs_checkpoints = pytest.mark.skipif(not CHECKPOINTS, reason=f"no checkpoints of Kafka nodes below {FIXTURES.name}/")


def values(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, value) of each data record of a file."""
    batches = MemoryRecords(path.read_bytes())
    while (batch := batches.next_batch()) is not None:
        if not batch.is_control_batch:
            yield from ((record.offset, record.value) for record in batch)


def log_of(directory: Path) -> list[tuple[int, bytes]]:
    return [pair for path in sorted(directory.glob("*.log")) if path.stem.isdigit() for pair in values(path)]


def replayed(log: list[tuple[int, bytes]], state: ClusterState | None = None) -> ClusterState:
    state = state or ClusterState()
    for offset, value in log:
        state.apply(decode_record(value), offset)
        state.settle()
    return state


def loaded(path: Path) -> ClusterState:
    state = ClusterState()
    state.load((decode_record(value) for _, value in values(path)), end_of(path))
    return state


def end_of(checkpoint: Path) -> int:
    return int(checkpoint.name[:20])


@needs_logs
@pytest.mark.parametrize("directory", LOGS, ids=str)
def test_replays_every_record(directory: Path) -> None:
    log = log_of(directory)
    state = replayed(log) if log[0][0] < 10 else None  # a log that was cut needs the checkpoint before it

    assert log
    assert state is None or not len(state.unknown)


@needs_checkpoints
@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=lambda path: path.name)
def test_a_checkpoint_is_the_log_before_it_and_the_rest_makes_the_whole(checkpoint: Path) -> None:
    log = log_of(checkpoint.parent)
    if not log or log[0][0] > 10:
        pytest.skip(f"the log before {checkpoint.name} is not there any more")
    end = end_of(checkpoint)
    ours = replayed([pair for pair in log if pair[0] < end])
    theirs = loaded(checkpoint)

    assert canonical(ours) == canonical(theirs)
    assert canonical(replayed(log)) == canonical(replayed([pair for pair in log if pair[0] >= end], theirs))


@needs_checkpoints
@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=lambda path: path.name)
def test_writes_a_checkpoint_back_record_by_record(checkpoint: Path) -> None:
    theirs = [value for _, value in values(checkpoint)]
    ours = [encode_record(record, version) for record, version in loaded(checkpoint).records()]

    assert Counter(map(in_our_order, theirs)) == Counter(ours)
    assert theirs[:1] == ours[:1]
