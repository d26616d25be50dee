"""A node on its machine: containerd, the kubelet and kube-proxy, a network for its pods, the images."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.kube.identities import Identities
from tests.kube.images import PAUSE, VERSION, archive
from tests.kube.machine import Machine
from tests.kube.network import CONTROL, DOMAIN, PODS, SERVICES, pods_of
from tests.kube.places import PROGRAMS
from tests.kube.waiting import until

CONTAINERD: Final = "/run/containerd/containerd.sock"
CNI_PROGRAMS: Final = "/usr/lib/cni"


def start_node(machine: Machine, number: int, identities: Identities) -> None:
    """Returns once the images are there and the kubelet runs; the node registers by itself."""
    directory = machine.directory
    machine.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    _write_pod_network(directory / "network", number)
    machine.start("containerd", ["containerd", "--config", _containerd_config(directory)])
    until(f"containerd of {machine.name} answers", lambda: _answers(machine))
    load_images(machine)
    identities.add(machine.name, f"/O=system:nodes/CN=system:node:{machine.name}")
    machine.start(
        "kubelet",
        [PROGRAMS / "kubelet", "--config", _kubelet_config(machine, identities), "--node-ip", machine.address,
         "--kubeconfig", identities.kubeconfig(machine.name), "--hostname-override", machine.name,
         "--node-labels", f"topology.kubernetes.io/zone=zone-{number}"],
    )  # fmt: skip
    machine.start("kube-proxy", [PROGRAMS / "kube-proxy", "--config", _proxy_config(machine, identities)])


def route_pods(machines: Iterable[tuple[Machine, int]], control: Machine) -> None:
    """Every machine finds the pods of every node; the control plane's finds services by the first node's rules."""
    nodes = list(machines)
    control.run("ip", "route", "add", SERVICES, "via", nodes[0][0].address)
    for machine in (control, *(each for each, _ in nodes)):
        for node, number in nodes:
            if node != machine:
                machine.run("ip", "route", "add", pods_of(number), "via", node.address)


def _answers(machine: Machine) -> bool:
    try:
        return bool(machine.run("ctr", "--address", CONTAINERD, "version"))
    except SystemExit:
        return False


def _write_pod_network(directory: Path, number: int) -> None:
    """Each pod hangs at a wire of its own, so that even neighbours' packets pass the rules of services."""
    directory.mkdir()
    plugin = {
        "type": "ptp",
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": pods_of(number)}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    conflist = {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}
    (directory / "pods.conflist").write_text(json.dumps(conflist))


def load_images(machine: Machine, name: str = VERSION) -> None:
    """Has a node's containerd take the images of an archive."""
    machine.run("ctr", "--address", CONTAINERD, "--namespace", "k8s.io", "images", "import", archive(name))


def _containerd_config(directory: Path) -> Path:
    # Without CAP_SYS_RESOURCE no process may be given a lower oom_score_adj than it has.
    file = directory / "containerd.toml"
    file.write_text(f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PROGRAMS}"
    conf_dir = "{directory}/network"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
""")
    return file


def _kubelet_config(machine: Machine, identities: Identities) -> Path:
    file = machine.directory / "kubelet.json"
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(identities.authority.certificate)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "address": machine.address,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "volumePluginDir": "/run/kubelet-plugins",
        "clusterDNS": [CONTROL],
        "clusterDomain": DOMAIN,
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": machine.cgroup,
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "4s",
        "syncFrequency": "10s",
        "serializeImagePulls": False,
    }
    file.write_text(json.dumps(config))
    return file


def _proxy_config(machine: Machine, identities: Identities) -> Path:
    file = machine.directory / "kube-proxy.json"
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(identities.kubeconfig("proxy"))},
        "hostnameOverride": machine.name,
        "mode": "iptables",
        "clusterCIDR": PODS,
        # These are the kernel's, and no machine's own.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    file.write_text(json.dumps(config))
    return file
