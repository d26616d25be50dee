"""From the previous chart and its images to today's, back by `helm rollback`, and to today's again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.kube.images import VERSION, build_images
from tests.kube.node import load_images
from tests.kube.places import ROOT, STATE, say
from tests.kube.release import CHART, HELM_WAIT, Release, install_chart, under_load, uninstall
from tests.kube.waiting import until

PREVIOUS: Final = "e1d1009"
"""The commit whose chart and images are the previous ones."""
TAG: Final = f"{VERSION}-{PREVIOUS}"
SHARED: Final = ("--set", "tls.nodeCertificates=shared")
"""As nodes of that chart have it, which let in no certificate of one node."""
WAIT: Final = ("--wait", "--timeout", HELM_WAIT)


def show(release: Release) -> None:
    """The release is installed anew from the previous chart, on the volumes that it has, and no write is lost."""
    tree = _check_out()
    build_images(root=tree, version=TAG)
    for node in release.cluster.nodes:
        load_images(node, TAG)
    before = release.users()
    uninstall(release)
    install_chart(release, tree / CHART.relative_to(ROOT), f"image.tag={TAG}")
    if lost := before - release.users():
        raise SystemExit(f"the previous release lacks {sorted(lost)[:10]}")
    with under_load(release, "upgrade from the previous chart"):
        release.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", f"image.tag={VERSION}", *SHARED, *WAIT)
        _images_are(release, VERSION)
    print(release.helm("test", "--logs"), flush=True)
    with under_load(release, "rollback to the previous chart"):
        release.helm("rollback", "1", *WAIT)
        _images_are(release, TAG)
    with under_load(release, "upgrade again"):
        release.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", f"image.tag={VERSION}", *SHARED, *WAIT)
        _images_are(release, VERSION)
    for step in ("moving", "perNode"):
        with under_load(release, f"certificates of the nodes: {step}"):
            release.helm("upgrade", CHART, "--reuse-values", "--set", f"tls.nodeCertificates={step}", *WAIT)
            until("three voters have the log", lambda: release.voters(3))


def _check_out() -> Path:
    """The tree of the previous commit."""
    tree = STATE / "previous"
    if tree.exists():
        shutil.rmtree(tree)
    tree.mkdir()
    archive = subprocess.run(["git", "archive", PREVIOUS], check=True, capture_output=True, cwd=ROOT)
    subprocess.run(["tar", "-x", "-C", tree], check=True, input=archive.stdout)
    return tree


def _images_are(release: Release, tag: str) -> None:
    until("three voters have the log", lambda: release.voters(3))
    images = {
        each["image"]
        for component in ("quorum", "heartbeat", "placer", "observer")
        for pod in release.pods(component)
        for each in pod["spec"]["containers"]
    }
    if {image.rpartition(":")[2] for image in images} != {tag}:
        raise SystemExit(f"{tag} is not what all run: {sorted(images)}")
    say(f"all pods run {tag}; {release.quorum()}")
