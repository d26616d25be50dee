"""The whole cluster: what `up` starts and writes down, and what `down` ends."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.kube import kernel_settings
from tests.kube.control_plane import start_control_plane
from tests.kube.identities import IDENTITIES, Identities
from tests.kube.kubectl import Kubectl
from tests.kube.machine import Machine, connect, start_machine
from tests.kube.network import CONTROL, node_address
from tests.kube.node import route_pods, start_node
from tests.kube.places import STATE, say
from tests.kube.volumes import manifest, storage_class, volume
from tests.kube.waiting import until

NODES: Final = 3
VOLUMES: Final = 7
"""On each node at the start."""
RECORD: Final = STATE / "cluster.json"


@dataclass(frozen=True, slots=True)
class Cluster:
    """One that is up."""

    control: Machine
    nodes: Sequence[Machine]

    @property
    def kubectl(self) -> Kubectl:
        """The administrator's."""
        return Kubectl(self.control, IDENTITIES / "admin.kubeconfig")

    def node(self, name: str) -> Machine:
        """One of the nodes."""
        return next(each for each in self.nodes if each.name == name)


def up(*, nodes: int = NODES) -> Cluster:
    """Brings a cluster up, with the images. Raises SystemExit if one is up, or something does not start."""
    if os.geteuid() != 0:
        raise SystemExit("a cluster of namespaces needs root")
    if STATE.exists():
        raise SystemExit(f"{STATE} exists: a cluster is up, or was not taken down; see `python -m tests.kube down`")
    STATE.mkdir(parents=True)
    record: dict[str, Any] = {"kernel": kernel_settings.read(), "machines": []}
    machines: list[Machine] = []
    for number in range(nodes + 1):
        name, address = (f"node-{number}", node_address(number)) if number else ("control", CONTROL)
        machines.append(start_machine(name, address, STATE / name))
        record["machines"].append({**asdict(machines[-1]), "directory": str(machines[-1].directory)})
        RECORD.write_text(json.dumps(record, indent=1))
    control, workers = machines[0], machines[1:]
    connect(control, workers)
    route_pods([(each, number) for number, each in enumerate(workers, start=1)], control)
    identities = Identities(IDENTITIES)
    start_control_plane(control, identities)
    cluster = Cluster(control, workers)
    cluster.kubectl.apply(manifest([storage_class()]))
    for number, machine in enumerate(workers, start=1):
        start_node(machine, number, identities)
        volumes = [f"{machine.name}-{each}" for each in range(VOLUMES)]
        directories = STATE / "volumes"
        cluster.kubectl.apply(manifest([volume(name, machine.name, directories / name) for name in volumes]))
    for machine in workers:
        until(f"{machine.name} is ready", lambda machine=machine: cluster.kubectl.is_ready("node", machine.name))
    return cluster


def get() -> Cluster:
    """The one that is up. Raises SystemExit if none is."""
    machines = _recorded()
    if not machines or not all(machine.is_running for machine in machines):
        raise SystemExit("no cluster is up")
    return Cluster(machines[0], machines[1:])


def down() -> None:
    """Ends what `up` has started, by its ids, and removes what it left, also after a crash."""
    for machine in reversed(_recorded()):
        machine.end()
    if RECORD.exists():
        kernel_settings.restore(json.loads(RECORD.read_text())["kernel"])
    if STATE.exists():
        shutil.rmtree(STATE)
    say("the cluster is down")


def _recorded() -> list[Machine]:
    if not RECORD.exists():
        return []
    record = json.loads(RECORD.read_text())
    return [Machine(**{**each, "directory": Path(each["directory"])}) for each in record["machines"]]
