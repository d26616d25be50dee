"""New certificates for every service, while writes go on and without a restart."""

from __future__ import annotations

from typing import Any

from tests.kube.places import say
from tests.kube.release import FULL_NAME, Release, under_load
from tests.kube.waiting import until

SERVICES = ("quorum", "heartbeat", "placer", "observer")
GRPC_PORTS = {"quorum": (9093, 9094), "heartbeat": (9095,), "placer": (9096,), "observer": (9097,)}


def show(release: Release) -> None:
    """Every door shows the new certificate within two minutes, and no container has been started again."""
    with under_load(release, "certificates rotated"):
        before, started = shown(release), restarts(release)
        for service in (*SERVICES, "admin"):
            release.kubectl("delete", "secret", f"{FULL_NAME}-{service}-tls")
        release.upgrade()
        release.certificate()
        until("each door shows another certificate", lambda: _all_new(before, shown(release)), every_s=2)
        if restarts(release) != started:
            raise SystemExit(f"containers were started again: {started} became {restarts(release)}")
        say(f"{len(before)} doors have new certificates, and no container was started again")


def _all_new(before: dict[str, str], now: dict[str, str]) -> bool:
    return before.keys() == now.keys() and all(before[door] != now[door] for door in before)


def shown(release: Release) -> dict[str, str]:
    """The serial number of the certificate at each door of each pod."""
    keystore, truststore = release.certificate()
    found: dict[str, str] = {}
    for service in SERVICES:
        for pod in release.pods(service):
            for port in GRPC_PORTS[service]:
                door = f"{pod['status']['podIP']}:{port}"
                call = f"openssl s_client -connect {door} -cert {keystore} -key {keystore} -CAfile {truststore}"
                found[door] = release.cluster.control.run(
                    "sh", "-c", f"{call} </dev/null 2>/dev/null | openssl x509 -noout -serial"
                ).strip()
    return found


def restarts(release: Release) -> dict[str, int]:
    """How often each container was started again."""
    pods: list[dict[str, Any]] = [pod for service in SERVICES for pod in release.pods(service)]
    return {
        f"{pod['metadata']['name']}/{each['name']}": each["restartCount"]
        for pod in pods
        for each in pod["status"]["containerStatuses"]
    }
