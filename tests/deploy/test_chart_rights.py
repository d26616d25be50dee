"""Who may call what in a release, by the settings that the chart renders: least right by default."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Principal
from quorate.runtime.access.guard import Guard
from quorate.runtime.access.process_rights import CALLS, process_rights_of
from tests.deploy.chart import Json, pod_specs, render
from tests.deploy.chart_programs import loaded
from tests.services.rpcs import services

VALUES: Final = {
    "gateway": {"enabled": True},
    "brokers": {"enabled": True},
    "pipeline": {"enabled": True},
    "collector": {"enabled": True},
    "principals": {"brokers": ["User:CN=b/1.x,O=y"], "readers": ["User:ann"], "superUsers": ["User:root"]},
}
PEOPLE: Final = frozenset({"User:admin", "User:root"})
BROKERS: Final = frozenset(f"User:broker-{broker_id}" for broker_id in (100, 101, 102))
SERVED: Final = {
    "quorum": ("Quorum", "RaftClient"),
    "controller": ("Controller",),
    "placer": ("Placer",),
    "heartbeat": ("Heartbeat",),
    "observer": ("Observer", "Quorum", "TraceService"),
}
"""The gRPC services that each container serves."""
CALLERS: Final = {
    "quorum": {
        "quorum-1": ("quorum", "controller"),
        "gateway": ("gateway",),
        "heartbeat": ("heartbeat",),
        "observer": ("observer",),
        "broker-101": ("broker",),
    },
    "controller": {
        "quorum-1": ("quorum", "controller"),
        "gateway": ("gateway",),
        "heartbeat": ("heartbeat",),
        "broker-101": ("broker",),
    },
    "placer": {"quorum-1": ("quorum", "controller")},
    "heartbeat": {
        "quorum-1": ("quorum", "controller"),
        "gateway": ("gateway",),
        "CN=b/1.x,O=y": ("broker",),
        "broker-101": ("broker",),
    },
    "observer": {
        "quorum-1": ("quorum", "controller"),
        "gateway": ("gateway",),
        "heartbeat": ("heartbeat",),
        "placer": ("placer",),
        "observer": ("observer",),
        "pipeline": ("pipeline",),
        "collector": ("collector",),
        "broker-101": ("broker",),
        "ann": ("reader",),
    },
}
"""Of each container, whose certificate is let in as which processes."""
CALLERS["quorum"]["CN=b/1.x,O=y"] = ("broker",)
WITH_THE_ADMINS: Final = {
    "resize": {("quorum", "quorum")},
    "test": {
        ("quorum", "controller"),
        ("heartbeat", "heartbeat"),
        ("observer", "observer"),
        ("collector", "collector"),
    },
}
"""Pods that show the certificate of the admin, and which containers, by their pods, they call."""
COMPONENT: Final = "app.kubernetes.io/component"
PODS: Final = ("quorum", "heartbeat", "placer", "observer", "pipeline", "collector")
OWN: Final = {each: each for each in PODS[1:]}
IN_PODS: Final = {"quorum-1": "quorum", "gateway": "quorum", "broker-101": "broker", **OWN}
"""The pod in which a certificate is shown, by its common name."""
NAMES: Final = (*IN_PODS, "ann", "CN=b/1.x,O=y", "mallory", "quorum", "quorum-", "quorum-1x", "broker")


@pytest.fixture(scope="module")
def objects() -> list[Json]:
    return render(VALUES)


@pytest.fixture(scope="module")
def configs(objects: list[Json], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory: Path = tmp_path_factory.mktemp("properties")
    return {
        each["name"]: loaded(objects, spec, each, directory)
        for _, _, spec in pod_specs(objects)
        for each in spec["containers"]
        if each["name"] in (*SERVED, "gateway", "broker")
    }


def called(container: str, process: str) -> set[str]:
    """The RPCs that a process calls at this container."""
    return {
        f"{service}/{name}"
        for service, names in CALLS[process].items()
        if service.rpartition(".")[2] in SERVED[container]
        for name in names
    }


@pytest.mark.parametrize("container", sorted(SERVED))
@pytest.mark.parametrize("name", NAMES)
def test_each_certificate_may_call_what_its_processes_call_and_nothing_else(
    configs: dict[str, Any], container: str, name: str
) -> None:
    config, who = configs[container], Principal("User", name)
    rights = process_rights_of(config.process_rules)
    assert rights is not None
    methods = {f"{service.full_name}/{method.name}" for service in services() for method in service.methods}
    methods |= {"opentelemetry.proto.collector.trace.v1.TraceService/Export"}
    expected = {rpc for process in CALLERS[container].get(name, ()) for rpc in called(container, process)}
    served = {rpc for rpc in methods if rpc.rpartition("/")[0].rpartition(".")[2] in SERVED[container]}

    assert expected == {rpc for rpc in served if rights.may_call(who, rpc)}
    passes_on = {"quorum-1", "gateway"} & CALLERS[container].keys()
    assert rights.may_pass_on(who) == (name in passes_on)
    assert container != "controller" or rights.may_send_envelopes(who) == (name == "broker-101")


@pytest.mark.parametrize("container", ["quorum", "placer"])
def test_observer_and_heartbeat_are_no_administrators_at_the_doors_without_entries(
    configs: dict[str, Any], container: str
) -> None:
    """By the guard that the service has: all of its RPCs, against what the callers call."""
    config = configs[container]
    rights = process_rights_of(config.process_rules)
    described = [service for service in services() if service.name in SERVED[container]]
    for name in NAMES:
        guard = Guard(lambda _, who=name: Principal("User", who), config.super_users, rights)
        expected = {rpc for process in CALLERS[container].get(name, ()) for rpc in called(container, process)}
        let_in = set()
        for method in (f"{service.full_name}/{each.name}" for service in described for each in service.methods):
            try:
                guard.check(method, SimpleNamespace(peer=lambda: "ipv4:10.0.0.1:1"))
                let_in.add(method)
            except ApiError as refusal:
                assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED is refusal.code

        assert expected == let_in, name


def test_people_alone_are_super_users_and_brokers_where_kafkas_wire_is_spoken(configs: dict[str, Any]) -> None:
    """There a broker asks as Kafka's do: CLUSTER_ACTION at other brokers, and for envelopes at gateways."""
    among_brokers = {"gateway": PEOPLE | BROKERS, "broker": PEOPLE | BROKERS}
    assert {*among_brokers, *SERVED} == configs.keys()
    expected = dict.fromkeys(SERVED, PEOPLE) | among_brokers
    assert expected == {name: config.super_users for name, config in configs.items()}
    assert {"org.apache.kafka.metadata.authorizer.StandardAuthorizer"} == {each.authorizer for each in configs.values()}


