"""The images of the services, built without a registry: bases from Debian's packages, then each by the Dockerfile.

The bases have the layout of Debian's own Python 3.11. `runtime` is no distribution: Python, its libraries, bash, which
Spark's scripts are written for, and busybox in place of other tools. `builder` has what the Dockerfile's first stage
needs. The pause image is busybox.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.interop import collector
from tests.kube.places import CACHE, ROOT, say

SERVICES: Final = ("quorum", "controller", "gateway", "heartbeat", "placer", "observer", "broker")
PIPELINE: Final = "pipeline"
"""It is ten times as large as the others, and built where it is asked for."""
VERSION: Final = "0.1.0"
SUITE: Final = "bookworm"
STORE: Final = ("--root", str(CACHE / "storage"), "--runroot", str(CACHE / "storage-run"))
RUNTIME: Final = "localhost/quorate-base/runtime:2"
BUILDER: Final = "localhost/quorate-base/builder:1"
PAUSE: Final = "localhost/quorate-base/pause:1"
"""A base with other packages has another tag, so that a cache of before is not taken for it."""
COLLECTOR: Final = f"localhost/quorate-test/otelcol:{collector.VERSION}"
AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")

RUNTIME_PACKAGES: Final = (
    "python3.11-minimal", "libpython3.11-stdlib", "python3-minimal", "base-files", "busybox-static", "tzdata",
    "netbase", "libgcc-s1", "libstdc++6", "bash",
)  # fmt: skip
NOT_IN_RUNTIME: Final = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/lib/x86_64-linux-gnu/gconv", "usr/bin/dpkg*",
    "var/lib/apt", "var/lib/dpkg",
)  # fmt: skip
"""What packages bring and a service has no use for: the extracted packages are never managed."""


def image(service: str, version: str = VERSION) -> str:
    """The name of a service's image."""
    return f"localhost/quorate/{service}:{version}"


def archive(name: str = VERSION) -> Path:
    """Images in OCI's layout, each layer once: those of a version, or of something else."""
    return CACHE / f"images-{name}.tar"


def build_images(*, root: Path = ROOT, version: str = VERSION) -> None:
    """Builds the images of a tree that a cluster gets, and writes their archive; an older tree has not all services."""
    services = tuple(each for each in SERVICES if (root / "services" / each / "__main__.py").exists())
    build(services, root=root, version=version)
    _archive([PAUSE, *(image(service, version) for service in services)], archive(version))


def build_pipeline() -> str:
    """Builds the pipeline's image, writes its archive, and returns the archive's name."""
    build((PIPELINE,))
    _archive([image(PIPELINE)], archive(PIPELINE))
    return PIPELINE


def build_collector() -> str:
    """Makes an image of an OpenTelemetry collector, writes its archive, and returns the archive's name."""
    program = collector.build()
    container = buildah("from", "scratch").strip()
    buildah("copy", "--quiet", container, program, "/otelcol")
    buildah("config", "--entrypoint", '["/otelcol"]', container)
    buildah("commit", "--quiet", "--rm", container, COLLECTOR)
    _archive([COLLECTOR], archive("collector"))
    return "collector"


def build(services: tuple[str, ...], *, root: Path = ROOT, version: str = VERSION) -> None:
    """Builds images of a tree anew where it has changed, and prints their sizes."""
    _make_bases()
    for service in services:
        say(f"image {service} {version}")
        given = (f"SERVICE={service}", f"BUILDER={BUILDER}", f"BASE={RUNTIME}")
        file = root / "deploy" / "Dockerfile"
        if not file.exists():  # an older tree has one beside each service
            file = root / "services" / service / "Dockerfile"
        how = ("--quiet", "--isolation", "chroot", "--layers", *(f"--build-arg={each}" for each in given))
        buildah("bud", *how, "-f", file, "-t", image(service, version), root)
    sizes = buildah("images", "--format", "{{.Name}}:{{.Tag}} {{.Size}}").splitlines()
    for line in sorted(sizes):
        if line.startswith(("localhost/quorate/", RUNTIME)):
            say(f"size {line}")


def _make_bases() -> None:
    have = buildah("images", "--format", "{{.Name}}:{{.Tag}}").split()
    runtime, builder = CACHE / "runtime.tar", CACHE / "builder.tar"
    CACHE.mkdir(parents=True, exist_ok=True)
    if RUNTIME not in have:
        _bootstrap(
            runtime,
            "extract",
            RUNTIME_PACKAGES,
            'chroot "$1" /usr/bin/busybox mkdir -p /sbin /usr/sbin',
            'chroot "$1" /usr/bin/busybox --install -s',
            'cd "$1" && rm -rf ' + " ".join(NOT_IN_RUNTIME),
            'chroot "$1" /usr/bin/python3.11 -m compileall -q /usr/lib/python3.11',
        )
        _import(runtime, RUNTIME, {})
        _pause()
        runtime.unlink()
    if BUILDER not in have:
        packages = ("python3", "python3-venv", "ca-certificates")
        _bootstrap(builder, "minbase", packages, f'cp {AUTHORITIES} "$1"{AUTHORITIES}')
        _import(builder, BUILDER, {"SSL_CERT_FILE": str(AUTHORITIES)})
        builder.unlink()


def _bootstrap(target: Path, variant: str, packages: tuple[str, ...], *hooks: str) -> None:
    say(f"mmdebstrap {target.stem}")
    when = "extract" if variant == "extract" else "customize"
    done = subprocess.run(
        [
            "mmdebstrap", "--quiet", "--mode=root", f"--variant={variant}", f"--include={','.join(packages)}",
            "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", *(f"--{when}-hook={hook}" for hook in hooks),
            SUITE, str(target),
        ],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"mmdebstrap: {done.stderr[-4000:]}")


def _import(root: Path, name: str, environment: Mapping[str, str]) -> None:
    container = buildah("from", "scratch").strip()
    buildah("add", "--quiet", container, root, "/")
    for key, value in environment.items():
        buildah("config", "--env", f"{key}={value}", container)
    buildah("commit", "--quiet", "--rm", container, name)


def _pause() -> None:
    """What holds a pod's namespaces: it sleeps."""
    container = buildah("from", "scratch").strip()
    buildah("copy", "--quiet", "--from", RUNTIME, container, "/usr/bin/busybox", "/busybox")
    buildah("config", "--entrypoint", '["/busybox", "sleep", "2147483647"]', container)
    buildah("commit", "--quiet", "--rm", container, PAUSE)


def _archive(names: list[str], target: Path) -> None:
    with TemporaryDirectory(dir=CACHE) as layout:
        for name in names:
            buildah("push", "--quiet", name, f"oci:{layout}:{name}")
        with tarfile.open(target, "w") as file:
            file.add(layout, ".")


def buildah(command: str, *arguments: object) -> str:
    """What a command of buildah prints, on the images of the cache. Raises SystemExit with what it says."""
    done = subprocess.run(
        ["buildah", *STORE, command, *map(str, arguments)], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"buildah {command}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
