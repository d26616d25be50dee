"""A snapshot that a replica downloads stays until it is there, and what follows it; but not for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quorate.errors import ErrorCode
from quorate.nouns import OffsetAndEpoch, ReplicaKey
from quorate.raft.messages import FetchSnapshotRequest
from services.quorum import translate
from services.quorum.cleaner import Cleaner, RetentionLimits
from services.quorum.downloads import HELD_MAX_MS, QUIET_MS
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from tests.services.clocks import MovedClock
from tests.services.nodes import kept, snapshot, sole_leader, write

OLDEST = OffsetAndEpoch(epoch=1, offset=2)
NOTHING_MORE_THAN_MUST_BE = RetentionLimits(retention_bytes=0, retention_ms=-1, interval_ms=60_000, delete_delay_ms=0)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
async def node(tmp_path: Path, clock: MovedClock) -> AsyncIterator[QuorumDriver]:
    """Snapshots at 2, 3 and 4."""
    async with sole_leader(tmp_path, clock=clock) as driver:
        for _ in range(3):
            await snapshot(driver, await write(driver))
        yield driver


CALL = SimpleNamespace(invocation_metadata=tuple)


async def piece(node: QuorumDriver, *, position: int = 0) -> Any:
    """Of the oldest, for a replica."""
    servicer = PeerServicer(node, NodeEndpoints((), (), node.core.log.voters), cluster_id="c", node_id=1)
    request = FetchSnapshotRequest(epoch=1, replica=ReplicaKey(2), snapshot_id=OLDEST, position=position, max_bytes=10)
    return (await servicer.FetchSnapshot(translate.to_fetch_snapshot(request), CALL)).topics[0].partitions[0]


async def test_it_stays_until_what_follows_it_is_fetched(node: QuorumDriver, tmp_path: Path, clock: MovedClock) -> None:
    cleaner = Cleaner(node, NOTHING_MORE_THAN_MUST_BE)
    assert 10 == len((await piece(node)).unaligned_records)
    clock.now_ms += QUIET_MS - 1

    cleaner.clean()

    assert [2, 3, 4] == kept(node, tmp_path)
    assert 0 == node.core.log.start
    assert 10 == len((await piece(node, position=10)).unaligned_records)

    clock.now_ms += QUIET_MS
    cleaner.clean()

    assert [4] == kept(node, tmp_path)
    assert ErrorCode.SNAPSHOT_NOT_FOUND == (await piece(node, position=20)).error_code


async def test_only_what_ends_before_it_goes(node: QuorumDriver, tmp_path: Path) -> None:
    cleaner = Cleaner(node, NOTHING_MORE_THAN_MUST_BE)
    node.downloads.read(OffsetAndEpoch(epoch=1, offset=3), now_ms=node.now_ms)

    cleaner.clean()

    assert [3, 4] == kept(node, tmp_path)


async def test_a_download_without_end_does_not_fill_the_disk(
    node: QuorumDriver, tmp_path: Path, clock: MovedClock
) -> None:
    cleaner = Cleaner(node, NOTHING_MORE_THAN_MUST_BE)
    until_ms = clock.now_ms + HELD_MAX_MS
    while clock.now_ms < until_ms:
        await piece(node)
        cleaner.clean()
        assert [2, 3, 4] == kept(node, tmp_path)
        clock.now_ms += QUIET_MS - 1

    await piece(node)
    cleaner.clean()

    assert [4] == kept(node, tmp_path)
