"""The chart's OpenTelemetry collector between the services and the observers, by TLS."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.kube.images import COLLECTOR, build_collector
from tests.kube.node import load_images
from tests.kube.places import say
from tests.kube.release import Release, under_load
from tests.kube.waiting import until
from tests.network.certificates import openssl_says

FILE: Final = "spans.jsonl"
PORT: Final = 4317
ROOT: Final = "kraft.service.Controller/CreateTopics"
SPANS: Final = {ROOT, "write", "append", "commit", "apply"}
SERVICES: Final = {"check", "controller", "quorum", "observer"}


def show(release: Release) -> None:
    """`helm test` finds its CreateTopics on the observers; the collector's other exporter has the same trace."""
    archive = build_collector()
    for node in release.cluster.nodes:
        load_images(node, archive)
    with under_load(release, "spans by way of a collector"):
        release.upgrade(
            "collector.enabled=true", f"collector.image={COLLECTOR}", f"collector.exporters.file.path=/tmp/{FILE}"
        )
        release.wait_for("collector", 1)
        print(release.helm("test", "--logs"), flush=True)
        (pod,) = release.pods("collector")
        trace = until("the collector has the whole of a CreateTopics", lambda: _whole_trace(release, pod))
        say(f"{trace}; {_shown(release, pod)}")
        release.upgrade("collector.enabled=false")
        release.wait_for("quorum", 3)


def _whole_trace(release: Release, pod: dict[str, Any]) -> str:
    """What the collector's file has of a CreateTopics of which it has every part; empty if of none."""
    node = release.cluster.node(pod["spec"]["nodeName"])
    directory = f"/var/lib/kubelet/pods/{pod['metadata']['uid']}/volumes/kubernetes.io~empty-dir/tmp"
    lines = [line for line in node.run("cat", f"{directory}/{FILE}").splitlines(keepends=True) if line.endswith("\n")]
    spans: dict[str, set[tuple[str, str]]] = {}
    for resource in (each for line in lines for each in json.loads(line)["resourceSpans"]):
        about = {each["key"]: each["value"].get("stringValue", "") for each in resource["resource"]["attributes"]}
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            spans.setdefault(span["traceId"], set()).add((about["service.name"], span["name"]))
    for trace_id, found in spans.items():
        services, names = {service for service, _ in found}, {name for _, name in found}
        if SERVICES <= services and SPANS <= names:
            return f"trace {trace_id} of {len(spans)}: spans of {', '.join(sorted(services))}"
    return ""


def _shown(release: Release, pod: dict[str, Any]) -> str:
    """The subject of the collector's certificate, which openssl has verified."""
    keystore, truststore = release.certificate()
    node = release.cluster.node(pod["spec"]["nodeName"])
    there = f"-connect {pod['status']['podIP']}:{PORT} -verify_return_error -CAfile {truststore}"
    store = release.directory / "collector.pem"
    store.write_text(node.run("sh", "-c", f"openssl s_client {there} -cert {keystore} -key {keystore} </dev/null"))
    return openssl_says("x509", "-in", store, "-noout", "-subject").strip()
