"""The credentials of a log by offset: as sets and removals leave them, and only where that is known."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from kraft import Message
from quorate.metadata.scram_lost import ScramHistory, credentials_in, described
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    encode_record,
)
from quorate.wire.batch import ControlType, control_batch, data_batch, read_header

BEGIN: Final = BeginTransactionRecord(name=None)
END: Final = EndTransactionRecord()
ABORT: Final = AbortTransactionRecord(reason=None)


def sets(user: str, mechanism: int = 1) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(name=user, mechanism=mechanism, salt=b"s", iterations=4096)


def removes(user: str, mechanism: int = 1) -> RemoveUserScramCredentialRecord:
    return RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)


def history_of(*batches: list[Message]) -> ScramHistory:
    """That of a log of these batches, from offset 0 on."""
    history, offset = ScramHistory(), 0
    for records in batches:
        values = [encode_record(each, 0) for each in records]
        data = data_batch(base_offset=offset, epoch=1, timestamp_ms=0, values=values)
        history.note(read_header(data), data)
        offset += len(records)
    return history


def has(history: ScramHistory, end: int) -> list[tuple[int, str]]:
    """What the log has there: what a checkpoint without any would lack."""
    return history.lost(end, begin=(), checkpoint=())


def test_what_the_checkpoint_has_is_not_lost() -> None:
    history = history_of([sets("mallory")], [removes("mallory"), sets("alice"), sets("bob", 2), sets("bob")])

    assert [(1, "mallory")] == has(history, 1)
    assert [(1, "alice"), (1, "bob"), (2, "bob")] == has(history, 5)
    assert [(1, "bob")] == history.lost(5, begin=(), checkpoint={(1, "alice"), (2, "bob"), (2, "grace")})


def test_what_a_log_began_with_counts_until_it_is_removed() -> None:
    history = history_of([removes("mallory"), sets("alice")])

    assert [(1, "alice"), (1, "erin")] == history.lost(2, begin=[(1, "mallory"), (1, "erin")], checkpoint=())


def test_an_aborted_transaction_never_was() -> None:
    history = history_of([sets("alice"), BEGIN], [sets("bob"), removes("alice")], [ABORT, BEGIN, sets("erin"), END])

    assert [(1, "alice"), (1, "erin")] == has(history, 8)


def test_a_log_without_changes_below_the_checkpoint_can_have_lost_none() -> None:
    control = control_batch(base_offset=0, epoch=1, timestamp_ms=0, records=[(ControlType.LEADER_CHANGE, b"\1\x0b\0")])
    history = history_of([NoOpRecord()], [sets("late")])
    history.note(read_header(control), control)

    assert [False, True] == [history.changes_below(end) for end in (1, 2)]


@given(st.integers(3, 30), st.integers(0, 255))
def test_what_cannot_be_decoded_leaves_it_unknown(at: int, byte: int) -> None:
    value = bytearray(encode_record(sets("alice"), 0))
    value = value[: min(at, len(value) - 1)] + bytes([byte])
    data = data_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[encode_record(sets("bob"), 0), bytes(value)])
    history = ScramHistory()

    history.note(read_header(data), data)

    assert not history.changes_below(2) or (1, "bob") in has(history, 2)


def test_the_credentials_of_a_checkpoint() -> None:
    values = [encode_record(each, 0) for each in (NoOpRecord(), sets("alice"), sets("bob", 2))]

    assert {(1, "alice"), (2, "bob")} == credentials_in(values)


def test_people_are_told_users_and_mechanisms_and_of_many_the_first() -> None:
    assert "'alice' (SCRAM-SHA-256), 'b\\nb' (SCRAM-SHA-512), 'c' (mechanism 7)" == described(
        [(1, "alice"), (2, "b\nb"), (7, "c")]
    )
    assert described([(1, str(number)) for number in range(100)]).endswith("'19' (SCRAM-SHA-256) and 80 more")
