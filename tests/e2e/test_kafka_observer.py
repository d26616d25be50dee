"""An observer's process on controllers that do not give their log: what it says, and whether it stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from kraft.api.fetch import FetchResponse
from kraft.metadata.no_op_record import NoOpRecord
from quorate.errors import ErrorCode
from quorate.records import encode_record
from quorate.runtime.event_loop.loop import ExitCode
from quorate.wire.batch import data_batch
from tests.e2e.calls import eventually
from tests.e2e.observing import observing
from tests.e2e.starting import start
from tests.network.test_observer import Script, answer, listening
from tests.protocol.pair import SERVED

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

ANOTHER = "dGhpcyBpcyBhbm90aGVyIQ"
DESCRIBE_CLUSTER = 60


@pytest.mark.parametrize(
    ("served", "settings", "says"),
    [
        (
            SERVED,
            {"cluster.id": ANOTHER},
            rf"INCONSISTENT_CLUSTER_ID: 127\.0\.0\.1:\d+: Fetch: it is of another cluster than {ANOTHER}",
        ),
        (
            {key: each for key, each in SERVED.items() if key != DESCRIBE_CLUSTER},
            {},
            r"UNSUPPORTED_VERSION: 127\.0\.0\.1:\d+: the node does not support DescribeCluster \(key 60\)",
        ),
    ],
    ids=["a foreign cluster", "too old"],
)
async def test_a_refusal_that_no_try_heals_ends_it_with_one_line(
    tmp_path: Path, served: Mapping[int, range], settings: dict[str, str], says: str
) -> None:
    foreign = Script(answer(whole=ErrorCode.INCONSISTENT_CLUSTER_ID))
    async with listening(foreign, served=served) as ((host, port),):
        given = {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "bootstrap.controllers": f"{host}:{port}",
            **settings,
        }
        ended = await start("observer", given, tmp_path)

    assert ExitCode.FAILED == ended.code
    assert len(ended.fatal) == 1
    assert re.fullmatch(f"fatal: ApiError: {says}", ended.fatal[0]), ended.fatal


async def test_controllers_that_are_not_there_are_named_and_waited_for(tmp_path: Path) -> None:
    async with listening(Script()) as ((host, port),):
        pass
    async with observing(tmp_path, [f"{host}:{port}"]) as observer:

        async def warnings() -> list[str]:
            return observer.says("warning")

        (line,) = await eventually(warnings)
        was_ready = await observer.is_ready()
        nothing = data_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[encode_record(NoOpRecord(), 0)])
        leader = FetchResponse.FetchableTopicResponse.PartitionData.LeaderIdAndEpoch(1, 1)
        answers = (answer(nothing, end=1, current_leader=leader), answer(end=1, current_leader=leader))
        async with listening(Script(*answers), port=port):
            await observer.ready()

    assert not was_ready
    assert f'reason="{host}:{port}: ' in line
    assert "refused" in line
