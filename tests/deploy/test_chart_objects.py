"""What the Helm chart makes: every process starts with its settings, is let in where it calls, and may do no more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.nouns import Principal
from quorate.runtime.access.process_rights import process_rights_of
from quorate.runtime.event_loop.loop import STOP_TIMEOUT_S
from quorate.runtime.settings.config import ConfigError
from quorate.tls.ssl_principals import parse_rules
from services.pipeline.__main__ import parser
from services.pipeline.node_options import node_options
from tests.deploy.chart import (
    CERT_MANAGER,
    PROMETHEUS,
    Json,
    containers,
    named,
    of_kind,
    pod_specs,
    render,
    template,
)
from tests.deploy.chart_programs import BY_ARGUMENTS, CONFIGS, environment, loaded, program

FULL: Final[Json] = {
    "gateway": {"enabled": True},
    "brokers": {"enabled": True},
    "pipeline": {"enabled": True},
    "observer": {"page": {"enabled": True}},
    "quorum": {"settings": {"metadata.max.retention.ms": 86400000}, "releaseVersion": "4.3"},
    "principals": {"brokers": ["User:CN=b 1,O=x\\y"]},
}


@pytest.fixture(scope="module")
def objects() -> list[Json]:
    return render(FULL, apis=(PROMETHEUS,))


@pytest.fixture(scope="module")
def whole() -> list[Json]:
    """With what is not ours."""
    return render({**FULL, "collector": {"enabled": True}}, apis=(PROMETHEUS,))


@pytest.mark.parametrize(
    "values",
    [FULL, {}, {"quorum": {"replicas": 1, "firstNodeId": 1}}, {"tls": {"source": "certManager"}}],
    ids=["full", "defaults", "one node", "cert-manager"],
)
def test_every_program_takes_its_settings(values: Json, tmp_path: Path) -> None:
    objects = render(values, apis=(CERT_MANAGER,))
    programs = set()
    for _, _, spec in pod_specs(objects):
        for container in containers(spec):
            if program(container) == BY_ARGUMENTS:
                continue
            config = loaded(objects, spec, container, tmp_path)
            programs.add(program(container))
            if "livenessProbe" in container:
                assert config.health_listeners.endpoint.port == container["livenessProbe"]["grpc"]["port"]

    without = {"services.gateway", "services.broker", "services.broker.first_start"}
    wanted = {*CONFIGS} - (set() if values.get("gateway") else without)
    assert wanted == programs


@pytest.mark.parametrize(
    ("values", "source"), [({}, None), ({"logs": {"existingClaim": "copies"}}, "/logs")], ids=["observers", "copies"]
)
def test_the_pipeline_takes_its_arguments(values: Json, source: str | None, tmp_path: Path) -> None:
    """Only within its volumes; in one container, as damage that one job finds must not keep the next from its turn."""
    objects = render({"pipeline": {"enabled": True, **values}})
    spec = named(objects, "CronJob", "q-quorate-pipeline")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = containers(spec)
    asked = parser().parse_args(container["args"])

    assert ("run", source, "/lake/tables", "/lake/report.html") == (asked.name, asked.source, asked.to, asked.report)
    assert {"/lake", "/tmp", *([source] if source else [])} <= {each["mountPath"] for each in container["volumeMounts"]}
    if source is None:
        properties = named(objects, "ConfigMap", "q-quorate-pipeline")["data"]["client.properties"]
        asked.command_config = str(tmp_path / "client.properties")
        (tmp_path / "client.properties").write_text(properties)
        assert "SSL" == node_options(asked)["security.protocol"]
        assert "q-quorate-observer.kraft.svc:9097" == node_options(asked)["endpoints"]


def test_a_pod_uses_the_lake_at_once() -> None:
    """Else `helm --wait` waits for a claim whose volume waits for a pod. Another Job has another name."""

    def jobs(**more: Any) -> dict[str, Json]:
        objects = of_kind(render({"pipeline": {"enabled": True, **more}}), "Job")
        return {each["metadata"]["name"]: each["spec"] for each in objects if "-lake-" in each["metadata"]["name"]}

    host = {"nodeSelector": {"disk": "large"}}
    ((_, spec),) = jobs(**host).items()
    pod = spec["template"]["spec"]
    assert ["q-quorate-lake"] == [each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"]]
    assert host["nodeSelector"] == pod["nodeSelector"]
    assert jobs().keys() == jobs().keys() != jobs(**host).keys()
    assert {} == jobs(lake={"existingClaim": "mine"})


def test_observers_relay_the_log_only_to_a_pipeline(tmp_path: Path) -> None:
    relays = []
    for pipeline in ({}, {"enabled": True, "logs": {"existingClaim": "copies"}}, {"enabled": True}):
        objects = render({"pipeline": pipeline})
        spec = named(objects, "Deployment", "q-quorate-observer")["spec"]["template"]["spec"]
        relays.append(loaded(objects, spec, spec["containers"][0], tmp_path).serves_log)

    assert [False, False, True] == relays


def test_the_page_is_served_to_clients_alone_and_only_if_asked_for(tmp_path: Path) -> None:
    listeners, ports, doors = [], [], []
    for page in ({}, {"page": {"enabled": True}}):
        objects = render({"observer": page})
        spec = named(objects, "Deployment", "q-quorate-observer")["spec"]["template"]["spec"]
        settings = loaded(objects, spec, spec["containers"][0], tmp_path)
        protocols = named(objects, "ConfigMap", "q-quorate-observer")["data"]["observer.properties"]
        listeners.append(settings.page and (settings.page.endpoint.port, "PAGE:SSL" in protocols))
        ports.append([each["targetPort"] for each in named(objects, "Service", "q-quorate-observer")["spec"]["ports"]])
        rules = named(objects, "NetworkPolicy", "q-quorate-observer")["spec"]["ingress"]
        doors.append([rule["from"] for rule in rules if rule["ports"] == [{"port": 8443, "protocol": "TCP"}]])

    assert [None, (8443, True)] == listeners
    assert [["observer"], ["observer", "page"]] == ports
    assert [[], [[{"podSelector": {"matchLabels": {"quorate-client": "true"}}}]]] == doors


def test_an_observers_file_of_the_state_lies_on_a_volume_that_is_bounded(tmp_path: Path) -> None:
    kept = {"observer": {"stateDatabase": {"volume": {"enabled": True, "size": "9Gi"}}}}
    objects = render(kept)
    spec = named(objects, "Deployment", "q-quorate-observer")["spec"]["template"]["spec"]
    url = loaded(objects, spec, spec["containers"][0], tmp_path).state_database
    (mount,) = (each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "state")

    assert f"sqlite:///{mount['mountPath']}/state.db" == url
    assert {"name": "state", "emptyDir": {"sizeLimit": "9Gi"}} in spec["volumes"]


def test_a_setting_that_a_service_does_not_know_is_found_here(tmp_path: Path) -> None:
    """The chart does not know the services' settings: a pod with a wrong one says so, and does not start."""
    objects = render({"placer": {"settings": {"no.such.setting": 1}}})
    spec = named(objects, "Deployment", "q-quorate-placer")["spec"]["template"]["spec"]
    with pytest.raises(ConfigError, match=r"no\.such\.setting"):
        loaded(objects, spec, spec["containers"][0], tmp_path)


