"""Damage in a log that others have too: the sound prefix opens, the rest is kept, and what was promised is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.errors import Corrupt
from quorate.nouns import OffsetAndEpoch
from quorate.storage.disk_log import DiskLog
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.names import (
    DAMAGED,
    LEADER_EPOCHS,
    LOG,
    PROMISE,
    checkpoint_file,
    segment_bases,
    segment_file,
)
from quorate.storage.salvage import PromiseFile, Salvage, salvage
from tests.storage.logs import Crash, batch, content, crash, failpoint, forget_mark, last_segment, partition, write_log

END = OffsetAndEpoch(epoch=2, offset=10)
"""Where `write_log` ends: five batches of two records, the last two of epoch 2."""


def damage(directory: Path) -> Corrupt:
    with pytest.raises(Corrupt) as found:
        DiskLog(directory)
    return found.value


def salvaged(directory: Path) -> Salvage:
    return salvage(partition(directory), damage(directory))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x41
    path.write_bytes(data)


BELOW_THE_MARK = [(number, True) for number in range(5)]
BEFORE_A_SOUND_BATCH = [(number, False) for number in range(4)]


@pytest.mark.parametrize(("number", "is_marked"), BELOW_THE_MARK + BEFORE_A_SOUND_BATCH)
def test_the_prefix_opens_and_the_whole_is_kept(tmp_path: Path, number: int, is_marked: bool) -> None:
    written = write_log(tmp_path)
    path = last_segment(tmp_path)
    flip(path, sum(map(len, written[:number])) + 70)
    broken = path.read_bytes()
    if not is_marked:
        forget_mark(tmp_path)

    found = salvaged(tmp_path)

    assert END == found.promised == PromiseFile(partition(tmp_path)).read()
    assert [broken] == [each.read_bytes() for each in found.aside]
    log = DiskLog(tmp_path)
    assert (b"".join(written[:number]), 2 * number) == (content(log), log.leo)
    log.append(batch(log.leo, epoch=9))
    log.close()


def test_segments_after_the_damage_are_put_aside_with_it(tmp_path: Path) -> None:
    written = write_log(tmp_path, segment_bytes=300)
    bases = segment_bases(partition(tmp_path))
    assert len(bases) == 3
    flip(segment_file(partition(tmp_path), bases[1], LOG), 70)

    found = salvaged(tmp_path)

    expected = {f"{base:020d}{LOG}{DAMAGED}" for base in bases[1:]}
    assert expected == {each.name for each in found.aside}
    assert END == found.promised
    log = DiskLog(tmp_path)
    assert b"".join(written[:2]) == content(log)
    log.close()


def test_a_missing_end_is_known_by_the_mark_alone(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    last_segment(tmp_path).write_bytes(b"".join(written[:2]))

    found = salvaged(tmp_path)

    assert ((), END) == (found.aside, found.promised)
    log = DiskLog(tmp_path)
    assert 4 == log.leo
    log.close()


def test_a_log_whose_only_checkpoint_is_gone_begins_anew(tmp_path: Path) -> None:
    write_log(tmp_path)
    path = last_segment(tmp_path)
    path.rename(segment_file(partition(tmp_path), 3, LOG))

    found = salvaged(tmp_path)

    assert END == found.promised
    log = DiskLog(tmp_path)
    assert (0, 0) == (log.start, log.leo)
    log.close()


def test_a_log_with_a_checkpoint_goes_on_from_there(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    flip(last_segment(tmp_path), 70)
    checkpoint_file(partition(tmp_path), OffsetAndEpoch(epoch=1, offset=6)).touch()

    salvaged(tmp_path)

    log = DiskLog(tmp_path)
    assert (6, 6) == (log.start, log.leo)
    assert written
    log.close()


def test_an_empty_segment_that_is_left_alone_says_how_far_the_log_went(tmp_path: Path) -> None:
    write_log(tmp_path)
    forget_mark(tmp_path)
    last_segment(tmp_path).unlink()
    segment_file(partition(tmp_path), END.offset, LOG).touch()
    checkpoint_file(partition(tmp_path), OffsetAndEpoch(epoch=1, offset=6)).touch()

    found = salvaged(tmp_path)

    assert END == found.promised
    log = DiskLog(tmp_path)
    assert (6, 6) == (log.start, log.leo)
    log.close()


def test_a_flipped_epoch_promises_no_epoch_that_never_was(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    flip(last_segment(tmp_path), len(written[0]) + 12)

    assert END == salvaged(tmp_path).promised


@pytest.mark.parametrize("stored", [2, 7])
def test_without_the_list_of_epochs_the_promise_is_of_no_epoch_after_quorum_state(tmp_path: Path, stored: int) -> None:
    """The epoch of a batch is not in its checksum; a node waited for ever for epoch 134217733."""
    written = write_log(tmp_path)
    (partition(tmp_path) / LEADER_EPOCHS).unlink()
    ElectionFile(partition(tmp_path)).write(StoredElection(epoch=stored), version=1)
    forget_mark(tmp_path)
    flip(last_segment(tmp_path), len(b"".join(written[:4])) + 12)  # the highest byte of the last batch's epoch
    flip(last_segment(tmp_path), 70)

    assert OffsetAndEpoch(epoch=stored, offset=END.offset) == salvaged(tmp_path).promised


def test_the_furthest_promise_counts_when_damage_comes_again(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    flip(last_segment(tmp_path), len(b"".join(written[:3])) + 70)
    salvaged(tmp_path)
    flip(last_segment(tmp_path), len(written[0]) + 70)

    found = salvaged(tmp_path)

    assert END == found.promised
    assert f"{last_segment(tmp_path).name}{DAMAGED}-2" == found.aside[0].name
    log = DiskLog(tmp_path)
    assert 2 == log.leo
    log.close()


@pytest.mark.parametrize(
    "place",
    [
        "file.before_tmp_fsync",
        "file.before_rename",
        "file.after_rename",
        "salvage.after_promise",
        "salvage.before_cut",
        "salvage.after_cut",
    ],
)
def test_a_crash_on_the_way_leaves_damage_to_be_found_again_or_none(tmp_path: Path, place: str) -> None:
    written = write_log(tmp_path, segment_bytes=300)
    flip(segment_file(partition(tmp_path), 0, LOG), len(written[0]) + 70)
    found = damage(tmp_path)
    with failpoint(place, crash), pytest.raises(Crash):
        salvage(partition(tmp_path), found)

    for _ in range(2):
        try:
            log = DiskLog(tmp_path, segment_bytes=300)
        except Corrupt as again:
            salvage(partition(tmp_path), again)
        else:
            break

    assert (written[0], END) == (content(log), PromiseFile(partition(tmp_path)).read())
    log.close()


def test_a_promise_is_kept_until_it_is_cleared_and_a_damaged_one_is_not_forgotten(tmp_path: Path) -> None:
    promise = PromiseFile(tmp_path)
    assert promise.read() is None
    promise.write(END)

    assert END == PromiseFile(tmp_path).read()
    whole = (tmp_path / PROMISE).read_bytes()
    for at in range(len(whole) - 1):
        (tmp_path / PROMISE).write_bytes(whole[:at] + bytes((whole[at] ^ 0x01,)) + whole[at + 1 :])
        with pytest.raises(Corrupt):
            promise.read()
    promise.clear()
    assert promise.read() is None


def test_damage_that_no_other_node_can_mend_is_raised_again(tmp_path: Path) -> None:
    write_log(tmp_path)
    (partition(tmp_path) / "partition.metadata").write_text("version: 0\ntopic_id: x\n")

    with pytest.raises(Corrupt, match=r"partition\.metadata"):
        salvage(partition(tmp_path), damage(tmp_path))
