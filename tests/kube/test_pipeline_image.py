"""The pipeline's image: the chart's job on copies of logs runs in it, on a read-only root and without a network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.kube.images import PIPELINE, build, buildah, image
from tests.kube.places import ROOT

pytestmark = [pytest.mark.kube, pytest.mark.timeout(1_800)]

LOGS: Final = ROOT / "tests" / "interop" / "fixtures" / "three-dynamic"
USER: Final = 10001
RUN_S: Final = 900
MOUNTS: Final = """
hostname pod && echo "127.0.0.1 localhost pod" > {root}/etc/hosts || exit 9
mount --bind {root} {root} && mount -o remount,bind,ro {root} && ! touch {root}/x || exit 9
mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && mount -t tmpfs tmpfs {root}/tmp || exit 9
mkdir {root}/tmp/logs {root}/tmp/lake && ip link set lo up || exit 9
mount --bind {logs} {root}/tmp/logs && mount --bind {lake} {root}/tmp/lake || exit 9
"""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """The image's files."""
    build((PIPELINE,))
    container = buildah("from", image(PIPELINE)).strip()
    yield Path(buildah("mount", container).strip())
    buildah("rm", container)


def test_makes_tables_and_the_page_of_copies_of_logs(root: Path, tmp_path: Path) -> None:
    os.chown(tmp_path, USER, USER)

    done = run(
        root, tmp_path, "run", "--from", "/tmp/logs", "--to", "/tmp/lake/tables", "--report", "/tmp/lake/report.html"
    )

    assert 0 == done.returncode, done.stderr
    for table in (
        "bronze/records",
        "silver/partition_history",
        "silver/kept_history",
        "gold/story",
        "gold/placement_skew",
    ):
        assert list((tmp_path / "tables" / table).rglob("*.parquet")), table
    assert "<html" in (tmp_path / "report.html").read_text()


def run(root: Path, lake: Path, *job: str) -> subprocess.CompletedProcess[str]:
    """A job as the CronJob's container has it: its user, its working directory, and two places to write."""
    mounts = MOUNTS.format(root=root, logs=LOGS, lake=lake)
    inside = f"cd /opt/quorate && exec python -m services.pipeline {' '.join(job)}"
    path = "PATH=/opt/quorate/.venv/bin:/usr/bin:/bin PYTHONPATH=/opt/quorate PYTHONDONTWRITEBYTECODE=1"
    command = f"exec chroot --userspec={USER}:{USER} {root} /usr/bin/env -i {path} /bin/sh -c '{inside}'"
    return subprocess.run(
        ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "sh", "-c", mounts + command],
        check=False, capture_output=True, text=True, timeout=RUN_S,
    )  # fmt: skip