def test_values_reach_the_properties_as_they_were_written(objects: list[Json], tmp_path: Path) -> None:
    """A number is no float, and a backslash in a principal is one."""
    spec = named(objects, "StatefulSet", "q-quorate-quorum")["spec"]["template"]["spec"]
    config = loaded(objects, spec, spec["containers"][0], tmp_path)

    assert 86_400_000 == config.retention_ms
    rights = process_rights_of(config.process_rules)
    assert rights is not None
    assert {"broker"} == rights.of(Principal("User", "CN=b 1,O=x\\y"))


def test_a_node_announces_the_name_that_its_certificate_is_for(objects: list[Json], tmp_path: Path) -> None:
    spec = named(objects, "StatefulSet", "q-quorate-quorum")["spec"]["template"]["spec"]
    quorum, controller = (loaded(objects, spec, each, tmp_path) for each in spec["containers"][:2])
    own = "q-quorate-quorum-1.q-quorate-quorum.kraft.svc"

    announced = {each.name: str(each) for each in quorum.advertised_listeners}
    assert f"CONTROLLER://{own}:9093" == announced.pop("CONTROLLER")
    assert dict.fromkeys(announced, "SSL") == dict(quorum.kafka_protocols)
    registered = {each.name: str(each) for each in controller.advertised_listeners}
    assert f"CONTROLLER://{own}:9094" == registered.pop("CONTROLLER")
    assert announced == registered
    assert quorum.kafka_protocols == controller.kafka_protocols
    assert f"{own}:9093" in [str(each) for each in quorum.bootstrap_servers]
    assert quorum.metadata_log_dir == controller.metadata_log_dir


