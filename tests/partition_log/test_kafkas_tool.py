"""Kafka's own tool reads each kind of file that a data partition has, and has nothing to say against it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.interop.kafka import release
from tests.interop.kafka.release import java
from tests.partition_log.batches import NOW_MS, emptied, ended, opened, placed, produced, written

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(release.absent() is not None, reason=str(release.absent())),
]
EXPECTED = ("SLF4J", "Non-consecutive offsets in", "-1 is followed by")
"""With --deep-iteration the tool says so of each segment that does not begin at 0, Kafka's own included."""
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def write(directory: Path) -> None:
    """Three producers, one of them with transactions of which every other one is aborted; segments of 30 kB.

    And one of whose records a log cleaner has left none.
    """
    log = opened(directory, segment_bytes=30_000)
    for at in range(120):
        timestamp_ms = NOW_MS + 31 * at % 700
        size = 20 + 97 * at % 2000
        for producer in (5, 6):
            batch = produced(count=2, size=size // 2, producer=(producer, 1, at * 2), timestamp_ms=timestamp_ms)
            log.append_as_leader(batch, epoch=at // 50, now_ms=NOW_MS)
        if at % 4 == 0:
            batch = produced(producer=(7, 0, at // 4), transactional=True, timestamp_ms=timestamp_ms)
            written(log, batch, epoch=at // 50)
            ended(log, (7, 0), epoch=at // 50, aborts=at % 8 == 0)
    log.truncate(log.leo - 3)
    left = emptied(produced(count=3, producer=(8, 2, 40)))
    log.append_as_follower(placed(left, offset=log.leo, epoch=log.epochs.last_epoch), now_ms=NOW_MS)
    log.close()


def test_kafkas_tool_finds_no_fault(tmp_path: Path) -> None:
    write(tmp_path)
    files = sorted(path for path in (tmp_path / "t-0").iterdir() if path.suffix in SUFFIXES)
    command = java("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, files)))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    complaints = [line for line in done.stderr.splitlines() if not any(each in line for each in EXPECTED)]
    bases = [str(int(path.stem)) for path in files if path.suffix == ".log"]

    assert ([], len(files)) == (complaints, done.stdout.count("Dumping "))
    assert set(SUFFIXES) == {path.suffix for path in files}
    assert sorted(bases[1:]) == sorted(re.findall(r"-1 is followed by (\d+)", done.stderr))
    assert (299, 0) == (done.stdout.count("isvalid: true"), done.stdout.count("isvalid: false"))
    assert "version: 0 producerId: 7 firstOffset: 4 lastOffset: 5 lastStableOffset: 6" in done.stdout.splitlines()
    states = re.findall(r"^producerId: (\d+) producerEpoch: (\d+) .* lastSequence: (\d+) ", done.stdout, re.M)
    assert [("5", "1", "237"), ("6", "1", "237"), ("7", "0", "29"), ("8", "2", "42")] == states[-4:]
