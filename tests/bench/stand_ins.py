"""Stand-ins of brokers that stay unfenced while a bench needs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from quorate.nouns import NodeId
from tests.bench.beside_kafka import BROKERS
from tests.interop.mixed_quorum import MixedQuorum

BEAT_EVERY_S: Final = 2.0


@asynccontextmanager
async def beating(quorum: MixedQuorum) -> AsyncIterator[None]:
    """The stand-ins send heartbeats to the active controller, which stays the same."""
    leader_id = (await quorum.described_by_one_of(quorum.first_voters)).leader_id
    task = asyncio.create_task(_beat(quorum, leader_id))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _beat(quorum: MixedQuorum, leader_id: NodeId) -> None:
    """Keeps the stand-ins unfenced, until cancelled."""
    while True:
        for broker_id in BROKERS:
            await quorum.unfence(broker_id, at=leader_id)
        await asyncio.sleep(BEAT_EVERY_S)
