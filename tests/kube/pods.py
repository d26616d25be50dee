"""Pods that a show adds; and the network of a pod, for programs of the host that are not in its image."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.kube.images import image
from tests.kube.machine import Machine
from tests.kube.network import CONTROL, DOMAIN
from tests.kube.node import CONTAINERD
from tests.kube.places import ROOT
from tests.kube.release import Release
from tests.kube.volumes import manifest
from tests.kube.waiting import until

COMMAND_S: Final = 300
END_S: Final = 120
USER: Final = 10001


def add_pod(
    release: Release, name: str, labels: Mapping[str, str], *, service: str = "observer", claim: str = ""
) -> dict[str, Any]:
    """A pod beside a release, once it is ready: it sleeps, with a service's image and a claim at /claim."""
    mounts = [{"name": "claim", "mountPath": "/claim"}] if claim else []
    container = {
        "name": "it",
        "image": image(service),
        "imagePullPolicy": "Never",
        "command": ["sleep", "2147483647"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }
    user = {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {
        "containers": [container],
        "securityContext": user,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": claim}}] if claim else [],
    }
    metadata = {"name": name, "labels": dict(labels)}
    release.kubectl.apply(manifest([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}]))
    until(f"pod {release.namespace}/{name} is ready", lambda: release.kubectl.is_ready("pod", name))
    return release.kubectl.get("pod", name)


def process_of(release: Release, pod: Mapping[str, Any], container: str) -> tuple[Machine, str]:
    """The node of a container, and the id of its first process as that node counts."""
    statuses = pod["status"]["containerStatuses"]
    container_id = next(each["containerID"] for each in statuses if each["name"] == container)
    node = release.cluster.node(pod["spec"]["nodeName"])
    tasks = node.run("ctr", "--address", CONTAINERD, "--namespace", "k8s.io", "tasks", "ls").splitlines()
    (pid,) = [line.split()[1] for line in tasks if line.startswith(container_id.removeprefix("containerd://"))]
    return node, pid


def in_network(release: Release, pod: Mapping[str, Any], container: str, *command: object) -> list[str]:
    """The command line that runs a command in the network of a pod, with the names that the cluster's DNS has."""
    node, pid = process_of(release, pod, container)
    names = release.directory / "resolv.conf"
    names.write_text(
        f"nameserver {CONTROL}\nsearch {release.namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}\noptions ndots:5\n"
    )
    inside = f'mount --bind {names} /etc/resolv.conf && exec "$@"'
    return [
        *node.enter(), "nsenter", "--target", pid, "--net", "--",
        "unshare", "--mount", "sh", "-c", inside, "sh", *map(str, command),
    ]  # fmt: skip


def end_in_network(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM for a command of `in_network`: the child of the process that was started, which passes on no signal."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if process.poll() is None:
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGTERM)
    process.wait(END_S)


def run_in_network(release: Release, pod: Mapping[str, Any], container: str, *command: object) -> str:
    """What a command prints in the network of a pod. Raises SystemExit."""
    command_line = in_network(release, pod, container, *command)
    done = subprocess.run(command_line, check=False, capture_output=True, text=True, timeout=COMMAND_S, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(f"{pod['metadata']['name']}: {' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout
