"""Checkpoints: whole under their name or not there, and nothing of a damaged one is believed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft import Message
from quorate.errors import Corrupt
from quorate.metadata.versions import METADATA_VERSION
from quorate.nouns import OffsetAndEpoch
from quorate.records import FeatureLevelRecord, NoOpRecord, encode_record
from quorate.storage.bootstrap import read_bootstrap
from quorate.storage.names import (
    BOOTSTRAP,
    BOOTSTRAP_ID,
    DAMAGED,
    PARTITION_DIRECTORY,
    checkpoint_file,
    checkpoint_id,
    checkpoint_ids,
)
from quorate.storage.snapshots import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    DownloadFile,
    SnapshotReader,
    SnapshotWriter,
    open_checkpoints,
    remove_leftovers,
)
from quorate.wire.batch import ControlType, batches, control_batch, data_batch
from tests.storage.logs import Crash, crash, failpoint

ID = OffsetAndEpoch(epoch=3, offset=58)
HEADER = (ControlType.SNAPSHOT_HEADER, bytes(11))
FOOTER = bytes(3)
VALUES = [b"one", b"two" * 100, b"three"]


def write(directory: Path, values: list[bytes], snapshot: OffsetAndEpoch = ID) -> Path:
    writer = SnapshotWriter(directory, snapshot, timestamp_ms=1000)
    writer.control([HEADER])
    writer.data(values)
    size = writer.finish(FOOTER)
    path = checkpoint_file(directory, snapshot)
    assert size == path.stat().st_size
    return path


def overwrite(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)


# Whole ones.


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=50), max_size=20))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, values: list[bytes]) -> None:
    path = write(tmp_path_factory.mktemp("snapshot"), values)

    reader = SnapshotReader(path)

    assert values == list(reader.values())
    assert [HEADER, (ControlType.SNAPSHOT_FOOTER, FOOTER)] == list(reader.control_records())
    assert path.read_bytes() == reader.read(0, 40) + reader.read(40, 1 << 20)
    assert b"" == reader.read(reader.size, 10)
    reader.close()


def test_it_is_read_only_and_all_that_is_there(tmp_path: Path) -> None:
    path = write(tmp_path, VALUES)

    assert "00000000000000000058-0000000003.checkpoint" == path.name
    assert 0o400 == path.stat().st_mode & 0o777
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(BATCH_RECORDS_MAX, 1, 1), (BATCH_RECORDS_MAX + 1, 1, 2), (9, 1 << 20, 2), (8, (1 << 20) - 100, 1)],
)
def test_batches_are_no_larger_than_kafkas(tmp_path: Path, count: int, size: int, expected: int) -> None:
    path = write(tmp_path, [b"v" * size] * count)

    sizes = [header.size for _, header in batches(path.read_bytes()) if not header.is_control]

    assert expected == len(sizes)
    assert max(sizes) <= BATCH_BYTES_MAX


def test_a_value_larger_than_a_batch_is_refused(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path, ID, timestamp_ms=0)

    with pytest.raises(AssertionError):
        writer.data([bytes(BATCH_BYTES_MAX)])
    writer.abandon()

    assert [] == list(tmp_path.iterdir())


def write_bootstrap(directory: Path, *records: Message, first: bool = False) -> Path:
    """The checkpoint at offset 0, as 4.4 leaves it, or bootstrap.checkpoint, as those before do."""
    path = directory / BOOTSTRAP
    if first:
        path = checkpoint_file(directory / PARTITION_DIRECTORY, BOOTSTRAP_ID)
        path.parent.mkdir()
    writer = SnapshotWriter(directory, BOOTSTRAP_ID, timestamp_ms=0, path=path)
    writer.control([HEADER])
    writer.data(encode_record(record, 0) for record in records)
    writer.finish(FOOTER)
    return path


OLD, NEW = (FeatureLevelRecord(name="metadata.version", feature_level=level) for level in (25, 33))


def test_a_cluster_begins_with_bootstrap_checkpoint(tmp_path: Path) -> None:
    write_bootstrap(tmp_path, OLD)

    assert (OLD,) == read_bootstrap(tmp_path, METADATA_VERSION)
    assert () == read_bootstrap(tmp_path.parent, METADATA_VERSION)


def test_what_lies_beside_the_first_voters_comes_before_it(tmp_path: Path) -> None:
    write_bootstrap(tmp_path, OLD)
    write_bootstrap(tmp_path, NEW, first=True)

    assert (NEW,) == read_bootstrap(tmp_path, METADATA_VERSION)


def test_first_voters_alone_leave_it_to_bootstrap_checkpoint(tmp_path: Path) -> None:
    write_bootstrap(tmp_path, first=True)

    assert () == read_bootstrap(tmp_path, METADATA_VERSION)

    write_bootstrap(tmp_path, OLD)

    assert (OLD,) == read_bootstrap(tmp_path, METADATA_VERSION)


@pytest.mark.parametrize("first", [False, True])
def test_bootstrap_records_without_a_version_are_none(tmp_path: Path, first: bool) -> None:
    path = write_bootstrap(tmp_path, NoOpRecord(), first=first)

    with pytest.raises(Corrupt, match=r"its 1 records name no metadata\.version") as damage:
        read_bootstrap(tmp_path, METADATA_VERSION)

    assert path == damage.value.path


def test_a_record_that_cannot_be_read_is_said_of_its_file(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path, OffsetAndEpoch(epoch=0, offset=0), timestamp_ms=0, path=tmp_path / BOOTSTRAP)
    writer.control([HEADER])
    writer.data([b"\x07no frame"])
    writer.finish(FOOTER)

    with pytest.raises(Corrupt) as damage:
        read_bootstrap(tmp_path, METADATA_VERSION)

    assert tmp_path / BOOTSTRAP == damage.value.path


# Damaged ones.


def test_a_flipped_byte_anywhere_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, VALUES)
    whole = path.read_bytes()
    for at in range(len(whole)):
        overwrite(path, whole[:at] + bytes((whole[at] ^ 0x41,)) + whole[at + 1 :])
        with pytest.raises(Corrupt) as damage:
            SnapshotReader(path)

        assert path == damage.value.path
        assert damage.value.position is not None, at


def test_a_checkpoint_that_is_cut_anywhere_is_none(tmp_path: Path) -> None:
    path = write(tmp_path, VALUES)
    whole = path.read_bytes()
    for size in range(len(whole)):
        overwrite(path, whole[:size])
        with pytest.raises(Corrupt):
            SnapshotReader(path)


def control(offset: int, *kinds: ControlType, epoch: int = 3) -> bytes:
    content = [(kind, bytes(3)) for kind in kinds]
    return control_batch(base_offset=offset, epoch=epoch, timestamp_ms=0, records=content)


def values(offset: int, epoch: int = 3) -> bytes:
    return data_batch(base_offset=offset, epoch=epoch, timestamp_ms=0, values=[b"v"])


SHAPES = [
    ("begins with a SnapshotHeader", values(0) + control(1, ControlType.SNAPSHOT_FOOTER)),
    ("begins with a SnapshotHeader", control(0, ControlType.SNAPSHOT_FOOTER)),
    (
        "begins with a SnapshotHeader",
        values(0) + control(1, ControlType.SNAPSHOT_HEADER) + control(2, ControlType.SNAPSHOT_FOOTER),
    ),
    (
        "begins with a SnapshotHeader",
        control(0, ControlType.ABORT) + control(1, ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER),
    ),
    ("no SnapshotFooter", control(0, ControlType.SNAPSHOT_HEADER) + values(1)),
    ("no SnapshotFooter", control(0, ControlType.SNAPSHOT_HEADER)),
    (
        "a SnapshotFooter that is not at the end",
        control(0, ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER) + values(2),
    ),
    (
        "batch at offset 2 of epoch 3, where 1 of 3 follows",
        control(0, ControlType.SNAPSHOT_HEADER) + control(2, ControlType.SNAPSHOT_FOOTER),
    ),
    (
        "batch at offset 1 of epoch 4, where 1 of 3 follows",
        control(0, ControlType.SNAPSHOT_HEADER) + values(1, epoch=4) + control(2, ControlType.SNAPSHOT_FOOTER),
    ),
    (
        "batch at offset 0 of epoch 2, where 0 of 3 follows",
        control(0, ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER, epoch=2),
    ),
]


@pytest.mark.parametrize(("reason", "data"), SHAPES, ids=[f"{at}" for at in range(len(SHAPES))])
def test_sound_batches_in_another_shape_are_no_checkpoint(tmp_path: Path, reason: str, data: bytes) -> None:
    path = checkpoint_file(tmp_path, ID)
    path.write_bytes(data)

    with pytest.raises(Corrupt, match=reason):
        SnapshotReader(path)


def test_a_damaged_checkpoint_is_put_aside_and_the_others_are_read(tmp_path: Path) -> None:
    older = write(tmp_path, VALUES, OffsetAndEpoch(epoch=2, offset=30))
    path = write(tmp_path, VALUES)
    overwrite(path, path.read_bytes()[:-1])

    sound, damaged = open_checkpoints(tmp_path)

    assert [OffsetAndEpoch(epoch=2, offset=30)] == list(sound)
    assert [path] == [damage.path for damage in damaged]
    assert {older.name, path.name + DAMAGED} == {each.name for each in tmp_path.iterdir()}
    assert () == open_checkpoints(tmp_path)[1]


def test_the_first_voters_are_not_put_aside(tmp_path: Path) -> None:
    path = write(tmp_path, [], OffsetAndEpoch(epoch=0, offset=0))
    overwrite(path, path.read_bytes()[:-1])

    with pytest.raises(Corrupt):
        open_checkpoints(tmp_path)

    assert path.exists()


# On the way there.


@pytest.mark.parametrize("place", ["snapshot.before_freeze", "snapshot.before_rename", "snapshot.after_rename"])
def test_a_crash_leaves_a_whole_checkpoint_or_none(tmp_path: Path, place: str) -> None:
    with failpoint(place, crash), pytest.raises(Crash):
        write(tmp_path, VALUES)

    left = remove_leftovers(tmp_path)

    is_there = place == "snapshot.after_rename"
    assert ([ID], 0) if is_there else ([], 1) == (checkpoint_ids(tmp_path), len(left))
    assert [ID] * is_there == list(open_checkpoints(tmp_path)[0])


@pytest.mark.parametrize("place", ["snapshot.chunk_received", "snapshot.before_rename", "snapshot.after_rename"])
def test_a_crash_leaves_a_whole_download_or_none(tmp_path: Path, place: str) -> None:
    (tmp_path / "leader").mkdir()
    data = write(tmp_path / "leader", VALUES).read_bytes()

    with failpoint(place, crash), pytest.raises(Crash):
        fetch(tmp_path, data)
    remove_leftovers(tmp_path)

    assert [ID] * (place == "snapshot.after_rename") == checkpoint_ids(tmp_path)


def fetch(directory: Path, data: bytes) -> SnapshotReader:
    download = DownloadFile(directory, ID)
    download.write(0, data)
    return download.finish(lambda reader: None)[0]


def test_a_download_is_put_in_place_when_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "leader").mkdir()
    data = write(tmp_path / "leader", VALUES).read_bytes()
    download = DownloadFile(tmp_path, ID)
    for at in range(0, len(data), 7):
        assert at == download.position
        download.write(at, data[at : at + 7])
        assert [] == checkpoint_ids(tmp_path)

    reader, values = download.finish(lambda reader: list(reader.values()))

    assert (checkpoint_file(tmp_path, ID), VALUES, VALUES) == (reader.path, list(reader.values()), values)
    assert 0o400 == reader.path.stat().st_mode & 0o777
    with pytest.raises(AssertionError):
        download.write(len(data), b"more")


@pytest.mark.parametrize("cut", [0, 1, 200])
def test_a_download_that_is_no_checkpoint_leaves_nothing(tmp_path: Path, cut: int) -> None:
    (tmp_path / "leader").mkdir()
    (tmp_path / "mine").mkdir()
    data = write(tmp_path / "leader", VALUES).read_bytes()
    download = DownloadFile(tmp_path / "mine", ID if cut else OffsetAndEpoch(epoch=4, offset=58))
    download.write(0, data[: len(data) - cut])

    with pytest.raises(Corrupt):
        download.finish(lambda reader: None)

    assert [] == list((tmp_path / "mine").iterdir())


def test_an_abandoned_download_leaves_nothing(tmp_path: Path) -> None:
    download = DownloadFile(tmp_path, ID)
    download.write(0, b"part")

    download.abandon()

    assert [] == list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = SnapshotWriter(tmp_path, ID, timestamp_ms=0)
    writer.control([HEADER])
    with failpoint("snapshot.before_freeze", full), pytest.raises(OSError, match="No space left"):
        writer.finish(FOOTER)
    writer.abandon()

    assert [] == list(tmp_path.iterdir())


# What is left behind.


def test_leftovers_are_removed_and_nothing_else_is(tmp_path: Path) -> None:
    keep = ["00000000000000000000.log", "00000000000000000000.index", "quorum-state", "00000000000000000009.snapshot"]
    keep += ["00000000000000000058-0000000003.checkpoint", "leader-epoch-checkpoint"]
    gone = ["00000000000000000058-0000000003-1f.checkpoint.part", "00000000000000000058-0000000003.checkpoint.deleted"]
    gone += ["00000000000000000007.log.deleted", "quorum-state.tmp", "00000000000000000005.timeindex"]
    for name in keep + gone:
        (tmp_path / name).touch()

    left = remove_leftovers(tmp_path)

    assert sorted(gone) == sorted(path.name for path in left)
    assert sorted(keep) == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["bootstrap.checkpoint", "58-3.checkpoint", "00000000000000000058-0000000003.checkpoint.part", "x"]
)
def test_other_names_are_no_checkpoints(name: str) -> None:
    assert checkpoint_id(Path(name)) is None
