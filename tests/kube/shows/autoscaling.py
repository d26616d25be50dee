"""Observers by an autoscaler: more of them while clients read all the time, fewer after."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.kube.addons import start_metrics
from tests.kube.kubectl import Refused
from tests.kube.places import ROOT, say
from tests.kube.release import FULL_NAME, Release, under_load
from tests.kube.waiting import until

READERS: Final = 4
LEAST, MOST = 2, 4
REQUEST: Final = "250m"
"""Above what the spans of the load's writes cost, 240m on a quiet machine at the one observer that keeps them."""
TARGET_PERCENT: Final = 70
PATIENCE_S: Final = 400


def show(release: Release) -> None:
    """The autoscaler acts by the figures of the metrics server, and no number is set by hand."""
    start_metrics(release.cluster)
    with under_load(release, "observers by an autoscaler"):
        release.upgrade(
            "observer.autoscaling.enabled=true", f"observer.autoscaling.minReplicas={LEAST}",
            f"observer.autoscaling.maxReplicas={MOST}", f"observer.resources.requests.cpu={REQUEST}",
            f"observer.autoscaling.targetCPUUtilizationPercentage={TARGET_PERCENT}",
            "observer.connectionMaxAgeSeconds=5",
        )  # fmt: skip
        until(f"{LEAST} observers at rest", lambda: _is_at_rest(release), patience_s=PATIENCE_S)
        say(f"at rest {_used(release)} % of the {REQUEST} that an observer asks for")
        with _readers(release):
            until("readers are seen", lambda: not _is_at_rest(release), patience_s=PATIENCE_S)
            say(f"with {READERS} readers {_used(release)} %")
            until(f"{MOST} observers", lambda: release.are_ready("observer", MOST), patience_s=PATIENCE_S)
            say(f"with {READERS} readers and {MOST} observers {_used(release)} %")
        until(f"{LEAST} observers again", lambda: _is_at_rest(release), patience_s=PATIENCE_S)
        say(f"without readers {_used(release)} %")
    release.upgrade("observer.autoscaling.enabled=false", f"observer.replicas={LEAST}")


def _is_at_rest(release: Release) -> bool:
    """Whether there are as few observers as may be, with less to do than the autoscaler aims at."""
    used = _used(release)
    return used is not None and used <= TARGET_PERCENT and release.are_ready("observer", LEAST)


def _used(release: Release) -> int | None:
    """The CPU that observers use, in percent of what they ask for, as the autoscaler has it."""
    try:
        status = release.kubectl.get("hpa", f"{FULL_NAME}-observer")["status"]
    except Refused:
        return None
    # Before the first figure there is an entry that names no resource.
    known = [each["resource"]["current"] for each in status.get("currentMetrics") or [] if "resource" in each]
    return known[0].get("averageUtilization") if known else None


@contextmanager
def _readers(release: Release) -> Iterator[None]:
    """Clients that read all the time."""
    command = release.reads(between_s=0.0)
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) for _ in range(READERS)]
    try:
        yield
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(timeout=60)
