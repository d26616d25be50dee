"""A plane starts and decides in an environment that was made for other programs (`services/ENVIRONMENT.md`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from deploy.local.plan import make_plan
from deploy.local.processes import Running
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.observer_pb2 import ListTracesRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.metadata.configs import BROKER
from quorate.runtime.clients.client import open_channel
from tests.e2e.calls import attempt, call_with_retries, eventually
from tests.e2e.starting import said

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

_RESOURCE: Final = IncrementalAlterConfigsRequest.AlterConfigsResource
CHANGE: Final = IncrementalAlterConfigsRequest(
    resources=[
        _RESOURCE(
            resource_type=BROKER,
            configs=[_RESOURCE.AlterableConfig(name="message.max.bytes", config_operation=0, value="1000000")],
        )
    ]
)
"""A write that needs no broker."""
NOBODY: Final = "http://127.0.0.1:1"
PROXIES: Final = {
    **dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"), NOBODY),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), NOBODY),
    "GRPC_ADDRESS_HTTP_PROXY": "127.0.0.1:1",
    "GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES": "127.0.0.0/8,::1/128",
}
NOISE: Final = {
    "GRPC_TRACE": "all",
    "GRPC_DNS_RESOLVER": "ares",
    "GRPC_ENABLE_FORK_SUPPORT": "1",
    "GRPC_SSL_CIPHER_SUITES": "none",
    "GRPC_XDS_BOOTSTRAP": "/nowhere",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": "/nowhere",
    "OPENSSL_CONF": "/nowhere",
    "SSL_CERT_FILE": "/nowhere",
    "SSL_CERT_DIR": "/nowhere",
    "SSLKEYLOGFILE": "/nowhere/keys",
    "OTEL_PROPAGATORS": "b3",
    "OTEL_RESOURCE_ATTRIBUTES": "garbage",
    "OTEL_EXPORTER_OTLP_HEADERS": "garbage",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
    "OTEL_SERVICE_NAME": "another",
    "PYTHONHASHSEED": "0",
    "PYTHONASYNCIODEBUG": "1",
    "PYTHONIOENCODING": "ascii",
    "PYTHONUTF8": "0",
    "LC_ALL": "C",
    "HOME": "/nowhere",
    "TMPDIR": "/nowhere",
}


async def test_a_plane_starts_commits_and_is_traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway is ready once it has reached the controller, and that once it has reached its quorum node."""
    plan = make_plan(tmp_path, voters=1, with_gateways=True)
    for name, value in {**PROXIES, **NOISE}.items():
        monkeypatch.setenv(name, value)
    running = Running(plan)
    try:
        await running.start()
        async with open_channel(plan.controllers[0].address) as channel:
            await call_with_retries(ControllerStub(channel).IncrementalAlterConfigs, CHANGE)
        async with open_channel(plan.observer.address) as channel:
            traces = ObserverStub(channel).ListTraces
            await eventually(lambda: attempt(traces(ListTracesRequest())), lambda told: told and told.traces)
    finally:
        await running.stop()
    lines = [line for each in plan.processes for line in said(plan.directory / f"{each.name}.log")]

    assert [] == [line for line in lines if "level=error" in line or "Traceback" in line or "fatal:" in line]
