"""Which log directories a broker opens, and what it tells the controller of its last stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import parse_uuid
from quorate.partition_log.clean_shutdown import leave_mark
from quorate.runtime.settings.config import ConfigError
from quorate.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from services.broker.directories import LogDirectories

IDS = ("CJFL84klQ_W6vw9j6V3SwA", "kLSz5GMuQvqdRUR2aG8teA")


def formatted(path: Path, directory_id: Uuid | None, *, node_id: int = 101, cluster_id: str = "ours") -> Path:
    path.mkdir()
    write_meta_properties(path, MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id))
    return path


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two directories of broker 101."""
    return [formatted(tmp_path / text, parse_uuid(text)) for text in IDS]


@pytest.mark.parametrize(
    ("marks", "previous"),
    [((7, 7), 7), ((7, 8), -1), ((7, None), -1), ((None, None), -1), ((-1, -1), -1)],
    ids=["both", "two stops", "one", "none", "an older Kafka's"],
)
def test_a_stop_was_clean_if_all_directories_say_so_of_the_same_epoch(
    disks: list[Path], marks: tuple[int | None, int | None], previous: int
) -> None:
    for disk, epoch in zip(disks, marks, strict=True):
        if epoch is not None:
            leave_mark(disk, broker_epoch=epoch)
    directories = LogDirectories(disks, 101)

    assert previous == directories.previous_broker_epoch

    directories.begin()
    directories.release()
    killed = LogDirectories(disks, 101)

    assert -1 == killed.previous_broker_epoch

    killed.leave_marks(9)
    killed.release()

    assert 9 == LogDirectories(disks, 101).previous_broker_epoch


def test_a_directory_without_an_id_gets_one_that_stays(tmp_path: Path) -> None:
    """Those formatted before KIP-858 have none."""
    disk = formatted(tmp_path / "old", None)
    directories = LogDirectories([disk], 101)
    directories.release()
    meta = read_meta_properties(disk)

    assert meta is not None
    assert directories.all[0].id == meta.directory_id == LogDirectories([disk], 101).all[0].id


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (
            MetaProperties(cluster_id="ours", node_id=102, directory_id=None),
            "node.id is 102, the configuration says 101",
        ),
        (MetaProperties(cluster_id="other", node_id=101, directory_id=None), "cluster.id is other, ours is expected"),
        (MetaProperties(cluster_id="ours", node_id=101, directory_id=parse_uuid(IDS[0])), "one is a copy of the other"),
        (None, "the directory is not formatted"),
    ],
    ids=["another broker's", "another cluster's", "a copy", "empty"],
)
def test_what_is_not_this_broker_s_is_not_opened(
    disks: list[Path], tmp_path: Path, other: MetaProperties | None, reason: str
) -> None:
    (tmp_path / "other").mkdir()
    if other is not None:
        write_meta_properties(tmp_path / "other", other)
    with pytest.raises(Corrupt, match=reason):
        LogDirectories([*disks, tmp_path / "other"], 101)

    LogDirectories(disks, 101).release()  # the refusal has unlocked them


def test_a_directory_that_is_in_use_or_missing_is_named(disks: list[Path], tmp_path: Path) -> None:
    first = LogDirectories(disks[:1], 101)
    with pytest.raises(ConfigError, match=rf"log.dirs = {disks[0]}: .* is locked by this process"):
        LogDirectories(disks, 101)
    first.release()
    with pytest.raises(ConfigError, match=rf"log.dirs = {tmp_path / 'none'}: .*No such file"):
        LogDirectories([*disks, tmp_path / "none"], 101)
