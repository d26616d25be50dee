"""A replica that only reads goes on at a level that a controller refuses, and says so once."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Sequence

from quorate.nouns import Offset
from quorate.records import FeatureLevelRecord, encode_record
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import CommittedBatch
from quorate.runtime.following.replica import Replica
from quorate.runtime.logging.logs import start_logs
from quorate.runtime.telemetry.tracing import OFF
from quorate.wire.batch import data_batch, read_header


class Log:
    """A log that ends after these levels of metadata.version, a batch each."""

    cluster_id = "c"
    leader_id = 1
    is_led_elsewhere = False

    def __init__(self, levels: Sequence[int], *, high_watermark: Offset = 0) -> None:
        self._levels = levels
        self.high_watermark = high_watermark

    async def events(self) -> AsyncIterator[CommittedBatch]:
        for offset, level in enumerate(self._levels):
            values = [encode_record(FeatureLevelRecord("metadata.version", level), 0)]
            data = data_batch(base_offset=offset, epoch=1, timestamp_ms=0, values=values)
            yield CommittedBatch(header=read_header(data), data=data, high_watermark=offset + 1)


async def test_it_has_caught_up_once_nothing_is_missing_that_is_committed() -> None:
    """Who may call is decided from then on: an entry may be in the last record."""
    missing_one, whole = (
        Replica(Log([25], high_watermark=2), SystemClock(), OFF),
        Replica(Log([25]), SystemClock(), OFF),
    )
    told = [whole.has_caught_up]
    for replica in (missing_one, whole):
        await replica.run()
        told.append(replica.has_caught_up)

    assert [False, False, True] == told


async def test_an_unknown_metadata_version_is_said_once(restored_logs: None) -> None:
    stream = io.StringIO()
    start_logs({"QUORATE_LOG_FORMAT": "json"}, stream)
    replica = Replica(Log([4, 4, 25]), SystemClock(), OFF)
    await replica.run()
    (line,) = map(json.loads, stream.getvalue().splitlines())

    assert ("warning", 3, 25) == (line["level"], replica.applied, replica.state.features.metadata_version)
    assert line["reason"].startswith("metadata.version is at level 4 (3.3-IV0); known here are 7 to 33 (3.3-IV3 to ")
