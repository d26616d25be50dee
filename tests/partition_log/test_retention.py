"""Old segments go, by age, by size and below the log start; only whole ones, and only what is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.partition_log import Limits, PartitionLog
from tests.partition_log.batches import NOW_MS, opened, produced

SIZE = len(produced())
NEVER = -1


def filled(directory: Path, **settings: Any) -> PartitionLog:
    """Nine records, a second apart, three a segment; the last one at NOW_MS."""
    limits = Limits(segment_bytes=3 * SIZE)
    log = opened(directory, settings={"limits": limits, "retention_ms": NEVER, **settings})
    for at in range(9):
        log.append_as_leader(produced(timestamp_ms=NOW_MS - 8000 + at * 1000), epoch=0, now_ms=NOW_MS)
    return log


KEPT = {
    "all, by default of none": ({}, 9, 0, 0),
    "by age, what is older than 4 s": ({"retention_ms": 4000}, 9, 0, 3),
    "by age, all of it, the last segment too": ({"retention_ms": 4000}, 9, 60_000, 9),
    "by size, what leaves at least that many": ({"retention_bytes": 4 * SIZE}, 9, 0, 3),
    "by size, to nothing": ({"retention_bytes": 0}, 9, 0, 9),
    "only what is committed": ({"retention_bytes": 0}, 5, 0, 3),
    "not of a topic that is compacted": ({"retention_bytes": 0, "deletes": False}, 9, 0, 0),
}


@pytest.mark.parametrize(("settings", "high_watermark", "later_ms", "start"), KEPT.values(), ids=KEPT)
def test_retention(tmp_path: Path, settings: dict[str, Any], high_watermark: int, later_ms: int, start: int) -> None:
    log = filled(tmp_path, **settings)
    log.delete_old(high_watermark=high_watermark, now_ms=NOW_MS + later_ms)

    assert (start, 9, (9 - start) * SIZE) == (log.start, log.leo, log.size)
    assert 9 == log.append_as_leader(produced(), epoch=0, now_ms=NOW_MS).base_offset
    log.abandon()


def test_what_lies_below_the_log_start_goes_segment_by_segment(tmp_path: Path) -> None:
    log = filled(tmp_path, deletes=False)
    log.raise_start(7)
    log.delete_old(high_watermark=9, now_ms=NOW_MS)

    assert (7, 9, 3 * SIZE) == (log.start, log.leo, log.size)
    log.abandon()


def test_a_reader_keeps_what_it_has_until_the_files_are_deleted(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_bytes=0)
    slice_ = log.read(0, 9, max_bytes=1)
    assert slice_ is not None
    log.delete_old(high_watermark=9, now_ms=NOW_MS)
    assert SIZE == len(slice_.read())
    assert 3 == len(list((tmp_path / "t-0").glob("*.deleted")))
    log.remove_retired()

    assert [] == list((tmp_path / "t-0").glob("*.deleted"))
    log.abandon()


def test_a_segment_is_full_by_size_by_age_and_by_offsets(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_ms=1000, limits=Limits())
    assert 9 == len(list((tmp_path / "t-0").glob("*.log"))), "a segment of one second has one record"
    log.abandon()