def edges(objects: list[Json], direction: str, peers: str) -> set[tuple[str, str, str]]:
    """By the release's network policies: which pods may call which pods at the port of which container."""
    ports = {
        (spec_of(each), port["containerPort"]): container["name"]
        for each in objects
        if each["kind"] in ("Deployment", "StatefulSet")
        for container in each["spec"]["template"]["spec"]["containers"]
        for port in container["ports"]
        if port.get("name") not in ("health", "metrics")
    }
    found = set()
    for policy in (each for each in objects if each["kind"] == "NetworkPolicy"):
        own = policy["spec"]["podSelector"]["matchLabels"][COMPONENT]
        for rule in policy["spec"][direction]:
            others = [
                each["podSelector"]["matchLabels"].get(COMPONENT)
                for each in rule.get(peers, ())
                if "podSelector" in each
            ]
            for other in (each for each in others if each is not None):
                caller, target = (other, own) if direction == "ingress" else (own, other)
                found |= {(caller, target, ports[target, port["port"]]) for port in rule["ports"]}
    return found


def spec_of(workload: Json) -> str:
    component: str = workload["spec"]["template"]["metadata"]["labels"][COMPONENT]
    return component


@pytest.mark.parametrize(("direction", "peers"), [("ingress", "from"), ("egress", "to")])
def test_the_network_lets_through_what_some_process_of_a_pod_calls_and_nothing_else(
    objects: list[Json], direction: str, peers: str
) -> None:
    pods = {"controller": "quorum"}  # of other containers they have the same name
    expected = {
        (IN_PODS[name], pods.get(container, container), container)
        for container, callers in CALLERS.items()
        for name, processes in callers.items()
        if name in IN_PODS and any(called(container, process) for process in processes)
    }
    expected |= {(pod, *where) for pod, called_there in WITH_THE_ADMINS.items() for where in called_there}
    expected |= {(name, "collector", "collector") for name in (*PODS[:4], "broker")}  # spans
    expected |= {("broker", "broker", "broker"), ("broker", "quorum", "gateway")}  # by Kafka's wire

    assert expected == edges(objects, direction, peers)
