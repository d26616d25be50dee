"""What clusters have besides Kubernetes: programs that run on the machines from when a show starts them to the end.

They act as the administrator; what a cluster's own roles allow them is not what is shown here.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

from tests.kube.cluster import Cluster
from tests.kube.identities import IDENTITIES
from tests.kube.kubectl import Refused
from tests.kube.machine import Machine
from tests.kube.network import CONTROL, SERVICES
from tests.kube.programs import ADDONS, get_addon, source_of
from tests.kube.volumes import manifest
from tests.kube.waiting import until
from tests.network.certificates import Authority

KUBECONFIG: Final = IDENTITIES / "admin.kubeconfig"
METRICS_PORT: Final = 4443
WEBHOOK_PORT: Final = 10250
OUTPUT_FORMATS: Final = "--feature-gates=AdditionalCertificateOutputFormats=true"
"""cert-manager's gate for `tls-combined.pem`, which has to be open in both programs."""


def enforce_network_policies(cluster: Cluster) -> None:
    """From now on kube-router enforces all NetworkPolicies, in the firewall of each node."""
    program = get_addon("kube-router")
    for node in cluster.nodes:
        node.start(
            "kube-router",
            [program, "--run-firewall=true", "--run-router=false", "--run-service-proxy=false",
             f"--kubeconfig={KUBECONFIG}", f"--hostname-override={node.name}",
             f"--service-cluster-ip-range={SERVICES}", "--enable-ipv6=false"],
        )  # fmt: skip
    for node in cluster.nodes:
        until(f"{node.name} has rules for its pods", lambda node=node: "KUBE-POD-FW-" in _rules(node))


def _rules(node: Machine) -> str:
    return node.run("iptables-save", "-t", "filter")


def start_metrics(cluster: Cluster) -> None:
    """The metrics server, by which an autoscaler knows what pods use."""
    program, name = get_addon("metrics-server"), "metrics-server"
    issuer = _certificate(name, f"DNS:{name}.kube-system.svc")
    cluster.control.start(
        name,
        [program, f"--kubeconfig={KUBECONFIG}", f"--authentication-kubeconfig={KUBECONFIG}",
         f"--authorization-kubeconfig={KUBECONFIG}", f"--bind-address={CONTROL}", f"--secure-port={METRICS_PORT}",
         f"--tls-cert-file={IDENTITIES / f'{name}.pem'}", f"--tls-private-key-file={IDENTITIES / f'{name}-key.pem'}",
         # Kubelets make their own certificates.
         "--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP", "--metric-resolution=10s",
         "--kubelet-request-timeout=5s"],
    )  # fmt: skip
    about = {"name": name, "namespace": "kube-system"}
    group, version = "metrics.k8s.io", "v1beta1"
    service = {"name": name, "namespace": "kube-system", "port": 443}
    ports = [{"port": METRICS_PORT}]
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": about,
            "spec": {"ports": [{"port": 443, "targetPort": METRICS_PORT}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": about,
            "subsets": [{"addresses": [{"ip": CONTROL}], "ports": ports}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}"},
            "spec": {
                "group": group, "version": version, "service": service, "caBundle": issuer,
                "groupPriorityMinimum": 100, "versionPriority": 100,
            },
        },
    ]  # fmt: skip
    cluster.kubectl.within("kube-system").apply(manifest(objects))
    until("all nodes have figures", lambda: _have_figures(cluster))


def _have_figures(cluster: Cluster) -> bool:
    try:
        lines = cluster.kubectl("top", "nodes", "--no-headers").splitlines()
    except Refused:
        return False
    return len(lines) == len(cluster.nodes)


def start_cert_manager(cluster: Cluster) -> None:
    """cert-manager's controller, and the webhook by which it judges what it is asked for."""
    controller, webhook = get_addon("cert-manager"), get_addon("cert-manager-webhook")
    crds = source_of(ADDONS["cert-manager"][0]) / "deploy" / "crds"
    for file in sorted(crds.glob("crd-*.yaml")):
        # But for labels that its chart fills in.
        lines = [line for line in file.read_text().splitlines() if "{{" not in line]
        cluster.kubectl("create", "-f", "-", text="\n".join(lines))
    name = "cert-manager-webhook"
    issuer = _certificate(name, f"IP:{CONTROL}")
    cluster.control.start(
        name,
        [webhook, f"--kubeconfig={KUBECONFIG}", f"--secure-port={WEBHOOK_PORT}", OUTPUT_FORMATS,
         f"--tls-cert-file={IDENTITIES / f'{name}.pem'}", f"--tls-private-key-file={IDENTITIES / f'{name}-key.pem'}"],
    )  # fmt: skip
    hooks = [_webhook("MutatingWebhookConfiguration", "mutate", issuer)]
    hooks += [_webhook("ValidatingWebhookConfiguration", "validate", issuer)]
    cluster.kubectl.apply(manifest(hooks))
    cluster.control.start(
        "cert-manager", [controller, f"--kubeconfig={KUBECONFIG}", "--leader-elect=false", OUTPUT_FORMATS]
    )


def _webhook(kind: str, path: str, issuer: str) -> dict[str, Any]:
    rule = {"apiGroups": ["cert-manager.io"], "apiVersions": ["v1"], "resources": ["*/*"]}
    hook = {
        "name": "webhook.cert-manager.io",
        "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"https://{CONTROL}:{WEBHOOK_PORT}/{path}", "caBundle": issuer},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "cert-manager"},
        "webhooks": [hook],
    }


def _certificate(name: str, at: str) -> str:
    """Issues one for a server, and returns who did, as an API object has it."""
    issuer = Authority(Path(IDENTITIES))
    issuer.issue(name, f"/CN={name}", at=at)
    return base64.b64encode(issuer.certificate.read_bytes()).decode()
