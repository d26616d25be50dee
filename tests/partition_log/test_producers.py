"""Batches that are sent again, sequences with gaps, transactions: in the log, and after a start from its files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.partition_log import Appended, Marker, PartitionLog, TransactionEnd
from quorate.partition_log.aborted import Aborted
from quorate.wire.batch import ControlType, control_batch
from tests.partition_log.batches import NOW_MS, emptied, ended, opened, placed, produced, written

SEQUENCE_MAX = (1 << 31) - 1


def send(log: PartitionLog, *, producer: tuple[int, int, int], count: int = 1, transactional: bool = False) -> Appended:
    batch = produced(count=count, producer=producer, transactional=transactional)
    return written(log, batch) if transactional else log.append_as_leader(batch, epoch=1, now_ms=NOW_MS)


def started_again(log: PartitionLog, directory: Path, how: str) -> PartitionLog:
    """The log as the next process opens it, after a stop in order or a kill."""
    if how == "stop":
        log.close()
    else:
        log.abandon()
    return opened(directory, segment_bytes=400, clean=how == "stop")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_batch_that_is_sent_again_has_its_first_offsets(tmp_path: Path, how: str) -> None:
    log = opened(tmp_path, segment_bytes=400)
    for at in range(7):
        send(log, producer=(5, 0, at * 2), count=2)
    again = send(log, producer=(5, 0, 6), count=2)
    log = started_again(log, tmp_path, how)

    assert Appended(base_offset=6, last_offset=7, was_there=True) == again
    assert Appended(base_offset=12, last_offset=13, was_there=True) == send(log, producer=(5, 0, 12), count=2)
    assert 14 == log.leo
    log.abandon()


SEQUENCES = {
    "the next one": ((5, 0, 3), None),
    "a gap": ((5, 0, 4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "one that five batches have followed": ((5, 0, 0), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "a new epoch from 0": ((5, 1, 0), None),
    "a new epoch from 1": ((5, 1, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "another producer from anywhere (KIP-360)": ((6, 0, 77), None),
    "no producer id": ((-1, -1, -1), None),
}


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize(("producer", "refused"), SEQUENCES.values(), ids=SEQUENCES)
def test_a_sequence_follows_the_last_one(
    tmp_path: Path, how: str, producer: tuple[int, int, int], refused: ErrorCode | None
) -> None:
    log = opened(tmp_path, segment_bytes=400)
    send(log, producer=(5, 0, 0), count=3)
    log = started_again(log, tmp_path, how)

    if refused is None:
        assert 3 == send(log, producer=producer).base_offset
    else:
        with pytest.raises(ApiError, match="producer 5 sends sequence") as error:
            send(log, producer=producer)
        assert (refused, 3) == (error.value.code, log.leo)
    log.abandon()


def test_an_older_epoch_of_a_producer_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, producer=(5, 2, 0))
    with pytest.raises(ApiError, match="producer 5 sends in epoch 1, and is in epoch 2") as error:
        send(log, producer=(5, 1, 1))

    assert ErrorCode.INVALID_PRODUCER_EPOCH == error.value.code
    log.abandon()


def test_sequence_numbers_go_on_at_0(tmp_path: Path) -> None:
    log = opened(tmp_path)
    send(log, producer=(5, 0, SEQUENCE_MAX - 1), count=3)  # the last one has 0
    assert 3 == send(log, producer=(5, 0, 1)).base_offset
    log.abandon()


@pytest.mark.parametrize("how", ["stop", "kill", ""])
def test_a_transaction_is_open_until_its_marker_is_committed(tmp_path: Path, how: str) -> None:
    log = opened(tmp_path, segment_bytes=400)
    send(log, producer=(-1, -1, -1))
    send(log, producer=(7, 0, 0), transactional=True)
    send(log, producer=(8, 0, 0), transactional=True)
    if how:
        log = started_again(log, tmp_path, how)
    assert 1 == log.first_open_offset
    ended(log, (7, 0), aborts=True)
    log.commit(3)
    assert 1 == log.first_open_offset, "the marker at offset 3 is not committed yet"
    log.commit(4)
    assert 2 == log.first_open_offset
    ended(log, (8, 0))
    log.commit(log.leo)

    assert log.first_open_offset is None
    log.abandon()


@pytest.mark.parametrize("how", ["stop", "kill", ""])
def test_transactions_end_in_another_order_than_they_begin(tmp_path: Path, how: str) -> None:
    log = opened(tmp_path, segment_bytes=400)
    for producer_id in (9, 8, 7):
        send(log, producer=(producer_id, 0, 0), transactional=True)
    if how:
        log = started_again(log, tmp_path, how)
    ended(log, (8, 0))
    ended(log, (9, 0), aborts=True)
    assert [(9, 0, 4, 2)] == list(log.aborted(0, 5)), "committed or not, the second transaction is not open"
    found = []
    for high_watermark in (3, 4, 5):
        log.commit(high_watermark)
        found.append(log.first_open_offset)
    ended(log, (7, 0), aborts=True)
    log.commit(6)

    assert ([0, 0, 2], None) == (found, log.first_open_offset)
    assert [(9, 0, 4, 2), (7, 2, 5, 6)] == list(log.aborted(0, 6))
    assert [(7, 2, 5, 6)] == list(log.aborted(5, 6))
    log.abandon()


@pytest.mark.parametrize("how", ["stop", "kill", ""])
def test_aborted_transactions_are_told_of_to_whoever_reads_their_records(tmp_path: Path, how: str) -> None:
    log = opened(tmp_path, segment_bytes=400)
    for first in (0, 1, 2):
        send(log, producer=(7, 0, first * 2), count=2, transactional=True)
        ended(log, (7, 0), aborts=first != 1)
    if how:
        log = started_again(log, tmp_path, how)
    first, third = Aborted(7, 0, 2, 3), Aborted(7, 6, 8, 9)

    assert [first, third] == list(log.aborted(0, 9))
    assert [first] == list(log.aborted(0, 4))
    assert [third] == list(log.aborted(5, 9))
    assert [] == list(log.aborted(3, 6))
    log.truncate(8)
    assert ([first], 6) == (list(log.aborted(0, 8)), log.first_open_offset)
    log.abandon()


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data + bytes(34)], ids=["cut", "zeros"])
def test_an_index_of_aborted_transactions_that_a_crash_has_spoiled_is_made_anew(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    log = opened(tmp_path, segment_bytes=400)
    for first in range(3):
        send(log, producer=(7, 0, first * 2), count=2, transactional=True)
        ended(log, (7, 0), aborts=True)
    before = list(log.aborted(0, 9))
    indexes = sorted((tmp_path / "t-0").glob("*.txnindex"))
    for index in indexes[1:]:
        index.write_bytes(spoil(index.read_bytes()))
    log = started_again(log, tmp_path, "kill")

    assert (3, True) == (len(before), len(indexes) > 1)
    assert before == list(log.aborted(0, 9))
    log.abandon()


def test_a_control_batch_of_two_records_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    log = opened(tmp_path)
    two = [(ControlType.ABORT, bytes(6)), (ControlType.ABORT, bytes(6))]
    with pytest.raises(Corrupt, match="2 control records at offset 0; a marker is one"):
        log.append_as_follower(control_batch(base_offset=0, epoch=1, timestamp_ms=0, records=two), now_ms=NOW_MS)

    assert (0, 0) == (log.leo, log.size)
    log.abandon()


@pytest.mark.parametrize("how", ["stop", "kill", ""])
def test_what_a_log_cleaner_has_left_empty_says_what_its_producer_has_sent(tmp_path: Path, how: str) -> None:
    """Each producer is idempotent by default, so each topic that a JVM compacts gets such batches."""
    marker = TransactionEnd(7, 3, Marker(True, 3)).batch(base_offset=0, epoch=0, now_ms=NOW_MS)
    late = emptied(produced(count=3, producer=(5, 2, 10), timestamp_ms=NOW_MS + 9))
    left = {0: produced(producer=(6, 0, 0)), 1: late, 4: emptied(marker), 5: produced(producer=(6, 0, 1))}
    data = b"".join(placed(batch, offset=offset, epoch=1) for offset, batch in left.items())
    log = opened(tmp_path, segment_bytes=400)
    log.append_as_follower(data, now_ms=NOW_MS)
    if how:
        log = started_again(log, tmp_path, how)

    assert (6, None, None) == (log.leo, log.torn, log.first_open_offset)
    assert {6: (0, 1), 5: (2, 12)} == {each: (known.epoch, known.last_sequence) for each, known in log.producers}
    assert 6 == send(log, producer=(5, 2, 13)).base_offset
    found = log.read(2, 6, 1)
    assert found is not None
    assert placed(late, offset=1, epoch=1) == found.read()
    assert log.find_time(NOW_MS + 1) is None, "no record is that late"
    log.truncate(4)
    assert (4, 12) == (log.leo, dict(log.producers)[5].last_sequence)
    log.abandon()


def test_a_truncation_takes_back_what_a_producer_has_sent(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=400)
    for at in range(9):
        send(log, producer=(5, 0, at))
    log.truncate(4)

    assert 4 == send(log, producer=(5, 0, 4)).base_offset
    log.abandon()


def torn(log: PartitionLog, directory: Path) -> PartitionLog:
    """The log as the next process opens it after a crash that has left the first batch, and half of the second."""
    log.abandon()
    for later in sorted((directory / "t-0").glob("*.log"))[1:]:
        os.truncate(later, 0)
    os.truncate(directory / "t-0" / f"{0:020}.log", len(produced()) + 20)
    log = opened(directory, segment_bytes=400)
    assert (1, 20) == (log.leo, log.torn.size if log.torn else 0)
    return log


def test_a_snapshot_of_records_that_a_crash_has_lost_is_not_read(tmp_path: Path) -> None:
    """Other producers' records are below it by now."""
    log = opened(tmp_path, segment_bytes=400)
    for sequence in range(2):
        send(log, producer=(7, 0, sequence))
    log.roll()
    log = torn(log, tmp_path)
    for sequence in range(2):
        send(log, producer=(8, 0, sequence))
    log = started_again(log, tmp_path, "kill")

    assert {7: 0, 8: 1} == {producer_id: producer.last_sequence for producer_id, producer in log.producers}
    log.abandon()


