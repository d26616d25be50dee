"""Checks a whole control plane through its doors, as `helm test` does: `python -m services.observer.check`.

It stands in for one broker, creates a topic, sees it on every observer, finds the trace of the request on them, deletes
the topic, sees that on every observer, and takes the broker away again. It fails after `check.timeout.ms` with the step
that it could not do; what it made is taken away then, too.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.api.broker_registration_pb2 import BrokerRegistrationRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.api.unregister_broker_pb2 import UnregisterBrokerRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.observer_pb2 import GetTraceRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.errors import ApiError, ErrorCode, refusal_of
from quorate.metadata.features import supported_features
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, NodeId, uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.calls.transport_settings import ClientSettings
from quorate.runtime.clients.client import Client, call
from quorate.runtime.connections.transport import Transport
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.logging.logs import logger, start_logs
from quorate.runtime.settings.config import load, setting
from quorate.runtime.settings.setting_types import (
    Endpoint,
    boolean,
    endpoint,
    integer,
    list_of,
    milliseconds,
    text,
)
from quorate.runtime.telemetry.tracing import Telemetry

__all__ = ["CheckConfig"]

T = TypeVar("T")

log = logger(__name__)

CALL_TIMEOUT_MS: Final = 10_000
LOOK_AGAIN_S: Final = 0.2
HEARTBEAT_S: Final = 0.5
WRITES_PASS: Final = frozenset({"check", "controller", "quorum"})
"""The services that have a part in the trace of every write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckConfig(ClientSettings):
    """Where the control plane is, and what is asked of it."""

    controller: Endpoint = setting("controller.endpoint", endpoint(), "The controllers.")
    heartbeats: tuple[Endpoint, ...] = setting("heartbeat.endpoint", list_of(endpoint()), "The heartbeat services.")
    observer: Endpoint = setting("observer.endpoint", endpoint(), "The observers: each address of the name is one.")
    cluster_id: str = setting("cluster.id", text(), "The cluster's id.")
    broker_id: NodeId = setting(
        "check.broker.id", integer(0, 2**31 - 1), "The broker that it stands in for; nobody else may have this id."
    )
    finds_traces: bool = setting("check.traces", boolean(), "Whether observers are to have its trace.", default=True)
    timeout_ms: int = setting("check.timeout.ms", milliseconds(1, None), "How long it may take.", default=120_000)


