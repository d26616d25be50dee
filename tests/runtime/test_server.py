"""A server as its callers see it: errors, deadlines, health, reflection, limits, stop. Real servers on loopback."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer, HeartbeatStub, add_HeartbeatServicer_to_server
from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.runtime.calls.admission import CallLimits
from quorate.runtime.calls.health import IN_SYNC
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.loop import CannotListen
from quorate.runtime.logging.logs import start_logs
from quorate.runtime.settings.setting_types import Endpoint, ListenerAddress

PLACER = "kraft.service.Placer"
HEARTBEAT = "kraft.service.Heartbeat"
Place = Callable[[PlaceRequest], Awaitable[PlaceResponse]]


class Placer(PlacerServicer):
    """Does what the test says."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        context.set_trailing_metadata((("kraft-offset", "42"),))
        return await self._place(request)


class Heartbeat(HeartbeatServicer):
    """Answers each heartbeat with its broker epoch; refuses broker 13."""

    async def BrokerHeartbeatStream(
        self, request_iterator: AsyncIterator[BrokerHeartbeatRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatResponse]:
        async for request in request_iterator:
            if request.broker_id == 13:
                raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "broker 13 is not registered", {"broker_id": "13"})
            yield BrokerHeartbeatResponse(throttle_time_ms=request.broker_id)


async def empty(request: PlaceRequest) -> PlaceResponse:
    return PlaceResponse()


def raising(error: Exception) -> Place:
    async def place(request: PlaceRequest) -> PlaceResponse:
        raise error

    return place


@asynccontextmanager
async def serving(place: Place = empty, *, probed: bool = False, **options: Any) -> AsyncIterator[tuple[Server, int]]:
    server = Server(**options)
    server.add(PLACER, add_PlacerServicer_to_server, Placer(place))
    server.add(HEARTBEAT, add_HeartbeatServicer_to_server, Heartbeat())
    port = server.listen("127.0.0.1:0")
    if probed:
        server.listen_for_probes(ListenerAddress("HEALTH", Endpoint("127.0.0.1", 0)))
    await server.start()
    try:
        yield server, port
    finally:
        await server.stop(grace_s=0)


async def refused(place: Place, **options: Any) -> tuple[grpc.aio.AioRpcError, dict[type, Any]]:
    """The error that a call ends with, and its details by type."""
    async with serving(place, **options) as (_, port), open_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await PlacerStub(channel).Place(PlaceRequest(), timeout=60)
    return caught.value, details(caught.value)


def details(error: grpc.aio.AioRpcError) -> dict[type, Any]:
    found: dict[type, Any] = {}
    for value in (value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"):
        status = Status.FromString(value)

        assert (error.code().value[0], error.details()) == (status.code, status.message)
        for kind in (ErrorInfo, RetryInfo, BadRequest):
            for packed in status.details:
                made = kind()
                if packed.Unpack(made):
                    found[kind] = made
    return found


@pytest.mark.parametrize(
    ("code", "told", "warnings"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, True, 1),
        (ErrorCode.NOT_CONTROLLER, True, 0),  # another try may be granted
        (ErrorCode.INCONSISTENT_CLUSTER_ID, False, 0),
    ],
)
async def test_a_refusal_that_an_operator_is_to_see_is_a_warning_once(
    caplog: pytest.LogCaptureFixture, code: ErrorCode, told: bool, warnings: int
) -> None:
    methods = (f"{PLACER}/Place",) if told else ()
    async with serving(raising(ApiError(code, "cluster a is not b")), logged_refusals=methods) as (_, port):
        for _ in range(3):
            async with open_channel(f"127.0.0.1:{port}") as channel:
                with pytest.raises(grpc.aio.AioRpcError):
                    await PlacerStub(channel).Place(PlaceRequest(), timeout=60)

    ours = [each for each in caplog.records if each.name.startswith("quorate.")]
    assert warnings == len([each for each in ours if each.levelno >= logging.WARNING])


