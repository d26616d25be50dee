"""Very many segments, as a producer makes them whose timestamps lie far apart, take few descriptors."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.partition_log import OpenFiles, PartitionLog, segment
from quorate.wire.batch import batches
from tests.partition_log.batches import NOW_MS, opened, produced

SEGMENTS = 120
AT_MOST = 4
LEFT = 3 * AT_MOST + 3 * 16 + 20
"""Descriptors that the process may open yet: of the segments that are open, of those while a log is opened, others."""
assert LEFT < SEGMENTS


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + LEFT, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def offsets(log: PartitionLog) -> list[int]:
    """The first offset of each batch, as each is read from its segment."""
    found = []
    for offset in range(log.leo):
        slice_ = log.read(offset, log.leo, max_bytes=1)
        assert slice_ is not None
        ((_, header),) = batches(slice_.read())
        found.append(header.base_offset)
    return found


@pytest.mark.usefixtures("few_descriptors")
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
def test_a_log_of_many_segments_is_written_read_and_opened_again(tmp_path: Path, is_clean: bool) -> None:
    files = OpenFiles(AT_MOST)
    log = opened(tmp_path, settings={"segment_ms": 1}, files=files)
    for at in range(SEGMENTS):
        log.append_as_leader(produced(timestamp_ms=NOW_MS - SEGMENTS + at), epoch=0, now_ms=NOW_MS)
    assert SEGMENTS == len(list(log.directory.glob("*.log")))
    assert list(range(SEGMENTS)) == offsets(log)
    found = log.find_time(NOW_MS - SEGMENTS + 7)
    assert found is not None
    assert 7 == found[2].base_offset
    if is_clean:
        log.close()
    else:
        log.abandon()

    again = opened(tmp_path, settings={"segment_ms": 1}, clean=is_clean, files=files)
    assert list(range(SEGMENTS)) == offsets(again)
    assert len(files) <= AT_MOST
    again.truncate(SEGMENTS // 2)
    assert list(range(SEGMENTS // 2)) == offsets(again)
    assert SEGMENTS // 2 == again.append_as_leader(produced(), epoch=0, now_ms=NOW_MS).base_offset
    again.abandon()


def test_a_time_is_found_by_the_index_of_a_segment_whose_files_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of each full segment do after a start; a search without an index looks at so many batches only."""
    monkeypatch.setattr(segment, "LOOKED_AT_MAX", 4)
    log = opened(tmp_path, segment_bytes=60_000)
    for at in range(30):
        log.append_as_leader(produced(size=3_000, timestamp_ms=NOW_MS + at), epoch=0, now_ms=NOW_MS)
    log.close()
    again = opened(tmp_path, segment_bytes=60_000, clean=True)
    found = again.find_time(NOW_MS + 15)
    again.abandon()

    assert 2 == len(list(again.directory.glob("*.log")))
    assert found is not None
    assert 15 == found[2].base_offset
