"""What is secret is in nothing that the processes write: no log at debug, no span, no record, no answer but the one."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from deploy.local.plan import ClusterPlan, Process, make_plan
from deploy.local.processes import Running
from kraft import Message
from kraft.api.alter_user_scram_credentials_pb2 import AlterUserScramCredentialsRequest
from kraft.api.create_delegation_token import CreateDelegationTokenRequest
from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from kraft.api.renew_delegation_token_pb2 import RenewDelegationTokenRequest as RenewOnTheWire
from kraft.metadata.config_record_pb2 import ConfigRecord
from kraft.service.admin_pb2 import AdminRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Engine
from quorate.controller.secrets import REDACTED
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import BROKER
from quorate.metadata.features import supported_features
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.nouns import Principal
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.logging.logs import start_logs
from quorate.runtime.telemetry.tracing import Telemetry
from quorate.storage.bootstrap import read_bootstrap
from services.controller.apis import Apis
from services.controller.call import Call, Caller
from services.controller.driver import ControllerDriver
from services.controller.handlers import APIS, answer_to
from services.controller.periodic_tasks import PeriodicTasks
from services.controller.quorum_node import QuorumNode
from tests.e2e.calls import WITHIN_S, call_with_retries

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

KEY: Final = "a key that nobody may read"
SALTED: Final = b"a salted password that opens"
API_KEY: Final = "a key of a plugin that nobody knows"
HMAC: Final = b"an hmac that was guessed, or overheard"
ALICE: Final = Principal("User", "alice")
DEBUG: Final = {"QUORATE_LOG_LEVEL": "debug"}


def shapes(secret: bytes) -> Iterator[bytes]:
    """How bytes may come to be written."""
    yield from (secret, secret.hex().encode(), base64.b64encode(secret), base64.urlsafe_b64encode(secret))
    yield from (repr(secret)[2:-1].encode(), json.dumps(repr(secret)[2:-1])[1:-1].encode())


def leaks(secret: bytes, written: Mapping[str, bytes]) -> list[str]:
    """In which of the things that were written `secret` is, in whichever shape."""
    return [name for name, text in written.items() if any(shape.rstrip(b"=") in text for shape in shapes(secret))]


def written_by(plan: ClusterPlan) -> dict[str, bytes]:
    """Every file of a control plane but the settings that it was given."""
    files = (path for path in plan.directory.rglob("*") if path.is_file() and path.suffix != ".properties")
    return {str(path.relative_to(plan.directory)): path.read_bytes() for path in files}


@asynccontextmanager
async def running(plan: ClusterPlan, *processes: Process) -> AsyncIterator[None]:
    """These processes of a plan, with all that they have to say."""
    started = Running(plan)
    try:
        plan.directory.mkdir(exist_ok=True)
        await started.format(plan.quorum[0])
        for process in processes:
            await started.spawn(process, environ=DEBUG)
        await started.ready(processes)
        yield
    finally:
        await started.stop()


async def test_a_controller_writes_down_no_password_and_no_key(tmp_path: Path) -> None:
    plan = make_plan(tmp_path / "plan", voters=1)
    (controller,) = plan.controllers
    controller.settings["delegation.token.secret.key"] = KEY
    credential = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    asked = [
        credential(name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED)
        for user, mechanism, iterations in (("alice", 1, 4096), ("bob", 9, 4096), ("carol", 2, 1))
    ]
    config = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig
    changes = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER, configs=[config(name="my.plugin.api.key", value=API_KEY)]
    )
    changing = IncrementalAlterConfigsRequest(resources=[changes])
    async with running(plan, plan.observer, *plan.quorum, controller):
        channel = open_channel(controller.address)
        stub = ControllerStub(channel)
        altering = AlterUserScramCredentialsRequest(upsertions=asked)
        altered = (await call_with_retries(stub.AlterUserScramCredentials, altering)).response
        dry = AdminRequest(incremental_alter_configs=changing, validate_only=True)
        (proposed,) = (await call_with_retries(stub.Submit, dry)).response.records
        with pytest.raises(ApiError) as refused:
            await call_with_retries(stub.RenewDelegationToken, RenewOnTheWire(hmac=HMAC, renew_period_ms=-1))
        await channel.close()
    written = written_by(plan)

    assert [0, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.UNACCEPTABLE_CREDENTIAL] == [
        each.error_code for each in altered.results
    ]
    assert ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED == refused.value.code
    assert leaks(b"delegation.token.secret.key=***", written) == ["controller-1.log"]  # so it looks at the right thing
    assert leaks(b"AlterUserScramCredentials", written) == ["observer.db"]  # the spans
    assert [[], [], [], []] == [leaks(secret, written) for secret in (KEY.encode(), SALTED, HMAC, API_KEY.encode())]
    assert REDACTED == ConfigRecord.FromString(proposed.record.value).value
    assert [] == leaks(HMAC, {"refusal": repr((refused.value, refused.value.metadata)).encode()})


@pytest.fixture
def logs(restored_logs: None) -> io.StringIO:
    """Everything that this process says, down to debug."""
    said = io.StringIO()
    start_logs(DEBUG, said)
    return said


class Controller:
    """A controller in this process, beside a quorum node in one of its own."""

    def __init__(self, plan: ClusterPlan, telemetry: Telemetry) -> None:
        self.tokens = TokenSettings(secret_key=KEY)
        settings = ControllerSettings(delegation_tokens=self.tokens)
        self._channel = open_channel(plan.quorum[0].address)
        self._placers = Client([plan.placer.address], PlacerStub, telemetry=telemetry)
        self._telemetry = telemetry
        self.driver = ControllerDriver(
            Engine(ClusterState(supported_features())),
            self._channel,
            SystemClock(),
            telemetry,
            node_id=1,
            activation=activate(read_bootstrap(plan.log_dir(1), METADATA_VERSION), settings),
        )
        self.apis = Apis(self.driver, QuorumNode(self._channel), self._placers, settings, cluster_id=plan.cluster_id)

    @asynccontextmanager
    async def active(self) -> AsyncIterator[Apis]:
        """While it is the active one."""
        chores = PeriodicTasks(self.driver, self.apis.settings, {})
        loops = [asyncio.create_task(work) for work in (self.driver.run(), chores.run())]
        try:
            async with asyncio.timeout(WITHIN_S):
                while not self.driver.is_active:
                    await self.driver.changed.wait()
            yield self.apis
        finally:
            for loop in loops:
                loop.cancel()
            await self._placers.close()
            await self._channel.close()


async def ask(apis: Apis, rpc: str, asked: Message, **more: Any) -> Any:
    answer = await answer_to(apis, Call(api=APIS[rpc], asked=asked, caller=Caller(ALICE), **more))
    return answer.response


async def test_an_hmac_is_in_the_answer_and_nowhere_else(tmp_path: Path, logs: io.StringIO) -> None:
    plan = make_plan(tmp_path / "plan", voters=1)
    spans = InMemorySpanExporter()
    telemetry = Telemetry.to(SimpleSpanProcessor(spans), service="controller", instance="controller-1")
    async with running(plan, *plan.quorum), Controller(plan, telemetry).active() as apis:
        with telemetry.span("a test"):
            made = await ask(apis, "CreateDelegationToken", CreateDelegationTokenRequest(None, None))
            dry = await ask(apis, "CreateDelegationToken", CreateDelegationTokenRequest(None, None), validate_only=True)
            renewed = await ask(apis, "RenewDelegationToken", RenewDelegationTokenRequest(made.hmac, 1000))
            described = await ask(apis, "DescribeDelegationToken", DescribeDelegationTokenRequest(None))
            await ask(apis, "ExpireDelegationToken", ExpireDelegationTokenRequest(made.hmac, -1))
            with pytest.raises(ApiError) as gone:
                await ask(apis, "RenewDelegationToken", RenewDelegationTokenRequest(made.hmac, 1000))
    written = {
        **written_by(plan),
        "log": logs.getvalue().encode(),
        "spans": b"".join(map(told, spans.get_finished_spans())),
    }

    assert 64 == len(made.hmac)
    assert (b"", 0) == (dry.response.hmac, len(apis.driver.engine.state.delegation_tokens))
    assert [made.hmac] == [token.hmac for token in described.tokens]
    assert ErrorCode.DELEGATION_TOKEN_NOT_FOUND == gone.value.code
    assert leaks(made.token_id.encode(), written)  # it looks at the right things: the log has the token
    assert b"CreateDelegationToken" in written["spans"]
    shown = {"answers": repr((made, dry, renewed, described)).encode(), "refusal": repr(gone.value).encode()}
    assert [[], []] == [leaks(secret, written | shown) for secret in (made.hmac, KEY.encode())]


def told(span: ReadableSpan) -> bytes:
    text: str = span.to_json()
    return text.encode()
