"""The stream reader of the source `kraft` for a running quorum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from quorate.runtime.event_loop.clock import Clock, SystemClock
from services.pipeline.source.columns import check_columns
from services.pipeline.source.live import Entry, LiveLog
from services.pipeline.source.options import FOREVER, parse
from services.pipeline.source.read_limits import default_limit, most_of
from services.pipeline.source.triggers import Waiting

__all__ = ["LiveStreamReader"]

CLOCK: Final = SystemClock()


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a running quorum's records as they are committed."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str], clock: Clock = CLOCK) -> None:
        self._live = LiveLog(parse(options), check_columns(columns))
        self._live.options.bounds.check_for_stream()
        self._below = FOREVER
        self._waiting = Waiting(self._live.options.offsets_min, self._live.options.delay_ms, clock)

    def initialOffset(self) -> dict[str, Entry]:  # Spark's name
        """Returns the stream offset at which a new stream starts."""
        return self._live.first()

    def getDefaultReadLimit(self) -> ReadLimit:  # Spark's name
        """Returns the limit that the options set; without any, all that is available."""
        return default_limit(self._live.options)

    def prepareForTriggerAvailableNow(self) -> None:  # Spark's name
        """Fixes the present high watermark as the end of the stream."""
        (entry,) = self._live.latest({}, FOREVER).values()
        self._below = entry["offset"]

    def latestOffset(self, start: dict[str, Entry], limit: ReadLimit) -> dict[str, Entry]:  # Spark's name
        """Returns the end of the next micro-batch: the high watermark, or the end of a batch if the limit is lower.

        Returns `start` while fewer than minOffsetsPerTrigger are there and maxTriggerDelay is not over.
        """
        room = most_of(limit)
        end = self._live.latest(start, room, below=self._below)
        if self._below != FOREVER or isinstance(limit, ReadAllAvailable):
            return end
        available = sum(entry["offset"] - start.get(name, {"offset": 0})["offset"] for name, entry in end.items())
        return end if self._waiting.is_over(available) else start

    def partitions(self, start: dict[str, Entry], end: dict[str, Entry]) -> list[InputPartition]:
        """Plans the ranges between two stream offsets, and a snapshot where the log was cleaned."""
        return self._live.ranges(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of an offset range or a snapshot as Arrow batches."""
        return self._live.read(partition)
