"""A quorum node warns of feature levels in its log that this release does not know, however they came there."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.records import FeatureLevelRecord, NoOpRecord, encode_record
from quorate.wire.batch import data_batch
from services.quorum.disk import Disk
from services.quorum.feature_levels import UNFAMILIAR
from tests.services.nodes import open_disk

BELOW, KNOWN = 4, 21
SAID = "metadata.version is at level 4 (3.3-IV0); known here are 7 to "


def level(value: int, name: str = "metadata.version") -> bytes:
    return encode_record(FeatureLevelRecord(name=name, feature_level=value), 0)


def put(disk: Disk, *values: bytes) -> None:
    batch = data_batch(
        base_offset=disk.log.leo, epoch=2, timestamp_ms=1, values=[*values, encode_record(NoOpRecord(), 0)]
    )
    disk.append(batch)


def checkpoint(disk: Disk, *values: bytes) -> OffsetAndEpoch:
    """One of a later state, as a leader sends it to a node that is far behind."""
    end = OffsetAndEpoch(epoch=2, offset=disk.log.leo + 10)
    made = disk.begin_snapshot(end, 1)
    made.write(list(values))
    disk.add_snapshot(end, made.finish())
    return end


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(each.__dict__) for each in caplog.records if each.getMessage() == UNFAMILIAR]


def test_a_level_below_those_known_is_said_when_it_is_written_and_at_each_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = open_disk(tmp_path)
    put(disk, level(BELOW))
    put(disk, level(BELOW))
    (written,) = said(caplog)
    disk.close()
    caplog.clear()
    disk = open_disk(tmp_path)
    disk.levels.warn()
    (found,) = said(caplog)

    assert SAID in written
    assert SAID in found
    disk.close()


def test_a_level_in_a_snapshot_is_said_when_it_replaces_the_log_and_at_each_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = open_disk(tmp_path)
    put(disk, level(KNOWN))
    disk.install(checkpoint(disk, level(BELOW)))
    (installed,) = said(caplog)
    disk.close()
    caplog.clear()
    disk = open_disk(tmp_path)
    disk.levels.warn()
    (found,) = said(caplog)
    put(disk, level(KNOWN))
    disk.levels.warn()

    assert SAID in installed
    assert SAID in found
    assert 1 == len(said(caplog))
    disk.close()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((level(KNOWN),), 0),
        ((), 0),
        ((level(BELOW), level(KNOWN)), 0),
        ((level(KNOWN), level(1, "unheard.of")), 1),
        ((level(KNOWN), level(1, "unheard.of"), level(0, "unheard.of")), 0),
    ],
)
def test_what_is_known_or_was_changed_back_is_not_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, values: tuple[bytes, ...], expected: int
) -> None:
    disk = open_disk(tmp_path)
    put(disk, *values)
    disk.levels.warn()

    assert expected == len(said(caplog))
    disk.close()
