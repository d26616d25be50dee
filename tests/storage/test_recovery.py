"""The scan at start: a torn tail is cut and reported, everything else is named and nothing is answered over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c

from quorate.errors import Corrupt
from quorate.nouns import OffsetAndEpoch
from quorate.storage.disk_log import DiskLog
from quorate.storage.names import DURABLE_MARK, LEADER_EPOCHS, LOG, PARTITION_METADATA, segment_file
from tests.storage.logs import (
    batch,
    content,
    forget_mark,
    last_segment,
    name_checkpoint,
    partition,
    write_log,
)


def opened(directory: Path) -> tuple[bytes, DiskLog]:
    log = DiskLog(directory)
    try:
        return content(log), log
    finally:
        log.close()


# Torn tails.


def test_a_tail_torn_at_any_byte_is_cut_and_told(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    path, kept = last_segment(tmp_path), b"".join(written[:-1])
    for size in range(1, len(written[-1])):
        path.write_bytes(kept + written[-1][:size])
        forget_mark(tmp_path)

        found, log = opened(tmp_path)

        assert kept == found
        assert log.torn is not None
        assert (path, len(kept), size, 8) == (log.torn.path, log.torn.position, log.torn.size, log.torn.offset)
        assert (8, 8) == (log.leo, log.flushed)
        assert kept == path.read_bytes()


@pytest.mark.parametrize("tail", [bytes(1), bytes(61), bytes(5000), b"\xff" * 300, b"\x02" * 300, bytes(range(256))])
def test_a_tail_of_zeros_or_noise_is_cut(tmp_path: Path, tail: bytes) -> None:
    written = write_log(tmp_path)
    with last_segment(tmp_path).open("ab") as file:
        file.write(tail)

    found, log = opened(tmp_path)

    assert b"".join(written) == found
    assert log.torn is not None
    assert len(tail) == log.torn.size


def test_a_log_goes_on_after_its_tail_was_cut(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    with last_segment(tmp_path).open("ab") as file:
        file.write(batch(10)[:-1])
    log = DiskLog(tmp_path)

    log.append(batch(10, epoch=2))
    log.close()

    assert b"".join(written) + batch(10, epoch=2) == opened(tmp_path)[0]


# Rot.


@pytest.mark.parametrize("is_marked", [True, False], ids=["below the mark", "no mark"])
def test_a_flipped_byte_is_found_wherever_it_is_or_cut_with_the_last_batch(tmp_path: Path, is_marked: bool) -> None:
    written = write_log(tmp_path)
    path, whole = last_segment(tmp_path), b"".join(written)
    mark, epochs = (partition(tmp_path) / name for name in (DURABLE_MARK, LEADER_EPOCHS))
    kept_mark, kept_epochs = mark.read_bytes(), epochs.read_bytes()
    last = len(whole) - len(written[-1])
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x41,)) + whole[at + 1 :])
        mark.write_bytes(kept_mark if is_marked else b"")
        epochs.write_bytes(kept_epochs)
        if at >= last and not is_marked:
            assert whole[:last] == opened(tmp_path)[0], at
            continue
        with pytest.raises(Corrupt) as damage:
            DiskLog(tmp_path)

        assert path == damage.value.path, at
        assert damage.value.position is not None
        assert damage.value.position <= at, at
        assert "offset " in damage.value.reason, at


def test_damage_changes_nothing(tmp_path: Path) -> None:
    write_log(tmp_path)
    path = last_segment(tmp_path)
    broken = bytearray(path.read_bytes())
    broken[100] ^= 1
    path.write_bytes(broken)
    before = {each.name: each.read_bytes() for each in partition(tmp_path).iterdir()}

    for _ in range(2):
        with pytest.raises(Corrupt, match="known to be on disk below offset 10"):
            DiskLog(tmp_path)

    assert before == {each.name: each.read_bytes() for each in partition(tmp_path).iterdir()}


def test_a_sound_batch_after_a_bad_one_says_that_it_is_no_torn_tail(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    broken = bytearray(b"".join(written))
    broken[len(broken) - len(written[-1]) - 3] ^= 1
    last_segment(tmp_path).write_bytes(broken)
    forget_mark(tmp_path)

    with pytest.raises(Corrupt, match=r"offset 6: .* a sound batch at offset 8 follows"):
        DiskLog(tmp_path)


def test_a_bad_end_with_a_segment_after_it_is_no_torn_tail(tmp_path: Path) -> None:
    write_log(tmp_path, segment_bytes=300)
    first = segment_file(partition(tmp_path), 0, LOG)
    first.write_bytes(first.read_bytes()[:-1])
    forget_mark(tmp_path)

    with pytest.raises(Corrupt, match="another segment follows") as damage:
        DiskLog(tmp_path)

    assert first == damage.value.path


def test_a_tail_that_was_known_to_be_on_disk_is_missed(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    path = last_segment(tmp_path)
    path.write_bytes(path.read_bytes()[: -len(written[-1])])

    with pytest.raises(Corrupt, match="the log ends at offset 8, and was known to be on disk below 10") as damage:
        DiskLog(tmp_path)

    assert (path, len(b"".join(written[:-1]))) == (damage.value.path, damage.value.position)


def test_a_torn_tail_is_not_cut_below_the_mark(tmp_path: Path) -> None:
    write_log(tmp_path)
    path = last_segment(tmp_path)
    torn = path.read_bytes()[:-1]
    path.write_bytes(torn)

    with pytest.raises(Corrupt, match=r"offset 8: .* known to be on disk below offset 10"):
        DiskLog(tmp_path)

    assert torn == path.read_bytes()


def test_an_epoch_may_not_fall(tmp_path: Path) -> None:
    write_log(tmp_path, epochs=(3,))
    with last_segment(tmp_path).open("ab") as file:
        file.write(batch(2, epoch=2) + batch(3, epoch=3))

    with pytest.raises(Corrupt, match="batch at offset 2 of epoch 2, after epoch 3; a sound batch at offset 3"):
        DiskLog(tmp_path)


def test_an_epoch_that_the_epochs_file_does_not_list_was_never_written(tmp_path: Path) -> None:
    write_log(tmp_path, epochs=(1, 1))
    path = last_segment(tmp_path)
    flipped = bytearray(path.read_bytes())
    flipped[len(flipped) // 2 + 15] = 9
    path.write_bytes(flipped)

    with pytest.raises(Corrupt, match="batch at offset 2 of epoch 9, where leader-epoch-checkpoint lists epoch 1"):
        DiskLog(tmp_path)


def test_a_checkpoint_that_ends_within_a_batch_of_an_earlier_epoch_is_damage(tmp_path: Path) -> None:
    write_log(tmp_path, epochs=(1, 1, 1), segment_bytes=150)
    segment_file(partition(tmp_path), 0, LOG).unlink()
    name_checkpoint(tmp_path, OffsetAndEpoch(epoch=4, offset=3))

    with pytest.raises(Corrupt, match="batch at offset 2 of epoch 1, after epoch 4"):
        DiskLog(tmp_path)


@pytest.mark.parametrize("damaged", [b"", b"0\n7\n1 0\n", b"\xff\xff", b"1\n0\n", b"0\n2\n5 0\n1 3\n", b"0\n1\nx y\n"])
def test_an_epochs_file_that_cannot_be_read_is_made_anew(tmp_path: Path, damaged: bytes) -> None:
    write_log(tmp_path, epochs=(1, 1, 4))
    path = partition(tmp_path) / LEADER_EPOCHS
    path.write_bytes(damaged)

    opened(tmp_path)

    assert b"0\n2\n1 0\n4 4\n" == path.read_bytes()


# Segments that are not there.


def test_a_missing_first_segment_is_missed(tmp_path: Path) -> None:
    write_log(tmp_path, segment_bytes=150)
    segment_file(partition(tmp_path), 0, LOG).unlink()

    with pytest.raises(Corrupt, match="the log begins at offset 2, and there is no checkpoint of what lies before"):
        DiskLog(tmp_path)


def test_a_missing_segment_in_the_middle_is_missed(tmp_path: Path) -> None:
    write_log(tmp_path, segment_bytes=150)
    segment_file(partition(tmp_path), 4, LOG).unlink()

    with pytest.raises(Corrupt, match="the segment at offset 6 follows one that ends at 4") as damage:
        DiskLog(tmp_path)

    assert segment_file(partition(tmp_path), 6, LOG) == damage.value.path


@pytest.mark.parametrize("left", [0, 1, 4])
def test_missing_segments_at_the_end_are_missed(tmp_path: Path, left: int) -> None:
    write_log(tmp_path, segment_bytes=150)
    for base in (0, 2, 4, 6, 8)[left:]:
        segment_file(partition(tmp_path), base, LOG).unlink()

    with pytest.raises(Corrupt, match=f"ends at offset {2 * left}, and was known to be on disk below 10"):
        DiskLog(tmp_path)


# Checkpoints before and after.


def test_a_log_begins_where_the_checkpoint_ends_that_its_first_segment_reaches(tmp_path: Path) -> None:
    written = write_log(tmp_path, epochs=(1, 1, 2, 2, 2), segment_bytes=300)
    segment_file(partition(tmp_path), 0, LOG).unlink()
    for snapshot in ((2, 1), (6, 2), (8, 2)):
        name_checkpoint(tmp_path, OffsetAndEpoch(offset=snapshot[0], epoch=snapshot[1]))
    seen = []

    log = DiskLog(tmp_path, seen=lambda header, _: seen.append(header.base_offset))

    assert (6, OffsetAndEpoch(offset=6, epoch=2)) == (log.start, log.epochs.floor)
    assert [6, 8] == seen
    assert b"".join(written[3:]) == content(log)
    log.close()


def test_a_log_behind_its_latest_checkpoint_goes_on_from_there(tmp_path: Path) -> None:
    """Kafka's rule: the crash came between the download of the checkpoint and the end of the old log."""
    write_log(tmp_path, epochs=(1, 1, 2), segment_bytes=150)
    name_checkpoint(tmp_path, OffsetAndEpoch(offset=4, epoch=5))

    log = DiskLog(tmp_path)

    assert (4, 4, OffsetAndEpoch(offset=4, epoch=5)) == (log.start, log.leo, log.epochs.floor)
    log.append(batch(4, epoch=5))
    log.close()
    assert batch(4, epoch=5) == opened(tmp_path)[0]