class Check:
    """One run of the check; `step` says what it is doing, or what it could not do."""

    def __init__(self, config: CheckConfig, transport: Transport, telemetry: Telemetry) -> None:
        self._config = config
        self._transport = transport
        self._telemetry = telemetry
        self._controllers = Client((str(config.controller),), ControllerStub, telemetry=telemetry, transport=transport)
        self._heartbeats = Client([str(each) for each in config.heartbeats], HeartbeatStub, transport=transport)
        self._topic = f"check-{uuid_text(random_uuid())}"
        self._is_made = False
        self.step = "begin"

    async def run(self) -> None:
        """Does all steps: registers a broker, creates a topic, sees both topic and trace on the observers, deletes it.

        Broker and topic are taken away at the end, also after a failure. It waits without a bound: the caller has one.
        Raises ApiError for a refusal.
        """
        async with AsyncExitStack() as stack:
            observers = [await stack.enter_async_context(self._observer(each)) for each in await self._addresses()]
            await stack.enter_async_context(self._broker())
            stack.push_async_callback(self._take_away)
            trace_id = await self._create()
            await self._seen(observers, there=True)
            if self._config.finds_traces:
                await self._traced(observers, trace_id)
            await self._delete()
            await self._seen(observers, there=False)
            self._begin("take the broker away")

    async def close(self) -> None:
        """Closes the connections."""
        await self._controllers.close()
        await self._heartbeats.close()

    def _begin(self, step: str) -> None:
        log.info("step", step=step)
        self.step = step

    async def _addresses(self) -> list[str]:
        """Returns the address of each observer behind the name."""
        at = self._config.observer
        self._begin(f"find the observers at {at}")
        loop = asyncio.get_running_loop()

        async def found() -> list[str]:
            try:
                told = await loop.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)
            except OSError:
                return []
            return sorted({str(Endpoint(str(each[4][0]), at.port)) for each in told})

        return await _eventually(found, bool)

    @asynccontextmanager
    async def _observer(self, address: str) -> AsyncIterator[ObserverStub]:
        """One observer, by its IP address; its certificate is for the name of all."""
        named = (("grpc.ssl_target_name_override", self._config.observer.host),)
        async with self._transport.open_channel(address, () if self._transport.is_plain else named) as channel:
            yield ObserverStub(channel)

    @asynccontextmanager
    async def _broker(self) -> AsyncIterator[None]:
        """Stands in for a broker, which is unfenced inside of the block and no longer registered after it."""
        broker_id = self._config.broker_id
        self._begin(f"register broker {broker_id}")
        registered = await self._controllers.call(
            lambda stub: stub.BrokerRegistration, self._registration(), deadline_ms=self._config.timeout_ms
        )
        if registered.error_code:
            raise refusal_of(registered.error_code, f"broker {broker_id} is not registered")
        self._begin(f"unfence broker {broker_id}")
        unfenced = asyncio.Event()
        beating = asyncio.ensure_future(self._beat(registered.broker_epoch, unfenced))
        try:
            await unfenced.wait()
            yield
        finally:
            beating.cancel()
            await self._controllers.call(
                lambda stub: stub.UnregisterBroker,
                UnregisterBrokerRequest(broker_id=broker_id),
                deadline_ms=CALL_TIMEOUT_MS,
            )

    async def _beat(self, broker_epoch: int, unfenced: asyncio.Event) -> None:
        while True:
            try:
                heartbeat = BrokerHeartbeatRequest(
                    broker_id=self._config.broker_id,
                    broker_epoch=broker_epoch,
                    current_metadata_offset=await self._high_watermark() - 1,
                )
                answer = await self._heartbeats.call(
                    lambda stub: stub.BrokerHeartbeat, heartbeat, deadline_ms=CALL_TIMEOUT_MS
                )
                if not answer.error_code and not answer.is_fenced:
                    unfenced.set()
            except ApiError as failure:
                log.info("a heartbeat failed and is tried again", reason=str(failure))
            await asyncio.sleep(HEARTBEAT_S if unfenced.is_set() else LOOK_AGAIN_S)

    async def _high_watermark(self) -> int:
        topic = DescribeQuorumRequest.TopicData
        partition = topic.PartitionData(partition_index=METADATA_PARTITION)
        answer = await self._controllers.call(
            lambda stub: stub.DescribeQuorum,
            DescribeQuorumRequest(topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])]),
            deadline_ms=CALL_TIMEOUT_MS,
        )
        described = answer.topics[0].partitions[0]
        if described.error_code:
            raise refusal_of(described.error_code, "the quorum has no leader")
        return described.high_watermark

    def _registration(self) -> BrokerRegistrationRequest:
        request = BrokerRegistrationRequest
        return request(
            broker_id=self._config.broker_id,
            cluster_id=self._config.cluster_id,
            incarnation_id=uuid_text(random_uuid()),
            listeners=[request.Listener(name="CHECK", host="localhost", port=1)],
            features=[
                request.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_features().items()
            ],
            log_dirs=[uuid_text(random_uuid())],
        )

    async def _create(self) -> str:
        """Creates the topic on the stand-in's broker, so that no real one has work; returns the trace's id."""
        self._begin(f"create topic {self._topic}")
        topic = CreateTopicsRequest.CreatableTopic(
            name=self._topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreateTopicsRequest.CreatableTopic.CreatableReplicaAssignment(
                    partition_index=0, broker_ids=[self._config.broker_id]
                )
            ],
        )
        self._is_made = True
        with self._telemetry.span("helm test: create a topic") as span:
            answer = await self._controllers.call(
                lambda stub: stub.CreateTopics,
                CreateTopicsRequest(topics=[topic], timeout_ms=CALL_TIMEOUT_MS),
                deadline_ms=self._config.timeout_ms,
            )
        for result in answer.topics:
            # After a retry it may have been created by the first attempt.
            if ErrorCode(result.error_code) not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise refusal_of(result.error_code, result.error_message)
        return (span.traceparent or b"-").decode("ascii").split("-")[1]

    async def _seen(self, observers: Sequence[ObserverStub], *, there: bool) -> None:
        """Waits until every observer has the topic, or has it no more."""
        self._begin(f"{'see' if there else 'miss'} the topic on {len(observers)} observers")
        topic = DescribeTopicPartitionsRequest.TopicRequest(name=self._topic)
        request = DescribeTopicPartitionsRequest(topics=[topic])

        async def has(stub: ObserverStub) -> bool | None:
            try:
                answer = await call(stub.DescribeTopicPartitions, request, deadline_ms=CALL_TIMEOUT_MS)
            except ApiError as failure:
                log.info("an observer has not answered", reason=str(failure))
                return None
            return not answer.topics[0].error_code

        async def all_have() -> bool:
            return all([(await has(stub)) is there for stub in observers])

        await _eventually(all_have, bool)

    async def _traced(self, observers: Sequence[ObserverStub], trace_id: str) -> None:
        """Waits until the observers have spans of all services that every write passes, in one trace."""
        self._begin(f"find trace {trace_id}")

        async def services() -> set[str]:
            found = set()
            for stub in observers:
                try:
                    answer = await call(stub.GetTrace, GetTraceRequest(trace_id=trace_id), deadline_ms=CALL_TIMEOUT_MS)
                except ApiError as failure:
                    log.info("an observer has no trace yet", reason=str(failure))
                else:
                    found |= {span.service for span in answer.spans}
            return found

        await _eventually(services, lambda found: found >= WRITES_PASS)

    async def _delete(self) -> None:
        self._begin(f"delete topic {self._topic}")
        topic = DeleteTopicsRequest.DeleteTopicState(name=self._topic)
        answer = await self._controllers.call(
            lambda stub: stub.DeleteTopics,
            DeleteTopicsRequest(topics=[topic], timeout_ms=CALL_TIMEOUT_MS),
            deadline_ms=self._config.timeout_ms,
        )
        for result in answer.responses:
            if ErrorCode(result.error_code) not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise refusal_of(result.error_code, result.error_message)
        self._is_made = False

    async def _take_away(self) -> None:
        """Deletes the topic if a step between its creation and its end has failed; that is the step which is
        reported."""
        if self._is_made:
            failed = self.step
            await self._delete()
            self.step = failed


