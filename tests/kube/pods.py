"""The network of a pod, for programs that are not in its image: they run on the host's files."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any, Final

from tests.kube.machine import Machine
from tests.kube.network import CONTROL, DOMAIN
from tests.kube.node import CONTAINERD
from tests.kube.places import ROOT, STATE
from tests.kube.release import NAMESPACE, Release

COMMAND_S: Final = 300


def process_of(release: Release, pod: Mapping[str, Any], container: str) -> tuple[Machine, str]:
    """The node of a container, and the id of its first process as that node counts."""
    statuses = pod["status"]["containerStatuses"]
    container_id = next(each["containerID"] for each in statuses if each["name"] == container)
    node = release.cluster.node(pod["spec"]["nodeName"])
    tasks = node.run("ctr", "--address", CONTAINERD, "--namespace", "k8s.io", "tasks", "ls").splitlines()
    (pid,) = [line.split()[1] for line in tasks if line.startswith(container_id.removeprefix("containerd://"))]
    return node, pid


def run_in_network(release: Release, pod: Mapping[str, Any], container: str, *command: object) -> str:
    """What a command prints in the network of a pod, with the names that the cluster's DNS has. Raises SystemExit."""
    node, pid = process_of(release, pod, container)
    names = STATE / "resolv.conf"
    names.write_text(f"nameserver {CONTROL}\nsearch {NAMESPACE}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}\noptions ndots:5\n")
    inside = f'mount --bind {names} /etc/resolv.conf && exec "$@"'
    done = subprocess.run(
        [
            *node.enter(), "nsenter", "--target", pid, "--net", "--",
            "unshare", "--mount", "sh", "-c", inside, "sh", *map(str, command),
        ],
        check=False, capture_output=True, text=True, timeout=COMMAND_S, cwd=ROOT,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{pod['metadata']['name']}: {' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout
