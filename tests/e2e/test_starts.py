"""What cannot work does not start: one line says why, the exit code says of what kind, and nothing has changed."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.local.plan import HOST, Process, free_ports
from deploy.local.processes import ROOT
from quorate.runtime.loop import ExitCode
from quorate.storage.lock import DirectoryLock
from quorate.storage.names import META_PROPERTIES, PARTITION_DIRECTORY
from tests.e2e.cluster import VOTERS, WITHIN_S, Cluster, eventually, stored_batches

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

LOG_FILE = f"{PARTITION_DIRECTORY}/00000000000000000000.log"
IGNORED = {".lock"}
"""Made to be locked; it says nothing."""

Settings = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended that did not come up."""

    code: ExitCode
    fatal: list[str]


async def start(service: str, settings: Mapping[str, str], directory: Path) -> Ended:
    """Start a service, and wait for its end."""
    config = directory / "start.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"services.{service}", "--config", str(config)),
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await asyncio.wait_for(child.communicate(), WITHIN_S)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    lines = errors.decode().splitlines()
    return Ended(code=ExitCode(child.returncode or 0), fatal=[line for line in lines if line.startswith("fatal: ")])


def content(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name not in IGNORED)
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@contextmanager
def taken(settings: Settings, _: Path) -> Iterator[None]:
    """Somebody else listens where the service is to listen."""
    with socket.socket() as other:
        other.bind((HOST, int(settings["listeners"].rpartition(":")[2])))
        other.listen(1)
        yield


def locked(_: Settings, directory: Path) -> AbstractContextManager[object]:
    return DirectoryLock(directory)


def without(*keys: str) -> Callable[[Settings], Settings]:
    return lambda settings: {key: value for key, value in settings.items() if key not in keys}


