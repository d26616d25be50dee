"""A cluster of real processes for each module (two modules may run at once), and a summary of what was measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.e2e.cluster import SESSION_TIMEOUT_MS, Cluster, control_plane
from tests.e2e.writer import Writer, check_disks

Measure = Callable[[str, float], None]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures = [
        f"{figure:8.2f} {what}: {report.nodeid.partition('::')[2]}"
        for report in terminalreporter.stats.get("passed", [])
        for what, figure in report.user_properties
    ]
    if figures:
        terminalreporter.section("measured, not asserted")
        for line in figures:
            terminalreporter.write_line(line)


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Measure:
    """Keeps a figure of this test for the summary: its name with the unit, and the number."""
    return record_property


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A control plane with three brokers, by the module's SESSION_TIMEOUT_MS and …_SETTINGS where it has them."""
    async with control_plane(
        tmp_path_factory.mktemp("cluster"),
        session_timeout_ms=getattr(request.module, "SESSION_TIMEOUT_MS", SESSION_TIMEOUT_MS),
        quorum_settings=getattr(request.module, "QUORUM_SETTINGS", {}),
        controller_settings=getattr(request.module, "CONTROLLER_SETTINGS", {}),
        with_gateways=getattr(request.module, "WITH_GATEWAYS", False),
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def writer(cluster: Cluster) -> AsyncIterator[Writer]:
    """One for all stories of a module: what was acknowledged in an earlier one must outlive the later ones, too.

    Whichever of them have run, in the end every disk tells the same story.
    """
    only = Writer(cluster)
    yield only
    await cluster.heal()
    await check_disks(cluster, only)
