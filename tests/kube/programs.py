"""The programs of Kubernetes, Helm and CoreDNS, built where they are absent, and the packages of Debian they need."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from tests.kube.places import COREDNS, HELM, KUBERNETES, PROGRAMS, ROOT, say

OF_KUBERNETES: Final = (
    "kubectl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
)
OF_DEBIAN: Final = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "iptables": "iptables",
    "ip": "iproute2",
    "openssl": "openssl",
}
"""A program of each package, or a file."""
VERSION: Final = "k8s.io/component-base/version"
HELM_VERSION: Final = "helm.sh/helm/v3/internal/version"


def get_programs() -> None:
    """Builds and installs what is absent: ten minutes of two cores the first time. Raises CalledProcessError."""
    packages = [package for program, package in OF_DEBIAN.items() if not (shutil.which(program) or _is_file(program))]
    if packages:
        say(f"apt-get install {' '.join(packages)}")
        apt = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "-qq", "update"], check=True, env=apt)
        subprocess.run(["apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages], check=True, env=apt)
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    absent = [name for name in OF_KUBERNETES if not (PROGRAMS / name).exists()]
    if absent:
        major, minor, _ = KUBERNETES.split(".")
        of_release = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        stamps = " ".join(f"-X {VERSION}.{name}={value}" for name, value in of_release.items())
        modules = [f"k8s.io/kubernetes/cmd/{name}" for name in absent]
        _build(absent, ["build", f"-ldflags=-s -w {stamps}", "-o", f"{PROGRAMS}/", *modules])
    if not (PROGRAMS / "helm").exists():
        stamp = f"-ldflags=-s -w -X {HELM_VERSION}.version=v{HELM}"
        _build(["helm"], ["install", stamp, f"helm.sh/helm/v3/cmd/helm@v{HELM}"])
    if not (PROGRAMS / "coredns").exists():
        _build(["coredns"], ["install", "-ldflags=-s -w", f"github.com/coredns/coredns@v{COREDNS}"])


def _build(names: list[str], arguments: list[str]) -> None:
    say(f"go {arguments[0]} {' '.join(names)}")
    begun = time.monotonic()
    subprocess.run(
        ["nice", "-n", "10", "go", arguments[0], "-trimpath", *arguments[1:]],
        check=True,
        cwd=ROOT / "tests" / "kube" / "kubernetes",
        env={**os.environ, "CGO_ENABLED": "0", "GOBIN": str(PROGRAMS), "GOFLAGS": "-buildvcs=false"},
    )
    say(f"built in {time.monotonic() - begun:.0f} s")


def _is_file(program: str) -> bool:
    return program.startswith("/") and Path(program).exists()