def test_of_two_heartbeat_services_each_is_found_at_its_own_address_and_neither_stops_a_drain(tmp_path: Path) -> None:
    """One address for both would have a caller at the one that stands by for as long as its connection lasts."""
    values = {**FULL, "heartbeat": {"replicas": 2}, "tls": {"source": "certManager"}}
    objects = render(values, apis=(CERT_MANAGER,))
    workload = named(objects, "StatefulSet", "q-quorate-heartbeat")["spec"]
    pods = [f"q-quorate-heartbeat-{number}" for number in range(workload["replicas"])]
    addresses = [f"{pod}.{workload['serviceName']}.kraft.svc:9095" for pod in pods]
    spec = named(objects, "StatefulSet", "q-quorate-quorum")["spec"]["template"]["spec"]
    known = {}
    for container in containers(spec):
        if program(container) in ("services.controller", "services.gateway"):
            known[container["name"]] = [str(each) for each in loaded(objects, spec, container, tmp_path).heartbeats]
    service = named(objects, "Service", workload["serviceName"])["spec"]
    (budget,) = (
        each["spec"] for each in of_kind(objects, "PodDisruptionBudget") if "heartbeat" in each["metadata"]["name"]
    )
    (container,) = containers(workload["template"]["spec"])
    (names,) = (
        each["spec"]["dnsNames"]
        for each in of_kind(objects, "Certificate")
        if each["spec"]["commonName"] == "heartbeat"
    )

    assert {"controller": addresses, "gateway": addresses} == known
    assert ("None", True) == (service["clusterIP"], service["publishNotReadyAddresses"])
    assert service["selector"] == workload["selector"]["matchLabels"] == budget["selector"]["matchLabels"]
    assert 1 == budget["maxUnavailable"]
    assert "startup" == container["readinessProbe"]["grpc"]["service"]
    assert f"*.{workload['serviceName']}.kraft.svc" in names


