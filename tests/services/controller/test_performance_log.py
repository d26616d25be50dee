"""How long decisions take is written down: once a period on the active controller, at once if one took too long."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import grpc
import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Decision
from quorate.controller.engine.engine import Engine
from quorate.metadata.state import ClusterState
from quorate.records import NoOpRecord
from quorate.runtime.logging.logs import start_logs
from quorate.runtime.telemetry.tracing import OFF
from services.controller.driver import ControllerDriver
from services.controller.performance import PerformanceLog

MS = 1_000_000
Line = dict[str, Any]


class Said:
    """What is written down."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        start_logs({"QUORATE_LOG_FORMAT": "json"}, self._stream)

    def lines(self) -> list[Line]:
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [
            {key: line[key] for key in line if key not in ("time", "logger")}
            for line in lines
            if line["logger"] == "services.controller.performance"
        ]


@pytest.fixture
def said(restored_logs: None) -> Said:
    return Said()


def summary(count: int, average_ms: float, slowest: str | None, slowest_ms: float) -> Line:
    return {
        "level": "info",
        "event": "decisions",
        "period_ms": 60_000,
        "count": count,
        "average_ms": average_ms,
        "slowest": slowest,
        "slowest_ms": slowest_ms,
    }


@pytest.mark.parametrize("active", [True, False])
async def test_each_period_is_summed_up_by_the_active_one(active: bool, said: Said) -> None:
    given = [[("CreateTopics", 3 * MS), ("AlterPartition", 1 * MS), ("DeleteTopics", 3 * MS)], [], [("other", MS // 2)]]
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if not given:
            raise asyncio.CancelledError
        for api, took_ns in given.pop(0):
            performance.note(api, took_ns)

    performance = PerformanceLog(sleep=sleep)
    with pytest.raises(asyncio.CancelledError):
        await performance.run(lambda: active)

    told = [summary(3, 2.33, "CreateTopics", 3.0), summary(0, 0.0, None, 0.0), summary(1, 0.5, "other", 0.5)]
    assert (told if active else []) == said.lines()
    assert [60.0] * 4 == slept


async def test_what_took_too_long_is_told_at_once(said: Said) -> None:
    performance = PerformanceLog(always_from_ms=50)
    for took_ns in (50 * MS - 1, 50 * MS, 120 * MS):
        performance.note("UnregisterBroker", took_ns)

    assert [
        {"level": "warning", "event": "exceptionally slow", "api": "UnregisterBroker", "took_ms": took_ms}
        for took_ms in (50, 120)
    ] == said.lines()


class Jumping:
    """A clock that goes on by 7 ms whenever it is looked at."""

    def __init__(self) -> None:
        self._now_ms = 0

    def monotonic_ms(self) -> int:
        return self.wall_ms()

    def wall_ms(self) -> int:
        self._now_ms += 7
        return self._now_ms

    def wall_ns(self) -> int:
        return self.wall_ms() * MS


async def test_the_driver_tells_of_every_decision(said: Said) -> None:
    channel = grpc.aio.insecure_channel("localhost:1")  # nobody is there: the test says what the quorum node would
    driver = ControllerDriver(
        Engine(ClusterState()),
        channel,
        Jumping(),
        OFF,
        node_id=1,
        activation=activate((), ControllerSettings()),
        performance=PerformanceLog(always_from_ms=0),
    )
    await driver.hear(ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=1)))
    write = asyncio.create_task(driver.write("NoOp", lambda _state, _moment: Decision(None, (NoOpRecord(),))))
    await asyncio.sleep(0)  # it has begun
    driver.appended(driver.engine.next_offset)
    driver.commit(driver.engine.next_offset)
    await write
    await channel.close()

    # Looked at before it and after it.
    assert [("NoOp", 7)] == [(line["api"], line["took_ms"]) for line in said.lines()]
