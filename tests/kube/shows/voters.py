"""Voters by a number: 3, 5, 3."""

from __future__ import annotations

from tests.kube.places import say
from tests.kube.release import Release, under_load
from tests.kube.waiting import until


def show(release: Release) -> None:
    """New nodes join, and later leave before their pods go; no write is lost."""
    with under_load(release, "voters 3 5 3"):
        for count in (5, 3):
            release.upgrade(f"quorum.replicas={count}")
            release.wait_for("quorum", count)
            until(f"{count} voters have the log", lambda count=count: release.voters(count))
            say(f"{release.quorum()}")