def test_an_older_checkpoint_changes_nothing(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    name_checkpoint(tmp_path, OffsetAndEpoch(offset=6, epoch=1))
    name_checkpoint(tmp_path, OffsetAndEpoch(offset=0, epoch=0))

    assert b"".join(written) == opened(tmp_path)[0]


def test_a_log_that_ends_before_its_checkpoint_in_a_later_epoch_is_damaged(tmp_path: Path) -> None:
    write_log(tmp_path, epochs=(1, 3, 3), segment_bytes=150)
    segment_file(partition(tmp_path), 0, LOG).unlink()
    name_checkpoint(tmp_path, OffsetAndEpoch(offset=9, epoch=2))

    with pytest.raises(Corrupt, match="the log ends at offset 6, before offset 9 where its checkpoint ends"):
        DiskLog(tmp_path)


def test_a_checkpoint_of_a_later_epoch_that_ends_before_the_log_starts_is_of_another_log(tmp_path: Path) -> None:
    """Such as a backup of another node, left in the directory."""
    write_log(tmp_path, epochs=(1, 3, 3), segment_bytes=150)
    segment_file(partition(tmp_path), 0, LOG).unlink()
    name_checkpoint(tmp_path, OffsetAndEpoch(offset=3, epoch=2))
    name_checkpoint(tmp_path, OffsetAndEpoch(offset=1, epoch=9))

    with pytest.raises(Corrupt, match="the checkpoint of epoch 9 ends before offset 3, where the log starts") as damage:
        DiskLog(tmp_path)

    assert "00000000000000000001-0000000009.checkpoint" in str(damage.value)
    assert 2 == len(list(partition(tmp_path).glob("*.log")))


def test_an_epoch_below_that_of_the_checkpoint_is_damage(tmp_path: Path) -> None:
    write_log(tmp_path, epochs=(1, 1, 1), segment_bytes=150)
    segment_file(partition(tmp_path), 0, LOG).unlink()
    name_checkpoint(tmp_path, OffsetAndEpoch(offset=2, epoch=4))
    forget_mark(tmp_path)

    with pytest.raises(Corrupt, match="batch at offset 2 of epoch 1, after epoch 4"):
        DiskLog(tmp_path)


# Whose log it is, and how far it was known.


@pytest.mark.parametrize(
    "foreign", [b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg", b"version: 1\ntopic_id: x", b"\xff"]
)
def test_another_topics_log_is_not_opened(tmp_path: Path, foreign: bytes) -> None:
    write_log(tmp_path)
    path = partition(tmp_path) / PARTITION_METADATA
    path.write_bytes(foreign)

    with pytest.raises(Corrupt, match="is not the metadata topic's") as damage:
        DiskLog(tmp_path)

    assert path == damage.value.path


@pytest.mark.parametrize("empty", [b"", b"\n", bytes(36)])
def test_an_empty_partition_metadata_is_refused_with_what_to_do(tmp_path: Path, empty: bytes) -> None:
    write_log(tmp_path)
    path = partition(tmp_path) / PARTITION_METADATA
    path.write_bytes(empty)

    with pytest.raises(Corrupt, match="remove the file, and a start makes it anew"):
        DiskLog(tmp_path)

    path.unlink()
    DiskLog(tmp_path).close()


def test_partition_metadata_is_what_kafka_writes(tmp_path: Path) -> None:
    write_log(tmp_path)

    assert b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ" == (partition(tmp_path) / PARTITION_METADATA).read_bytes()


@pytest.mark.parametrize("torn", [b"", b"0000", b"00000000000000000099 00000000\n", b"\xff" * 30])
def test_a_torn_mark_vouches_for_nothing(tmp_path: Path, torn: bytes) -> None:
    written = write_log(tmp_path)
    (partition(tmp_path) / DURABLE_MARK).write_bytes(torn)
    path = last_segment(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])

    assert b"".join(written[:-1]) == opened(tmp_path)[0]


def test_the_mark_is_an_offset_and_its_checksum(tmp_path: Path) -> None:
    write_log(tmp_path)

    digits, crc = (partition(tmp_path) / DURABLE_MARK).read_bytes().split()

    assert (10, f"{crc32c(digits):08x}".encode()) == (int(digits), crc)
