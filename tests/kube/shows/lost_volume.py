"""A node of the quorum loses its volume while writes go on, and gets an empty one."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.kube.places import say
from tests.kube.release import FULL_NAME, Release, is_ready, under_load
from tests.kube.waiting import until

LOST = (0, 2)
"""The ordinals whose volumes are lost, one after the other; the first is the one that once formatted alone."""


def show(release: Release) -> None:
    """It formats the new volume, joins, and has the whole log again: there is one quorum, and no write is lost."""
    with under_load(release, "a volume lost") as count:
        for ordinal in LOST:
            _lose(release, ordinal)
            sofar = count()
            until("writes go on", lambda sofar=sofar: count() > sofar)


def _lose(release: Release, ordinal: int) -> None:
    pod, claim = f"{FULL_NAME}-quorum-{ordinal}", f"data-{FULL_NAME}-quorum-{ordinal}"
    kubectl = release.kubectl
    volume = kubectl.get("pvc", claim)["spec"]["volumeName"]
    directory = Path(kubectl.get("pv", volume)["spec"]["local"]["path"])
    before = kubectl.get("pod", pod)["metadata"]["uid"]
    kubectl("delete", "pvc", claim, "--wait=false")
    kubectl("delete", "pod", pod, "--wait=true")
    until(f"the claim of {pod} is another", lambda: _volume(release, claim) not in (volume, None))
    kubectl("delete", "pv", volume)
    shutil.rmtree(directory)
    say(f"{pod} lost {volume}, and has {_volume(release, claim)}")
    until(f"{pod} is ready again", lambda: _is_new(release, pod, before))
    until("three voters have the log", lambda: release.voters(3))


def _volume(release: Release, claim: str) -> str | None:
    claims = release.kubectl.get("pvc")["items"]
    return next((each["spec"].get("volumeName") for each in claims if each["metadata"]["name"] == claim), None)


def _is_new(release: Release, pod: str, before: str) -> bool:
    found = [each for each in release.pods("quorum") if each["metadata"]["name"] == pod]
    return bool(found) and found[0]["metadata"]["uid"] != before and is_ready(found[0])
