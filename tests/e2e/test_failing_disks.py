"""A disk that fails in a write which nobody waits for: the node ends, since it cannot go on as if that were done."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.service.quorum_pb2 import AppendRequest
from quorate.records import ConfigRecord, encode_record
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.disk_log import MARK_INTERVAL_BYTES
from quorate.storage.failpoints import ENVIRONMENT as FAILPOINTS
from tests.e2e.calls import eventually
from tests.e2e.voters import planned

VALUE = encode_record(
    ConfigRecord(resource_type=2, resource_name="a", name="b", value="v" * (MARK_INTERVAL_BYTES // 3)), 0
)

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]


async def test_a_durable_mark_that_cannot_be_written_ends_the_process(tmp_path: Path) -> None:
    """It is written at the start, and then after so many flushed bytes."""
    nodes = planned(tmp_path, count=1)
    try:
        await nodes.start(1)
        await nodes.running.kill(nodes[1])
        await nodes.running.spawn(nodes[1], environ={FAILPOINTS: "mark.before_write:eio@2"})
        await nodes.running.ready([nodes[1]])
        view = await eventually(lambda: nodes.find(1), lambda view: view.high_watermark > 0)
        stream = nodes.client(1).Append()
        await stream.write(AppendRequest(epoch=view.leader_epoch, base_offset=view.high_watermark, values=[VALUE] * 3))

        assert ExitCode.FAILED == await nodes.running.ended(nodes[1])
    finally:
        await nodes.stop()
