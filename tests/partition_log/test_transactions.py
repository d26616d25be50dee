"""What a leader takes of a transaction: the batches that its coordinator knows of, and the markers that end it."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.errors import ApiError, ErrorCode
from quorate.partition_log import Marker, PartitionLog, TransactionEnd
from quorate.partition_log.markers import marker_in
from quorate.partition_log.verifications import Verification
from quorate.wire.batch import batches
from tests.partition_log.batches import NOW_MS, ended, opened, placed, produced, written


def batch(epoch: int = 0, sequence: int = 0, *, transactional: bool = True) -> bytes:
    return produced(producer=(7, epoch, sequence), transactional=transactional)


def begun(log: PartitionLog, data: bytes, *, bumps_epochs: bool = True) -> Verification:
    verification = log.begin_verification(data, bumps_epochs=bumps_epochs, now_ms=NOW_MS)
    assert verification is not None
    return verification


def refused(log: PartitionLog, data: bytes, verification: Verification | None = None) -> ErrorCode:
    """Why a batch is not appended; the log is as before."""
    before = log.leo
    with pytest.raises(ApiError, match="producer 7") as refusal:
        log.append_as_leader(data, epoch=1, now_ms=NOW_MS, verification=verification)
    assert before == log.leo
    return refusal.value.code


def test_the_first_batch_of_a_transaction_needs_its_verification_and_the_next_ones_none(tmp_path: Path) -> None:
    log = opened(tmp_path)

    assert ErrorCode.INVALID_TXN_STATE == refused(log, batch())
    log.append_as_leader(batch(), epoch=1, now_ms=NOW_MS, verification=begun(log, batch()))
    assert log.begin_verification(batch(sequence=1), bumps_epochs=True, now_ms=NOW_MS) is None
    log.append_as_leader(batch(sequence=1), epoch=1, now_ms=NOW_MS)
    log.abandon()


def test_a_batch_that_was_on_its_way_when_its_transaction_ended_opens_none(tmp_path: Path) -> None:
    """The coordinator has said yes, and then the marker was first: KIP-890's hanging transaction."""
    log = opened(tmp_path)
    late = begun(log, batch())
    ended(log, (7, 0), aborts=True)

    assert ErrorCode.INVALID_TXN_STATE == refused(log, batch(), late)
    again = begun(log, batch())
    assert again is not late
    assert ErrorCode.INVALID_TXN_STATE == refused(log, batch(), late)
    assert log.first_open_offset is None
    log.abandon()


def test_a_marker_by_the_leader_before_ends_a_verification_too(tmp_path: Path) -> None:
    log = opened(tmp_path)
    late = begun(log, batch())
    marker = TransactionEnd(7, 0, Marker(True, 3)).batch(base_offset=0, epoch=1, now_ms=NOW_MS)
    log.append_as_follower(marker, now_ms=NOW_MS)

    assert ErrorCode.INVALID_TXN_STATE == refused(log, batch(), late)
    log.abandon()


def test_a_truncation_keeps_the_verification(tmp_path: Path) -> None:
    """A leader that has followed meanwhile: the producer's transaction is still the one that was asked about."""
    log = opened(tmp_path)
    log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)
    verification = begun(log, batch())
    log.truncate(0)

    assert 0 == log.append_as_leader(batch(), epoch=1, now_ms=NOW_MS, verification=verification).base_offset
    log.abandon()


def test_batches_that_overtake_the_first_one_are_refused_while_its_coordinator_is_asked(tmp_path: Path) -> None:
    log = opened(tmp_path)
    begun(log, batch(sequence=5), bumps_epochs=False)
    second = begun(log, batch(sequence=4), bumps_epochs=False)

    assert ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER == refused(log, batch(sequence=5), second)
    log.append_as_leader(batch(sequence=4), epoch=1, now_ms=NOW_MS, verification=second)
    log.append_as_leader(batch(sequence=5), epoch=1, now_ms=NOW_MS)
    log.abandon()


def test_a_question_about_a_producer_holds_up_none_of_its_batches_of_no_transaction(tmp_path: Path) -> None:
    """By any connection: ids are small numbers."""
    log = opened(tmp_path)
    log.append_as_leader(produced(producer=(7, 0, 0)), epoch=1, now_ms=NOW_MS)
    refused_ = begun(log, batch())
    log.append_as_leader(produced(producer=(7, 0, 1)), epoch=1, now_ms=NOW_MS)
    log.drop_verification(7, refused_)

    assert ErrorCode.INVALID_TXN_STATE == refused(log, batch(epoch=1), refused_)
    log.abandon()


@pytest.mark.parametrize("bumps_epochs", [True, False])
def test_a_producer_with_an_epoch_for_each_transaction_begins_it_with_0(tmp_path: Path, bumps_epochs: bool) -> None:
    """One without may go on anywhere: this partition may have forgotten it (KIP-360)."""
    log = opened(tmp_path)
    verification = begun(log, batch(sequence=3), bumps_epochs=bumps_epochs)
    if bumps_epochs:
        assert ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER == refused(log, batch(sequence=3), verification)
    else:
        log.append_as_leader(batch(sequence=3), epoch=1, now_ms=NOW_MS, verification=verification)
    log.abandon()


def test_an_older_epoch_is_not_even_asked_about(tmp_path: Path) -> None:
    log = opened(tmp_path)
    written(log, batch(epoch=4))
    with pytest.raises(ApiError, match="producer 7 sends in epoch 3, and is in epoch 4") as refusal:
        begun(log, batch(epoch=3))

    assert ErrorCode.INVALID_PRODUCER_EPOCH == refusal.value.code
    log.abandon()


