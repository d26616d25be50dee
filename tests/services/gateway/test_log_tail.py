"""The end of the log in a gateway, beside the list of all batches, of which it may have dropped the first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.wire.batch import BatchHeader
from services.gateway.log_tail import LogTail

pytestmark = pytest.mark.hypothesis


@dataclass(frozen=True)
class Batch:
    """A batch by its place, and the epoch before it."""

    offset: int
    next_offset: int
    before: int
    data: bytes


def header(offset: int, count: int, epoch: int, size: int) -> BatchHeader:
    return BatchHeader(offset, size, epoch, 0, 0, count - 1, 0, 0, -1, -1, -1, count)


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(1, 40)), max_size=60),
    st.integers(1, 200),
    st.integers(0, 300),
)
def test_it_answers_as_a_log_would_from_wherever_its_batches_begin(
    start: int, grown: list[tuple[int, int, int]], bytes_max: int, asked: int
) -> None:
    tail = LogTail(start, start and 1, bytes_max=bytes_max)
    log, end, epoch = [], start, start and 1
    for number, (count, later, size) in enumerate(grown):
        data = bytes([number]) * size
        log.append(Batch(end, end + count, epoch, data))
        tail.add(header(end, count, epoch + later, size), data)
        end, epoch = end + count, epoch + later
        held = [batch for batch in log if tail.epoch_before(batch.offset) is not None]

        assert held == log[len(log) - len(held) :], "what is left out is the oldest"
        assert len(held) == 1 or sum(len(batch.data) for batch in held) <= bytes_max

    begins = {batch.offset: batch for batch in log if tail.epoch_before(batch.offset) is not None}
    assert (end, epoch) == (tail.end, tail.epoch_before(end))
    assert (0, b"") == (tail.size_from(end), tail.records(end, asked))
    for offset in set(range(start, end)) - begins.keys():
        assert (None, 0, b"") == (tail.epoch_before(offset), tail.size_from(offset), tail.records(offset, asked))
    for offset, batch in begins.items():
        following = [each.data for each in log if each.offset >= offset]
        expected = following[0]
        for data in following[1:]:
            if len(expected) + len(data) > asked:
                break
            expected += data

        assert batch.before == tail.epoch_before(offset)
        assert sum(map(len, following)) == tail.size_from(offset)
        assert expected == tail.records(offset, asked)
