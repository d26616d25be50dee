"""The gRPC servicer of `kraft.service.Observer`: answers reads from the replica, and traces from the span store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final

from kraft.api.describe_cluster_pb2 import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.service.observer_pb2 import (
    DiffImagesRequest,
    DiffImagesResponse,
    ExamineQuorumRequest,
    ExamineQuorumResponse,
    ExamineRequest,
    ExamineResponse,
    GetImageRequest,
    GetImageResponse,
    GetTraceRequest,
    GetTraceResponse,
    ListChangesRequest,
    ListChangesResponse,
    ListTracesRequest,
    ListTracesResponse,
    QueryRequest,
    QueryResponse,
    WatchImageRequest,
    WatchImageResponse,
)
from kraft.service.observer_pb2 import Span as SpanMessage
from kraft.service.observer_pb2_grpc import ObserverServicer
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.engine.decision import Command, Moment, steps_of
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.nouns import EndpointType
from quorate.runtime.access.entry_guard import EntryGuard, rights_of
from quorate.runtime.event_loop.turns import in_turns, protobuf_of, struct_of
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.caps import check_items
from quorate.traces import SpanData
from quorate.wire.protobuf import to_struct
from services.observer.changes import Changes
from services.observer.examinations import Examinations, Restartable
from services.observer.images import Images
from services.observer.queries import Queries
from services.observer.quorum_progress import AskLeader, QuorumProgress
from services.observer.spans import SpanStore

DESCRIBE_TOPICS: Final = "DescribeTopicPartitions"
DESCRIBE_CLUSTER: Final = "DescribeCluster"
WATCH_IMAGE: Final = "kraft.service.Observer/WatchImage"
SPANS_PER_TURN: Final = 500
"""Spans that are converted (about 5 ms) before the event loop runs other tasks."""
TRACE_BYTES_MAX: Final = 3 << 20
"""The bytes of spans in one answer: a gRPC client takes a message of 4 MiB unless it is configured otherwise."""


class ObserverService(ObserverServicer):
    """Serves `kraft.service.Observer`.

    DescribeCluster and DescribeTopicPartitions have the applied offset in their trailing metadata (`kraft-offset`).
    """

    def __init__(
        self,
        replica: Replica,
        store: SpanStore,
        guard: EntryGuard | None = None,
        *,
        state_url: str | None = None,
        ask_leader: AskLeader | None = None,
        led_ms: Callable[[], int] = lambda: 0,
        restartable: Restartable | None = None,
    ) -> None:
        """Without a `guard` everybody may read everything; `state_url` is that of the database of the state.

        `led_ms` says how long ago a leader was known, and `restartable` hears of the replica's records.
        `ask_leader` asks the quorum's leader how far its voters are; without it nobody can be asked.
        """
        self._queries = Queries(state_url)
        self._changes = Changes(state_url)
        self._images = Images(replica, self._changes, led_ms=led_ms)
        self._examinations = Examinations(replica, self._images, restartable or Restartable())
        self._progress = None if ask_leader is None else QuorumProgress(ask_leader)
        self._guard = guard
        self._replica = replica
        self._store = store

    async def close(self) -> None:
        """Closes the connections to the database of the state."""
        self._changes.close()

    async def DescribeTopicPartitions(
        self, request: DescribeTopicPartitionsRequest, context: Any
    ) -> DescribeTopicPartitionsResponse:
        """Describes topic partitions in the state that this replica has applied; it is committed, but may be stale.

        It takes DESCRIBE on each topic; of all topics, those that the caller may not see are left out. Raises
        ApiError(POLICY_VIOLATION) for more than 10,000 names.
        """
        check_items(request)
        command = describe_topic_partitions(
            await struct_of(request),
            allows=rights_of(self._guard, DESCRIBE_TOPICS, context, is_audited=bool(request.topics)),
            would_allow=rights_of(self._guard, DESCRIBE_TOPICS, context, is_audited=False),
        )
        return await self._read(command, context)

    async def DescribeCluster(self, request: DescribeClusterRequest, context: Any) -> DescribeClusterResponse:
        """Describes the cluster in the state that this replica has applied; it is committed, but may be stale.

        The controller id is that of the last known quorum leader. To list the controllers takes ALTER (KIP-919).
        """
        replica = self._replica
        if self._guard is not None and request.endpoint_type == EndpointType.CONTROLLERS:
            self._guard.require(AclOperation.ALTER, DESCRIBE_CLUSTER, context)
        command = describe_cluster(
            to_struct(request),
            cluster_id=replica.cluster_id or "",
            controller_id=replica.leader_id,
            allows=rights_of(self._guard, DESCRIBE_CLUSTER, context, is_audited=True),
            would_allow=rights_of(self._guard, DESCRIBE_CLUSTER, context, is_audited=False),
        )
        return await self._read(command, context)

    async def GetTrace(self, request: GetTraceRequest, context: Any) -> GetTraceResponse:
        """Returns the spans of a trace that have arrived so far, after the first `skip`, and how many there are.

        At least one, if there is one, and at most 10,000 spans and 3 MiB; the rest is read with a larger `skip`.
        Raises ApiError for a malformed trace id, or a negative `skip`.
        """
        await self._store.flush()
        spans = await self._store.trace(request.trace_id, skip=request.skip, bytes_max=TRACE_BYTES_MAX)
        response = GetTraceResponse(span_count=await self._store.span_count(request.trace_id))
        room = TRACE_BYTES_MAX
        for count, span in enumerate(spans, start=1):
            message = _message(span)
            room -= message.ByteSize()
            if room < 0 and response.spans:
                break
            response.spans.append(message)
            if count % SPANS_PER_TURN == 0:
                await asyncio.sleep(0)
        return response

    async def ListTraces(self, request: ListTracesRequest, context: Any) -> ListTracesResponse:
        """Lists the latest traces, newest first: `limit`, or 20; at most 1,000. Raises ApiError for a negative one."""
        await self._store.flush()
        return ListTracesResponse(
            traces=[
                ListTracesResponse.Trace(
                    trace_id=trace.trace_id,
                    root=trace.root,
                    start_unix_nano=trace.start_ns,
                    duration_nano=trace.duration_ns,
                    span_count=trace.span_count,
                )
                for trace in await self._store.traces(request.span_name, request.limit)
            ]
        )

    async def Query(self, request: QueryRequest, context: Any) -> AsyncIterator[QueryResponse]:
        """Answers a question in SQL from the database of the state, in parts.

        Raises ApiError for SQL that is wrong, would do more than read, or is beyond a cap, and as `Queries.answer`;
        also between the parts.
        """
        async with aclosing(self._queries.answer(request.sql)) as parts:
            async for part in parts:
                yield part

    async def ListChanges(self, request: ListChangesRequest, context: Any) -> ListChangesResponse:
        """Lists a page of what changed in the state, from the database of the state. Raises ApiError, as `Changes`."""
        return await self._changes.page(request)

    async def DiffImages(self, request: DiffImagesRequest, context: Any) -> AsyncIterator[DiffImagesResponse]:
        """Says which rows differ between two states of the database, in parts. Raises ApiError, as `Changes`."""
        async with aclosing(self._changes.diff(request)) as parts:
            async for part in parts:
                yield part

    async def WatchImage(self, request: WatchImageRequest, context: Any) -> AsyncIterator[WatchImageResponse]:
        """Tells what changes from an offset on, in parts, until the caller ends it, or has lost its right.

        Raises ApiError, as `Changes`; also between the parts.
        """

        def recheck() -> None:
            if self._guard is not None:
                self._guard.check(WATCH_IMAGE, context)

        async with aclosing(self._changes.watch(request, recheck)) as parts:
            async for part in parts:
                yield part

    async def GetImage(self, request: GetImageRequest, context: Any) -> AsyncIterator[GetImageResponse]:
        """Streams the present state, or that at a place of the log, as records without secrets, in parts.

        Raises ApiError if too many ask at once, and for a place of which the database has no state.
        """
        async with aclosing(self._images.tell(request.at if request.HasField("at") else None)) as parts:
            async for part in parts:
                yield part

    async def Examine(self, request: ExamineRequest, context: Any) -> ExamineResponse:
        """Returns findings on a state, and which brokers can be restarted. Raises ApiError (`Examinations.answer`)."""
        return await self._examinations.answer(request)

    async def ExamineQuorum(self, request: ExamineQuorumRequest, context: Any) -> ExamineQuorumResponse:
        """Says how far the voters are, and which can be restarted. Raises ApiError if no leader answers."""
        if self._progress is None:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "this observer knows no quorum that it could ask")
        return await self._progress.tell()

    async def _read(self, command: Command[Any], context: Any) -> Any:
        """Decides in turns of the loop. Each topic is as it is in its step, and the offset is that of the first."""
        applied = self._replica.applied
        decision = await in_turns(steps_of(command, self._replica.state, Moment(next_offset=applied, now_ms=0)))
        context.set_trailing_metadata((("kraft-offset", str(applied)),))
        return await protobuf_of(decision.response)


def _message(span: SpanData) -> SpanMessage:
    return SpanMessage(
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        service=span.service,
        instance=span.instance,
        start_unix_nano=span.start_ns,
        end_unix_nano=span.end_ns,
        error=span.error,
        attributes={key: str(value) for key, value in span.attributes.items()},
    )
