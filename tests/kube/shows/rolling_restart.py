"""Everything is restarted, one pod after the other, while writes go on."""

from __future__ import annotations

from tests.kube.places import say
from tests.kube.release import FULL_NAME, HELM_WAIT, Release, under_load
from tests.kube.waiting import until

KINDS = ("statefulset/quorum", "deployment/heartbeat", "deployment/placer", "deployment/observer")


def show(release: Release) -> None:
    """No acknowledged write is lost; how often leadership changed is printed."""
    with under_load(release, "rolling restart"):
        before = release.quorum()
        for each in KINDS:
            kind, component = each.split("/")
            release.kubectl("rollout", "restart", f"{kind}/{FULL_NAME}-{component}")
            release.kubectl("rollout", "status", f"{kind}/{FULL_NAME}-{component}", f"--timeout={HELM_WAIT}")
            say(f"restarted {component}")
        until("three voters have the log", lambda: release.voters(3))
        after = release.quorum()
        say(f"leader {before['leader']} in epoch {before['epoch']}, then {after['leader']} in {after['epoch']}")
