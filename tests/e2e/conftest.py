"""One cluster of real processes for each module of stories; never two at once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.cluster import Cluster, control_plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A control plane with three brokers, by the module's SESSION_TIMEOUT_MS and QUORUM_SETTINGS where it has them."""
    async with control_plane(
        tmp_path_factory.mktemp("cluster"),
        session_timeout_ms=getattr(request.module, "SESSION_TIMEOUT_MS", 9_000),
        quorum_settings=getattr(request.module, "QUORUM_SETTINGS", {}),
    ) as running:
        yield running
