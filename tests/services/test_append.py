"""The RaftClient contract's Append: what the quorum node takes, and that a refusal voids what rested on it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from kraft.service.quorum_pb2 import AppendRequest, AppendResponse
from quorate.errors import ErrorCode
from quorate.nouns import ReplicaKey
from quorate.raft.core import Raft
from quorate.raft.voters import VoterSet
from quorate.records import NoOpRecord, encode_record
from quorate.runtime.clock import SystemClock
from quorate.runtime.telemetry import OFF
from services.quorum.attendance import Attendance
from services.quorum.disk import Disk
from services.quorum.driver import Driver
from services.quorum.servicer import ControllerServicer
from services.quorum.tracing import Tracer

RECORD = encode_record(NoOpRecord(), 0)


class NoPeers:
    """A single voter has nobody to talk to."""

    def send(self, send: Any) -> None:
        raise AssertionError(send)

    def stop_fetching(self, *, unless_from: int | None) -> None:
        """Nothing to stop."""


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Driver]:
    """A quorum node that is a quorum by itself, and leads epoch 1 with its LeaderChange at offset 0."""
    clock = SystemClock()
    disk = Disk(tmp_path, static=VoterSet.of(1), segment_bytes=1 << 30, segment_ms=1 << 40)
    core = Raft(
        node=ReplicaKey(1),
        cluster_id="c",
        log=disk.view(),
        election=disk.election(),
        random=random.Random(1),
        now_ms=clock.monotonic_ms(),
    )
    driver = Driver(core, disk, clock, Tracer(OFF, node_id=1))
    failures: list[BaseException] = []
    driver.start(NoPeers(), failures.append)  # type: ignore[arg-type]
    while core.log.high_watermark < 1:
        await driver.changed.wait()
    yield driver
    driver.stop()
    disk.close()
    assert failures == []


async def test_takes_what_follows_and_says_where_the_log_ends(leader: Driver) -> None:
    answers = await append(leader, [request(1, base=1, count=2), request(2, base=3)])

    assert [(0, 3), (0, 4)] == [(answer.error_code, answer.end_offset) for answer in answers]


async def test_a_refusal_voids_what_rested_on_it_even_where_it_would_fit(leader: Driver) -> None:
    """The second batch begins where the log happens to end; it was decided on the first, which was not taken."""
    answers = await append(leader, [request(1, base=5), request(2, base=1), request(3, base=1, attempt=1)])

    assert [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE] == [
        answer.error_code for answer in answers
    ]
    assert [1, 1, 2] == [answer.end_offset for answer in answers]


async def test_refuses_another_epoch(leader: Driver) -> None:
    answers = await append(leader, [request(1, base=1, epoch=0), request(2, base=1, epoch=2, attempt=1)])

    assert [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH] == [answer.error_code for answer in answers]
    assert leader.core.log.leo == 1


async def test_refuses_nothing_and_too_much(leader: Driver) -> None:
    answers = await append(
        leader, [request(1, base=1, count=0), AppendRequest(epoch=1, values=[bytes(9 << 20)], attempt=1)]
    )

    assert [ErrorCode.INVALID_REQUEST, ErrorCode.RECORD_LIST_TOO_LARGE] == [answer.error_code for answer in answers]
    assert leader.core.log.leo == 1


def request(correlation_id: int, *, base: int, count: int = 1, epoch: int = 1, attempt: int = 0) -> AppendRequest:
    return AppendRequest(
        correlation_id=correlation_id, epoch=epoch, base_offset=base, values=[RECORD] * count, attempt=attempt
    )


async def append(leader: Driver, requests: Iterable[AppendRequest]) -> list[AppendResponse]:
    async def stream() -> AsyncIterator[AppendRequest]:
        for each in requests:
            yield each

    servicer = ControllerServicer(leader, Attendance(leader, timeout_ms=0))

    return [answer async for answer in servicer.Append(stream(), None)]
