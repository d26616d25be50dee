"""Two heartbeat services: one counts, one stands by, and no broker of Kafka's is fenced when the first one goes."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Final

from tests.kube.places import ROOT, say
from tests.kube.pods import add_pod, process_of, run_in_network
from tests.kube.release import FULL_NAME, HELM_WAIT, Release, is_ready, under_load
from tests.kube.shows.brokers import BROKER, BROKER_ID, PORT, is_made, running
from tests.kube.tools import by_certificate
from tests.kube.waiting import until

COUNTS: Final = "counts the brokers' heartbeats"
STANDS_BY: Final = "stands by: another heartbeat service counts"
GOES: Final = ("delete", "kill -9", "freeze")
FROZEN_S: Final = 8
"""Below a session and what the probes of liveness allow."""


def show(release: Release) -> None:
    """The one that counts is deleted, killed, frozen, and replaced by a rollout. The log has no fencing."""
    release.upgrade("gateway.enabled=true", f"tls.nodeIdMappingRules=RULE:^admin$/{BROKER_ID}/", "heartbeat.replicas=2")
    release.wait_for("quorum", 3)
    release.wait_for("heartbeat", 2)
    pod = add_pod(release, "broker", BROKER)
    with under_load(release, "two heartbeat services"), running(release, pod):
        until("the broker makes a topic", lambda: is_made(release, pod, "with-two"))
        for how in GOES:
            _goes(release, _counting(release), how)
            topic = f"after-{how.replace(' ', '')}"
            until("the broker makes another", partial(is_made, release, pod, topic))
        release.kubectl("rollout", "restart", f"statefulset/{FULL_NAME}-heartbeat")
        release.kubectl("rollout", "status", f"statefulset/{FULL_NAME}-heartbeat", f"--timeout={HELM_WAIT}")
        _counting(release)
        until("it makes one more", lambda: is_made(release, pod, "with-two-at-last"))
        fencings = _fencings(release)
    if fencings != [True, False]:
        raise SystemExit(f"the broker registers fenced and is unfenced once; the log has {fencings}")
    say(f"broker {BROKER_ID}: fenced when it registered, unfenced by its heartbeats, and nothing since")
    release.kubectl("delete", "pod", "broker")
    release.upgrade("heartbeat.replicas=1")
    release.wait_for("heartbeat", 1)


def _counting(release: Release) -> str:
    """The pod that counts, once one does and the other stands by."""

    def one() -> str:
        standing = {
            pod["metadata"]["name"]: _standing(release, pod["metadata"]["name"]) for pod in release.pods("heartbeat")
        }
        counting = [name for name, said in standing.items() if said == COUNTS]
        return counting[0] if sorted(standing.values()) == [COUNTS, STANDS_BY] else ""

    return until("one counts, and one stands by", one)


def _standing(release: Release, name: str) -> str:
    """What a process has said last of the two."""
    said = [line for line in release.kubectl("logs", name).splitlines() if COUNTS in line or STANDS_BY in line]
    if not said:
        return ""
    return COUNTS if COUNTS in said[-1] else STANDS_BY


def _goes(release: Release, name: str, how: str) -> None:
    """The pod that counts is away for a while; the other one counts, or it again."""
    say(f"{how} {name}, which counts")
    before = release.kubectl.get("pod", name)
    node, pid = process_of(release, before, "heartbeat")
    if how == "delete":
        release.kubectl("delete", "pod", name, "--wait=false")
        until("it is another pod", lambda: _is_new(release, name, before["metadata"]["uid"]))
    elif how == "kill -9":
        node.run("kill", "-9", pid)
        until("it is started again", lambda: _starts(release, name) > 0)
    else:
        node.run("kill", "-STOP", pid)
        time.sleep(FROZEN_S)
        node.run("kill", "-CONT", pid)
    say(f"{_counting(release)} counts")


def _starts(release: Release, name: str) -> int:
    """How often its container was started again, once the pod is ready."""
    pod = release.kubectl.get("pod", name)
    return sum(each["restartCount"] for each in pod["status"]["containerStatuses"]) if is_ready(pod) else 0


def _is_new(release: Release, name: str, before: str) -> bool:
    found = [pod for pod in release.pods("heartbeat") if pod["metadata"]["name"] == name]
    return any(pod["metadata"]["uid"] != before and is_ready(pod) for pod in found)


def _fencings(release: Release) -> list[bool]:
    """What the log says of the broker being fenced, change by change."""
    command = (ROOT / ".venv" / "bin" / "quorate", "history", f"broker/{BROKER_ID}", "--json")
    where = ("--bootstrap-controller", f"{release.host('gateway')}:{PORT}", "--command-config", by_certificate(release))
    pod = release.kubectl.get("pod", "broker")
    lines = run_in_network(release, pod, "it", *command, *where).splitlines()
    changes = [json.loads(line)["after"] for line in lines]
    return [each["fenced"] for each in changes if "fenced" in each]
