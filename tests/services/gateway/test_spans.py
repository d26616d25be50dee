"""A gateway's spans name the service that was asked."""

from __future__ import annotations

import grpc
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from kraft.api.create_topics import CreateTopicsRequest
from quorate.network.client import Disconnected, connect
from quorate.network.listening import Listening
from quorate.network.server import serving
from quorate.runtime.telemetry.tracing import Telemetry
from services.gateway.apis import SERVED, Backend
from services.gateway.handler import Gateway
from tests.protocol.pair import describe
from tests.services.scripted import LOOPBACK

NOWHERE = f"{LOOPBACK}:1"


async def test_a_span_names_the_service_that_was_asked() -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry.to(SimpleSpanProcessor(exporter), service="gateway", instance="1")
    addresses = {backend: f"{backend.name.lower()}:1" for backend in Backend}
    async with grpc.aio.insecure_channel(NOWHERE) as channel:
        stubs = {backend: backend.stub(channel) for backend in Backend}
        made = Gateway(stubs, {"KAFKA": {}}, telemetry, addresses=addresses)
        listening = Listening(name="KAFKA", handle=made, served=SERVED, describe_versions=describe)
        async with serving(listening, LOOPBACK) as server:
            client = await connect(LOOPBACK, server.port)
            with pytest.raises(Disconnected):
                await client.ask(CreateTopicsRequest())
    asked = [span.attributes or {} for span in exporter.get_finished_spans() if span.kind is SpanKind.CLIENT]

    assert ["controller:1"] == [attributes["server.address"] for attributes in asked]
