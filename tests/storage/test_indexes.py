"""The two indexes: every entry points to the batch that it names, and Kafka's own tool finds nothing to say."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.storage.disk_log import DiskLog
from quorate.storage.names import INDEX, TIME_INDEX
from quorate.storage.sparse_index import SparseIndex
from quorate.wire.batch import BatchHeader, batches, read_header
from tests.interop.kafka import release
from tests.interop.kafka.release import java
from tests.storage.logs import batch, last_segment, partition

INTERVAL = 4096

sizes_and_times = st.lists(st.tuples(st.integers(20, 3000), st.integers(0, 5000)), min_size=1, max_size=60)


def write(
    directory: Path, plan: list[tuple[int, int]], *, segment_bytes: int = 1 << 30, cut: int | None = None
) -> None:
    log = DiskLog(directory, segment_bytes=segment_bytes)
    for size, timestamp_ms in plan:
        log.append(batch(log.leo, size=size, timestamp_ms=timestamp_ms, count=2))
    if cut is not None:
        log.truncate_to(2 * cut)
        log.append(batch(log.leo, size=50, timestamp_ms=10, count=2))
    log.close()


def entries(path: Path, form: str) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(form, path.read_bytes()))


def naive_index(data: bytes) -> list[tuple[int, int]]:
    """Last offset and position of the first batch that begins more than the interval after the last that is named."""
    found, named = [], 0
    for position, header in batches(data):
        if position - named > INTERVAL:
            found.append((header.last_offset, position))
            named = position
    return found


def largest(headers: list[BatchHeader]) -> tuple[int, int]:
    """The largest timestamp, and the last offset of the first batch that has it."""
    best = max(headers, key=lambda header: header.max_timestamp)
    return best.max_timestamp, best.last_offset


@settings(deadline=None, max_examples=40)
@given(plan=sizes_and_times, cut=st.none() | st.integers(0, 60))
def test_the_entries_are_those_of_a_naive_walk(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[int, int]], cut: int | None
) -> None:
    directory = tmp_path_factory.mktemp("index")
    write(directory, plan, cut=None if cut is None else min(cut, len(plan)))
    data = last_segment(directory).read_bytes()
    headers = [header for _, header in batches(data)]

    index = entries(last_segment(directory).with_suffix(INDEX), ">ii")
    times = entries(last_segment(directory).with_suffix(TIME_INDEX), ">qi")

    assert naive_index(data) == index
    assert largest(headers) == times[-1]
    assert sorted({timestamp for timestamp, _ in times}) == [timestamp for timestamp, _ in times]
    seen = [largest([each for each in headers if each.last_offset <= last]) for last, _ in index]
    assert set(times) == {*seen, largest(headers)}


def test_every_offset_of_a_log_with_an_index_is_found(tmp_path: Path) -> None:
    plan = [(size, 1000) for size in range(20, 2500, 40)]
    write(tmp_path, plan)
    log = DiskLog(tmp_path)

    for offset in range(log.leo):
        assert offset // 2 * 2 == read_header(log.read(offset, 1)).base_offset

    log.close()


def test_the_batches_from_the_last_entry_on_are_found_without_a_search(tmp_path: Path) -> None:
    write(tmp_path, [(100, 1000)] * 60)
    noted = [
        (header.base_offset, position, header) for position, header in batches(last_segment(tmp_path).read_bytes())
    ]
    entry = [position for _, position in entries(last_segment(tmp_path).with_suffix(INDEX), ">ii")][-1]
    index = SparseIndex(0)
    for _, position, header in noted:
        index.note(header, position)
    recent = {offset: position for offset, position, _ in noted if position >= entry}

    assert 1 < len(recent) < len(noted)
    assert recent == {offset: index.position_before(offset + 1) for offset in recent}  # each has two records
    assert entry == index.truncate(noted[-1][1])
    assert entry == index.position_before(noted[-1][0])  # what the file had there is cut off


def mismatches(directory: Path) -> tuple[int, int, str]:
    """How many files Kafka's tool has read, how many sound batches it saw, and what else it has to say."""
    files = sorted(path for path in partition(directory).iterdir() if path.suffix in (".log", INDEX, TIME_INDEX))
    command = java("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    complaints = [line for line in done.stderr.splitlines() if "SLF4J" not in line]
    return done.stdout.count("Dumping "), done.stdout.count("isvalid: true"), "\n".join(complaints)


@pytest.mark.interop
@pytest.mark.skipif(release.absent() is not None, reason=str(release.absent()))
def test_kafkas_tool_finds_no_mismatch(tmp_path: Path) -> None:
    plan = [(20 + 97 * at % 2000, 1000 + 31 * at % 700) for at in range(200)]
    write(tmp_path, plan, segment_bytes=60_000, cut=190)

    assert (21, 191, "") == mismatches(tmp_path)


@pytest.mark.interop
@pytest.mark.skipif(release.absent() is not None, reason=str(release.absent()))
@pytest.mark.parametrize(
    ("suffix", "at", "reason"), [(INDEX, 3, "Mismatches in"), (TIME_INDEX, 7, "timestamp mismatch")]
)
def test_kafkas_tool_would_find_one(tmp_path: Path, suffix: str, at: int, reason: str) -> None:
    write(tmp_path, [(1000, 1000 + each) for each in range(60)])
    path = last_segment(tmp_path).with_suffix(suffix)
    wrong = bytearray(path.read_bytes())
    wrong[at] += 1
    path.write_bytes(wrong)

    assert reason in mismatches(tmp_path)[2]