def setting(**changes: str) -> Callable[[Settings], Settings]:
    return lambda settings: settings | {key.replace("_", "."): value for key, value in changes.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A start that has to fail: what is changed of good settings and around them, and what the line has to name."""

    service: str = "quorum"
    settings: Callable[[Settings], Settings] = dict
    around: Callable[[Settings, Path], AbstractContextManager[object]] = lambda settings, directory: nullcontext()
    code: ExitCode = ExitCode.MISCONFIGURED
    named: tuple[str, ...]


BAD = {
    "a port in use": Bad(around=taken, code=ExitCode.CANNOT_LISTEN, named=("cannot listen on 127.0.0.1:",)),
    "a controller's port in use": Bad(
        service="controller", around=taken, code=ExitCode.CANNOT_LISTEN, named=("cannot listen on 127.0.0.1:",)
    ),
    "a locked directory": Bad(around=locked, named=("metadata.log.dir", "is locked by another process")),
    "another node's directory": Bad(
        settings=setting(node_id="2"), code=ExitCode.CORRUPT, named=(META_PROPERTIES, "node.id is 1", "says 2")
    ),
    "another controller's directory": Bad(
        service="controller",
        settings=setting(node_id="2"),
        code=ExitCode.CORRUPT,
        named=(META_PROPERTIES, "node.id is 1", "says 2"),
    ),
    "a directory that is not formatted": Bad(
        settings=setting(metadata_log_dir="/nowhere"),
        code=ExitCode.CORRUPT,
        named=(f"/nowhere/{META_PROPERTIES}", "is not formatted"),
    ),
    "settings that are missing": Bad(
        settings=without("node.id", "listeners"), named=("2 problems", "node.id: is missing", "listeners: is missing")
    ),
    "a setting that there is not": Bad(
        settings=setting(node_idd="1"), named=("node.idd", "is not a setting", "did you mean node.id?")
    ),
    "a setting of another kind": Bad(settings=setting(node_id="one"), named=("node.id = 'one'", "must be")),
    "voters without itself": Bad(
        settings=setting(controller_quorum_voters="2@127.0.0.1:2,3@127.0.0.1:3"),
        named=("node.id = 1 is not among controller.quorum.voters",),
    ),
    "a heartbeat service that knows no quorum": Bad(
        service="heartbeat",
        settings=without("controller.quorum.bootstrap.servers"),
        named=("controller.quorum.bootstrap.servers: is missing",),
    ),
    "an observer with a quorum node's setting": Bad(
        service="observer", settings=setting(metadata_log_dir="."), named=("metadata.log.dir", "is not a setting")
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_bad_start_says_why_and_changes_nothing(cluster: Cluster, tmp_path: Path, bad: Bad) -> None:
    directory = tmp_path / "node-1"
    shutil.copytree(cluster.plan.log_dir(1), directory)
    before = content(directory)
    process = next(each for each in cluster.plan.processes if each.service == bad.service)
    listener, _, _ = process.settings["listeners"].partition(":")
    good = process.settings | {"listeners": f"{listener}://{HOST}:{free_ports(1)[0]}"}
    if "metadata.log.dir" in good:
        good["metadata.log.dir"] = str(directory)
    with bad.around(good, directory):
        ended = await start(bad.service, bad.settings(good), tmp_path)

    assert bad.code == ended.code
    assert 1 == len(ended.fatal), ended.fatal
    assert [] == [part for part in bad.named if part not in ended.fatal[0]], ended.fatal
    assert before == content(directory)


async def test_a_flipped_byte_in_the_middle_of_a_log_stops_its_node_alone(cluster: Cluster) -> None:
    victim = await some_follower(cluster)
    await cluster.create("before-the-flip", at=1)
    await cluster.kill(victim)
    path = log_file(cluster, victim)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    before = content(path.parent)
    ended = await start("quorum", victim.settings, cluster.plan.directory)

    assert ExitCode.CORRUPT == ended.code
    assert 1 == len(ended.fatal), ended.fatal
    assert str(path) in ended.fatal[0]
    assert before == content(path.parent)
    batch = next(position for position in positions(whole) if position <= middle)

    assert str(batch) in ended.fatal[0]

    await cluster.create("after-the-flip", at=await cluster.active())
    path.write_bytes(whole)
    await cluster.restart(victim)
    await caught_up(cluster, victim)


@pytest.mark.parametrize("cut", [1, 100, 1000])
async def test_a_torn_tail_is_cut_and_fetched_again(cluster: Cluster, cut: int) -> None:
    victim = await some_follower(cluster)
    await caught_up(cluster, victim)
    await cluster.create(*(f"torn-{cut}-{number}" for number in range(10)), at=await cluster.active())
    await caught_up(cluster, victim)
    await cluster.kill(victim)
    path = log_file(cluster, victim)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    await cluster.restart(victim)
    await caught_up(cluster, victim)

    assert whole == path.read_bytes()[: len(whole)]


async def test_a_voter_of_another_cluster_is_not_heard(cluster: Cluster) -> None:
    victim = await some_follower(cluster)
    await cluster.kill(victim)
    node_id = int(victim.settings["node.id"])
    meta = cluster.plan.log_dir(node_id) / META_PROPERTIES
    ours = meta.read_text()
    stored = stored_batches(cluster.plan.log_dir(node_id))
    meta.write_text(ours.replace(cluster.plan.cluster_id, "AAAAAAAAAAAAAAAAAAAAAQ"))
    await cluster.restart(victim)
    leader = await cluster.leader()
    await cluster.create("without-the-stranger", at=await cluster.active())

    assert leader == await cluster.leader()
    assert stored == stored_batches(cluster.plan.log_dir(node_id))

    await cluster.kill(victim)
    meta.write_text(ours)
    await cluster.restart(victim)
    await caught_up(cluster, victim)


async def some_follower(cluster: Cluster) -> Process:
    leader = await cluster.active()
    return cluster.quorum(next(each for each in VOTERS if each != leader))


def log_file(cluster: Cluster, process: Process) -> Path:
    return cluster.plan.log_dir(int(process.settings["node.id"])) / LOG_FILE


def positions(log: bytes) -> list[int]:
    """Where each batch begins, the last one first."""
    found, position = [], 0
    while position < len(log):
        found.append(position)
        position += 12 + int.from_bytes(log[position + 8 : position + 12], "big")
    return found[::-1]


async def caught_up(cluster: Cluster, process: Process) -> None:
    """The leader says that this voter has everything."""
    node_id = int(process.settings["node.id"])
    door = await cluster.active()

    async def lag() -> int:
        quorum = await cluster.describe_quorum(door)
        ends = {voter.replica_id: voter.log_end_offset for voter in quorum.current_voters}
        return quorum.high_watermark - ends[node_id]

    await eventually(lag, lambda offsets: offsets <= 0)
