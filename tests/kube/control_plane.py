"""The control plane on its machine: etcd, the API server, the controller manager, the scheduler and the DNS server."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kube.identities import Identities
from tests.kube.machine import Machine
from tests.kube.network import CONTROL, DOMAIN, PODS, SERVICES
from tests.kube.places import PROGRAMS
from tests.kube.waiting import until

ETCD = "http://127.0.0.1:2379"
ETCD_PEER = "http://127.0.0.1:2380"
ISSUER = "https://kubernetes.default.svc"


def start_control_plane(machine: Machine, identities: Identities) -> None:
    """Returns once the API server is ready; the others find it by themselves."""
    # In memory: this cluster's state is not kept, and etcd's syncs would wait for everybody else's on this disk.
    machine.start(
        "etcd",
        ["etcd", "--data-dir", "/run/etcd", "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD,
         "--listen-peer-urls", ETCD_PEER, "--initial-advertise-peer-urls", ETCD_PEER,
         "--initial-cluster", f"default={ETCD_PEER}", "--logger", "zap"],
    )  # fmt: skip
    key = identities.key
    server = machine.start(
        "kube-apiserver",
        [PROGRAMS / "kube-apiserver", f"--etcd-servers={ETCD}", f"--service-cluster-ip-range={SERVICES}",
         "--bind-address=0.0.0.0", "--secure-port=6443", f"--advertise-address={CONTROL}",
         f"--tls-cert-file={identities.certificate('apiserver')}", f"--tls-private-key-file={key('apiserver')}",
         f"--client-ca-file={identities.authority.certificate}",
         f"--kubelet-client-certificate={identities.certificate('apiserver-to-kubelets')}",
         f"--kubelet-client-key={key('apiserver-to-kubelets')}", f"--service-account-issuer={ISSUER}",
         f"--service-account-key-file={identities.public('service-accounts')}",
         f"--service-account-signing-key-file={key('service-accounts')}", "--authorization-mode=Node,RBAC",
         "--enable-admission-plugins=NodeRestriction",
         "--kubelet-preferred-address-types=InternalIP",
         # What it hands over to other servers, such as that of metrics, by a certificate that they know.
         "--enable-aggregator-routing=true", f"--proxy-client-cert-file={identities.public('aggregator')}",
         f"--proxy-client-key-file={key('aggregator')}", "--requestheader-allowed-names=aggregator",
         f"--requestheader-client-ca-file={identities.authority.certificate}",
         "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
         "--requestheader-username-headers=X-Remote-User"],
    )  # fmt: skip
    until("the API server is ready", lambda: _is_ready(machine, identities, server))
    kubeconfig = identities.kubeconfig("controller-manager")
    machine.start(
        "kube-controller-manager",
        [PROGRAMS / "kube-controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false",
         f"--cluster-cidr={PODS}", f"--service-account-private-key-file={key('service-accounts')}",
         f"--root-ca-file={identities.authority.certificate}", "--use-service-account-credentials=true",
         # An autoscaler waits for minutes by default, of which nothing would be seen but that.
         "--horizontal-pod-autoscaler-sync-period=5s", "--horizontal-pod-autoscaler-cpu-initialization-period=15s",
         "--horizontal-pod-autoscaler-initial-readiness-delay=10s",
         "--horizontal-pod-autoscaler-downscale-stabilization=20s"],
    )  # fmt: skip
    machine.start(
        "kube-scheduler",
        [PROGRAMS / "kube-scheduler", f"--kubeconfig={identities.kubeconfig('scheduler')}", "--leader-elect=false"],
    )
    machine.start("coredns", [PROGRAMS / "coredns", "-conf", _corefile(machine.directory, identities)])


def _is_ready(machine: Machine, identities: Identities, server: subprocess.Popen[bytes]) -> bool:
    if server.poll() is not None:
        raise SystemExit(f"kube-apiserver has ended: {machine.log('kube-apiserver').read_text()[-2000:]}")
    kubectl = [PROGRAMS / "kubectl", "--kubeconfig", identities.kubeconfig("admin")]
    try:
        return machine.run(*kubectl, "get", "--raw", "/readyz").strip() == "ok"
    except SystemExit:
        return False


def _corefile(directory: Path, identities: Identities) -> Path:
    """Names of services and of the pods behind a headless one; no other name is known."""
    file = directory / "Corefile"
    file.write_text(f""".:53 {{
    bind {CONTROL}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {identities.kubeconfig("dns")} it
        pods insecure
        ttl 2
    }}
}}
""")
    return file
