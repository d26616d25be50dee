"""A quorum node in this process, for what its services promise to a controller and to replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.quorum.driver import QuorumDriver
from tests.services.nodes import sole_leader


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[QuorumDriver]:
    """A quorum node that is a quorum by itself, and leads epoch 1 with its LeaderChange at offset 0."""
    async with sole_leader(tmp_path) as driver:
        yield driver
