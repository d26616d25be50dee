"""NetworkPolicies as a network enforces them: who reaches which port of the release, before and after.

They stay enforced for all shows that come later.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from tests.kube.addons import enforce_network_policies
from tests.kube.places import say
from tests.kube.pods import add_pod, run_in_network
from tests.kube.release import CLIENT, Release, new_namespace, under_load
from tests.kube.waiting import until

ELSEWHERE: Final = "elsewhere"
PORTS: Final = {"quorum": 9093, "controller": 9094, "heartbeat": 9095, "placer": 9096, "observer": 9097}
METRICS: Final = {service: port + 200 for service, port in PORTS.items()}
HEALTH: Final = {service: port + 100 for service, port in PORTS.items()}
COMPONENTS: Final = ("quorum", "heartbeat", "placer", "observer")
CALLS: Final = {
    "quorum": {"quorum", "controller", "heartbeat", "placer", "observer"},
    "heartbeat": {"quorum", "controller", "observer"},
    "placer": {"observer"},
    "observer": {"quorum", "observer"},
    "a client": {"controller", "observer"},
    "a broker": {"quorum", "controller", "heartbeat"},
    "no client": set[str](),
    f"a client in {ELSEWHERE}": set[str](),
}
"""Whom each pod may call. Metrics are for all pods but the release's own; health is for nobody but the node."""
CONNECT: Final = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def reaches(door):
    try:
        socket.create_connection((door[0], int(door[1])), timeout=3).close()
    except OSError:
        return False
    return True
doors = [each.split(":") for each in sys.argv[1:]]
print(json.dumps(list(ThreadPoolExecutor(16).map(reaches, doors))))
"""


def show(release: Release) -> None:
    """Before, every pod reaches every port; after, each reaches what it should, and writes have gone on."""
    other = Release(release.cluster, new_namespace(release.cluster, ELSEWHERE))
    callers = {
        "a client": add_pod(release, "client", CLIENT),
        "a broker": add_pod(release, "broker", {"quorate-broker": "true"}),
        "no client": add_pod(release, "no-client", {}),
        f"a client in {ELSEWHERE}": add_pod(other, "client", CLIENT),
    }
    callers |= {component: release.pods(component)[0] for component in COMPONENTS}
    with under_load(release, "network policies enforced"):
        before = {who: _reached(release, pod) for who, pod in callers.items()}
        if closed := {who: doors for who, doors in before.items() if not all(doors.values())}:
            raise SystemExit(f"closed before there is a policy: {closed}")
        enforce_network_policies(release.cluster)
        expected = {who: {door: _may(who, door) for door in doors} for who, doors in before.items()}
        until("each pod reaches what it may, and nothing else", lambda: _differences(release, callers, expected) == {})
    for who, doors in expected.items():
        open_ports = sorted({door.rpartition(" ")[0] for door, is_open in doors.items() if is_open})
        say(f"{who}: {sum(doors.values())} of {len(doors)} ports: {', '.join(open_ports)}")
    print(release.helm("test", "--logs"), flush=True)
    release.kubectl("delete", "pod", "client", "broker", "no-client")
    release.kubectl("delete", "namespace", ELSEWHERE)


def _may(who: str, door: str) -> bool:
    kind, service, _ = door.split(" ")
    if kind == "metrics":
        # kube-router has one chain for both directions of a policy: between two pods of it either direction will do.
        return who not in COMPONENTS or who == _component(service)
    return kind == "calls" and service in CALLS[who]


def _component(service: str) -> str:
    return "quorum" if service == "controller" else service


def _differences(
    release: Release, callers: Mapping[str, dict[str, Any]], expected: Mapping[str, dict[str, bool]]
) -> dict[str, list[str]]:
    """By caller, the ports that it reaches against the rules, or does not in spite of them."""
    found = {who: _reached(release, pod) for who, pod in callers.items()}
    wrong = {who: [door for door, is_open in found[who].items() if is_open != expected[who][door]] for who in found}
    return {who: doors for who, doors in wrong.items() if doors}


def _reached(release: Release, caller: Mapping[str, Any]) -> dict[str, bool]:
    """Whether the network of a pod reaches each port of each pod but itself, as `metrics quorum q-quorate-quorum-0`."""
    doors: dict[str, str] = {}
    for kind, ports in (("calls", PORTS), ("metrics", METRICS), ("health", HEALTH)):
        for service, port in ports.items():
            for pod in release.pods(_component(service)):
                if pod["metadata"]["uid"] != caller["metadata"]["uid"]:
                    doors[f"{kind} {service} {pod['metadata']['name']}"] = f"{pod['status']['podIP']}:{port}"
    container = caller["spec"]["containers"][0]["name"]
    text = run_in_network(release, caller, container, sys.executable, "-c", CONNECT, *doors.values())
    return dict(zip(doors, json.loads(text), strict=True))
