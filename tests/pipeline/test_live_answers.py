"""Answers that no node of ours gives, from a server that speaks the protocol: each is named, and none is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

import grpc
import pytest

from kraft.api.fetch_pb2 import FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotResponse
from kraft.service import quorum_pb2, quorum_pb2_grpc
from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.grpc_nodes import GrpcNodes
from quorate.pipeline.live import QuorumReader
from quorate.pipeline.nodes import Unanswered
from quorate.runtime.calls.server import Server
from quorate.wire.batch import data_batch

pytestmark = pytest.mark.timeout(1_800)

OF_LATER_KAFKAS = 30_000
"""An error code that nobody here knows."""
BRIEF_S = 0.3
FETCHED = FetchResponse.FetchableTopicResponse
PIECED = FetchSnapshotResponse.TopicSnapshot


class Scripted(quorum_pb2_grpc.QuorumServicer):
    """Gives one answer to whatever is fetched; None ends the stream without one."""

    def __init__(self, fetched: FetchResponse | None, piece: FetchSnapshotResponse) -> None:
        self._fetched = fetched
        self._piece = piece

    async def FindQuorum(
        self, request: quorum_pb2.FindQuorumRequest, context: grpc.aio.ServicerContext
    ) -> quorum_pb2.FindQuorumResponse:
        return quorum_pb2.FindQuorumResponse(cluster_id="scripted")

    async def RelayFetchStream(
        self, request_iterator: AsyncIterator[object], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[quorum_pb2.RelayFetchResponse]:
        if self._fetched is not None:
            yield quorum_pb2.RelayFetchResponse(response=self._fetched)

    async def RelayFetchSnapshot(
        self, request: object, context: grpc.aio.ServicerContext
    ) -> quorum_pb2.RelayFetchSnapshotResponse:
        return quorum_pb2.RelayFetchSnapshotResponse(response=self._piece)


@asynccontextmanager
async def serving(fetched: FetchResponse | None, piece: FetchSnapshotResponse) -> AsyncIterator[str]:
    """The address of a server that answers so."""
    server = Server()
    server.add("kraft.service.Quorum", quorum_pb2_grpc.add_QuorumServicer_to_server, Scripted(fetched, piece))
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace_s=0)


async def refusal(
    question: Callable[[QuorumReader], object],
    *,
    fetched: FetchResponse | None = None,
    piece: FetchSnapshotResponse | None = None,
) -> str:
    """Why the question has no answer, without the address."""

    def ask(address: str) -> str:
        with (
            closing(QuorumReader(GrpcNodes((address,)), retry_s=BRIEF_S)) as quorum,
            pytest.raises(Unanswered) as refused,
        ):
            question(quorum)
        return str(refused.value).partition(";")[0].replace(address, "HERE")

    async with serving(fetched, piece or FetchSnapshotResponse()) as address:
        return await asyncio.to_thread(ask, address)


def _partition(**fields: object) -> FetchResponse:
    partition = FETCHED.PartitionData(**fields)  # type: ignore[arg-type]  # the test's own words
    return FetchResponse(responses=[FETCHED(partitions=[partition])])


def _piece(*, offset: int = 1, **fields: object) -> FetchSnapshotResponse:
    snapshot_id = PIECED.PartitionSnapshot.SnapshotId(end_offset=offset, epoch=1)
    piece = PIECED.PartitionSnapshot(snapshot_id=snapshot_id, **fields)  # type: ignore[arg-type]  # as above
    return FetchSnapshotResponse(topics=[PIECED(partitions=[piece])])


@pytest.mark.parametrize(
    ("fetched", "why"),
    [
        (FetchResponse(error_code=OF_LATER_KAFKAS), f"endpoint HERE: error {OF_LATER_KAFKAS}"),
        (_partition(error_code=OF_LATER_KAFKAS), f"endpoint HERE: error {OF_LATER_KAFKAS}"),
        (FetchResponse(), "endpoint HERE says nothing of __cluster_metadata-0"),
        (FetchResponse(responses=[FETCHED()]), "endpoint HERE says nothing of __cluster_metadata-0"),
        (None, "endpoint HERE ended the stream without an answer"),
    ],
    ids=["code", "code-of-the-partition", "no-topic", "no-partition", "no-answer"],
)
async def test_an_answer_that_nobody_here_knows_is_asked_for_again_and_then_named(
    fetched: FetchResponse | None, why: str
) -> None:
    assert why == await refusal(lambda quorum: quorum.records(0), fetched=fetched)


def _batches(*base_offsets: int) -> FetchResponse:
    """Of two records each, all committed."""
    made = [data_batch(base_offset=at, epoch=1, timestamp_ms=0, values=(b"a", b"b")) for at in base_offsets]
    return _partition(high_watermark=100, records=b"".join(made))


@pytest.mark.parametrize(
    ("fetched", "why"),
    [
        (_batches(4), "endpoint HERE gave the batch of offsets 4 to 5, asked for was offset 6"),
        (_batches(8), "endpoint HERE gave the batch of offsets 8 to 9, asked for was offset 6"),
        (_batches(6, 6), "endpoint HERE gave the batch of offsets 6 to 7, asked for was offset 8"),
    ],
    ids=["before", "after", "twice"],
)
async def test_batches_that_were_not_asked_for_are_not_read_again_and_again(fetched: FetchResponse, why: str) -> None:
    assert why == await refusal(lambda quorum: quorum.records(6), fetched=fetched)


@pytest.mark.parametrize(
    ("piece", "why"),
    [
        (FetchSnapshotResponse(error_code=OF_LATER_KAFKAS), f"endpoint HERE: error {OF_LATER_KAFKAS}"),
        (FetchSnapshotResponse(topics=[PIECED()]), "endpoint HERE says nothing of __cluster_metadata-0"),
        (
            FetchSnapshotResponse(topics=[PIECED(partitions=[PIECED.PartitionSnapshot(error_code=OF_LATER_KAFKAS)])]),
            f"endpoint HERE: error {OF_LATER_KAFKAS}",
        ),
        (
            _piece(size=9),
            "endpoint HERE gave nothing at byte 0 of 9",
        ),
        (
            _piece(size=9, position=4, unaligned_records=b"bytes"),
            "endpoint HERE gave byte 4 of snapshot 1-1, asked for was byte 0 of 1-1",
        ),
        (
            _piece(offset=2, size=9, unaligned_records=b"bytes"),
            "endpoint HERE gave byte 0 of snapshot 2-1, asked for was byte 0 of 1-1",
        ),
    ],
    ids=["code", "no-partition", "code-of-the-partition", "no-bytes", "other-bytes", "of-another"],
)
async def test_a_piece_of_a_snapshot_that_nobody_here_knows_is_named_too(
    piece: FetchSnapshotResponse, why: str
) -> None:
    wanted = OffsetAndEpoch(offset=1, epoch=1)

    assert why == await refusal(lambda quorum: quorum.snapshot(wanted), piece=piece)
