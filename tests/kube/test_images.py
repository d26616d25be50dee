"""The images as they are built: who runs in them, what is not in them, and that their root may be read-only."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.images import SERVICES, build_images, buildah, image
from tests.kube.programs import get_programs

pytestmark = pytest.mark.kube

BUILDERS = ("pip", "pip3", "uv", "gcc", "cc", "make", "apt", "apt-get", "dpkg", "perl", "git")


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    get_programs()
    build_images()


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(service: str) -> Iterator[Path]:
    """The image's files."""
    container = buildah("from", image(service)).strip()
    yield Path(buildah("mount", container).strip())
    buildah("rm", container)


def test_says_who_runs_and_what(service: str) -> None:
    config = json.loads(buildah("inspect", "--type", "image", image(service)))["OCIv1"]["config"]

    assert "10001:10001" == config["User"]
    assert ["python", "-m", f"services.{service}"] == config["Entrypoint"]
    assert ["--config", f"/etc/quorate/{service}.properties"] == config["Cmd"]


def test_has_nothing_to_build_or_install_with(root: Path) -> None:
    programs = {file.name for place in ("usr/bin", "usr/sbin", "usr/local/bin") for file in (root / place).glob("*")}

    assert set() == programs & set(BUILDERS)
    assert [] == list(root.glob("**/site-packages/pip")) + list(root.glob("**/ensurepip"))


def test_a_new_volume_is_its_user_s(root: Path) -> None:
    """Docker takes the owner of a new volume from the image's directory."""
    owner = (root / "var" / "lib" / "quorate").stat()

    assert (10001, 10001) == (owner.st_uid, owner.st_gid)


def test_has_one_service_and_its_bytecode(service: str, root: Path) -> None:
    services = root / "opt" / "quorate" / "services"
    sources = list((root / "opt" / "quorate").rglob("*.py"))
    compiled = {file.parent.parent / f"{file.name.partition('.')[0]}.py" for file in root.glob("opt/**/*.pyc")}

    assert {service} == {each.name for each in services.iterdir() if each.is_dir() and each.name != "__pycache__"}
    assert set() == {each for each in sources if "quorate" in each.parts[-3:]} - compiled


@pytest.mark.parametrize("command", ["-m services.{} --help", "-m quorate.cli --help"])
def test_starts_on_a_root_that_is_read_only(service: str, root: Path, command: str) -> None:
    """In a network and mounts of its own; a write to the root is refused."""
    python = f"cd /opt/quorate && exec .venv/bin/python {command.format(service)}"
    env = "PYTHONPATH=/opt/quorate PYTHONDONTWRITEBYTECODE=1"
    inside = f"chroot --userspec=10001:10001 {root} /usr/bin/env {env} /bin/sh -c '{python}'"
    script = f"mount --bind {root} {root} && mount -o remount,bind,ro {root} && ! touch {root}/x 2>&1 && {inside}"
    done = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", script], check=False, capture_output=True, text=True
    )

    assert 0 == done.returncode, done.stderr
    assert "Read-only file system" in done.stdout
    assert "--help" in done.stdout or "--config" in done.stdout
