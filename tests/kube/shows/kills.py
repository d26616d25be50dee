"""Each container of the release is killed by SIGKILL, one after the other, while writes go on."""

from __future__ import annotations

from typing import Any

from tests.kube.places import say
from tests.kube.pods import process_of
from tests.kube.release import Release, is_ready, under_load
from tests.kube.waiting import until

COMPONENTS = ("quorum", "heartbeat", "placer", "observer")


def show(release: Release) -> None:
    """Kubernetes starts each again, and no acknowledged write is lost."""
    with under_load(release, "kill -9 of each container"):
        for component in COMPONENTS:
            for pod in release.pods(component):
                for container in pod["spec"]["containers"]:
                    kill(release, pod, container["name"])


def kill(release: Release, pod: dict[str, Any], container: str) -> None:
    """Until the container is started again, and its pod is ready."""
    name = pod["metadata"]["name"]
    before = _status(release, name, container)
    node, pid = process_of(release, pod, container)
    node.run("kill", "-9", pid)
    say(f"kill -9 {container} of {name}")

    def is_back() -> bool:
        now = _status(release, name, container)
        return now["restartCount"] > before["restartCount"] and is_ready(release.kubectl.get("pod", name))

    until(f"{name} is ready again", is_back)


def _status(release: Release, pod: str, container: str) -> dict[str, Any]:
    statuses = release.kubectl.get("pod", pod)["status"]["containerStatuses"]
    found: dict[str, Any] = next(each for each in statuses if each["name"] == container)
    return found
