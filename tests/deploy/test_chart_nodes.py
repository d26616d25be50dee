"""Each node of a release shows its own certificate, and speaks only as that node."""

from __future__ import annotations

import asyncio
import base64
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from deploy.local.ports import free_ports
from kraft.api.fetch_pb2 import FetchRequest
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest
from kraft.api.vote_pb2 import VoteRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.cli.formatting import FormatOptions
from quorate.cli.storage import format_node
from quorate.nouns import NodeId, Principal
from quorate.runtime.access.claims import node_ids_of
from quorate.runtime.clients.client import open_channel
from quorate.runtime.connections.transport import Transport
from quorate.runtime.event_loop.loop import ExitCode
from quorate.tls.node_ids import ANY_NODE
from tests.deploy.chart import Json, containers, named, pod_specs, refusal, render
from tests.deploy.chart_programs import loaded
from tests.e2e.calls import eventually
from tests.services.across.test_starting import ENVIRON
from tests.services.scripted import WITHIN_S

GATEWAYS: Final[Json] = {"gateway": {"enabled": True}}
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
TLS: Final = "/etc/quorate/tls"
FILES: Final = {"tls-combined.pem", "ca.crt"}


@pytest.fixture(scope="module")
def objects() -> list[Json]:
    return render(GATEWAYS)


@pytest.fixture(scope="module")
def certificates(objects: list[Json], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of each Secret of the release, in a directory with the name of who shows them."""
    directory = tmp_path_factory.mktemp("certificates")
    for each in objects:
        if each["kind"] == "Secret" and FILES <= each["data"].keys():
            own = directory / each["metadata"]["name"].removeprefix("q-quorate-").removesuffix("-tls")
            own.mkdir()
            for name in FILES:
                (own / name).write_bytes(base64.b64decode(each["data"][name]))
    return directory


def quorum_spec(objects: list[Json]) -> Json:
    spec: Json = named(objects, "StatefulSet", "q-quorate-quorum")["spec"]["template"]["spec"]
    return spec


def nodes_in(spec: Json, container: Json) -> set[str]:
    """The Secrets of which a container sees the files."""
    volumes = {each["name"]: each for each in spec["volumes"]}
    mounted = [volumes[each["name"]] for each in container["volumeMounts"] if each["name"] in volumes]
    own = {each["secret"]["secretName"] for each in mounted if "secret" in each}
    return own | {
        source["secret"]["name"] for each in mounted for source in each.get("projected", {"sources": []})["sources"]
    }


def test_one_container_alone_sees_the_certificates_of_all_nodes_and_it_listens_nowhere(objects: list[Json]) -> None:
    spec = quorum_spec(objects)
    seen = {each["name"]: nodes_in(spec, each) for each in containers(spec)}
    of_nodes = {f"q-quorate-quorum-{node_id}-tls" for node_id in range(3)}
    copies = next(each for each in spec["initContainers"] if each["name"] == "certificate")

    assert {"certificate", "format", "quorum", "controller", "gateway"} == seen.keys()
    assert of_nodes == seen.pop("certificate")
    assert {"q-quorate-gateway-tls"} == seen.pop("gateway")
    assert not any(seen.values()), seen
    assert copies == spec["initContainers"][0]
    assert "Always" == copies["restartPolicy"]
    assert "ports" not in copies


@asynccontextmanager
async def started(*command: str) -> AsyncIterator[Process]:
    """A process that ends within the block."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", *command, env=ENVIRON, stderr=PIPE)
    try:
        async with asyncio.timeout(WITHIN_S):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_a_node_gets_its_own_files_and_others_when_they_change(certificates: Path, tmp_path: Path) -> None:
    of_nodes, own = tmp_path / "nodes", tmp_path / "own"
    for directory in (of_nodes / "0", of_nodes / "1", own):
        directory.mkdir(parents=True)
    for node_id in (0, 1):
        for name in FILES:
            (of_nodes / str(node_id) / name).write_bytes((certificates / f"quorum-{node_id}" / name).read_bytes())
    settings = {"node.id": "1", "certificates.of.nodes": of_nodes, "certificates.own": own}
    settings["certificates.look.interval.ms"] = "20"
    command = ("services.quorum.own_certificate", *(f"--set={key}={value}" for key, value in settings.items()))
    async with started(*command) as process:
        await has(own, (certificates / "quorum-1" / "tls-combined.pem").read_bytes())
        (of_nodes / "1" / "tls-combined.pem").write_bytes(b"renewed")
        await has(own, b"renewed")
        (of_nodes / "1" / "ca.crt").unlink()
        process.terminate()
        await process.communicate()
    async with started(*command) as without:
        _, told = await without.communicate()

    assert ExitCode.STOPPED == process.returncode
    assert FILES == {each.name for each in own.iterdir()}
    assert {0o600} == {each.stat().st_mode & 0o777 for each in own.iterdir()}
    assert ExitCode.MISCONFIGURED == without.returncode
    assert told.endswith(b"/1/ca.crt: there is no certificate of node 1\n")


