"""Where two logs part: the leader's answer, and the follower's truncation, against two logs compared batch by batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.nouns import OffsetAndEpoch
from quorate.replication import Batch, RestartAt, Truncate
from quorate.replication.divergence import divergence, epoch_end, truncation_for
from tests.replication.memory_log import MemoryLog


def log_of(*epochs: int, start: int = 0) -> MemoryLog:
    """A log with a record for each epoch."""
    batches = (Batch(base_offset=at, end_offset=at + 1, epoch=epoch) for at, epoch in enumerate(epochs, start))
    return MemoryLog(tuple(batches), start=start)


def cut_off(*epochs: int, at: int) -> MemoryLog:
    """The same, without what is below `at`."""
    log = log_of(*epochs)
    log.start_at(at)
    return log


@pytest.mark.parametrize(
    ("log", "epoch", "expected"),
    [
        (log_of(2, 2, 5), 5, (5, 3)),
        (log_of(2, 2, 5), 4, (2, 2)),
        (log_of(2, 2, 5), 6, None),  # Kafka: -1, -1
        (log_of(2, 2, 5), 1, (1, 0)),
        (log_of(2, 2, 5), -1, None),
        (log_of(), 0, None),
        (cut_off(2, 2, 5, 7, at=2), 2, (2, 2)),  # below the floor: it ends where the log starts
        (cut_off(2, 2, 5, 7, at=2), 6, (5, 3)),
    ],
)
def test_the_end_of_an_epoch_is_that_of_the_largest_up_to_it(
    log: MemoryLog, epoch: int, expected: tuple[int, int] | None
) -> None:
    """R8."""
    found = epoch_end(log.epochs, epoch, leo=log.leo)

    assert expected == (found and (found.epoch, found.offset))


@pytest.mark.parametrize(
    ("leader", "follower", "steps"),
    [
        # The follower has three records of epoch 2 that the leader never had.
        (log_of(1, 1, 3), log_of(1, 1, 2, 2, 2), [Truncate(2)]),
        # KIP-279's case: epochs that the other lacks, on both sides. Two steps, or a record of epoch 2 stays for good.
        (log_of(1, 1, 3, 5), log_of(1, 1, 2, 2, 4), [Truncate(4), Truncate(2)]),
        # The same epochs, and the follower has more of one.
        (log_of(1, 3, 5), log_of(1, 3, 3, 4), [Truncate(2)]),
        # Nothing in common: the log is emptied.
        (log_of(4, 4), log_of(2, 2), [RestartAt(leo=0, start=0)]),
        # It fits, and is behind.
        (log_of(1, 1, 3), log_of(1, 1), []),
    ],
)
def test_a_follower_truncates_until_its_log_is_a_prefix(
    leader: MemoryLog, follower: MemoryLog, steps: list[object]
) -> None:
    """R53, R54."""
    leader.epochs.assign(epoch=9, start_offset=leader.leo)  # as each leader has

    assert steps == reconcile(leader, follower)


def test_an_epoch_without_records_is_removed_from_the_cache() -> None:
    """A broker led epoch 4 and appended nothing; its log is right, and its cache is not."""
    follower = log_of(1, 1)
    follower.epochs.assign(epoch=4, start_offset=2)

    assert [Truncate(2)] == reconcile(log_of(1, 1, 5), follower)
    assert 1 == follower.epochs.last_epoch


def reconcile(leader: MemoryLog, follower: MemoryLog) -> list[object]:
    """Lets the follower fetch until the leader finds no divergence."""
    steps: list[object] = []
    while follower.epochs.last_epoch >= 0:
        found = divergence(leader, last_fetched_epoch=follower.epochs.last_epoch, fetch_offset=follower.leo)
        if found is None:
            break
        to = truncation_for(follower, found)
        step = Truncate(to) if to > follower.start else RestartAt(leo=to, start=to)
        follower.carry_out(step)
        steps.append(step)
        assert len(steps) < 20, steps
    return steps


@st.composite
def histories(draw: st.DrawFn) -> tuple[MemoryLog, MemoryLog]:
    """Two logs as leaders in turn leave them: each leads from what it has, and the other may copy some of that."""
    logs = [MemoryLog(), MemoryLog()]
    for epoch in range(1, draw(st.integers(1, 7))):
        leader, follower = draw(st.sampled_from([(logs[0], logs[1]), (logs[1], logs[0])]))
        leader.epochs.assign(epoch=epoch, start_offset=leader.leo)
        for _ in range(draw(st.integers(0, 3))):
            leader.write(b"%d" % epoch, epoch=epoch)
        if draw(st.booleans()):
            reconcile(leader, follower)
            end = draw(st.integers(follower.leo, leader.leo))
            for batch in leader.read(follower.leo, end):
                follower.write(batch.data, epoch=batch.epoch)
    return logs[0], logs[1]


@given(histories())
def test_what_stays_is_what_both_logs_had(logs: tuple[MemoryLog, MemoryLog]) -> None:
    """The naive twin compares records: nothing that agrees is cut, nothing that differs stays."""
    leader, follower = logs
    leader.epochs.assign(epoch=9, start_offset=leader.leo)
    pairs = [(batch.epoch, batch.data) for batch in leader.batches]
    own = [(batch.epoch, batch.data) for batch in follower.batches]
    common = next((at for at, (a, b) in enumerate(zip(pairs, own, strict=False)) if a != b), min(len(pairs), len(own)))

    reconcile(leader, follower)

    assert own[:common] == [(batch.epoch, batch.data) for batch in follower.batches]


def test_an_end_has_the_epoch_that_was_found() -> None:
    assert OffsetAndEpoch(epoch=2, offset=2) == divergence(log_of(2, 2, 5), last_fetched_epoch=3, fetch_offset=4)