async def main(life: ServiceLife) -> None:
    """Checks once, by the process's own arguments.

    Raises TimeoutError with the step that could not be done within `check.timeout.ms`, or before it was asked to stop;
    ApiError for a refusal, ConfigError, HelpAsked.
    """
    start_logs(os.environ)
    config = load(CheckConfig, sys.argv[1:], os.environ)
    transport = config.transport()
    telemetry = Telemetry.start(service="check", instance="check", environ=os.environ, transport=transport)
    check = Check(config, transport, telemetry)
    running, asked = asyncio.ensure_future(check.run()), asyncio.ensure_future(life.stopping())
    try:
        await asyncio.wait((running, asked), timeout=config.timeout_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            why = "was asked to stop" if asked.done() else f"{config.timeout_ms} ms are over"
            failed = check.step
            running.cancel()
            await asyncio.wait((running,))  # what it made is taken away
            raise TimeoutError(f"could not {failed}: {why}")
        await running
    except ApiError as refusal:
        raise ApiError(refusal.code, f"could not {check.step}: {refusal.message}") from None
    finally:
        asked.cancel()
        await check.close()
        await telemetry.close()
    log.info("all is well", cluster_id=config.cluster_id)


async def _eventually(probe: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    while not holds(found := await probe()):  # noqa: ASYNC110  # what is waited for is in other processes
        await asyncio.sleep(LOOK_AGAIN_S)
    return found


if __name__ == "__main__":
    raise SystemExit(run(main))
