"""The records with which a cluster begins: left by Kafka's formatter and by ours, begun by the other one."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from deploy.kafka.node import Node
from deploy.kafka.release import POM, version
from deploy.local.plan import ClusterPlan
from deploy.local.ports import free_ports
from quorate.cli.offline import Offline, load
from quorate.errors import Corrupt
from quorate.metadata.versions import LATEST, level_of
from quorate.storage.names import BOOTSTRAP, PARTITION_DIRECTORY
from tests.cli.directories import CLUSTER_ID, run
from tests.interop.kafka.judge import controller_properties
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.interop.mixed import OURS, leader_of, plan_on, running_on, taken

pytestmark = [
    pytest.mark.interop,
    pytest.mark.e2e,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(absent() is not None, reason=str(absent())),
]

PINNED: Final = "4.1"
ITERATIONS: Final = 5000
SALT: Final = "MWx2NHBkbnc0ZndxN25vdGN4bTB5Y2E4Mg=="
USER: Final = f"SCRAM-SHA-512=[name=alice,password=wonderland,iterations={ITERATIONS},salt={SALT}]"
STATIC: Final[tuple[str, ...]] = ()
STANDALONE: Final = ("--standalone",)
BEGINS_WITHIN_S: Final = 300
BROKERS: Final = (101, 102, 103)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """With what a cluster has begun: the level of metadata.version, and iterations and stored key of each user."""

    level: int | None
    users: Mapping[str, tuple[int, str]]


def stored_key(password: bytes) -> str:
    """RFC 5802's StoredKey, by SHA-512."""
    salted = hashlib.pbkdf2_hmac("sha512", password, b64decode(SALT), ITERATIONS)
    return hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).hexdigest()


ALICE: Final = {"alice": (ITERATIONS, stored_key(b"wonderland"))}


def begun(found: Offline) -> Begun:
    users = {each.name: (each.iterations, each.stored_key.hex()) for each in found.state.scram}
    return Begun(level=found.state.features.metadata_version, users=users)


def controller(directory: Path, pom: Path, how: tuple[str, ...]) -> Node:
    """A quorum of one, neither formatted nor started."""
    (port,) = free_ports(1)
    properties = controller_properties(1, port, directory / "data")
    if how:
        del properties["controller.quorum.voters"]
        properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{port}"
    return Node(directory, properties, pom=pom)


def format_ours(node: Node, *options: str) -> None:
    ran = run("storage", "format", "-c", node.directory / "server.properties", "-t", CLUSTER_ID, *options)

    assert (0, "") == (ran.code, ran.err)


def kafka_begins_on(node: Node) -> Begun:
    """The state of its log once the node has begun the cluster, and ended."""
    data = node.directory / "data"
    with node.start():
        node.wait_until(lambda: level_in(data) is not None, "the beginning of a cluster", BEGINS_WITHIN_S)
        node.wait_ready()
        node.stop()
    return begun(load(data))


def level_in(data: Path) -> int | None:
    """What its log says; it may be in the middle of a write."""
    if not list((data / PARTITION_DIRECTORY).glob("*.log")):
        return None
    try:
        return load(data).state.features.metadata_version
    except Corrupt:
        return None


async def we_begin_on(data: Path, directory: Path) -> Begun:
    """The state of our log once brokers have joined, which need a cluster that has begun."""
    (data / PARTITION_DIRECTORY).mkdir(exist_ok=True)  # a formatter of 4.3 leaves it to the node
    plan = plan_on({1: data}, directory)
    if addresses := taken(plan):
        pytest.skip(f"somebody else listens at {', '.join(addresses)}, where this voter is to be")
    await live(plan)
    return begun(load(plan.log_dir(1)))


async def live(plan: ClusterPlan) -> None:
    async with running_on(replace(plan, is_observed=False)) as cluster:
        await leader_of(cluster, [1])
        for broker_id in BROKERS:
            await cluster.join(broker_id)
        answer = await cluster.create(OURS, at=1)

        assert not answer.topics[0].error_code, answer
        await cluster.end_voters()


@pytest.mark.parametrize("pom", [POM, OPERATIONS_POM], ids=version)
@pytest.mark.parametrize("how", [STATIC, STANDALONE], ids=["static", "standalone"])
def test_we_begin_with_what_kafka_left(tmp_path: Path, pom: Path, how: tuple[str, ...]) -> None:
    """4.4 leaves it in the checkpoint at offset 0, 4.3 in bootstrap.checkpoint."""
    node = controller(tmp_path / "kafka", pom, how)
    node.format(CLUSTER_ID, "--release-version", PINNED, "--add-scram", USER, *how)

    found = asyncio.run(we_begin_on(tmp_path / "kafka" / "data", tmp_path / "ours"))

    assert Begun(level=level_of(PINNED), users=ALICE) == found


@pytest.mark.parametrize(
    ("pom", "release"),
    [(POM, PINNED), (OPERATIONS_POM, PINNED), (OPERATIONS_POM, "4.4")],
    ids=lambda value: version(value) if isinstance(value, Path) else f"at {value}",
)
@pytest.mark.parametrize("how", [STATIC, STANDALONE], ids=["static", "standalone"])
def test_kafka_begins_with_what_we_left(tmp_path: Path, pom: Path, release: str, how: tuple[str, ...]) -> None:
    node = controller(tmp_path, pom, how)
    format_ours(node, "-r", release, "-S", USER, *how)

    assert Begun(level=level_of(release), users=ALICE) == kafka_begins_on(node)


def test_kafka_and_we_begin_at_the_latest_level_if_nothing_was_left(tmp_path: Path) -> None:
    node = controller(tmp_path / "kafka", OPERATIONS_POM, STATIC)
    format_ours(node, "-r", PINNED, "-S", USER)
    data = tmp_path / "kafka" / "data"
    (data / BOOTSTRAP).unlink()
    ours = asyncio.run(we_begin_on(data, tmp_path / "ours"))

    assert Begun(level=LATEST, users={}) == ours == kafka_begins_on(node)
