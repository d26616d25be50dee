"""The programs of Kubernetes, Helm and CoreDNS, built where they are absent, and the packages of Debian they need."""

from __future__ import annotations

import json
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
    "ipset": "ipset",
    "openssl": "openssl",
}
"""A program of each package, or a file."""
ADDONS: Final = {
    "kube-router": ("github.com/cloudnativelabs/kube-router/v2@v2.1.0", "./cmd/kube-router"),
    "metrics-server": ("sigs.k8s.io/metrics-server@v0.8.0", "./cmd/metrics-server"),
    # In later releases each program is a module of its own, which is not published.
    "cert-manager": ("github.com/cert-manager/cert-manager@v1.11.5", "./cmd/controller"),
    "cert-manager-webhook": ("github.com/cert-manager/cert-manager@v1.11.5", "./cmd/webhook"),
}
"""What clusters have besides Kubernetes: the module of each program, and its package there."""
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


def get_addon(name: str) -> Path:
    """The program of an addon, built if it is absent: a minute or two of two cores. Raises CalledProcessError."""
    program = PROGRAMS / name
    if not program.exists():
        module, package = ADDONS[name]
        _build([name], ["build", "-ldflags=-s -w", "-o", str(program), package], source=source_of(module))
    return program


def source_of(module: str) -> Path:
    """The files of a module, as MODULE@VERSION; its own go.mod and go.sum say what it is built with."""
    command = ["go", "mod", "download", "-json", module]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(json.loads(done.stdout)["Dir"])


def _build(names: list[str], arguments: list[str], *, source: Path = ROOT / "tests" / "kube" / "kubernetes") -> None:
    say(f"go {arguments[0]} {' '.join(names)}")
    begun = time.monotonic()
    subprocess.run(
        ["nice", "-n", "10", "go", arguments[0], "-trimpath", *arguments[1:]],
        check=True,
        cwd=source,
        env={**os.environ, "CGO_ENABLED": "0", "GOBIN": str(PROGRAMS), "GOFLAGS": "-buildvcs=false"},
    )
    say(f"built in {time.monotonic() - begun:.0f} s")


def _is_file(program: str) -> bool:
    return program.startswith("/") and Path(program).exists()