async def test_an_error_of_kafkas_becomes_a_status_with_its_name_and_variables() -> None:
    error = ApiError(
        ErrorCode.STALE_BROKER_EPOCH, "broker 4 has epoch 9, not 8", {"broker_id": "4", "broker_epoch": "9"}
    )

    status, found = await refused(raising(error))

    assert (grpc.StatusCode.ABORTED, "broker 4 has epoch 9, not 8") == (status.code(), status.details())
    info = found[ErrorInfo]
    assert ("STALE_BROKER_EPOCH", "quorate") == (info.reason, info.domain)
    assert {"broker_id": "4", "broker_epoch": "9"} == dict(info.metadata)
    assert RetryInfo not in found
    assert BadRequest not in found


async def test_a_retriable_error_says_when_to_come_back() -> None:
    _, by_default = await refused(raising(ApiError(ErrorCode.NOT_CONTROLLER, "no")))
    _, by_wish = await refused(raising(ApiError(ErrorCode.NOT_CONTROLLER, "no", {"retry_after_ms": "750"})))

    assert [100, 750] == [found[RetryInfo].retry_delay.ToMilliseconds() for found in (by_default, by_wish)]


async def test_a_malformed_field_is_named() -> None:
    _, found = await refused(raising(ApiError(ErrorCode.INVALID_REQUEST, "seed is negative", {"field": "seed"})))

    violations = found[BadRequest].field_violations
    assert [("seed", "seed is negative")] == [(each.field, each.description) for each in violations]


async def test_what_the_handler_had_said_in_trailing_metadata_is_kept_beside_the_error() -> None:
    status, _ = await refused(raising(ApiError(ErrorCode.NOT_CONTROLLER, "no")))

    assert ("kraft-offset", "42") in [(key, value) for key, value in status.trailing_metadata() or ()]


async def test_a_fault_of_our_own_shows_an_id_and_the_log_has_the_rest_under_it() -> None:
    written = io.StringIO()
    start_logs({"QUORATE_LOG_FORMAT": "json"}, written)

    status, found = await refused(raising(KeyError("the secret inside")))

    assert grpc.StatusCode.INTERNAL is status.code()
    assert "the secret inside" not in str(status)
    correlation_id = found[ErrorInfo].metadata["correlation_id"]
    (line,) = [json.loads(line) for line in written.getvalue().splitlines() if correlation_id in line]
    assert "KeyError: 'the secret inside'" in line["exception"]
    assert "kraft.service.Placer/Place" == line["method"]


@pytest.mark.parametrize("error", [AssertionError((3, 4)), Corrupt("checksum 1, not 2", position=61)], ids=repr)
async def test_an_assertion_or_damage_on_disk_is_told_to_whoever_can_stop_the_process(error: Exception) -> None:
    fatal: list[BaseException] = []

    status, _ = await refused(raising(error), on_fatal=fatal.append)

    assert grpc.StatusCode.INTERNAL is status.code()
    assert [error] == fatal


async def test_an_ordinary_mistake_is_not_fatal() -> None:
    fatal: list[BaseException] = []

    await refused(raising(ValueError("x")), on_fatal=fatal.append)

    assert [] == fatal


async def test_a_stream_ends_with_the_same_details_after_the_answers_before() -> None:
    async with serving() as (_, port), open_channel(f"127.0.0.1:{port}") as channel:
        requests = [BrokerHeartbeatRequest(broker_id=broker) for broker in (1, 2, 13, 3)]
        answers: list[int] = []
        stream = HeartbeatStub(channel).BrokerHeartbeatStream(iter(requests), timeout=60)

        async def read() -> None:
            async for response in stream:
                answers.append(response.throttle_time_ms)

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read()

    assert [1, 2] == answers
    assert grpc.StatusCode.NOT_FOUND is caught.value.code()
    assert "BROKER_ID_NOT_REGISTERED" == details(caught.value)[ErrorInfo].reason


