"""A quorum node in this process, for what its services promise to a controller and to replicas."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from quorate.nouns import ReplicaKey
from quorate.raft.core import Raft
from quorate.raft.voters import VoterSet
from quorate.runtime.clock import SystemClock
from quorate.runtime.telemetry import OFF
from services.quorum.disk import Disk
from services.quorum.driver import Driver
from services.quorum.tracing import Tracer


class NoPeers:
    """A single voter has nobody to talk to."""

    def send(self, send: Any) -> None:
        raise AssertionError(send)

    def stop_fetching(self, *, unless_from: int | None) -> None:
        """Nothing to stop."""


@dataclass
class Failures:
    """What the node could not go on from: nothing, unless a test means it to."""

    seen: list[BaseException] = field(default_factory=list)
    meant: list[BaseException] = field(default_factory=list)
    happened: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, failure: BaseException) -> None:
        self.seen.append(failure)
        self.happened.set()


@pytest.fixture
def failures() -> Iterator[Failures]:
    failures = Failures()
    yield failures
    assert failures.meant == failures.seen


@pytest.fixture
async def leader(tmp_path: Path, failures: Failures) -> AsyncIterator[Driver]:
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
    driver.start(NoPeers(), failures.take)  # type: ignore[arg-type]
    while core.log.high_watermark < 1:
        await driver.changed.wait()
    yield driver
    driver.stop()
    if failures.seen:
        disk.log.abandon()  # as the end of the process would
    else:
        disk.close()
