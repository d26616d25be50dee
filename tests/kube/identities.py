"""Who may do what in the cluster: one authority, a certificate for each program, and kubeconfigs that name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.kube.network import API, API_SERVICE, CONTROL
from tests.kube.places import STATE
from tests.network.certificates import Authority, authority

IDENTITIES: Final = STATE / "identities"
SUBJECTS: Final = {
    "admin": "/O=system:masters/CN=admin",
    "apiserver-to-kubelets": "/O=system:masters/CN=apiserver",
    "aggregator": "/CN=aggregator",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "proxy": "/CN=system:kube-proxy",
    "dns": "/O=system:masters/CN=dns",
}
"""Names to which Kubernetes' own roles are bound."""


class Identities:
    """Certificates in one directory, by name."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.authority: Authority = authority(directory)
        at = ",".join(f"IP:{address}" for address in (CONTROL, API_SERVICE, "127.0.0.1"))
        names = ",".join(f"DNS:{name}" for name in ("kubernetes", "kubernetes.default", "kubernetes.default.svc"))
        self.authority.issue("apiserver", "/CN=kube-apiserver", at=f"{at},{names}")
        self.authority.issue("service-accounts", "/CN=service-accounts")
        for name, subject in SUBJECTS.items():
            self.add(name, subject)

    def add(self, name: str, subject: str) -> None:
        """A client's certificate, and its kubeconfig."""
        self.authority.issue(name, subject)
        directory = self.authority.directory
        files = {"client-certificate": directory / f"{name}.pem", "client-key": directory / f"{name}-key.pem"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "it", "cluster": {"server": API, "certificate-authority": str(self.authority.certificate)}}
            ],
            "users": [{"name": name, "user": {key: str(file) for key, file in files.items()}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": name}}],
            "current-context": "it",
        }
        self.kubeconfig(name).write_text(json.dumps(config))

    def kubeconfig(self, name: str) -> Path:
        """The file with which a client calls the API."""
        return self.authority.directory / f"{name}.kubeconfig"

    def certificate(self, name: str) -> Path:
        """The certificate, with the authority's behind it."""
        return self.authority.directory / f"{name}.pem"

    def key(self, name: str) -> Path:
        """The private key."""
        return self.authority.directory / f"{name}-key.pem"

    def public(self, name: str) -> Path:
        """The certificate alone."""
        return self.authority.directory / f"{name}-certificate.pem"