def test_a_collector_that_is_there_may_bring_spans_to_observers(whole: list[Json], tmp_path: Path) -> None:
    """And all that the services send goes to it."""
    for name in ("q-quorate-observer", "q-quorate-placer"):
        spec = named(whole, "Deployment", name)["spec"]["template"]["spec"]
        endpoint = environment(spec["containers"][0])["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
        config = loaded(whole, spec, spec["containers"][0], tmp_path)

        assert "https://q-quorate-collector.kraft.svc:4317" == endpoint
        rights = process_rights_of(config.process_rules)
        assert rights is not None
        assert (name == "q-quorate-observer") == ("collector" in rights.of(Principal("User", "collector")))


@pytest.mark.parametrize(
    ("values", "subject", "principal"),
    [
        ({}, "CN=quorum", "quorum"),
        ({}, "CN=quorum,O=somebody", "CN=quorum,O=somebody"),
        ({"tls": {"source": "certManager"}}, "CN=quorum,O=kraft.q-quorate", "quorum"),
        ({"tls": {"source": "certManager"}}, "CN=quorum,O=kraft.other", "CN=quorum,O=kraft.other"),
        ({"tls": {"source": "certManager"}}, "CN=admin", "CN=admin"),
    ],
)
def test_a_certificate_of_another_release_is_not_taken_for_one_of_this(
    values: Json, subject: str, principal: str, tmp_path: Path
) -> None:
    objects = render(values, apis=(CERT_MANAGER,))
    spec = named(objects, "Deployment", "q-quorate-placer")["spec"]["template"]["spec"]
    rules = parse_rules(loaded(objects, spec, spec["containers"][0], tmp_path).principal_rules)
    mapped = next(name for rule in rules if (name := rule.apply(subject)) is not None)

    assert principal == mapped


def test_every_pod_is_as_restricted_as_kubernetes_can_say(whole: list[Json]) -> None:
    pods = list(pod_specs(whole))
    assert 10 == len(pods)
    for name, _, spec in pods:
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["enableServiceLinks"] is False, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        pod = spec["securityContext"]
        assert pod["runAsNonRoot"] is True, name
        assert 10001 == pod["runAsUser"] == pod["fsGroup"], name
        assert {"type": "RuntimeDefault"} == pod["seccompProfile"], name
        kinds = {key for each in spec["volumes"] for key in each} - {"name"}
        claims = {"persistentVolumeClaim"} if name.startswith(("CronJob/", "Job/q-quorate-lake-")) else set()
        # Of all nodes' certificates one container alone sees more than its own: test_chart_nodes.py.
        assert {"configMap", "secret", "emptyDir", "projected"} | claims >= kinds, name
        for container in containers(spec):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert {"drop": ["ALL"]} == context["capabilities"], name
            assert {"requests", "limits"} == container["resources"].keys(), name
            assert not container["image"].endswith(":latest"), name


def test_probes_have_three_meanings_and_a_port_in_the_clear(objects: list[Json]) -> None:
    for name, _, spec in pod_specs(objects):
        for container in spec["containers"]:
            if name.startswith(("Job", "CronJob", "Pod")):
                assert "livenessProbe" not in container, name
                continue
            asked = {
                kind: container[f"{kind}Probe"]["grpc"]["service"] for kind in ("startup", "readiness", "liveness")
            }
            # A rollout takes the next broker when this one's replicas are in their ISRs: asked of a port of its own.
            ready_when = "in-sync" if container["name"] == "broker" else "readiness"
            assert {"startup": "startup", "readiness": ready_when, "liveness": "liveness"} == asked, name
            ports = {container[f"{kind}Probe"]["grpc"]["port"] for kind in asked}
            assert ports <= {port["containerPort"] for port in container["ports"]}, name


def test_a_pod_has_the_time_that_its_processes_take_to_stop(objects: list[Json]) -> None:
    for name, _, spec in pod_specs(objects):
        for container in spec["containers"]:
            if "lifecycle" in container:
                waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
                assert spec["terminationGracePeriodSeconds"] > waits + STOP_TIMEOUT_S + 5, name


@pytest.mark.parametrize("values", [{"preStopSeconds": 20}, {"gracefulShutdownSeconds": 15}], ids=str)
def test_a_grace_period_without_that_time_is_refused(values: Json) -> None:
    done = template(values)

    assert 0 != done.returncode
    assert "terminationGracePeriodSeconds = 45" in done.stderr


def test_selectors_choose_the_pods_of_one_component(whole: list[Json]) -> None:
    labels = {name: metadata["labels"] for name, metadata, _ in pod_specs(whole)}

    def chosen(selector: Json) -> list[str]:
        return [name for name, each in labels.items() if selector.items() <= each.items()]

    for each in whole:
        spec = each.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is not None:
            found = chosen(selector.get("matchLabels", selector))
            assert 1 == len(found), (each["kind"], each["metadata"]["name"], found)
            if each["kind"] in ("StatefulSet", "Deployment"):
                assert [f"{each['kind']}/{each['metadata']['name']}"] == found


def test_a_service_leads_to_a_port_that_a_container_has(whole: list[Json]) -> None:
    ports: dict[str, int] = {}
    for _, _, spec in pod_specs(whole):
        for container in spec["containers"]:
            ports |= {port["name"]: port["containerPort"] for port in container.get("ports", []) if "name" in port}
    assert all(len(name) <= 15 for name in ports)
    for service in of_kind(whole, "Service"):
        for port in service["spec"]["ports"]:
            assert port["port"] == ports[port["targetPort"]], service["metadata"]["name"]
    for monitor in of_kind(whole, "PodMonitor"):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            assert endpoint["port"] in ports, monitor["metadata"]["name"]


def test_every_call_that_settings_name_is_let_through(whole: list[Json], tmp_path: Path) -> None:
    """The calls in one component's settings are let out by its policy, and let in by the other's."""
    policies = {each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]
                for each in of_kind(whole, "NetworkPolicy")}  # fmt: skip
    called = {9092: "quorum", 9093: "quorum", 9094: "quorum", 9095: "heartbeat", 9096: "placer", 9097: "observer",
              4317: "collector"}  # fmt: skip
    calls = set()
    for _, metadata, spec in pod_specs(whole):
        component = metadata["labels"]["app.kubernetes.io/component"]
        for container in containers(spec):
            told = " ".join([*environment(container).values(), *container["args"]])
            for mount in container["volumeMounts"]:
                if mount["name"] == "config":
                    told += named(whole, "ConfigMap", f"q-quorate-{component}")["data"][mount["subPath"]]
            told = re.sub(r"(controller\.quorum\.voters|advertised\.listeners)=\S+", "", told)
            calls |= {(component, int(port)) for port in re.findall(r"\.svc:(909\d|4317)", told)}
    assert len(calls) > 15
    assert {("placer", 4317), ("collector", 9097), ("pipeline", 9097)} <= calls
    for component, port in sorted(calls - {("quorum", 9092)}):
        assert is_let(policies[component]["egress"], "to", port, called[port]), (component, port)
        assert is_let(policies[called[port]]["ingress"], "from", port, component), (component, port)
    assert not is_let(policies["quorum"]["ingress"], "from", 9093, "placer")
    assert not is_let(policies["placer"]["ingress"], "from", 9096, "observer")


