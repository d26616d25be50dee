"""The chart as a release in a namespace of its own: installed, changed, looked at, removed."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.kube.cluster import Cluster
from tests.kube.kubectl import Kubectl, Refused
from tests.kube.network import CONTROL, DOMAIN, MACHINES
from tests.kube.places import ROOT, STATE, say
from tests.kube.volumes import manifest
from tests.kube.waiting import until

CHART: Final = ROOT / "deploy" / "helm" / "quorate"
NAMESPACE: Final = "kraft"
NAME: Final = "q"
FULL_NAME: Final = "q-quorate"
CONTROLLER_PORT: Final = 9094
OBSERVER_PORT: Final = 9097
HELM_WAIT: Final = "5m"
LITTLE: Final = {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}}
"""Nodes here are parts of one machine: what a pod asks for at a minimum is little."""
CLIENT: Final = {"quorate-client": "true"}
"""The label of pods that the release's policies take for clients."""
VALUES: Final[Mapping[str, Any]] = {
    "image": {"registry": "localhost", "pullPolicy": "Never"},
    "quorum": {"resources": LITTLE, "controllerResources": LITTLE, "spreadHosts": False},
    "heartbeat": {"resources": LITTLE},
    "placer": {"resources": LITTLE},
    "observer": {"resources": LITTLE},
    # The load comes from the machines.
    "networkPolicy": {"clients": [{"podSelector": {"matchLabels": CLIENT}}, {"ipBlock": {"cidr": MACHINES}}]},
}
COMPONENT: Final = "app.kubernetes.io/component"


@dataclass(frozen=True, slots=True)
class Release:
    """The chart on a cluster, by an administrator of its namespace."""

    cluster: Cluster
    kubectl: Kubectl
    admin_secret: str = f"{FULL_NAME}-admin-tls"
    """With the certificate of the admin."""

    def helm(self, command: str, *arguments: object) -> str:
        """`helm COMMAND` for this release, which is waited for."""
        return self.kubectl.helm(command, NAME, *arguments)

    def upgrade(self, *settings: str, values: Mapping[str, Any] | None = None) -> None:
        """Other values than it has, as NAME=VALUE, or a tree of them."""
        more: list[object] = [part for setting in settings for part in ("--set", setting)]
        if values is not None:
            file = self.directory / "upgrade.json"
            file.write_text(json.dumps(values))
            more += ["--values", file]
        self.helm("upgrade", CHART, "--reuse-values", "--wait", "--timeout", HELM_WAIT, *more)

    def pods(self, component: str) -> list[dict[str, Any]]:
        """The pods of one component that are not about to go, by name."""
        found = self.kubectl.pods(f"{COMPONENT}={component}")
        return sorted(
            (pod for pod in found if "deletionTimestamp" not in pod["metadata"]),
            key=lambda pod: str(pod["metadata"]["name"]),
        )

    def are_ready(self, component: str, count: int) -> bool:
        """Whether a component has so many pods, all ready."""
        pods = self.pods(component)
        return len(pods) == count and all(map(is_ready, pods))

    def wait_for(self, component: str, count: int) -> None:
        """Until they are."""
        until(f"{count} x {component} ready", lambda: self.are_ready(component, count))

    @property
    def namespace(self) -> str:
        """Of Kubernetes."""
        return self.kubectl.namespace

    @property
    def directory(self) -> Path:
        """For what clients of this release need, and what they write."""
        made = STATE / self.namespace
        made.mkdir(exist_ok=True)
        return made

    def host(self, component: str) -> str:
        """The name of a service of the release, as its certificates have it."""
        return f"{FULL_NAME}-{component}.{self.namespace}.svc"

    def certificate(self) -> tuple[Path, Path]:
        """The admin's key store and trust store, as the cluster has them now."""
        data = self.kubectl.get("secret", self.admin_secret)["data"]
        for name in ("tls-combined.pem", "ca.crt"):
            new = self.directory / f"{name}.new"
            new.write_bytes(base64.b64decode(data[name]))
            new.replace(self.directory / name)
        return self.directory / "tls-combined.pem", self.directory / "ca.crt"

    def load(self, command: str, *more: object) -> list[str]:
        """The command line of `tests.kube.load`."""
        address = self.kubectl.get("service", f"{FULL_NAME}-controller")["spec"]["clusterIP"]
        return self._load(command, f"{address}:{CONTROLLER_PORT}", self.host("controller"), *more)

    def reads(self, *, between_s: float = 0.02) -> list[str]:
        """The command line of `tests.kube.load` that reads from all observers, by their name in the cluster's DNS."""
        host = self.host("observer")
        return self._load("read", f"dns://{CONTROL}:53/{host}.{DOMAIN}:{OBSERVER_PORT}", host, between_s)

    def _load(self, command: str, address: str, host: str, *more: object) -> list[str]:
        call = [command, address, host, *self.certificate(), *more]
        inside = self.cluster.control.enter(all_namespaces=False)
        return [*inside, sys.executable, "-m", "tests.kube.load", *map(str, call)]

    def users(self) -> set[str]:
        """Of whom the controllers know."""
        done = subprocess.run(self.load("list"), check=True, capture_output=True, text=True, cwd=ROOT)
        return set(json.loads(done.stdout))

    def quorum(self) -> dict[str, Any]:
        """The leader, its epoch, and by voter how many records it lacks."""
        done = subprocess.run(self.load("quorum"), check=True, capture_output=True, text=True, cwd=ROOT)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def lead(self, node_id: int) -> dict[str, Any]:
        """Has a node lead, and returns what `quorum` does."""
        done = subprocess.run(self.load("lead", node_id), check=True, capture_output=True, text=True, cwd=ROOT)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def voters(self, count: int) -> bool:
        """Whether there are so many, and each has the log up to a hundred records."""
        behind = self.quorum()["behind"]
        return len(behind) == count and max(behind.values()) < 100


