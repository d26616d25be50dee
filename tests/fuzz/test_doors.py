"""Every RPC has a target, and a short campaign on live processes finds nothing (a long one is `make fuzz`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import grpc
import pytest
import pytest_asyncio
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from deploy.local.plan import Process
from quorate.protocol.apis import all_apis
from services.gateway.apis import ENVELOPE, ROUTES
from tests.fuzz.campaign import Campaign
from tests.fuzz.inputs import Inputs, Words
from tests.fuzz.plane import Plane, live_plane
from tests.fuzz.rpcs import KRAFT, SERVED, rpcs_of
from tests.fuzz.wire_inputs import BYTES, TARGETS, WireInputs

PROGRAMS = sorted(SERVED)
SEED = 10


def test_every_rpc_of_our_protos_has_a_target() -> None:
    declared = {f"/{name}/{method.name}" for name, service in KRAFT.items() for method in service.methods}
    targets = {rpc.path for program in PROGRAMS for rpc in rpcs_of(program)}

    assert set() == declared - targets


@pytest.mark.parametrize("program", PROGRAMS)
def test_inputs_are_drawn_again_by_their_seed_and_some_are_well_formed_and_some_are_not(program: str) -> None:
    for rpc in rpcs_of(program):
        first, again = ([Inputs(rpc, Words(), Random("s")).draw() for _ in range(1)] for _ in range(2))
        drawn = Inputs(rpc, Words(), Random(rpc.path))
        parsed = [_parses(GetMessageClass(rpc.request), drawn.draw()) for _ in range(200)]

        assert first == again
        assert {True, False} == set(parsed), rpc.path


@pytest.mark.parametrize("target", TARGETS)
def test_what_goes_to_a_gateway_is_drawn_again_by_its_seed_and_some_is_well_formed_and_some_is_not(target: str) -> None:
    first, again = ([inputs.draw() for _ in range(50)] for inputs in (wire_inputs(target), wire_inputs(target)))

    assert first == again
    assert ({False} if target == BYTES else {False, True}) == {each.requests is not None for each in first}


def test_every_api_of_a_gateway_is_asked_for_in_several_versions() -> None:
    asked: dict[int, set[int]] = {}
    for target in TARGETS:
        inputs = wire_inputs(target)
        for _ in range(300):
            for each in inputs.draw().requests or ():
                asked.setdefault(each.api.key, set()).add(each.version)
    more = {key for key in ROUTES if len(all_apis()[key].versions) > 1}

    assert {*ROUTES, ENVELOPE} == asked.keys()
    assert set() == {key for key in more if len(asked[key]) < 2}


def wire_inputs(target: str) -> WireInputs:
    return WireInputs(target, Words(), Random("s"))


def _parses(message: type, data: bytes) -> bool:
    try:
        message.FromString(data)  # type: ignore[attr-defined]
    except DecodeError:
        return False
    return True


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    async with live_plane(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


@pytest.mark.e2e
@pytest.mark.asyncio(loop_scope="module")
async def test_every_service_that_a_process_shows_has_targets(plane: Plane) -> None:
    for process in plane.processes:
        with grpc.insecure_channel(process.address) as channel:
            shown = _shown(channel, process)

        assert set() == shown - {rpc.path.split("/")[1] for rpc in rpcs_of(process.service)}, process.name


def _shown(channel: grpc.Channel, process: Process) -> set[str]:
    """The services by reflection; over gRPC a gateway has its health port alone, which serves none."""
    if process.service != "gateway":
        return set(ProtoReflectionDescriptorDatabase(channel).get_services())
    with pytest.raises(grpc.RpcError) as refused:
        ProtoReflectionDescriptorDatabase(channel).get_services()

    assert grpc.StatusCode.UNIMPLEMENTED == refused.value.code()
    return set()


@pytest.mark.e2e
@pytest.mark.timeout(1_800)
@pytest.mark.asyncio(loop_scope="module")
async def test_no_input_breaks_a_process(plane: Plane) -> None:
    campaign = Campaign(plane, seed=SEED, burst=20)
    await anext(campaign.rounds())

    assert [] == campaign.faults
    assert campaign.inputs > 2_000
