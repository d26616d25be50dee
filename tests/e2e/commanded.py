"""The command `quorate`, as these stories run it beside a plane."""

from __future__ import annotations

import asyncio

from tests.cli.directories import Ran, run
from tests.e2e.cluster import Cluster

__all__ = ["commanded", "controllers"]


async def commanded(*arguments: object) -> Ran:
    """One command, in a thread of this process: the brokers that live here go on."""
    return await asyncio.to_thread(run, *arguments)


def controllers(cluster: Cluster) -> tuple[str, str]:
    """The option that names all controllers."""
    return "--controller", ",".join(each.address for each in cluster.plan.controllers)
