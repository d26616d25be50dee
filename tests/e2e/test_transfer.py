"""Leadership is handed from voter to voter while writes go on: nothing that was acknowledged is lost."""

from __future__ import annotations

import pytest

from kraft.service.quorum_pb2 import TransferLeadershipRequest
from tests.e2e.calls import call_with_retries
from tests.e2e.cluster import VOTERS, Cluster
from tests.e2e.writer import Writer, caught_up, check, writing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


async def test_writes_go_on_while_leadership_goes_round(cluster: Cluster) -> None:
    """Any controller may be asked for it."""
    writer = Writer(cluster)
    async with writing(writer, "transfer"):
        for voter in (*VOTERS, *VOTERS):
            if voter == await cluster.active():
                continue
            request = TransferLeadershipRequest(voter_id=voter, timeout_ms=5_000)
            answer = await call_with_retries(cluster.controller_stub(1).TransferLeadership, request)

            assert voter == answer.response.leader_id
            await writer.goes_on()
    await caught_up(cluster)
    await check(cluster, writer)
