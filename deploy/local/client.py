"""The calls that the demonstration makes: ordinary admin RPCs, with a trace begun on this side."""

from __future__ import annotations

import asyncio
from typing import Final

from deploy.local.plan import Plan
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.observer_pb2 import GetTraceRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC
from quorate.runtime.client import Client
from quorate.runtime.telemetry import Telemetry
from quorate.traces import Span

DEADLINE_MS: Final = 10_000
TRACE_TIMEOUT_S: Final = 5.0
TRACE_QUIET_S: Final = 0.4
"""A trace is whole when nothing has been added for so long."""


class Admin:
    """An admin client of one control plane; it asks any controller."""

    def __init__(self, plan: Plan) -> None:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{plan.observer.address}"}
        self._telemetry = Telemetry.start(service="admin", instance="admin-1", environ=environ)
        self._controllers = Client(
            [each.address for each in plan.controllers], ControllerStub, telemetry=self._telemetry
        )
        self._observer = Client((plan.observer.address,), ObserverStub)

    async def create_topic(
        self, name: str, *, partitions: int, replication_factor: int
    ) -> tuple[CreateTopicsResponse, str]:
        """Create one topic; the answer, and the id of its trace, which begins here."""
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
        """One topic with its partitions."""
        request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name)])
        return await self._controllers.call(lambda stub: stub.DescribeTopicPartitions, request, deadline_ms=DEADLINE_MS)

    async def describe_quorum(self) -> DescribeQuorumResponse:
        """The quorum as its leader sees it."""
        topic = DescribeQuorumRequest.TopicData(
            topic_name=METADATA_TOPIC,
            partitions=[DescribeQuorumRequest.TopicData.PartitionData(partition_index=METADATA_PARTITION)],
        )
        return await self._controllers.call(
            lambda stub: stub.DescribeQuorum, DescribeQuorumRequest(topics=[topic]), deadline_ms=DEADLINE_MS
        )

    async def trace(self, trace_id: str) -> list[Span]:
        """The spans of a trace, once no more arrive: services send theirs a moment after the answer."""
        spans: list[Span] = []
        loop = asyncio.get_running_loop()
        deadline, quiet_since = loop.time() + TRACE_TIMEOUT_S, loop.time()
        while loop.time() < deadline and (not spans or loop.time() - quiet_since < TRACE_QUIET_S):
            answer = await self._observer.call(
                lambda stub: stub.GetTrace, GetTraceRequest(trace_id=trace_id), deadline_ms=DEADLINE_MS
            )
            if len(answer.spans) > len(spans):
                quiet_since = loop.time()
                spans = [
                    Span(
                        trace_id=trace_id,
                        span_id=span.span_id,
                        parent_span_id=span.parent_span_id,
                        name=span.name,
                        service=span.service,
                        instance=span.instance,
                        start_ns=span.start_unix_nano,
                        end_ns=span.end_unix_nano,
                        error=span.error,
                        attributes=dict(span.attributes),
                    )
                    for span in answer.spans
                ]
            await asyncio.sleep(0.05)
        return spans

    async def close(self) -> None:
        """Close every connection."""
        await self._telemetry.close()
        await self._controllers.close()
        await self._observer.close()
