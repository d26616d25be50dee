"""The chart with cert-manager: it issues the certificates, and renews them."""

from __future__ import annotations

from typing import Final

from tests.kube.addons import start_cert_manager
from tests.kube.kubectl import Refused
from tests.kube.places import say
from tests.kube.release import CHART, Release, install_chart, new_namespace, under_load, uninstall
from tests.kube.shows.certificates import all_renewed
from tests.kube.volumes import manifest
from tests.kube.waiting import until

NAMESPACE: Final = "kraft-issued"
LIFE: Final = ("tls.certManager.duration=1h", "tls.certManager.renewBefore=58m")
"""So every certificate is renewed when it is two minutes old."""


def show(release: Release) -> None:
    """cert-manager renews by its own clock, and every process shows the new certificate without a restart."""
    start_cert_manager(release.cluster)
    issued = Release(release.cluster, new_namespace(release.cluster, NAMESPACE))
    _is_judged(issued)
    install_chart(issued, CHART, "tls.source=certManager", *LIFE)
    print(issued.helm("test", "--logs"), flush=True)
    with under_load(issued, "renewed by cert-manager"), all_renewed(issued):
        pass
    certificates = issued.kubectl.get("certificates")["items"]
    revisions = {each["metadata"]["name"]: each["status"].get("revision") for each in certificates}
    say(f"how often cert-manager has issued: {revisions}")
    uninstall(issued)
    issued.kubectl("delete", "namespace", NAMESPACE)


def _is_judged(release: Release) -> None:
    """So that a Certificate is not only stored: cert-manager's webhook refuses one that is good for a minute."""
    spec = {"secretName": "it", "duration": "1m", "dnsNames": ["it"], "issuerRef": {"name": "it"}}
    wrong = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "it"}, "spec": spec}

    def refusal() -> str:
        try:
            release.kubectl("create", "-f", "-", "--dry-run=server", text=manifest([wrong]))
        except Refused as error:
            return str(error)
        raise SystemExit("a certificate for a minute is not refused")

    until("cert-manager judges", lambda: "certificate duration must be greater than" in refusal())