async def has(own: Path, content: bytes) -> None:
    """Waits until the file with the key and the certificates has this content, and the other one is there."""

    async def is_there() -> bool:
        return all((own / name).exists() for name in FILES) and (own / "tls-combined.pem").read_bytes() == content

    assert await eventually(is_there, bool)


@asynccontextmanager
async def node_0(objects: list[Json], certificates: Path, directory: Path) -> AsyncIterator[str]:
    """The address of a quorum node's process with the settings of the chart, as node 0 that leads alone."""
    (port,) = free_ports(1)
    given = named(objects, "ConfigMap", "q-quorate-quorum")["data"]["quorum.properties"]
    file, log_dir, address = directory / "quorum.properties", directory / "log", f"localhost:{port}"
    log_dir.mkdir()
    file.write_text(given.replace(TLS, str(certificates / "quorum-0")))
    to_format = {
        "process.roles": "controller",
        "node.id": 0,
        "log.dirs": log_dir,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{address}",
        "controller.quorum.bootstrap.servers": address,
    }
    formatting = directory / "format.properties"
    formatting.write_text("".join(f"{key}={value}\n" for key, value in to_format.items()))
    format_node(formatting, FormatOptions(cluster_id=CLUSTER_ID, standalone=True), output="text")
    own = {
        "node.id": "0",
        "listeners": f"CONTROLLER://{address}",
        "advertised.listeners": f"CONTROLLER://{address}",
        "health.listeners": "HEALTH://127.0.0.1:0",
        "controller.quorum.bootstrap.servers": address,
        "metadata.log.dir": str(log_dir),
    }
    arguments = [part for key, value in own.items() for part in ("--set", f"{key}={value}")]
    async with started("services.quorum", "--config", str(file), *arguments) as process:
        yield address
        process.terminate()
        await process.communicate()


def vote(node_id: NodeId) -> VoteRequest:
    request = VoteRequest(cluster_id=CLUSTER_ID, voter_id=0)
    partition = request.topics.add(topic_name="__cluster_metadata").partitions.add()
    partition.replica_id, partition.replica_epoch = node_id, 1
    return request


def fetch(node_id: NodeId) -> FetchRequest:
    request = FetchRequest(cluster_id=CLUSTER_ID)
    request.replica_state.replica_id = node_id
    return request


async def refusals(certificates: Path, name: str, address: str, node_id: NodeId) -> set[str]:
    """The RPCs that the node refuses to who shows this certificate and speaks as that node."""
    own = certificates / name
    transport = Transport(keystore=own / "tls-combined.pem", truststore=own / "ca.crt")
    refused = set()
    async with open_channel(address, transport) as channel:
        stub = QuorumStub(channel)
        await asyncio.wait_for(channel.channel_ready(), WITHIN_S)
        stream: Any = stub.FetchStream(timeout=WITHIN_S)
        for rpc, asked in {
            "Vote": stub.Vote(vote(node_id), timeout=WITHIN_S),
            "Fetch": stub.Fetch(fetch(node_id), timeout=WITHIN_S),
            "FetchSnapshot": stub.FetchSnapshot(FetchSnapshotRequest(replica_id=node_id), timeout=WITHIN_S),
            "FetchStream": first_answer(stream, fetch(node_id)),
        }.items():
            try:
                await asked
            except grpc.aio.AioRpcError as refusal:
                if refusal.code() is grpc.StatusCode.PERMISSION_DENIED:
                    refused.add(rpc)
        stream.cancel()
    return refused


async def first_answer(stream: Any, request: FetchRequest) -> None:
    """Raises the status of a stream that may end before it is written to; an iterator of requests would hide it."""
    with suppress(asyncio.InvalidStateError):
        await stream.write(request)
    await stream.read()


FETCHES: Final = {"Fetch", "FetchSnapshot", "FetchStream"}