async def test_a_method_that_the_servicer_lacks_is_unimplemented() -> None:
    async with serving() as (_, port), open_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await HeartbeatStub(channel).BrokerHeartbeat(BrokerHeartbeatRequest(), timeout=60)

    assert grpc.StatusCode.UNIMPLEMENTED is caught.value.code()


async def test_a_handler_that_is_not_async_is_refused_at_once() -> None:
    class Blocking(PlacerServicer):
        def Place(self, request: PlaceRequest, context: Any) -> Any:
            return PlaceResponse()

    with pytest.raises(AssertionError, match=r"kraft\.service\.Placer/Place: a handler must be async"):
        Server().add(PLACER, add_PlacerServicer_to_server, Blocking())


async def test_a_call_without_a_deadline_gets_the_cap() -> None:
    released = asyncio.Event()

    async def never(request: PlaceRequest) -> PlaceResponse:
        try:
            await asyncio.Event().wait()
        finally:
            released.set()
        return PlaceResponse()

    async with (
        serving(never, limits=ServerLimits(deadline_cap_ms=50)) as (_, port),
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await PlacerStub(channel).Place(PlaceRequest())

    assert grpc.StatusCode.DEADLINE_EXCEEDED is caught.value.code()
    assert {"deadline_cap_ms": "50"} == dict(details(caught.value)[ErrorInfo].metadata)
    assert released.is_set()


async def test_a_timeout_inside_the_handler_is_not_taken_for_the_cap() -> None:
    status, _ = await refused(raising(TimeoutError("inner")))

    assert grpc.StatusCode.INTERNAL is status.code()


async def test_a_message_above_the_limit_is_refused() -> None:
    async with (
        serving(limits=ServerLimits(receive_bytes_max=1000)) as (_, port),
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        large = PlaceRequest(brokers=[PlaceRequest.Broker(id=1, rack="r" * 1000)])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await PlacerStub(channel).Place(large, timeout=60)

    assert grpc.StatusCode.RESOURCE_EXHAUSTED is caught.value.code()


async def test_calls_above_the_limit_are_refused_while_the_others_go_on() -> None:
    opened, entered = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(request: PlaceRequest) -> PlaceResponse:
        entered.release()
        await opened.wait()
        return PlaceResponse()

    async with (
        serving(wait, limits=ServerLimits(calls=CallLimits(calls_per_ip=2))) as (_, port),
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = PlacerStub(channel)
        under_way = [stub.Place(PlaceRequest(), timeout=60) for _ in range(2)]
        for _ in under_way:
            await entered.acquire()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Place(PlaceRequest(), timeout=60)
        opened.set()
        answers = [await call for call in under_way]

    assert grpc.StatusCode.RESOURCE_EXHAUSTED is caught.value.code()
    assert [PlaceResponse()] * 2 == answers


async def test_refusals_beyond_the_first_wait_and_others_are_served_meanwhile() -> None:
    """But large ones, and those for which there is no more room to wait, do not."""
    opened, entered = asyncio.Event(), asyncio.Event()

    async def wait(request: PlaceRequest) -> PlaceResponse:
        entered.set()
        await opened.wait()
        return PlaceResponse()

    limits = CallLimits(calls_per_ip=1, refused_at_once=2, refused_per_s=1e-6, refused_late_max=3)
    async with (
        serving(wait, limits=ServerLimits(calls=limits)) as (_, port),
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = PlacerStub(channel)
        served = stub.Place(PlaceRequest(), timeout=60)
        await entered.wait()
        large = PlaceRequest(topics=[PlaceRequest.Topic() for _ in range(1_000)])
        at_once = [await ended(stub.Place(PlaceRequest(), timeout=60)) for _ in range(2)]
        late = [stub.Place(PlaceRequest(), timeout=60) for _ in range(3)]
        beyond = [await ended(stub.Place(large, timeout=60))]
        await HealthStub(channel).Check(HealthCheckRequest(), timeout=60)
        beyond.append(await ended(stub.Place(PlaceRequest(), timeout=60)))
        waiting = [not call.done() for call in late]
        opened.set()
        await served

    assert [grpc.StatusCode.RESOURCE_EXHAUSTED] * 4 == at_once + beyond
    assert [True] * 3 == waiting


async def ended(call: Awaitable[Any] | AsyncIterator[Any]) -> grpc.StatusCode:
    """How a call ends that is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call if isinstance(call, Awaitable) else anext(call))
    return caught.value.code()


async def health(channel: grpc.aio.Channel, *names: str) -> list[str]:
    stub = HealthStub(channel)
    answers = [await stub.Check(HealthCheckRequest(service=name), timeout=60) for name in names]
    return [HealthCheckResponse.ServingStatus.Name(answer.status) for answer in answers]


async def test_it_is_alive_before_it_is_ready() -> None:
    async with serving() as (server, port), open_channel(f"127.0.0.1:{port}") as channel:
        starting = await health(channel, "startup", "liveness", "", "readiness", PLACER, HEARTBEAT)
        await server.set_ready(True)
        ready = await health(channel, "startup", "liveness", "", "readiness", PLACER, HEARTBEAT)
        await server.set_ready(False)
        unready = await health(channel, "startup", "liveness", "", "readiness", PLACER, HEARTBEAT)

    no, yes = "NOT_SERVING", "SERVING"
    assert [yes, yes, no, no, no, no] == starting == unready
    assert [yes] * 6 == ready


async def test_the_port_for_probes_serves_health_and_nothing_else() -> None:
    """A caller has no certificate there, and no rights; both ports tell the same."""
    async with serving(probed=True) as (server, port):
        await server.set_ready(True)
        probes = server.probe_port
        async with open_channel(f"127.0.0.1:{port}") as channel, open_channel(f"127.0.0.1:{probes}") as probing:
            told = [await health(each, "startup", "liveness", "readiness", PLACER) for each in (channel, probing)]
            place = PlacerStub(channel).Place(PlaceRequest(), timeout=60)
            ends = [
                await ended(PlacerStub(probing).Place(PlaceRequest(), timeout=60)),
                await ended(HeartbeatStub(probing).BrokerHeartbeat(BrokerHeartbeatRequest(), timeout=60)),
                await ended(aiter(ServerReflectionStub(probing).ServerReflectionInfo(iter([]), timeout=60))),
            ]

            assert [["SERVING"] * 4] * 2 == told
            assert PlaceResponse() == await place
            assert [grpc.StatusCode.UNIMPLEMENTED] * 3 == ends


async def test_a_server_that_drains_is_alive_and_never_ready_again() -> None:
    async with serving(probed=True) as (server, _), open_channel(f"127.0.0.1:{server.probe_port}") as probing:
        await server.set_ready(True)
        await server.tell_health(IN_SYNC, True)
        before = await health(probing, IN_SYNC)
        watch = HealthStub(probing).Watch(HealthCheckRequest(service="readiness"), timeout=60)
        seen = [(await anext(aiter(watch))).status]
        stopping = asyncio.ensure_future(server.stop(drain_s=60, grace_s=0))
        seen.append((await anext(aiter(watch))).status)
        await server.set_ready(True)  # by a task that does not know yet
        told = await health(probing, "startup", "liveness", "", "readiness", PLACER, IN_SYNC)
        await server.tell_health(IN_SYNC, True)
        told += await health(probing, IN_SYNC)
        watch.cancel()
        stopping.cancel()

    assert [HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING] == seen
    assert ["SERVING"] == before
    assert ["SERVING"] * 2 + ["NOT_SERVING"] * 5 == told


@pytest.mark.parametrize("address", [":0", "0.0.0.0:0", "[::]:0"])
async def test_it_listens_on_every_address_as_in_a_pod(address: str) -> None:
    """A pod's own address is known to nobody who writes its settings, so it listens on all."""
    server = Server()
    port = server.listen(address)
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        told = await health(channel, "liveness")
    await server.stop(grace_s=0)

    assert ["SERVING"] == told


async def test_an_unknown_name_has_no_health() -> None:
    async with serving() as (_, port), open_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health(channel, "kraft.service.Broker")

    assert grpc.StatusCode.NOT_FOUND is caught.value.code()


async def test_a_stop_says_not_serving_and_still_finishes_what_is_under_way() -> None:
    opened, entered = asyncio.Event(), asyncio.Event()

    async def wait(request: PlaceRequest) -> PlaceResponse:
        entered.set()
        await opened.wait()
        return PlaceResponse()

    async with serving(wait) as (server, port), open_channel(f"127.0.0.1:{port}") as channel:
        await server.set_ready(True)
        under_way = PlacerStub(channel).Place(PlaceRequest(), timeout=60)
        await entered.wait()
        watch = HealthStub(channel).Watch(HealthCheckRequest(service="readiness"), timeout=60)
        seen = [(await anext(aiter(watch))).status]
        stopping = asyncio.ensure_future(server.stop(drain_s=0.05, grace_s=5))
        seen.append((await anext(aiter(watch))).status)
        watch.cancel()
        opened.set()
        answer = await under_way
        await stopping
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await PlacerStub(channel).Place(PlaceRequest(), timeout=60)

    assert [HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING] == seen
    assert PlaceResponse() == answer
    assert grpc.StatusCode.UNAVAILABLE is caught.value.code()


async def test_a_port_in_use_is_refused_by_name_and_rule() -> None:
    async with serving() as (_, port):
        second = Server()
        with pytest.raises(CannotListen) as caught:
            second.listen(f"127.0.0.1:{port}")

    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:65536", "a port from 0 to 65535"),
        ("127.0.0.1:x", "a port from 0 to 65535"),
        ("192.0.2.1:9093", "Cannot assign requested address"),
        ("unix:/no/such/directory/socket", "its directory must be writable"),
    ],
)
async def test_an_address_that_cannot_be_bound_says_why(address: str, reason: str) -> None:
    with pytest.raises(CannotListen, match=reason):
        Server().listen(address)


async def test_it_listens_on_a_unix_socket(tmp_path: Any) -> None:
    server = Server()
    server.add(PLACER, add_PlacerServicer_to_server, Placer(empty))
    server.listen(f"unix:{tmp_path}/s")
    await server.start()
    async with open_channel(f"unix:{tmp_path}/s") as channel:
        answer = await PlacerStub(channel).Place(PlaceRequest(), timeout=60)
    await server.stop()

    assert PlaceResponse() == answer


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_answers_under_both_names(version: str) -> None:
    async with serving() as (_, port), open_channel(f"127.0.0.1:{port}") as channel:
        ask = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=ServerReflectionRequest.SerializeToString,
            response_deserializer=ServerReflectionResponse.FromString,
        )
        questions = [
            ServerReflectionRequest(list_services=""),
            ServerReflectionRequest(file_containing_symbol="google.rpc.ErrorInfo"),
            ServerReflectionRequest(file_containing_symbol=PLACER),
        ]
        services, error_info, placer = [answer async for answer in ask(iter(questions), timeout=60)]

    listed = {service.name for service in services.list_services_response.service}
    assert {PLACER, HEARTBEAT, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} == listed
    assert error_info.file_descriptor_response.file_descriptor_proto
    assert placer.file_descriptor_response.file_descriptor_proto


GRPCURL = shutil.which("grpcurl", path=os.environ.get("PATH", ""))


@pytest.mark.skipif(GRPCURL is None, reason="GRPCURL IS NOT ON THE PATH: reflection is not tried with a real client")
async def test_grpcurl_lists_describes_calls_and_prints_error_details() -> None:
    async def place(request: PlaceRequest) -> PlaceResponse:
        if not request.topics:
            raise ApiError(ErrorCode.INVALID_REQUEST, "there are no topics to place", {"field": "topics"})
        return PlaceResponse(topics=[PlaceResponse.Topic(error_code=38)])

    async with serving(place) as (_, port):
        target = f"127.0.0.1:{port}"

        def grpcurl(*arguments: str) -> tuple[str, str]:
            done = subprocess.run(
                [str(GRPCURL), "-plaintext", *arguments], check=False, capture_output=True, text=True, timeout=240
            )
            return done.stdout, done.stderr

        listed, _ = await asyncio.to_thread(grpcurl, target, "list")
        described, _ = await asyncio.to_thread(grpcurl, target, "describe", "kraft.service.PlaceRequest")
        answer, _ = await asyncio.to_thread(
            grpcurl, "-d", '{"topics":[{"partition_count":1}]}', target, f"{PLACER}/Place"
        )
        _, error = await asyncio.to_thread(grpcurl, "-d", "{}", target, f"{PLACER}/Place")

    assert PLACER in listed.split()
    assert "message PlaceRequest" in described
    assert PlaceResponse(topics=[PlaceResponse.Topic(error_code=38)]) == json_format.Parse(answer, PlaceResponse())
    assert "Code: InvalidArgument" in error
    assert '"reason": "INVALID_REQUEST"' in error
    assert '"fieldviolations"' in error.replace("_", "").lower()


async def test_bytes_that_are_no_request_are_refused_and_leave_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    start_logs({})
    async with serving() as (_, port), open_channel(f"127.0.0.1:{port}") as channel:
        unary = channel.unary_unary(f"/{PLACER}/Place")
        stream = channel.stream_stream(f"/{HEARTBEAT}/BrokerHeartbeatStream")
        reflected = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        watched = channel.unary_stream("/grpc.health.v1.Health/Watch")
        for call in (
            unary(b"\xff"),
            stream(iter([b"\x08\x01", b"\xff"])),
            reflected(iter([b"\xff"])),
            watched(b"\xff"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call if isinstance(call, grpc.aio.UnaryUnaryCall) else [each async for each in call]

            assert grpc.StatusCode.INVALID_ARGUMENT is caught.value.code()
            assert "INVALID_REQUEST" == details(caught.value)[ErrorInfo].reason
    assert "Traceback" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("letter", ["x", "ü", "😀"])
async def test_a_refusal_of_any_length_arrives_as_itself(letter: str) -> None:
    long = letter * 100_000
    error = ApiError(ErrorCode.INVALID_REQUEST, f"name {long!r} is longer than 249", {"field": "name", "name": long})

    status, found = await refused(raising(error))

    assert grpc.StatusCode.INVALID_ARGUMENT is status.code()
    assert (status.details() or "").endswith("is longer than 249")
    assert "name" == found[BadRequest].field_violations[0].field
    size = sum(len(value) * 4 // 3 for key, value in status.trailing_metadata() or () if key.endswith("-bin"))
    assert size + 3 * len((status.details() or "").encode()) < 8_192


async def test_health_lists_every_service() -> None:
    async with serving() as (server, port), open_channel(f"127.0.0.1:{port}") as channel:
        await server.set_ready(True)
        answer = await HealthStub(channel).List(HealthListRequest(), timeout=60)

    assert {"", "startup", "liveness", "readiness", PLACER, HEARTBEAT} == set(answer.statuses)
    assert {HealthCheckResponse.SERVING} == {each.status for each in answer.statuses.values()}


async def test_what_a_service_lacks_is_refused_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    start_logs({})
    async with serving() as (_, port), open_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await HeartbeatStub(channel).BrokerHeartbeat(BrokerHeartbeatRequest(), timeout=60)

    assert grpc.StatusCode.UNIMPLEMENTED is caught.value.code()
    assert "UNSUPPORTED_VERSION" == details(caught.value)[ErrorInfo].reason
    assert "Traceback" not in "".join(capsys.readouterr())
