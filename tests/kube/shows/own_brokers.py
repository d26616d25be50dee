"""Brokers of Quorate's own, switched on by a value, while a producer of Kafka's in a pod writes to them with acks=all.

A rollout waits where a broker answers but is not in its ISRs, and so does an eviction; a leader's process is killed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tests.kube.kubectl import Refused
from tests.kube.places import ROOT, say
from tests.kube.pods import add_pod, run_in_network
from tests.kube.records import PORT, Topic
from tests.kube.release import CLIENT, FULL_NAME, HELM_WAIT, LITTLE, Release
from tests.kube.shows.kills import kill
from tests.kube.tools import by_certificate
from tests.kube.waiting import until

BROKERS: Final = (100, 101, 102)
TOPIC: Final = "records"
MIN_ISR: Final = 2
KILLS: Final = 2
HELD_S: Final = 20
"""Three times what the probe allows before a pod is not ready."""
VALUES: Final = {
    "gateway": {"enabled": True},
    "brokers": {"enabled": True, "resources": LITTLE, "storage": {"size": "2Gi"}},
}
SET: Final = f"statefulset/{FULL_NAME}-broker"
READY_ALONE: Final = ["SERVING", "NOT_SERVING"]
"""What `readiness` and `in-sync` say while clients are answered and a replica is in no ISR."""
ASK: Final = """
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = health_pb2_grpc.HealthStub(channel)
    for name in sys.argv[2:]:
        status = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=5).status
        print(health_pb2.HealthCheckResponse.ServingStatus.Name(status))
"""


def show(release: Release) -> None:
    """Nothing acknowledged is lost or doubled, and no ISR is ever below min.insync.replicas."""
    release.upgrade(values=VALUES)
    release.wait_for("quorum", 3)
    release.wait_for("broker", len(BROKERS))
    pod = add_pod(release, "records", CLIENT)
    topic = Topic(release, pod, TOPIC)
    topic.create(replicas=len(BROKERS), min_isr=MIN_ISR)
    with topic.written("rolling restart of the brokers"):
        _restart_held_back(release, pod)
    smallest = min(map(len, _isrs(release, pod)))
    say(f"the smallest ISR since the topic was made: {smallest}")
    if smallest < MIN_ISR:
        raise SystemExit(f"an ISR was of {smallest}, below min.insync.replicas of {MIN_ISR}")
    with topic.written("kill -9 of brokers that lead"):
        for _ in range(KILLS):
            [(broker, count)] = Counter(each["leader"] for each in _partitions(release, pod)).most_common(1)
            say(f"broker {broker} leads {count} partitions")
            kill(release, _pod(release, broker), "broker")
            until("every ISR is whole", lambda: _are_whole(release, pod))
    topic.delete()
    release.kubectl("delete", "pod", "records")
    release.upgrade("brokers.enabled=false")
    release.wait_for("quorum", 3)


def _restart_held_back(release: Release, client: Mapping[str, Any]) -> None:
    """The first that is restarted does not reach another broker for a while, whose partitions it cannot follow."""
    *others, first = BROKERS
    before = {broker: _uid(release, broker) for broker in BROKERS}
    with _cut(release, first, others[0], client):
        release.kubectl("rollout", "restart", SET)
        until(f"broker {first} is another pod", lambda: _uid(release, first) not in ("", before[first]))
        until("it answers clients, and is not in its ISRs", lambda: _health(release, first) == READY_ALONE)
        _refused_eviction(release, others[0])
        time.sleep(HELD_S)
        if _health(release, first) != READY_ALONE:
            raise SystemExit(f"broker {first} is in its ISRs, or does not answer: {_health(release, first)}")
        for broker in others:
            if _uid(release, broker) != before[broker]:
                raise SystemExit(f"broker {broker} was restarted while {first} was not in its ISRs")
        isrs = sorted({each["isr"] for each in _partitions(release, client)})
        say(f"for {HELD_S} s the rollout waited for broker {first}; the ISRs are {isrs}")
    release.kubectl("rollout", "status", SET, f"--timeout={HELM_WAIT}")
    say("restarted every broker")
    until("every ISR is whole", lambda: _are_whole(release, client))


@contextmanager
def _cut(release: Release, from_broker: int, to_broker: int, client: Mapping[str, Any]) -> Iterator[None]:
    """Packets from the node of one broker to another broker are dropped, but for those of the client."""
    node = release.cluster.node(_pod(release, from_broker)["spec"]["nodeName"])
    target = _pod(release, to_broker)["status"]["podIP"]
    who = ("!", "--source", client["status"]["podIP"], "--destination", target)
    rule = ("FORWARD", *who, "--protocol", "tcp", "--dport", PORT, "--jump", "DROP")
    node.run("iptables", "--insert", *rule)
    say(f"broker {from_broker} does not reach broker {to_broker}")
    try:
        yield
    finally:
        node.run("iptables", "--delete", *rule)
        say(f"broker {from_broker} reaches broker {to_broker}")


def _refused_eviction(release: Release, broker: int) -> None:
    """Raises SystemExit if Kubernetes evicts a broker's pod while another is not in its ISRs."""
    name = f"{FULL_NAME}-broker-{broker}"
    about = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": release.namespace}}
    path = f"/api/v1/namespaces/{release.namespace}/pods/{name}/eviction"
    try:
        release.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(about))
    except Refused as refused:
        if "disruption budget" not in str(refused):
            raise
        say(f"the eviction of broker {broker} is refused: {str(refused)[-160:]}")
    else:
        raise SystemExit(f"broker {broker} was evicted while another was not in its ISRs")


def _health(release: Release, broker: int) -> list[str]:
    """What a broker says of `readiness` and of `in-sync`, asked from its node; nothing if it does not answer."""
    pod = _pod(release, broker)
    port = pod["spec"]["containers"][0]["readinessProbe"]["grpc"]["port"]
    node = release.cluster.node(pod["spec"]["nodeName"])
    address = f"{pod['status'].get('podIP', '')}:{port}"
    try:
        return node.run(sys.executable, "-c", ASK, address, "readiness", "in-sync").split()
    except SystemExit:
        return []


def _partitions(release: Release, client: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those of the topic, as the metadata log has them now."""
    found: list[dict[str, Any]] = json.loads(_quorate(release, client, "partitions", TOPIC, "--json"))["rows"]
    return found


def _are_whole(release: Release, client: Mapping[str, Any]) -> bool:
    return all(len(json.loads(each["isr"])) == len(BROKERS) for each in _partitions(release, client))


def _isrs(release: Release, client: Mapping[str, Any]) -> Iterator[list[int]]:
    """Every ISR that the topic's partitions have had."""
    for line in _quorate(release, client, "history", f"topic/{TOPIC}", "--json").splitlines():
        after = json.loads(line)["after"]
        if "isr" in after:
            yield json.loads(after["isr"])


def _quorate(release: Release, client: Mapping[str, Any], *arguments: object) -> str:
    where = ("--bootstrap-controller", f"{release.host('gateway')}:{PORT}", "--command-config", by_certificate(release))
    return run_in_network(release, client, "it", ROOT / ".venv" / "bin" / "quorate", *arguments, *where)


def _pod(release: Release, broker: int) -> dict[str, Any]:
    return release.kubectl.get("pod", f"{FULL_NAME}-broker-{broker}")


def _uid(release: Release, broker: int) -> str:
    """Of its pod that is not about to go; empty if there is none."""
    found = [pod for pod in release.pods("broker") if pod["metadata"]["name"] == f"{FULL_NAME}-broker-{broker}"]
    return str(found[0]["metadata"]["uid"]) if found else ""
