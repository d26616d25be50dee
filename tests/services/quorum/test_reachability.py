"""A peer that is not reached is named, with its address and where that is from: at each change, then once a minute."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from deploy.local.ports import free_ports
from kraft import Uuid
from quorate.nouns import OffsetAndEpoch, ReplicaKey
from quorate.raft.history import History
from quorate.raft.messages import FetchRequest, VoteRequest
from quorate.raft.ready import Send
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet
from quorate.runtime.logging.logs import start_logs
from quorate.runtime.settings.setting_types import ConfiguredVoter, Endpoint
from services.quorum.endpoints import NodeEndpoints
from services.quorum.peers import Peers
from services.quorum.reachability import NOT_REACHED, STALE_ENTRY, Reachability
from services.quorum.translate import Address

WITHIN_S = 120
OWN = ReplicaKey(1, Uuid(bytes(15) + b"\x01"))
VOTE = VoteRequest(epoch=1, replica=OWN, last=OffsetAndEpoch(epoch=0, offset=0), reply_to=7)
FETCH = FetchRequest(epoch=1, replica=OWN, fetch_offset=0, last_fetched_epoch=0, max_bytes=1, max_wait_ms=1, reply_to=8)


class Asking:
    """Node 1, which asks node 2, and the warnings that it writes."""

    def __init__(self, peers: Peers, stream: io.StringIO, failed: asyncio.Queue[object]) -> None:
        self._peers, self._stream, self._failed = peers, stream, failed

    async def ask(self, request: VoteRequest | FetchRequest) -> list[dict[str, Any]]:
        """The warnings that the failed request has led to."""
        before = self._stream.tell()
        self._peers.send(Send(to=2, request=request))
        assert request.reply_to == await self._failed.get()
        lines = [json.loads(line) for line in self._stream.getvalue()[before:].splitlines()]
        return [line for line in lines if line["level"] == "warning"]


@asynccontextmanager
async def asking(endpoints: NodeEndpoints, listens: str = "one", *, after_s: float = 0) -> AsyncIterator[Asking]:
    failed: asyncio.Queue[object] = asyncio.Queue()
    stream = io.StringIO()
    start_logs({"QUORATE_LOG_FORMAT": "json"}, stream)
    listeners = (ListenerEndpoint("CONTROLLER", listens, 9093),)
    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        peers = Peers(
            endpoints,
            tasks,
            heard=lambda answer: None,
            failed=failed.put_nowait,
            lost=lambda node_id: None,
            refused=lambda why: None,
            request_timeout_ms=60_000,
            listeners=listeners,
            reachability=Reachability(OWN, listeners, after_s=after_s),
        )
        yield Asking(peers, stream, failed)
        await peers.close()


def recorded(port: int) -> History[VoterSet]:
    """The voters record: node 1 at one:9093, node 2 where nobody listens."""
    own = Voter(key=OWN, endpoints=(ListenerEndpoint("CONTROLLER", "one", 9093),))
    other = Voter(key=ReplicaKey(2), endpoints=(ListenerEndpoint("CONTROLLER", "127.0.0.1", port),))
    return History(VoterSet((own, other)))


@pytest.mark.parametrize("request_", [VOTE, FETCH], ids=["Vote", "Fetch"])
async def test_a_peer_that_nobody_answers_for_is_named_with_its_address_and_that_of_its_source(
    restored_logs: None, request_: VoteRequest | FetchRequest
) -> None:
    (port,) = free_ports(1)
    async with asking(NodeEndpoints((), (), recorded(port))) as node:
        (line,) = await node.ask(request_)
        again = await node.ask(request_)

    told = {key: line[key] for key in ("event", "node", "host", "port", "address_from")}
    assert told == {
        "event": NOT_REACHED,
        "node": 2,
        "host": "127.0.0.1",
        "port": port,
        "address_from": "the voters record in the log",
    }
    assert "UNAVAILABLE" in line["error"]
    assert "Connection refused" in line["error"]
    assert [] == again


async def test_a_peer_that_has_only_just_not_answered_is_not_told_of(restored_logs: None) -> None:
    (port,) = free_ports(1)
    async with asking(NodeEndpoints((), (), recorded(port)), after_s=WITHIN_S) as node:
        assert [] == await node.ask(VOTE)


@pytest.mark.parametrize(
    ("voters", "heard", "source"),
    [
        ((2,), False, "controller.quorum.voters"),
        ((2,), True, "another node's answer"),
        ((), False, ""),
    ],
)
async def test_it_is_said_where_an_address_is_from(
    restored_logs: None, voters: tuple[int, ...], heard: bool, source: str
) -> None:
    port, other = free_ports(2)
    configured = [ConfiguredVoter(each, Endpoint("127.0.0.1", port)) for each in voters]
    endpoints = NodeEndpoints(configured, (), History(VoterSet.of(1, 2)))
    if heard:
        endpoints.hear(2, Address("127.0.0.1", other))
    async with asking(endpoints) as node:
        (line,) = await node.ask(VOTE)

    assert source == line["address_from"]
    assert ("it is not known where node 2 listens" == line["error"]) == (not voters)


async def test_a_node_whose_own_entry_leads_elsewhere_says_so(restored_logs: None) -> None:
    (port,) = free_ports(1)
    async with asking(NodeEndpoints((), (), recorded(port)), listens="elsewhere") as node:
        first, _ = await node.ask(VOTE)

    assert (STALE_ENTRY, "CONTROLLER://one:9093", "CONTROLLER://elsewhere:9093") == (
        first["event"],
        first["entry"],
        first["listeners"],
    )
