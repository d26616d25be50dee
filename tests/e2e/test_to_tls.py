"""From clear text to TLS without a stop, and back, as in services/TO_TLS.md: three steps, each a rolling restart."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ErrorCode
from quorate.nouns import NodeId
from tests.e2e.calls import DEADLINE_MS, eventually
from tests.e2e.cluster import PATIENT, VOTERS, control_plane
from tests.e2e.moving import CLEAR, PLAINTEXT, SECURE, SSL, Moving, Stage
from tests.network.certificates import authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio, pytest.mark.timeout(1800)]

BOTH = {CLEAR: PLAINTEXT, SECURE: SSL}
"""The listeners of a controller while the cluster moves, with their security protocols."""


async def test_a_cluster_moves_from_clear_text_to_tls_and_back_while_topics_are_created(tmp_path: Path) -> None:
    """With voters in the log, and gateways, at whose listeners topics are created, too."""
    plane = control_plane(tmp_path / "plane", dynamic=True, quorum_settings=PATIENT, with_gateways=True)
    async with plane as cluster:
        issuer = authority(tmp_path)
        issuer.issue("stranger", "/O=cluster/CN=stranger")
        moving = Moving(cluster, issuer)
        await move_there(moving, in_the_log=True)

        assert dict.fromkeys(VOTERS, ErrorCode.TOPIC_AUTHORIZATION_FAILED) == {
            node_id: await created_by_a_stranger(moving, node_id) for node_id in VOTERS
        }
        assert (set(), set(VOTERS)) == (await moving.is_heard(CLEAR), await moving.is_heard(SECURE))

        await move_back(moving)

        assert (set(VOTERS), set()) == (await moving.is_heard(CLEAR), await moving.is_heard(SECURE))

        await nothing_is_lost(moving)


async def test_voters_in_the_settings_move_to_tls_as_well(tmp_path: Path) -> None:
    """The way back has the same settings in the opposite order: the test before goes it."""
    async with control_plane(tmp_path / "plane", quorum_settings=PATIENT) as cluster:
        moving = Moving(cluster, authority(tmp_path))
        await move_there(moving, in_the_log=False)

        await nothing_is_lost(moving)


async def move_there(moving: Moving, *, in_the_log: bool) -> None:
    """The three steps; topics are created from before each to after it."""
    async with moving.writing("plain"):
        await moving.restart_all(Stage.BOTH)
        await moving.has_listeners(BOTH, in_the_log=in_the_log)
        moving.move_clients(moving.secure)
        async with moving.writing("secure"):
            await moving.restart_all(Stage.CALLS_BY_TLS)
    await moving.move_brokers()
    async with moving.writing("alone"):
        await moving.restart_all(Stage.BY_TLS)
        await moving.has_listeners({SECURE: SSL}, in_the_log=in_the_log)

    assert {False} == {await is_heard(each.address) for each in moving.plain.quorum}


async def move_back(moving: Moving) -> None:
    """The three steps of a cluster with its voters in the log, from the last to the first."""
    async with moving.writing("back"):
        await moving.restart_all(Stage.CALLS_BY_TLS)
        await moving.has_listeners(BOTH, in_the_log=True)
        await moving.restart_all(Stage.BOTH)
        moving.move_clients(moving.plain)
        async with moving.writing("again"):
            await moving.more("back")
    await moving.move_brokers()
    async with moving.writing("clear"):
        await moving.restart_all(Stage.IN_THE_CLEAR)
        await moving.has_listeners({CLEAR: PLAINTEXT}, in_the_log=True)

    assert {True} == {await is_heard(each.address) for each in moving.plain.quorum}
    assert {False} == {await is_heard(each.address) for each in moving.secure.quorum}


async def nothing_is_lost(moving: Moving) -> None:
    """Each controller, and the observer, tell of each topic whose creation was acknowledged."""
    written = {name for done in moving.written.values() for name in done}
    for door in VOTERS:
        assert set() == written - (await moving.cluster.topics(at=door)).keys()
    await eventually(moving.cluster.topics, lambda told: written <= told.keys())


async def is_heard(address: str) -> bool:
    """Whether a quorum node answers there in the clear."""
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            await QuorumStub(channel).FindQuorum(FindQuorumRequest(), timeout=DEADLINE_MS / 1000)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            return False
        return True


async def created_by_a_stranger(moving: Moving, node_id: NodeId) -> ErrorCode:
    """How it ends that somebody creates a topic who has a certificate and no right."""
    request = CreateTopicsRequest((CreateTopicsRequest.CreatableTopic("refused", 1, 3),), DEADLINE_MS)
    async with await moving.connected(SECURE, node_id, shown="stranger") as client:
        answer = await client.ask_for(CreateTopicsResponse, request)
    return ErrorCode(answer.topics[0].error_code)
