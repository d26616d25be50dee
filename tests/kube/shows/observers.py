"""Observers by a number: 2, 6, 2."""

from __future__ import annotations

from tests.kube.release import Release, under_load


def show(release: Release) -> None:
    """Each is ready only once it has the metadata."""
    with under_load(release, "observers 2 6 2"):
        for count in (6, 2):
            release.upgrade(f"observer.replicas={count}")
            release.wait_for("observer", count)
