"""gRPC ↔ the replica and the trace store, nothing else."""

from __future__ import annotations

from typing import Any, Final

from kraft.api.describe_cluster_pb2 import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.service.observer_pb2 import (
    GetTraceRequest,
    GetTraceResponse,
    ListTracesRequest,
    ListTracesResponse,
)
from kraft.service.observer_pb2 import Span as SpanMessage
from kraft.service.observer_pb2_grpc import ObserverServicer
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.decision import Command, Moment
from quorate.runtime.replica import Replica
from quorate.wire.protobuf import to_protobuf, to_struct
from services.observer.spans import SpanStore

UNKNOWN_CONTROLLER: Final = -1


class Servicer(ObserverServicer):
    """Serves `kraft.service.Observer`: reads are of what this replica has applied, and say how far that is."""

    def __init__(self, replica: Replica, store: SpanStore) -> None:
        self._replica = replica
        self._store = store

    async def DescribeTopicPartitions(
        self, request: DescribeTopicPartitionsRequest, context: Any
    ) -> DescribeTopicPartitionsResponse:
        """Committed state, perhaps not the newest."""
        return self._read(describe_topic_partitions(to_struct(request)), context)

    async def DescribeCluster(self, request: DescribeClusterRequest, context: Any) -> DescribeClusterResponse:
        """Committed state, perhaps not the newest."""
        command = describe_cluster(to_struct(request), cluster_id="", controller_id=UNKNOWN_CONTROLLER)
        return self._read(command, context)

    async def GetTrace(self, request: GetTraceRequest, context: Any) -> GetTraceResponse:
        """What has arrived of it so far."""
        await self._store.flush()
        spans = await self._store.trace(request.trace_id)
        return GetTraceResponse(
            spans=[
                SpanMessage(
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
                for span in spans
            ]
        )

    async def ListTraces(self, request: ListTracesRequest, context: Any) -> ListTracesResponse:
        """Newest first."""
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

    def _read(self, command: Command[Any], context: Any) -> Any:
        decision = command(self._replica.state, Moment(next_offset=self._replica.applied, now_ms=0))
        context.set_trailing_metadata((("kraft-offset", str(self._replica.applied)),))
        return to_protobuf(decision.response)