def test_an_abort_that_a_crash_has_lost_is_told_of_to_nobody(tmp_path: Path) -> None:
    """The snapshot ends where the crash has cut: nothing is read again, and the index still has the marker."""
    log = opened(tmp_path, segment_bytes=400)
    send(log, producer=(7, 0, 0), transactional=True)
    log = started_again(log, tmp_path, "stop")
    ended(log, (7, 0), aborts=True)
    log = torn(log, tmp_path)
    ended(log, (7, 0))

    assert [] == list(log.aborted(0, 2))
    log.abandon()


def test_an_index_of_aborts_that_was_not_flushed_is_made_anew_after_a_crash(tmp_path: Path) -> None:
    """The snapshot after it is on the disk: no batch below that needs to be read for the producers' sake."""
    log = opened(tmp_path, segment_bytes=400)
    send(log, producer=(7, 0, 0), transactional=True)
    ended(log, (7, 0), aborts=True)
    found = list(log.aborted(0, 2))
    log.roll()
    log.abandon()
    (tmp_path / "t-0" / f"{0:020}.txnindex").unlink()
    log = opened(tmp_path, segment_bytes=400)

    assert [(7, 0, 1)] == [each[:3] for each in found]
    assert found == list(log.aborted(0, 2))
    log.abandon()
