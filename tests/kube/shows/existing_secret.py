"""The chart with certificates from Secrets of somebody else, who then moves to another authority."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

from tests.kube.doors import restarts, shown
from tests.kube.places import say
from tests.kube.release import CHART, FULL_NAME, Release, install_chart, new_namespace, under_load, uninstall
from tests.kube.shows.certificates import all_renewed
from tests.kube.volumes import manifest
from tests.kube.waiting import until
from tests.network.certificates import Authority, authority

NAMESPACE: Final = "kraft-own"
IDENTITIES: Final = ("quorum", "heartbeat", "placer", "observer", "admin")
NODES: Final = ("quorum-0", "quorum-1", "quorum-2")
PATIENCE_S: Final = 400


def show(release: Release) -> None:
    """All is trusted by two authorities, then shown by the new one, then the old one is no longer trusted."""
    own = Release(release.cluster, new_namespace(release.cluster, NAMESPACE), admin_secret="my-admin")
    first, second = authority(own.directory, "first"), authority(own.directory, "second")
    both = first.certificate.read_text() + second.certificate.read_text()
    _write_secrets(own, first, first.certificate.read_text())
    names = [f"tls.existingSecrets.{identity}=my-{identity}" for identity in IDENTITIES]
    install_chart(own, CHART, "tls.source=existingSecret", *names)
    print(own.helm("test", "--logs"), flush=True)
    old, new = _client(first, "old"), _client(second, "new")
    trusting_both = own.directory / "both.pem"
    trusting_both.write_text(both)
    with under_load(own, "another authority"):
        if any(shown(own, new, trusting_both).values()):
            raise SystemExit("a client of an authority that nobody trusts is served")
        started = restarts(own)
        _write_secrets(own, first, both)
        own.certificate()
        _until_all(own, new, trusting_both, "both authorities are trusted")
        with all_renewed(own):
            _write_secrets(own, second, both)
        _write_secrets(own, second, second.certificate.read_text())
        own.certificate()
        until(
            "the old authority is not trusted",
            lambda: not any(shown(own, old, trusting_both).values()),
            patience_s=PATIENCE_S, every_s=2,
        )  # fmt: skip
        _until_all(own, new, second.certificate, "the new one is")
        if restarts(own) != started:
            raise SystemExit(f"containers were started again: {started} became {restarts(own)}")
    say("from one authority to another, and no container was started again")
    uninstall(own)
    own.kubectl("delete", "namespace", NAMESPACE)


def _until_all(release: Release, client: Path, truststore: Path, what: str) -> None:
    until(what, lambda: all(shown(release, client, truststore).values()), patience_s=PATIENCE_S, every_s=2)


def _client(issuer: Authority, name: str) -> Path:
    return issuer.issue(name, "/CN=admin")


def _write_secrets(release: Release, issuer: Authority, trusted: str) -> None:
    """One for each identity, with a new certificate of this authority and the authorities that it trusts."""
    objects = []
    for identity in (*NODES, *IDENTITIES[1:]):
        service = "quorum" if identity in NODES else identity
        host = f"{FULL_NAME}-{service}.{NAMESPACE}.svc"
        names = [host, f"*.{host}", "localhost", *([release.host("controller")] if identity in NODES else [])]
        at = ",".join(("IP:127.0.0.1", *(f"DNS:{name}" for name in names)))
        store = issuer.issue(f"{issuer.name}-{identity}", f"/CN={identity}", at=at)
        data = {"tls-combined.pem": store.read_bytes(), "ca.crt": trusted.encode()}
        encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
        objects.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"my-{identity}"}, "data": encoded})
    release.kubectl.apply(manifest(objects))
