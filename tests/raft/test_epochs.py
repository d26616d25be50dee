"""The epoch cache, against a log that writes the epoch on every record."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quorate.epochs import EpochCache
from quorate.nouns import OffsetAndEpoch

EPOCHS_MAX = 12


class EpochCacheTwin(RuleBasedStateMachine):
    """A log as a plain list of epochs, one a record, and the floor before it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = EpochCache()
        self.floor = OffsetAndEpoch(epoch=0, offset=0)
        self.records: list[int] = []

    @property
    def leo(self) -> int:
        return self.floor.offset + len(self.records)

    @property
    def last_epoch(self) -> int:
        return self.records[-1] if self.records else self.floor.epoch

    @rule(rise=st.integers(0, 2), count=st.integers(1, 4))
    def append(self, rise: int, count: int) -> None:
        epoch = max(1, self.last_epoch + rise)
        self.cache.assign(epoch=epoch, start_offset=self.leo)
        self.records += [epoch] * count

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        to = data.draw(st.integers(self.floor.offset, self.leo))
        self.cache.truncate(to=to)
        del self.records[to - self.floor.offset :]

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def start_at(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.records)))
        self.floor = OffsetAndEpoch(epoch=self.records[count - 1], offset=self.floor.offset + count)
        self.cache.start_at(self.floor)
        del self.records[:count]

    @rule(rise=st.integers(0, 2), gap=st.integers(0, 5))
    def restart_at(self, rise: int, gap: int) -> None:
        self.floor = OffsetAndEpoch(epoch=self.last_epoch + rise, offset=self.leo + gap)
        self.cache.restart_at(self.floor)
        self.records = []

    @invariant()
    def every_record_has_its_epoch(self) -> None:
        for at, epoch in enumerate(self.records):
            assert epoch == self.cache.epoch_at(self.floor.offset + at)
        assert self.last_epoch == self.cache.last_epoch
        assert self.floor == self.cache.floor

    @invariant()
    def every_epoch_ends_where_a_greater_one_begins(self) -> None:
        for asked in range(self.last_epoch + 2):
            known = [epoch for epoch in (self.floor.epoch, *self.records) if epoch <= asked]
            greater = [at for at, epoch in enumerate(self.records) if epoch > asked]
            end = self.floor.offset + greater[0] if greater else self.leo
            expected = OffsetAndEpoch(epoch=known[-1], offset=end) if known else self.floor

            assert expected == self.cache.end_offset_for(asked, leo=self.leo), asked

    @invariant()
    def a_cache_from_its_own_entries_is_the_same(self) -> None:
        assert self.cache.entries == EpochCache(self.cache.entries, floor=self.cache.floor).entries


TestEpochCache = EpochCacheTwin.TestCase
TestEpochCache.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_an_epoch_without_records_leaves_no_trace() -> None:
    cache = EpochCache([(1, 0), (2, 5)])
    cache.assign(epoch=4, start_offset=5)

    assert ((0, 0), (1, 0), (4, 5)) == cache.entries


@pytest.mark.parametrize(("epoch", "start_offset"), [(1, 9), (3, 4)])
def test_epochs_and_offsets_do_not_fall(epoch: int, start_offset: int) -> None:
    cache = EpochCache([(1, 0), (2, 5)])
    with pytest.raises(AssertionError):
        cache.assign(epoch=epoch, start_offset=start_offset)
