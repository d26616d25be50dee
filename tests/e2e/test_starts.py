"""What cannot work does not start: one line says why, the exit code says of what kind, and nothing has changed."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.local.plan import Process
from deploy.local.ports import HOST, free_ports
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.lock import DirectoryLock
from quorate.storage.names import META_PROPERTIES, PARTITION_METADATA
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, stored_batches
from tests.e2e.starting import content, start
from tests.e2e.writer import caught_up
from tests.network.certificates import authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

Settings = dict[str, str]


@contextmanager
def taken(settings: Settings, _: Path) -> Iterator[None]:
    """Somebody else listens where the service is to listen."""
    with socket.socket() as other:
        other.bind((HOST, int(settings["listeners"].rpartition(":")[2])))
        other.listen(1)
        yield


def locked(_: Settings, directory: Path) -> AbstractContextManager[object]:
    return DirectoryLock(directory)


@contextmanager
def emptied(_: Settings, directory: Path) -> Iterator[None]:
    """partition.metadata is empty, as after a power loss, and stays so."""
    (path,) = directory.rglob(PARTITION_METADATA)
    before = path.read_bytes()
    path.write_bytes(b"")
    yield
    assert b"" == path.read_bytes()
    path.write_bytes(before)


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


@contextmanager
def certificates(settings: Settings, directory: Path) -> Iterator[None]:
    """Those of one authority, one that has expired, and one of another authority, in the node's own directory."""
    made = directory.parent / "certificates"
    made.mkdir()
    ours, other = authority(made), authority(made, "other")
    ours.issue("old", "/CN=node", days="-1")
    other.issue("foreign", "/CN=node")
    settings["ssl.truststore.location"] = str(ours.certificate)
    yield


def keystore(name: str) -> Callable[[Settings], Settings]:
    """TLS with a key store beside the trust store."""

    def changed(settings: Settings) -> Settings:
        stores = Path(settings["ssl.truststore.location"]).parent
        speaks = {"listener.security.protocol.map": "CONTROLLER:SSL", "ssl.keystore.location": str(stores / name)}
        return settings | speaks

    return changed


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
    "an empty partition.metadata": Bad(
        around=emptied,
        code=ExitCode.CORRUPT,
        named=(PARTITION_METADATA, "remove the file, and a start makes it anew"),
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
    "no word of TLS or clear text": Bad(
        settings=without("listener.security.protocol.map"),
        named=(
            "2 problems",
            "ssl.keystore.location: is missing; the listener CONTROLLER speaks SSL",
            "ssl.truststore.location: is missing",
            "in the clear only by listener.security.protocol.map = CONTROLLER:PLAINTEXT",
        ),
    ),
    "a key store that there is not": Bad(
        settings=keystore("none.pem"), around=certificates, named=("ssl.keystore.location", "No such file or directory")
    ),
    "a certificate that has expired": Bad(
        settings=keystore("old.pem"), around=certificates, named=("ssl.keystore.location", "certificate has expired")
    ),
    "a certificate of another authority": Bad(
        settings=keystore("foreign.pem"),
        around=certificates,
        named=("ssl.keystore.location", "ssl.truststore.location", "self-signed certificate in certificate chain"),
    ),
    "a controller with a certificate of another authority": Bad(
        service="controller",
        settings=keystore("foreign.pem"),
        around=certificates,
        named=("ssl.keystore.location", "self-signed certificate in certificate chain"),
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


async def test_a_voter_of_another_cluster_is_not_heard(cluster: Cluster) -> None:
    victim = await some_follower(cluster)
    await cluster.kill(victim)
    node_id = int(victim.settings["node.id"])
    meta = cluster.plan.log_dir(node_id) / META_PROPERTIES
    ours = meta.read_text()
    stored = stored_batches(cluster.plan.log_dir(node_id))
    # Without our checksum, as a JVM writes it: with it the other id would be found to be damage.
    unchecked = "".join(line for line in ours.splitlines(keepends=True) if not line.startswith("#crc32c"))
    meta.write_text(unchecked.replace(cluster.plan.cluster_id, "AAAAAAAAAAAAAAAAAAAAAQ"))
    await cluster.restart(victim)
    leader = await cluster.leader()
    await cluster.create("without-the-stranger", at=await cluster.active())

    assert leader == await cluster.leader()
    assert stored == stored_batches(cluster.plan.log_dir(node_id))

    await cluster.kill(victim)
    meta.write_text(ours)
    await cluster.restart(victim)
    await caught_up(cluster)


async def some_follower(cluster: Cluster) -> Process:
    leader = await cluster.active()
    return cluster.quorum(next(each for each in VOTERS if each != leader))
