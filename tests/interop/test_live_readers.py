"""`quorate log dump` and `image show` read live quorums of Kafka releases, and leave no trace on them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from time import sleep
from typing import Any, Final

import pytest

from deploy.kafka.node import Node, tool
from deploy.kafka.release import POM, version
from deploy.local.ports import free_ports
from quorate.network.client_config import ClientConfig, parse_bootstrap
from quorate.network.metadata_fetch import FETCH_BYTES_MAX
from quorate.nouns import Offset
from quorate.pipeline.kafka_nodes import KafkaNodes
from quorate.pipeline.live import QuorumReader
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_ids
from quorate.wire.batch import batches
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.interop.test_wire_client import PASSWORD, properties
from tests.network.test_network import contexts

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=absent() or "")]

CLUSTER_ID: Final = "b2FzZXMgaW4gdGhlIGRlcw"
LOOPBACK: Final = "127.0.0.1"
QUORUM: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
COMMAND_TIMEOUT_S: Final = 300
LOOK_AGAIN_S: Final = 0.2


def quorate(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "quorate.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)


def document(*arguments: object) -> dict[str, Any]:
    ran = quorate(*arguments, "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


class Quorum:
    """Three controllers with static voters, on ports that are known; any of them may be killed."""

    def __init__(self, scratch: Path, pom: Path, stack: ExitStack) -> None:
        self.ports = dict(enumerate(free_ports(3), 1))
        voters = ",".join(f"{node_id}@{LOOPBACK}:{port}" for node_id, port in self.ports.items())
        self.nodes = {
            node_id: stack.enter_context(
                Node(
                    scratch / f"node-{node_id}",
                    {
                        "process.roles": "controller",
                        "node.id": node_id,
                        "controller.quorum.voters": voters,
                        "controller.listener.names": "CONTROLLER",
                        "listeners": f"CONTROLLER://{LOOPBACK}:{port}",
                        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
                        "log.dirs": scratch / f"node-{node_id}" / "data",
                        # so that there is a checkpoint soon, and what is before it is deleted
                        "metadata.log.max.record.bytes.between.snapshots": 400,
                    },
                    pom=pom,
                )
            )
            for node_id, port in self.ports.items()
        }
        for node in self.nodes.values():
            node.format(CLUSTER_ID, "--add-scram", f"SCRAM-SHA-256=[name=alice,password={PASSWORD}]")
            node.start()
        for node in self.nodes.values():
            node.wait_ready()

    def addresses(self, node_ids: Sequence[int]) -> str:
        return ",".join(f"{LOOPBACK}:{self.ports[node_id]}" for node_id in node_ids)


@pytest.fixture(scope="module", params=[POM, OPERATIONS_POM], ids=version)
def quorum(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """Each test leaves all of its nodes running, but for the last."""
    with ExitStack() as stack:
        yield Quorum(tmp_path_factory.mktemp("quorum"), request.param, stack)


def with_checkpoint(quorum: Quorum) -> dict[str, Any]:
    """An image from a checkpoint and the log after it, once there is one and every controller has registered."""
    partitions = [node.directory / "data" / PARTITION_DIRECTORY for node in quorum.nodes.values()]
    while not all(any(checkpoint.offset for checkpoint in checkpoint_ids(each)) for each in partitions):
        sleep(LOOK_AGAIN_S)
    while True:
        image = document("image", "show", "--bootstrap-controller", quorum.addresses([1, 2, 3]))
        if image["checkpoint"] and len(image["cluster"]["controllers"]) == 3:
            return image


OF_THE_SOURCE: Final = dict.fromkeys(("highWatermark", "checkpoint", "notes"))
"""What tells where an image comes from, and not what it is."""


def test_no_trace_is_left_and_the_log_is_that_of_the_leader(quorum: Quorum, tmp_path: Path) -> None:
    everyone = quorum.addresses([1, 2, 3])
    image = document("image", "show", "--bootstrap-controller", everyone)
    dumped = quorate("log", "dump", "--bootstrap-controller", everyone)
    described = tool(QUORUM, "--bootstrap-controller", everyone, "describe", "--replication", "--human-readable")

    assert dumped.returncode == 0, dumped.stderr
    assert "Dumping __cluster_metadata-0/" in dumped.stdout
    assert "isvalid: false" not in dumped.stdout
    assert PASSWORD not in dumped.stdout
    rows = [line.split() for line in described.splitlines()[1:] if line.strip()]
    assert {"1", "2", "3"} == {row[0] for row in rows}  # nobody has joined as observer
    assert image["voters"] is None or len(image["voters"]) == 3


def test_a_killed_leader_is_followed_by_the_next(quorum: Quorum) -> None:
    status = tool(QUORUM, "--bootstrap-controller", quorum.addresses([1, 2, 3]), "describe", "--status")
    told = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    leader = int(told["LeaderId"])
    quorum.nodes[leader].kill()
    alive = [node_id for node_id in quorum.nodes if node_id != leader]
    image = document("image", "show", "--bootstrap-controller", quorum.addresses([leader, *alive]))
    quorum.nodes[leader].start().wait_ready()

    assert image["epoch"] > int(told["LeaderEpoch"])


def test_a_log_in_answers_that_are_cut_in_a_batch_is_the_log(quorum: Quorum) -> None:
    """A Kafka leader fills each answer up to its limit in bytes."""
    controllers = parse_bootstrap(quorum.addresses([1, 2, 3]))
    with closing(QuorumReader(KafkaNodes(controllers, ClientConfig()), retry_s=COMMAND_TIMEOUT_S)) as reader:
        while len(log := fetched(reader, reader.high_watermark(), bytes_max=FETCH_BYTES_MAX)) < ENOUGH_BYTES:
            sleep(LOOK_AGAIN_S)
        end = [*batches(log)][-1][1].next_offset

        assert dict.fromkeys(LIMITS, log) == {limit: fetched(reader, end, bytes_max=limit) for limit in LIMITS}


ENOUGH_BYTES: Final = 3_000
LIMITS: Final = (1, 150, 300, 1_000)
"""The size in bytes of an answer; a batch of one NoOpRecord is smaller than 100."""


def fetched(reader: QuorumReader, end: Offset, *, bytes_max: int) -> bytes:
    """The batches below an offset, in answers of this limit. In place of offset 0 a leader gives its checkpoint."""
    found, at = b"", 1
    while at < end:
        data = reader.records(at, bytes_max=bytes_max).records
        assert data, at
        for position, header in batches(data):
            found += data[position : position + header.size] if header.base_offset < end else b""
            at = header.next_offset
    return found


def test_every_node_leads_to_the_leader_and_the_state_is_that_of_its_files(quorum: Quorum) -> None:
    image = with_checkpoint(quorum)
    for node_id in quorum.ports:
        again = document("image", "show", "--bootstrap-controller", quorum.addresses([node_id]))
        assert again["highWatermark"] == again["asOfOffset"] >= image["asOfOffset"]
    for node in quorum.nodes.values():
        node.kill()

    assert [*image["scram"]["SCRAM-SHA-256"]] == ["alice"]
    for node in quorum.nodes.values():
        offline = document("image", "show", "--offline", node.directory / "data", "--as-of", image["asOfOffset"])
        assert OF_THE_SOURCE.keys() <= offline.keys()
        assert offline | OF_THE_SOURCE == image | OF_THE_SOURCE


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, int]]]:
    scratch = tmp_path_factory.mktemp("secured")
    contexts(scratch)
    (scratch / "both.pem").write_text((scratch / "key.pem").read_text() + (scratch / "certificate.pem").read_text())
    plaintext, sasl, tls = free_ports(3)
    with Node(scratch / "node", properties(scratch, plaintext, sasl, tls), pom=OPERATIONS_POM) as node:
        node.format(CLUSTER_ID, "--add-scram", f"SCRAM-SHA-512=[name=alice,password={PASSWORD}]")
        node.start().wait_ready()
        yield scratch, {"plaintext": plaintext, "sasl": sasl, "tls": tls}


@pytest.mark.parametrize(
    ("listener", "lines"),
    [
        (
            "sasl",
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" '
            'password="p\\u00e4ssword";',
        ),
        ("tls", "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={directory}/certificate.pem"),
    ],
)
def test_it_logs_in_as_the_properties_say(
    secured: tuple[Path, dict[str, int]], tmp_path: Path, listener: str, lines: str
) -> None:
    """The fetch leads to the first controller listener, which the certificate and the login are for, too."""
    directory, ports = secured
    config = tmp_path / "client.properties"
    config.write_text(lines.replace("{directory}", str(directory)))
    image = document(
        "image", "show", "--bootstrap-controller", f"localhost:{ports[listener]}", "--command-config", config
    )

    assert image["highWatermark"] > 0


@pytest.mark.parametrize(
    ("lines", "code", "says"),
    [
        ("default.api.timeout.ms=2000", 3, "nothing was read for 2000 ms"),  # clear text to SASL
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
            'x.ScramLoginModule required username="alice" password="guess";',
            1,
            "invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
    ],
)
def test_what_does_not_match_ends_with_one_line(
    secured: tuple[Path, dict[str, int]], tmp_path: Path, lines: str, code: int, says: str
) -> None:
    _, ports = secured
    config = tmp_path / "client.properties"
    config.write_text(lines)
    ran = quorate("image", "show", "--bootstrap-controller", f"127.0.0.1:{ports['sasl']}", "--command-config", config)

    assert ran.returncode == code
    assert ran.stdout == ""
    assert says in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert "guess" not in ran.stderr