def test_a_batch_of_no_transaction_is_refused_while_one_is_open(tmp_path: Path) -> None:
    log = opened(tmp_path)
    written(log, batch())

    assert ErrorCode.INVALID_TXN_STATE == refused(log, batch(sequence=1, transactional=False))
    ended(log, (7, 0))
    log.append_as_leader(batch(sequence=1, transactional=False), epoch=1, now_ms=NOW_MS)
    log.abandon()


def test_questions_of_producers_that_never_came_back_are_forgotten(tmp_path: Path) -> None:
    log = opened(tmp_path)
    late = begun(log, batch())
    log.forget_idle_producers(before_ms=NOW_MS)
    log.append_as_leader(batch(), epoch=1, now_ms=NOW_MS, verification=late)
    ended(log, (7, 0))
    late = begun(log, batch(sequence=1))
    log.forget_idle_producers(before_ms=NOW_MS + 1)

    assert ErrorCode.INVALID_TXN_STATE == refused(log, batch(sequence=1), late)
    log.abandon()


MARKERS = {
    "the epoch of the records, before KIP-890": (0, 2, 3, None),
    "an older epoch": (0, 1, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
    "the next epoch, by KIP-890": (2, 3, 3, None),
    "the epoch of the records, by KIP-890": (2, 2, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
    "an older epoch, by KIP-890": (2, 1, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
    "a coordinator that another one has replaced": (0, 2, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    "a later coordinator": (0, 2, 4, None),
}


@pytest.mark.parametrize(("version", "epoch", "coordinator", "code"), MARKERS.values(), ids=MARKERS)
def test_which_markers_end_a_transaction(
    tmp_path: Path, version: int, epoch: int, coordinator: int, code: ErrorCode | None
) -> None:
    log = opened(tmp_path)
    ended(log, (7, 1), coordinator_epoch=3)
    written(log, batch(epoch=2))
    if code is None:
        ended(log, (7, epoch), coordinator_epoch=coordinator, transaction_version=version)
    else:
        with pytest.raises(ApiError, match="a marker of producer 7") as refusal:
            ended(log, (7, epoch), coordinator_epoch=coordinator, transaction_version=version)
        assert code == refusal.value.code
    log.commit(log.leo)

    assert ((None, 3) if code is None else (1, 2)) == (log.first_open_offset, log.leo)
    log.abandon()


def test_a_marker_that_is_sent_again_is_taken(tmp_path: Path) -> None:
    """Its answer was lost. And the last epoch of an id has none after it."""
    log = opened(tmp_path)
    written(log, batch())
    for _ in range(2):
        ended(log, (7, 1), transaction_version=2)
    written(log, batch(epoch=(1 << 15) - 1))
    ended(log, (7, (1 << 15) - 1), transaction_version=2)
    log.commit(log.leo)

    assert (None, 5) == (log.first_open_offset, log.leo)
    log.abandon()


def test_a_follower_takes_what_its_leader_has(tmp_path: Path) -> None:
    """A follower must not refuse a batch that a leader has let through."""
    log = opened(tmp_path)
    log.append_as_follower(placed(batch(epoch=2), offset=0, epoch=1), now_ms=NOW_MS)
    for at, marker in enumerate((TransactionEnd(7, 1, Marker(True, 3)), TransactionEnd(7, 2, Marker(True, 2)))):
        log.append_as_follower(marker.batch(base_offset=1 + at, epoch=1, now_ms=NOW_MS), now_ms=NOW_MS)

    assert 3 == log.leo
    log.abandon()


def test_a_marker_has_the_producer_and_what_was_decided(tmp_path: Path) -> None:
    log = opened(tmp_path)
    written(log, batch())
    ended(log, (7, 5), aborts=True, coordinator_epoch=9, transaction_version=2)
    found = log.read(1, 2, 1000)
    assert found is not None
    data = found.read()
    ((position, header),) = batches(data)

    assert (7, 5, -1, True) == (header.producer_id, header.producer_epoch, header.base_sequence, header.is_control)
    assert Marker(True, 9) == marker_in(header, data, position)
    log.abandon()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_coordinator_that_is_fenced_is_known_after_a_start(tmp_path: Path, how: str) -> None:
    log = opened(tmp_path)
    ended(log, (7, 0), coordinator_epoch=5)
    log.flush()
    if how == "stop":
        log.close()
    else:
        log.abandon()
    log = opened(tmp_path, clean=how == "stop")
    with pytest.raises(ApiError, match="and the last one was by 5") as refusal:
        ended(log, (7, 0), coordinator_epoch=4)

    assert ErrorCode.TRANSACTION_COORDINATOR_FENCED == refusal.value.code
    log.abandon()


def test_an_open_transaction_whose_first_records_are_deleted_begins_with_the_log(tmp_path: Path) -> None:
    log = opened(tmp_path)
    written(log, batch())
    log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)
    log.commit(2)
    log.raise_start(1)

    assert 1 == log.first_open_offset
    log.abandon()


def test_a_truncation_leaves_what_was_decided_and_committed_decided(tmp_path: Path) -> None:
    """Else a consumer with read_committed would stand still there until the next record is committed."""
    log = opened(tmp_path)
    written(log, batch())
    ended(log, (7, 0))
    log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)
    log.commit(2)
    log.truncate(2)

    assert log.first_open_offset is None
    log.abandon()