def is_let(rules: list[Json], whom: str, port: int, component: str) -> bool:
    """Whether one of the rules lets this port through, from or to pods of the component."""
    return any(
        port in [each["port"] for each in rule["ports"]]
        and component
        in [
            peer.get("podSelector", {}).get("matchLabels", {}).get("app.kubernetes.io/component")
            for peer in rule.get(whom, [])
        ]
        for rule in rules
    )


def test_voters_are_started_together_and_keep_their_volumes(objects: list[Json]) -> None:
    spec = named(objects, "StatefulSet", "q-quorate-quorum")["spec"]
    service = named(objects, "Service", spec["serviceName"])["spec"]

    assert "Parallel" == spec["podManagementPolicy"]
    assert {"whenDeleted": "Retain", "whenScaled": "Retain"} == spec["persistentVolumeClaimRetentionPolicy"]
    assert service["publishNotReadyAddresses"] is True
    assert "None" == service["clusterIP"]


@pytest.mark.parametrize(("replicas", "away"), [(1, 0), (3, 1), (5, 1), (7, 1)])
def test_an_eviction_never_takes_the_majority(replicas: int, away: int) -> None:
    budget = named(render({"quorum": {"replicas": replicas}}), "PodDisruptionBudget", "q-quorate-quorum")["spec"]

    assert away == budget["maxUnavailable"]
    assert "IfHealthyBudget" == budget["unhealthyPodEvictionPolicy"]


def test_brokers_keep_their_names_and_volumes_and_one_alone_is_evicted(tmp_path: Path) -> None:
    """What a broker tells its clients is a name of its own certificate, and of the headless Service."""
    objects = render({**FULL, "brokers": {"enabled": True, "firstNodeId": 1_000_001}, "tls": {"source": "certManager"}},
                     apis=(CERT_MANAGER,))  # fmt: skip
    workload = named(objects, "StatefulSet", "q-quorate-broker")["spec"]
    service = named(objects, "Service", workload["serviceName"])["spec"]
    budget = named(objects, "PodDisruptionBudget", "q-quorate-broker")["spec"]
    (container,) = workload["template"]["spec"]["containers"]
    config = loaded(objects, workload["template"]["spec"], container, tmp_path)
    names = {
        each["spec"]["commonName"]: each["spec"]["dnsNames"]
        for each in of_kind(objects, "Certificate")
        if each["spec"].get("commonName", "").startswith("broker-")
    }
    host = "q-quorate-broker.kraft.svc"
    first = f"q-quorate-broker-1000001.{host}"

    assert 1_000_001 == workload["ordinals"]["start"]
    assert {"whenDeleted": "Retain", "whenScaled": "Retain"} == workload["persistentVolumeClaimRetentionPolicy"]
    assert ("None", True) == (service["clusterIP"], service["publishNotReadyAddresses"])
    assert (1, "IfHealthyBudget") == (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"])
    assert [f"KAFKA://q-quorate-quorum-1.{host}:9092"] == [str(each) for each in config.advertises]
    assert {"broker-1000001", "broker-1000002", "broker-1000003"} == names.keys()
    assert {first, host, "q-quorate-bootstrap.kraft.svc"} < {*names["broker-1000001"]}
    assert not any(first in each for name, each in names.items() if name != "broker-1000001")
    assert {f"User:{name}" for name in (*names, "admin")} == config.super_users
    assert workload["template"]["spec"]["terminationGracePeriodSeconds"] > config.graceful_s + STOP_TIMEOUT_S


def test_a_chart_of_another_version_can_be_upgraded_to() -> None:
    """What Kubernetes never lets anybody change says nothing of versions and values that change."""
    one, other = (
        named(render(values), "StatefulSet", "q-quorate-quorum")["spec"]
        for values in ({}, {"image": {"tag": "9"}, "quorum": {"replicas": 5}, "commonLabels": {"a": "b"}})
    )
    for field in ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy"):
        assert one[field] == other[field], field
    assert "helm.sh/chart" not in one["template"]["metadata"]["labels"]
