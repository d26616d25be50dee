"""The admin client of the demonstration: ordinary RPCs, whose trace begins on the client's side."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from deploy.local.plan import ClusterPlan
from deploy.local.processes import NotReady
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.observer_pb2 import GetTraceRequest, ListTracesRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.cli.trace import span_of
from quorate.errors import refusal_of
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC
from quorate.runtime.clients.client import Client
from quorate.runtime.telemetry.tracing import Telemetry
from quorate.traces import SpanData

DEADLINE_MS: Final = 10_000
TRACE_TIMEOUT_S: Final = 30.0
TRACE_QUIET_S: Final = 0.4
"""A trace of a write counts as complete when each process has sent a span and none has arrived for this time."""


class Admin:
    """An admin client of one control plane; it calls any controller."""

    def __init__(self, plan: ClusterPlan) -> None:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": plan.traces}
        transport = plan.transport
        self._telemetry = Telemetry.start(service="admin", instance="admin-1", environ=environ, transport=transport)
        self._controllers = Client(
            [each.address for each in plan.controllers],
            ControllerStub,
            telemetry=self._telemetry,
            transport=transport,
        )
        self._observer = Client((plan.observer.address,), ObserverStub, transport=transport)
        self._involved = {each.name for each in plan.processes if each.service != "gateway"}

    async def create_topic(
        self, name: str, *, partitions: int, replication_factor: int
    ) -> tuple[CreateTopicsResponse, str]:
        """Creates one topic; returns the answer and the id of the trace that begins here. Raises ApiError."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replication_factor
        )
        with self._telemetry.span("create a topic") as span:
            answer = await self._controllers.call(
                lambda stub: stub.CreateTopics,
                CreateTopicsRequest(topics=[topic], timeout_ms=DEADLINE_MS),
                deadline_ms=DEADLINE_MS,
            )
        return answer, (span.traceparent or b"").decode().split("-")[1]

    async def describe_topic(self, name: str) -> DescribeTopicPartitionsResponse:
        """Describes one topic with its partitions. Raises ApiError."""
        request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name)])
        return await self._controllers.call(lambda stub: stub.DescribeTopicPartitions, request, deadline_ms=DEADLINE_MS)

    async def describe_quorum(self) -> DescribeQuorumResponse:
        """Describes the quorum, as its leader sees it. Raises ApiError."""
        topic = DescribeQuorumRequest.TopicData(
            topic_name=METADATA_TOPIC,
            partitions=[DescribeQuorumRequest.TopicData.PartitionData(partition_index=METADATA_PARTITION)],
        )
        answer: DescribeQuorumResponse = await self._controllers.call(
            lambda stub: stub.DescribeQuorum, DescribeQuorumRequest(topics=[topic]), deadline_ms=DEADLINE_MS
        )
        if error_code := answer.topics[0].partitions[0].error_code:
            raise refusal_of(error_code, "the quorum has no leader")
        return answer

    async def trace(self, trace_id: str, involved: Collection[str] | None = None) -> list[SpanData]:
        """Returns the spans of a trace once all have come, as services export them after their answer.

        `involved` are the processes with a part in it: in a write to the metadata log all of the plan but the gateways.
        If one sends nothing, the others' spans come after 30 s.
        """
        awaited = self._involved if involved is None else set(involved)
        spans: list[SpanData] = []
        loop = asyncio.get_running_loop()
        deadline, quiet_since = loop.time() + TRACE_TIMEOUT_S, loop.time()
        while loop.time() < deadline and not (
            awaited <= {span.instance for span in spans} and loop.time() - quiet_since >= TRACE_QUIET_S
        ):
            answer = await self._observer.call(
                lambda stub: stub.GetTrace, GetTraceRequest(trace_id=trace_id), deadline_ms=DEADLINE_MS
            )
            if len(answer.spans) > len(spans):
                quiet_since = loop.time()
                spans = [span_of(trace_id, span) for span in answer.spans]
            await asyncio.sleep(0.05)
        return spans

    async def latest_trace(self, *, root: str, span_name: str) -> str:
        """Returns the id of the latest trace whose root is `root` and that has a span `span_name`.

        Raises ApiError, and NotReady if there is none after 30 s.
        """
        request, loop = ListTracesRequest(span_name=span_name), asyncio.get_running_loop()
        deadline = loop.time() + TRACE_TIMEOUT_S
        while loop.time() < deadline:
            answer = await self._observer.call(lambda stub: stub.ListTraces, request, deadline_ms=DEADLINE_MS)
            for trace in answer.traces:
                if trace.root == root:
                    return trace.trace_id
            await asyncio.sleep(0.05)
        raise NotReady(f"the observer has no trace from {root} to {span_name} after {TRACE_TIMEOUT_S:g} s")

    async def close(self) -> None:
        """Closes the connections and flushes the client's spans."""
        await self._telemetry.close()
        await self._controllers.close()
        await self._observer.close()
