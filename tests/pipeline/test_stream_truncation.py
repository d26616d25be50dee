"""A replica's log by chance: it grows, rolls, is truncated by later leaders, and cleaned; its reader is restarted.

Each record is returned once in any case, what is returned at the end is the log, and no row says otherwise.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quorate.nouns import Epoch, Offset
from quorate.pipeline.tail import EPOCHS_MAX, TailSettings
from tests.pipeline.logs import batches, history, node, segment
from tests.pipeline.test_stream_tail import FOREVER, Row, Stream

CHANGES = history(1)[1]
CLEANED = "were removed before they were read"


class Replica(RuleBasedStateMachine):
    """The directory of a voter, the batches that it holds, and a stream that follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp())
        self.epoch: Epoch = 1
        self.start: Offset = 0
        self.segments: list[tuple[Offset, list[tuple[Offset, Epoch]]]] = [(0, [])]
        self.returned: list[tuple[Offset, Epoch]] = []

    @initialize(limit=st.sampled_from((1, 3, FOREVER)))
    def starts(self, limit: int) -> None:
        """The stream starts; the offsets below `committed` are never truncated."""
        self.partition = node(self.top, "one")
        self.stream = Stream(self.top, look=TailSettings(lambda _: False), limit=limit)
        self.committed: Offset = 0
        self.write()

    @property
    def end(self) -> Offset:
        """The log's end."""
        base, held = self.segments[-1]
        return held[-1][0] + 1 if held else base

    @rule(count=st.integers(1, 4))
    def grows(self, count: int) -> None:
        """The leader of this epoch appends."""
        begin = self.end
        self.segments[-1][1].extend((begin + each, self.epoch) for each in range(count))
        self.write()

    @rule()
    def is_elected(self) -> None:
        """A leader begins the next epoch with a record of its own."""
        self.epoch += 1
        self.grows(1)

    @rule()
    def rolls(self) -> None:
        """The next record is in a segment of its own."""
        if self.segments[-1][1]:
            self.segments.append((self.end, []))
            self.write()

    @rule(share=st.floats(0, 1))
    def commits(self, share: float) -> None:
        """The high watermark moves on."""
        self.committed += int((self.end - self.committed) * share)

    @rule(share=st.floats(0, 1), is_seen=st.booleans())
    def is_deposed(self, share: float, is_seen: bool) -> None:
        """Some of what is not committed is truncated, and a later leader's records follow."""
        to = max(self.start, self.committed + int((self.end - self.committed) * share))
        self.segments = [(base, [each for each in held if each[0] < to]) for base, held in self.segments if base <= to]
        self.write()
        if is_seen:
            self.reads()
        self.is_elected()

    @precondition(lambda self: len(self.segments) > 1)
    @rule()
    def is_cleaned(self) -> None:
        """Retention removes the first segment, which is committed and was read."""
        base = self.segments[1][0]
        if base <= min(self.committed, self.stream.at.offset):
            self.segments.pop(0)
            self.start = base
            self.write()

    @rule()
    def reads(self) -> None:
        """One micro-batch."""
        self.take(self.stream.step())

    @rule()
    def reads_all(self) -> None:
        """Micro-batches until nothing is new: then the log was returned, each record once, the later epoch last."""
        self.take(self.stream.drain())
        held = [each for _, some in self.segments for each in some]
        latest: dict[Offset, Epoch] = {}
        for offset, epoch in self.returned:
            latest[offset] = epoch

        assert held == [(offset, latest[offset]) for offset, _ in held]
        assert len(self.returned) == len(set(self.returned)), self.returned

    def take(self, rows: list[Row]) -> None:
        """Notes what was returned."""
        for row in rows:
            if row.corrupt is None:
                assert row.offset is not None
                assert row.epoch is not None
                self.returned.append((row.offset, row.epoch))
            else:
                assert "a later leader truncated some of them" in row.corrupt

    def write(self) -> None:
        """Writes the files as they are now."""
        for path in self.partition.glob("*.log"):
            path.unlink()
        for base, held in self.segments:
            content = [batches([CHANGES], base_offset=offset, epoch=epoch)[0] for offset, epoch in held]
            segment(self.partition, content, base)

    def teardown(self) -> None:
        """Removes the directory."""
        shutil.rmtree(self.top)


Replica.TestCase.settings = settings(max_examples=60, stateful_step_count=EPOCHS_MAX, deadline=None)
test_each_record_is_returned_once = Replica.TestCase
