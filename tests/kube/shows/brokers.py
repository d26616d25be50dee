"""A Kafka broker in a pod's network: it finds the voters in the log, and their gateways by the names of the pods."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from deploy.kafka.release import java, version
from tests.kube.places import ROOT, STATE, say
from tests.kube.pods import add_pod, end_in_network, in_network, run_in_network
from tests.kube.release import Release, under_load
from tests.kube.tools import TOOLS, by_certificate
from tests.kube.waiting import until

BROKER: Final = {"quorate-broker": "true"}
"""The label of the pods that the policies take for brokers."""
BROKER_ID: Final = 1_000
LISTENER, PORT = "KAFKA", 9092
ACL: Final = ("--add", "--allow-principal", "User:ANONYMOUS", "--operation", "Create", "--topic", "*")
"""For the broker's clients: they do not log in, and the controllers are who authorizes what it passes on."""
PARTITIONS: Final = 3


def show(release: Release) -> None:
    """While writes go on: the broker registers, makes a topic for a tool, and goes on as the leader's pod is gone."""
    release.upgrade("gateway.enabled=true", f"tls.nodeIdMappingRules=RULE:^admin$/{BROKER_ID}/")
    release.wait_for("quorum", 3)
    pod = add_pod(release, "broker", BROKER)
    with under_load(release, "a Kafka broker"), running(release, pod):
        until("the broker makes a topic", lambda: is_made(release, pod, "orders"))
        leader = release.quorum()["leader"]
        release.kubectl("delete", "pod", f"q-quorate-quorum-{leader}")
        until("it makes another", lambda: is_made(release, pod, "more"))
        release.wait_for("quorum", 3)
        described = _asked(release, pod, "--describe", "--topic", "orders")
    if len(re.findall(rf"Leader: {BROKER_ID}\b", described)) != PARTITIONS:
        raise SystemExit(f"not what was hoped for: {described}")
    say(f"a broker of Kafka {version()} leads {' '.join(described.splitlines()[0].split())}")
    release.kubectl("delete", "pod", "broker")


@contextmanager
def running(release: Release, pod: Mapping[str, Any]) -> Iterator[None]:
    """A broker on a new directory of the host; everybody may have it make topics. What it says is in a file there."""
    directory = STATE / "broker"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    config = directory / "broker.properties"
    of_tool = by_certificate(release).read_text().splitlines()
    settings = {
        "process.roles": "broker",
        "node.id": BROKER_ID,
        "controller.quorum.bootstrap.servers": ",".join(_gateways(release)),
        "controller.listener.names": LISTENER,
        "listener.security.protocol.map": f"{LISTENER}:SSL,PLAINTEXT:PLAINTEXT",
        "listeners": f"PLAINTEXT://{pod['status']['podIP']}:{PORT}",
        "log.dirs": directory / "data",
        "offsets.topic.replication.factor": 1,
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    lines += [f"listener.name.{LISTENER.lower()}.{each}" for each in of_tool if each.startswith("ssl.")]
    config.write_text("".join(f"{line}\n" for line in lines))
    notes = release.helm("status")
    found = re.search(r"cluster ([\w-]{22})[,.]", notes)
    if found is None:
        raise SystemExit(f"the notes name no cluster: {notes}")
    format_it = java("kafka.tools.StorageTool", "format", "-t", found[1], "-c", config)
    subprocess.run(format_it, check=True, capture_output=True, cwd=ROOT)
    command = in_network(release, pod, "it", *java("kafka.Kafka", config, level="info"))
    with _said(directory).open("wb") as out:
        broker = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        until("whoever asks the broker may make topics", lambda: _is_allowed(release, pod))
        yield
    except SystemExit as failed:
        raise SystemExit(f"{failed}; the broker's last words: {_said(directory).read_text()[-2000:]}") from None
    finally:
        end_in_network(broker)


def _gateways(release: Release) -> Iterator[str]:
    """The address of each, and not that of all: a connection to a Service stays with one."""
    for pod in release.pods("quorum"):
        yield f"{pod['metadata']['name']}.{release.host('quorum')}:{PORT}"


def _said(directory: Path) -> Path:
    return directory / "broker.out"


def _is_allowed(release: Release, pod: Mapping[str, Any]) -> bool:
    where = ("--bootstrap-controller", f"{release.host('gateway')}:{PORT}", "--command-config", by_certificate(release))
    return "Adding ACLs" in _said_by(release, pod, "AclCommand", *where, *ACL)


def is_made(release: Release, pod: Mapping[str, Any], topic: str) -> bool:
    """A lost answer leaves a topic that exists when it is asked for again."""
    said = _asked(release, pod, "--create", "--topic", topic, "--partitions", PARTITIONS)
    return "Created topic" in said or "already exists" in said


def _asked(release: Release, pod: Mapping[str, Any], *arguments: object) -> str:
    where = ("--bootstrap-server", f"{pod['status']['podIP']}:{PORT}")
    return _said_by(release, pod, "TopicCommand", *where, *arguments)


def _said_by(release: Release, pod: Mapping[str, Any], tool: str, *arguments: object) -> str:
    """What a tool of Kafka's prints, or why it has failed; that is in the log, too."""
    try:
        return run_in_network(release, pod, "it", *java(TOOLS + tool, *arguments))
    except SystemExit as failed:
        say(f"    {tool}: {str(failed)[-300:]}")
        return str(failed)
