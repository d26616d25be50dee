"""Directories that a Kafka release left: opened, read whole, closed, and the same for Kafka as before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from quorate.storage.disk_log import DiskLog
from quorate.storage.election_file import ElectionFile
from quorate.storage.meta_properties import read_meta_properties
from quorate.storage.names import LEADER_EPOCHS, LOG, PARTITION_DIRECTORY, PARTITION_METADATA, QUORUM_STATE
from quorate.storage.snapshots import open_checkpoints, remove_leftovers
from quorate.wire.batch import check_batch, data_batch, data_values
from tests.storage.logs import content

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
DIRECTORIES = sorted(path.parent for path in FIXTURES.rglob(PARTITION_DIRECTORY) if any(path.glob("*.log")))
TITLES = [str(path.relative_to(FIXTURES)) for path in DIRECTORIES]

each_directory = pytest.mark.parametrize("kept", DIRECTORIES, ids=TITLES)


def test_there_are_directories_to_open() -> None:
    if not DIRECTORIES:
        pytest.skip(f"NOTHING of a Kafka cluster under {FIXTURES}: run `make fixtures`; the tests below show nothing")

    assert all(any(directory.rglob("*.log")) for directory in DIRECTORIES)


@pytest.fixture
def directory(kept: Path, tmp_path: Path) -> Path:
    """A copy, since opening writes."""
    shutil.copytree(kept, tmp_path / "log", ignore=shutil.ignore_patterns("*.dump.txt"))
    return tmp_path / "log"


def of_kind(directory: Path, *suffixes: str) -> dict[str, bytes]:
    files = sorted((directory / PARTITION_DIRECTORY).iterdir())
    return {path.name: path.read_bytes() for path in files if path.name.endswith(suffixes)}


@each_directory
def test_the_log_is_read_whole_and_nothing_of_it_changes(kept: Path, directory: Path) -> None:
    before = of_kind(kept, LOG, PARTITION_METADATA, ".checkpoint")
    for _ in range(2):
        log = DiskLog(directory)
        found = content(log)
        log.close()

        assert log.torn is None
        assert b"".join(data for name, data in before.items() if name.endswith(LOG)).endswith(found)
        assert len(found) > 0
        assert before == of_kind(directory, LOG, PARTITION_METADATA, ".checkpoint")


@each_directory
def test_the_derived_files_are_made_as_kafka_made_them(kept: Path, directory: Path) -> None:
    """Not so the indexes: where Kafka puts an entry depends on how many batches came in one fetch. See test_indexes."""
    DiskLog(directory).close()

    assert of_kind(kept, LEADER_EPOCHS) == of_kind(directory, LEADER_EPOCHS)


@each_directory
def test_the_other_files_are_understood(directory: Path) -> None:
    partition = directory / PARTITION_DIRECTORY
    remove_leftovers(partition)

    sound, damaged = open_checkpoints(partition)
    meta = read_meta_properties(directory)

    assert () == damaged
    assert all(sum(1 for _ in reader.control_records()) >= 2 for reader in sound.values())
    assert meta is None or meta.node_id >= 0
    if (partition / QUORUM_STATE).exists():
        election = ElectionFile(partition).read()
        assert election is not None
        assert election.epoch > 0


@each_directory
def test_every_data_batch_is_written_as_kafka_wrote_it(directory: Path) -> None:
    log = DiskLog(directory)
    offset = log.start
    while data := log.read(offset, 1):
        header = check_batch(data)
        if not header.is_control:
            again = data_batch(
                base_offset=header.base_offset,
                epoch=header.epoch,
                timestamp_ms=header.base_timestamp,
                values=data_values(data),
            )
            assert data == again
        offset = header.next_offset
    log.close()
    assert offset == log.leo
