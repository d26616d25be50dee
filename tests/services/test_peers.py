"""The requests of a quorum node to others: whatever happens to them, the node can end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket

import pytest

from quorate.nouns import NodeId, ReplicaKey
from quorate.raft.history import History
from quorate.raft.messages import FetchRequest
from quorate.raft.ready import Send
from quorate.raft.voters import VoterSet
from quorate.runtime.setting_types import ConfiguredVoter, Endpoint
from services.quorum.endpoints import NodeEndpoints
from services.quorum.peers import Peers

WITHIN_S = 120
FETCH = FetchRequest(
    epoch=1, replica=ReplicaKey(1), fetch_offset=0, last_fetched_epoch=0, max_bytes=1, max_wait_ms=1, reply_to=1
)


@contextmanager
def silent_server() -> Iterator[int]:
    """A port that takes connections, and never says a word."""
    with socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.mark.parametrize("steps", range(6))
async def test_a_fetch_stream_ends_however_early_it_is_closed(steps: int) -> None:
    """gRPC's stream may be anywhere between made and under way after so many steps of the loop."""
    lost: list[NodeId] = []
    with silent_server() as port:
        voters = (ConfiguredVoter(2, Endpoint("127.0.0.1", port)),)
        async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
            peers = Peers(
                NodeEndpoints(voters, (), History(VoterSet.of(1, 2))),
                tasks,
                heard=lambda answer: None,
                failed=lambda token: None,
                lost=lost.append,
                refused=lambda why: None,
                request_timeout_ms=1_000,
            )
            peers.send(Send(to=2, request=FETCH))
            for _ in range(steps):
                await asyncio.sleep(0)
            await peers.close()

    assert [] == lost