def install(cluster: Cluster) -> Release:
    """Into a new namespace, by the chart's defaults."""
    release = Release(cluster, new_namespace(cluster, NAMESPACE))
    install_chart(release, CHART)
    return release


def new_namespace(cluster: Cluster, name: str) -> Kubectl:
    """One that admits only pods which are restricted as Kubernetes' strictest standard says."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    cluster.kubectl.apply(manifest([about]))
    return cluster.kubectl.within(name)


def install_chart(release: Release, chart: Path, *settings: str) -> None:
    """A chart, with values as NAME=VALUE; volumes of an earlier release of the name are taken up."""
    values = release.directory / "values.json"
    values.write_text(json.dumps(VALUES))
    more = [part for setting in settings for part in ("--set", setting)]
    release.helm("install", chart, "--values", values, "--wait", "--timeout", HELM_WAIT, *more)


def uninstall(release: Release) -> None:
    """Until no process of it is left. The pod of `helm test`, which has ended, is not part of a release."""
    release.helm("uninstall", "--wait", "--timeout", HELM_WAIT)
    until("no pod runs", lambda: not release.kubectl.get("pods", "--field-selector=status.phase!=Succeeded")["items"])


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether Kubernetes sends it calls."""
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@dataclass(frozen=True, slots=True)
class Writes:
    """What came of a load: each line of `tests.kube.load`."""

    lines: list[dict[str, Any]]

    @property
    def acknowledged(self) -> set[str]:
        """The users whose quotas were acknowledged."""
        return {line["user"] for line in self.lines if "acknowledged" in line}

    @property
    def again(self) -> int:
        """How many writes were sent more than once."""
        return sum(bool(line["failed"]) for line in self.lines)

    @property
    def gap_s(self) -> float:
        """The longest time without an acknowledgement."""
        times = sorted(line["acknowledged"] for line in self.lines if "acknowledged" in line)
        return max((after - before for before, after in pairwise(times)), default=0.0)

    def refusals(self) -> dict[str, int]:
        """What the failures said, by how often."""
        said: dict[str, int] = {}
        for line in self.lines:
            for each in line["failed"]:
                said[each] = said.get(each, 0) + 1
        return said


@contextmanager
def under_load(release: Release, what: str) -> Iterator[Callable[[], int]]:
    """Writes go on during the block, which gets the number of those acknowledged; then each is looked for."""
    file = release.directory / f"writes-{what.replace(' ', '-')}.jsonl"
    process = subprocess.Popen(release.load("write", file), cwd=ROOT, env={**os.environ, "GRPC_VERBOSITY": "NONE"})

    def count() -> int:
        assert process.poll() is None, f"the load has ended: {process.returncode}"
        return len(read(file).acknowledged)

    try:
        until("writes are acknowledged", lambda: count() > 5)
        yield count
        sofar = count()
        until("writes go on", lambda: count() > sofar + 5)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    writes = read(file)
    lost = writes.acknowledged - release.users()
    say(
        f"{what}: {len(writes.acknowledged)} writes acknowledged, {len(lost)} lost, {writes.again} sent again, "
        f"longest gap {writes.gap_s:.2f} s"
    )
    for text, times in sorted(writes.refusals().items(), key=lambda each: -each[1])[:5]:
        say(f"    {times} x {text}")
    if lost:
        raise SystemExit(f"{what}: lost {sorted(lost)[:10]}")


def read(file: Path) -> Writes:
    """The whole lines of a load's file."""
    text = file.read_text() if file.exists() else ""
    return Writes([json.loads(line) for line in text.splitlines() if line.endswith("}")])


__all__ = [
    "Refused",
    "Release",
    "Writes",
    "install",
    "install_chart",
    "is_ready",
    "new_namespace",
    "under_load",
    "uninstall",
]
