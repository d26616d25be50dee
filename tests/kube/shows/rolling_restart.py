"""Everything is restarted, one pod after the other, while writes go on; the quorum once for each node that leads."""

from __future__ import annotations

from tests.kube.places import say
from tests.kube.release import FULL_NAME, HELM_WAIT, Release, under_load
from tests.kube.waiting import until

KINDS = ("deployment/heartbeat", "deployment/placer", "deployment/observer")
NODES = 3


def show(release: Release) -> None:
    """No acknowledged write is lost. Leadership moves once, or twice if the node leads that is restarted first."""
    with under_load(release, "rolling restart"):
        for kind in KINDS:
            restart(release, kind)
    for leader in range(NODES):
        with under_load(release, f"rolling restart of the quorum with leader {leader}"):
            before = release.lead(leader)
            restart(release, "statefulset/quorum")
            until("three voters have the log", lambda: release.voters(NODES))
            after = release.quorum()
        moved = after["epoch"] - before["epoch"]
        say(f"leader {before['leader']}, then {after['leader']}: {moved} elections")
        if moved > (2 if leader == NODES - 1 else 1):
            raise SystemExit(f"with leader {leader} leadership moved {moved} times")


def restart(release: Release, kind: str) -> None:
    """A rollout, as `statefulset/quorum`."""
    name = kind.replace("/", f"/{FULL_NAME}-")
    release.kubectl("rollout", "restart", name)
    release.kubectl("rollout", "status", name, f"--timeout={HELM_WAIT}")
    say(f"restarted {kind}")