async def test_a_certificate_speaks_only_as_its_own_node(
    objects: list[Json], certificates: Path, tmp_path: Path
) -> None:
    """At a quorum node's process with the chart's settings, and with the certificates that the chart makes."""
    async with node_0(objects, certificates, tmp_path) as address:
        own = {node_id: await refusals(certificates, "quorum-1", address, node_id) for node_id in (1, 2)}
        of_others = {
            name: await refusals(certificates, name, address, 1) for name in ("heartbeat", "observer", "gateway")
        }
        observing = await refusals(certificates, "observer", address, 1_000)

    # FetchStream is what a quorum node calls in place of Fetch.
    assert {1: {"Fetch"}, 2: {"Vote", *FETCHES}} == own
    assert {"heartbeat": {"Vote", *FETCHES}, "observer": {"Vote", *FETCHES}, "gateway": {"FetchStream"}} == of_others
    assert {"Vote"} == observing


SPEAKS_AS: Final[dict[str, dict[str, NodeId | str]]] = {
    "quorum": {"quorum-1": 1, "observer": 1_000, "gateway": ANY_NODE, "broker-101": 101},
    "controller": {"quorum-1": 1, "heartbeat": ANY_NODE, "admin": 2_147_483_600, "broker-101": 101},
    "heartbeat": {"quorum-1": 1, "gateway": ANY_NODE, "admin": 2_147_483_600, "broker-101": 101},
    "gateway": {"quorum-1": 1, "CN=broker-101,O=x": 101, "broker-101": 101},
}
"""Which nodes a certificate speaks for at each container; those that are not here, for none."""
NAMES: Final = {name for each in SPEAKS_AS.values() for name in each} | {
    *("quorum", "quorum-", "placer", "alice", "pipeline"),
    *("broker-1", "broker-01", "CN=broker-2,O=x", "CN=x,O=y-101"),  # the last node ids are of the quorum, or no name's
}


def settings_of(objects: list[Json], directory: Path) -> Iterator[tuple[str, Any]]:
    """Those of each container whose callers are nodes."""
    for _, _, spec in pod_specs(objects):
        for container in spec["containers"]:
            if container["name"] in SPEAKS_AS:
                yield container["name"], loaded(objects, spec, container, directory)


def test_who_speaks_for_which_node_at_which_service(objects: list[Json], tmp_path: Path) -> None:
    found = {}
    for container, config in settings_of(objects, tmp_path):
        ids = node_ids_of(config.node_rules)
        assert ids is not None, container
        said = {name: ids.of(Principal("User", name)) for name in NAMES}
        found[container] = {name: node_id for name, node_id in said.items() if node_id is not None}
    for at in SPEAKS_AS:
        found[at].setdefault("CN=broker-101,O=x", 101)

    assert found == {at: {"CN=broker-101,O=x": 101, **who} for at, who in SPEAKS_AS.items()}


@pytest.mark.parametrize(
    ("values", "speaks"),
    [
        ({"tls": {"nodeCertificates": "shared"}}, None),
        ({"tls": {"nodeCertificates": "moving"}}, {"quorum": ANY_NODE, "quorum-2": 2, "kafka": None}),
        ({"tls": {"nodeIdMappingRules": "RULE:^kafka$/7/"}}, {"quorum": None, "quorum-2": 2, "kafka": 7}),
    ],
    ids=["shared", "moving", "more rules"],
)
def test_one_certificate_for_all_speaks_as_every_node_until_each_has_its_own(
    values: Json, speaks: dict[str, NodeId | str | None] | None, tmp_path: Path
) -> None:
    for container, config in settings_of(render({**GATEWAYS, **values}), tmp_path):
        ids = node_ids_of(config.node_rules)
        found = None if ids is None else {name: ids.of(Principal("User", name)) for name in speaks or ()}

        assert speaks == found, container


def test_gateways_with_a_listener_in_the_clear_have_no_rules(tmp_path: Path) -> None:
    """There everybody is ANONYMOUS, and a gateway does not start with them."""
    clear: Json = {"gateway": {"enabled": True, "listeners": [{"name": "A", "port": 9092, "protocol": "PLAINTEXT"}]}}
    rules = {at: config.node_rules is not None for at, config in settings_of(render(clear), tmp_path)}

    assert {"quorum": True, "controller": True, "heartbeat": True, "gateway": False} == rules


def test_gateways_with_certificates_of_ones_own_have_one_to_be_named() -> None:
    own = {name: f"my-{name}" for name in ("quorum", "heartbeat", "placer", "observer", "admin")}
    values = {**GATEWAYS, "tls": {"source": "existingSecret", "existingSecrets": own}}

    assert "tls.existingSecrets.gateway is empty" in refusal(values)
    assert render({**GATEWAYS, "tls": {**values["tls"], "nodeCertificates": "shared"}})
