"""A leader warns of a voter that fetches from below what it has acknowledged: its directory is an older copy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quorate.nouns import ReplicaKey
from quorate.raft.messages import FetchRequest, VoteRequest, VoteResponse
from quorate.raft.ready import Send
from services.quorum.driver import QuorumDriver
from tests.services.nodes import RECORD, committed, driver_of, open_disk

FORGETFUL = "a voter fetches from below what it has acknowledged"
WITHIN_S = 120


class Electing:
    """The other voter, which grants each vote."""

    def __init__(self, driver: QuorumDriver) -> None:
        self._driver = driver

    def send(self, send: Send) -> None:
        request = send.request
        if isinstance(request, VoteRequest):
            epoch = self._driver.core.role.epoch
            granted = VoteResponse(epoch=epoch, granted=True, reply_to=request.reply_to)
            asyncio.get_running_loop().call_soon(self._driver.hear, granted)

    def stop_fetching(self, *, unless_from: int | None) -> None:
        """Nothing to stop."""


def fetch(driver: QuorumDriver, offset: int) -> None:
    def reply(answer: Any, data: bytes) -> None:
        """The records are not looked at."""

    request = FetchRequest(
        epoch=driver.core.role.epoch,
        replica=ReplicaKey(2),
        fetch_offset=offset,
        last_fetched_epoch=driver.core.role.epoch if offset else 0,
        max_bytes=1 << 20,
        max_wait_ms=0,
        reply_to=reply,
    )
    driver.hear(request)


async def test_it_is_told_once_of_each_loss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failures: list[BaseException] = []
    disk = open_disk(tmp_path, voters=2)
    driver = driver_of(disk)
    driver.start(Electing(driver), failures.append)  # type: ignore[arg-type]
    async with asyncio.timeout(WITHIN_S):
        while driver.leadership.epoch_start_offset is None:
            await driver.changed.wait()
        driver.append(driver.core.role.epoch, driver.core.log.leo, [[RECORD], [RECORD]])
        end = driver.core.log.leo
        fetch(driver, end)
        await committed(driver, end)
    for offset in (1, 2, end):
        fetch(driver, offset)
    await asyncio.sleep(0)
    driver.stop()
    await driver.stopped()
    disk.close()

    assert [] == failures
    (told,) = [each for each in caplog.records if each.getMessage() == FORGETFUL]
    assert "voter 2 fetches from offset 1; it has acknowledged everything below offset 3" in str(told.__dict__)
