"""The Helm chart renders what each Kubernetes understands, and refuses what it cannot do with a reason."""

from __future__ import annotations

from typing import Any, Final

import pytest

from quorate.liveness import SESSION_LEAST_MS
from tests.deploy.chart import (
    CERT_MANAGER,
    CHART,
    KUBERNETES,
    NEWEST,
    PROMETHEUS,
    SPARK_OPERATOR,
    Json,
    faults,
    helm,
    named,
    of_kind,
    refusal,
    render,
    run,
    template,
)
from tests.deploy.spark_operator import SCHEDULED

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate: make chart")

TOLERATION: Final = {"key": "metadata", "operator": "Exists", "effect": "NoSchedule"}
EVERYWHERE: Final = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [TOLERATION],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}},
    "priorityClassName": "high",
    "podLabels": {"team": "kafka"},
    "podAnnotations": {"note": "x"},
}  # fmt: skip
CLAIMS: Final[Json] = {"logs": {"existingClaim": "logs"}, "lake": {"accessMode": "ReadWriteMany"}}
SPARK: Final = {
    "image": {"pullSecrets": ["pull"]},
    "pipeline": {**EVERYWHERE, "enabled": True, "runner": "sparkOperator", **CLAIMS},
}
SHAPES: Final[dict[str, Json]] = {
    "defaults": {},
    "one node": {"quorum": {"replicas": 1}},
    "seven nodes from 3000 on": {"quorum": {"replicas": 7, "firstNodeId": 3000}},
    "everything": {
        "commonLabels": {"owner": "me"},
        "clusterId": "MkU3OEVBNTcwNTJENDM2Qg",
        "image": {
            "registry": "registry.example:5000",
            "pullSecrets": ["pull"],
            "digests": {"quorum": "sha256:" + "0" * 64},
        },
        "serviceAccount": {"annotations": {"a": "b"}},
        "tls": {"extraDnsNames": ["kraft.example"]},
        "principals": {"superUsers": ["User:ops"], "brokers": ["User:b1", "User:b2"], "readers": ["User:r"]},
        "quorum": {
            **EVERYWHERE,
            "releaseVersion": "4.2",
            "settings": {"metadata.max.retention.ms": 86400000, "controller.quorum.fetch.timeout.ms": 3000},
            "controllerSettings": {"delete.topic.enable": False, "num.partitions": 3},
            "storage": {"className": "fast", "annotations": {"c": "d"}},
            "maxUnavailable": 0,
            "spreadHosts": False,
        },
        "gateway": {
            "enabled": True,
            "listeners": [
                {"name": "KAFKA", "port": 9092},
                {
                    "name": "LOGINS",
                    "port": 19092,
                    "protocol": "SASL_SSL",
                    "saslMechanisms": ["PLAIN"],
                    "plainUsers": {"existingSecret": "users"},
                    "maxConnections": 100,
                    "networkPolicyPeers": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
                },
                {"name": "OUTSIDE", "port": 19093, "existingSecret": "public"},
                {"name": "CLEAR", "port": 19094, "protocol": "PLAINTEXT", "networkPolicyPeers": []},
            ],
            "settings": {"max.connections": 1000},
        },
        "brokers": {
            **EVERYWHERE,
            "enabled": True,
            "settings": {"broker.rack": "a", "replica.lag.time.max.ms": 10000},
            "storage": {"className": "fast", "annotations": {"c": "d"}},
            "spreadHosts": False,
        },
        "heartbeat": {**EVERYWHERE, "settings": {"broker.session.timeout.ms": 12000}},
        "placer": EVERYWHERE,
        "observer": {
            **EVERYWHERE,
            "database": {"existingSecret": "spans"},
            "autoscaling": {"enabled": True},
            "settings": {"observer.fetch.from.any": True},
        },
        "pipeline": {**EVERYWHERE, "enabled": True, "lake": {"className": "slow"}},
        "collector": {**EVERYWHERE, "enabled": True, "exporters": {"otlp_grpc/tempo": {"endpoint": "tempo:4317"}}},
        "metrics": {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "Kafka"}}},
        "networkPolicy": {
            "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 5432, "protocol": "TCP"}]}]
        },
    },
    "a pipeline on copies of logs": {
        "pipeline": {"enabled": True, "logs": {"existingClaim": "logs"}, "lake": {"existingClaim": "lake"}}
    },
    "a pipeline by the Spark operator": SPARK,
    "two heartbeat services": {
        "heartbeat": {"replicas": 2, "settings": {"broker.session.timeout.ms": SESSION_LEAST_MS}},
        "gateway": {"enabled": True},
    },
    "one heartbeat service and short sessions": {"heartbeat": {"settings": {"broker.session.timeout.ms": 1000}}},
    "certificates by cert-manager": {"tls": {"source": "certManager"}},
    "certificates by another's issuer": {
        "tls": {"source": "certManager", "certManager": {"issuerRef": {"name": "ours", "kind": "ClusterIssuer"}}}
    },
    "nodes that move to their own": {"tls": {"nodeCertificates": "moving"}, "gateway": {"enabled": True}},
    "certificates that are there": {
        "tls": {
            "source": "existingSecret",
            "existingSecrets": {name: f"{name}-pem" for name in ("quorum", "heartbeat", "placer", "observer", "admin")},
        }
    },
    "as little as can be": {
        "serviceAccount": {"create": False},
        "podSecurity": {"uid": None},
        "tracing": {"enabled": False},
        "metrics": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "preStopSeconds": 0,
    },
}
APIS: Final = (CERT_MANAGER, PROMETHEUS, SPARK_OPERATOR)
FOREIGN: Final[dict[str, Json]] = {
    "PodMonitor": {
        "selector": {"matchLabels": {str: str}},
        "podMetricsEndpoints": [{"port": str, "interval": str}],
    },
    "ScheduledSparkApplication": SCHEDULED,
    "Issuer": {"selfSigned": {}, "ca": {"secretName": str}},
    "Certificate": {
        "isCA": bool,
        "commonName": str,
        "secretName": str,
        "duration": str,
        "renewBefore": str,
        "subject": {"organizations": [str]},
        "dnsNames": [str],
        "ipAddresses": [str],
        "usages": [str],
        "privateKey": {"algorithm": str, "encoding": str, "size": int, "rotationPolicy": str},
        "additionalOutputFormats": [{"type": str}],
        "issuerRef": {"name": str, "kind": str, "group": str},
    },
}
"""What of other APIs is used here, off their custom resource definitions."""


def test_it_is_without_faults_for_helm_itself() -> None:
    done = run("lint", "--strict", str(CHART), "--kube-version", NEWEST)

    assert 0 == done.returncode, done.stdout


@pytest.mark.parametrize("name", SHAPES)
def test_every_kubernetes_understands_all_of_it(name: str) -> None:
    """The schemas are strict: a field that a version does not know is a fault, and not ignored as by the API server."""
    # Everything that there is goes through all of them; what has less, through the oldest and the newest.
    for version in KUBERNETES if name == "everything" else (KUBERNETES[0], NEWEST):
        for each in render(SHAPES[name], kubernetes=version, apis=APIS, is_upgrade=True):
            if each["kind"] in FOREIGN:
                assert [] == faults(FOREIGN[each["kind"]], each["spec"], each["kind"])
            else:
                kubernetes_validate.validate(each, version.rpartition(".")[0], strict=True)


def test_the_schemas_find_a_field_that_is_not_there() -> None:
    deployment = named(render(), "Deployment", "q-quorate-placer")
    deployment["spec"]["template"]["spec"]["replicas"] = 2
    with pytest.raises(kubernetes_validate.ValidationError, match="replicas"):
        kubernetes_validate.validate(deployment, NEWEST.rpartition(".")[0], strict=True)


def test_a_kubernetes_that_is_too_old_is_refused() -> None:
    assert "incompatible with Kubernetes v1.29" in refusal({}, kubernetes="1.29.9")


REFUSED: Final[list[tuple[Json, str]]] = [
    ({"quorum": {"replicas": 4}}, "/quorum/replicas': value must be one of 1, 3, 5, 7"),
    ({"quorum": {"replicas": 9}}, "/quorum/replicas'"),
    ({"quorum": {"replica": 3}}, "/quorum': additional properties 'replica' not allowed"),
    ({"quorum": {"autoscaling": {"enabled": True}}}, "additional properties 'autoscaling' not allowed"),
    ({"observers": {}}, "additional properties 'observers' not allowed"),
    ({"tls": {"source": "none"}}, "/tls/source'"),
    ({"tls": {"source": "certManager"}}, "the cluster does not have cert-manager.io/v1"),
    ({"tls": {"source": "existingSecret"}}, "is empty; with tls.source = existingSecret it names a Secret"),
    ({"quorum": {"settings": {"listeners": "X://:1"}}}, "quorum.settings: the chart sets listeners = "),
    ({"quorum": {"settings": {"node.id": 7}}}, "quorum.settings: the chart sets node.id itself, for each pod another"),
    ({"quorum": {"controllerSettings": {"advertised.listeners": "X://a:1"}}}, "the chart sets advertised.listeners it"),
    ({"gateway": {"enabled": True, "settings": {"node.id": 7}}}, "gateway.settings: the chart sets node.id itself"),
    ({"brokers": {"enabled": True, "settings": {"node.id": 7}}}, "brokers.settings: the chart sets node.id itself"),
    (
        {"brokers": {"enabled": True, "firstNodeId": 0}},
        "brokers.firstNodeId = 0: broker 0 would have the id of",
    ),
    ({"brokers": {"enabled": True, "firstNodeId": 998}}, "brokers.firstNodeId = 998: broker 1000 would have the id"),
    (
        {"brokers": {"enabled": True, "controlledShutdownSeconds": 90}},
        "terminationGracePeriodSeconds = 95: with con",
    ),
    ({"observer": {"settings": {"super.users": "User:me"}}}, "observer.settings: the chart sets super.users = "),
    ({"pipeline": {"enabled": True, "runner": "airflow"}}, "/pipeline/runner'"),
    ({"pipeline": {"enabled": True, "runner": "sparkOperator"}}, "does not have sparkoperator.k8s.io/v1beta2"),
    ({"collector": {"enabled": True}, "tracing": {"enabled": False}}, "collector.enabled = true: tracing.enabled is"),
    ({"collector": {"enabled": True}, "tracing": {"endpoint": "http://x:1"}}, "spans go to tracing.endpoint = http:"),
    ({"collector": {"enabled": True, "exporters": {"otlp_grpc/observers": {}}}}, "the chart sets otlp_grpc/observers"),
    ({"pipeline": {"memory": "1Gi"}}, "/pipeline/memory'"),
    ({"metrics": {"dashboard": {}}}, "/metrics': additional properties 'dashboard' not allowed"),
    ({"principals": {"quorum": "quorum"}}, "/principals/quorum'"),
    ({"principals": {"quorum": "User:other"}}, "principals.quorum = User:other: the chart's own certificate"),
    ({"principals": {"superUsers": ["User:a;User:b"]}}, "/principals/superUsers/0'"),
    ({"fullnameOverride": "x" * 41}, "/fullnameOverride'"),
    ({"observer": {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}}, "minReplicas = 3 is above maxReplicas = 2"),
    (
        {"observer": {"stateDatabase": {"existingSecret": "state", "volume": {"enabled": True}}}},
        "observer.stateDatabase.volume.enabled = true: existingSecret = state has the URL",
    ),
    (
        {
            "observer": {
                "stateDatabase": {"volume": {"enabled": True}},
                "settings": {"observer.state.database.url": "x"},
            }
        },
        "observer.settings: the chart sets observer.state.database.url = sqlite:////var/lib/quorate/state.db",
    ),
    ({"heartbeat": {"replicas": 3}}, "/heartbeat/replicas'"),
    (
        {"heartbeat": {"replicas": 2, "settings": {"broker.session.timeout.ms": SESSION_LEAST_MS - 1}}},
        f"broker.session.timeout.ms = 5999: with heartbeat.replicas = 2 it must be at least {SESSION_LEAST_MS}, or",
    ),
    (
        {"heartbeat": {"replicas": 2, "settings": {"broker.session.timeout.ms": "900"}}},
        "broker.session.timeout.ms = 900: with heartbeat.replicas = 2",
    ),
    ({"heartbeat": {"terminationGracePeriodSeconds": 10}}, "/heartbeat/terminationGracePeriodSeconds'"),
    ({"networkPolicy": {"clients": [{}]}}, "/networkPolicy/clients/0'"),
    ({"clusterId": "two words"}, "/clusterId'"),
    ({"image": {"digests": {"quorum": "latest"}}}, "/image/digests/quorum'"),
]


@pytest.mark.parametrize(("values", "why"), REFUSED, ids=[why[:40] for _, why in REFUSED])
def test_bad_values_are_refused_with_the_reason(values: Json, why: str) -> None:
    assert why in refusal(values)


@pytest.mark.parametrize(
    ("lacking", "why"),
    [("logs", "pipeline.logs.existingClaim is empty"), ("lake", "pipeline.lake.accessMode = ReadWriteOnce: ")],
)
def test_the_spark_operator_needs_copies_of_logs_and_a_lake_for_several_hosts(lacking: str, why: str) -> None:
    given = {name: value for name, value in CLAIMS.items() if name != lacking}
    values = {"pipeline": {"enabled": True, "runner": "sparkOperator", **given}}

    assert why in refusal(values, apis=(SPARK_OPERATOR,))


def test_a_release_whose_name_is_too_long_is_refused_and_not_cut() -> None:
    """Two names that are cut could become one."""
    assert "choose a shorter release name, or fullnameOverride" in refusal({}, release="r" * 40)


def test_two_releases_in_one_namespace_share_no_object() -> None:
    def names(release: str) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in render(release=release)}

    assert set() == names("one") & names("two")


def test_it_comes_out_the_same_each_time_but_for_new_keys() -> None:
    def without_secrets() -> list[Json]:
        return [each for each in render() if each["kind"] != "Secret"]

    assert without_secrets() == without_secrets()


def test_a_monitor_is_made_only_where_the_cluster_has_that_kind() -> None:
    assert [] == of_kind(render(), "PodMonitor")
    assert 4 == len(of_kind(render(apis=(PROMETHEUS,)), "PodMonitor"))


def test_an_autoscaler_and_the_deployment_do_not_both_say_how_many() -> None:
    deployment = named(render({"observer": {"autoscaling": {"enabled": True}}}), "Deployment", "q-quorate-observer")

    assert "replicas" not in deployment["spec"]
    assert 2 == named(render(), "Deployment", "q-quorate-observer")["spec"]["replicas"]


def test_a_smaller_quorum_first_removes_voters_and_a_rollback_does() -> None:
    def hook(**how: Any) -> Json:
        return named(render({"quorum": {"replicas": 3}}, **how), "Job", "q-quorate-resize")

    upgrade, install = hook(is_upgrade=True), hook()

    assert "pre-upgrade,pre-rollback" == upgrade["metadata"]["annotations"]["helm.sh/hook"]
    assert "pre-rollback" == install["metadata"]["annotations"]["helm.sh/hook"]
    assert "--set=quorum.node.ids=0,1,2" in upgrade["spec"]["template"]["spec"]["containers"][0]["args"]


def test_pods_of_hooks_and_tests_run_where_the_quorum_may() -> None:
    """Else a rollback waits for ever for a pod that no host takes."""
    placement = {
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "kraft", "operator": "Exists"}],
        "priorityClassName": "high",
    }
    objects = render({"quorum": {**placement, "affinity": {"podAntiAffinity": {}}}}, is_upgrade=True)
    job, pod = named(objects, "Job", "q-quorate-resize"), named(objects, "Pod", "q-quorate-test")

    for spec in (job["spec"]["template"]["spec"], pod["spec"]):
        assert placement == {key: spec.get(key) for key in placement}
        assert "affinity" not in spec  # the quorum's own keeps pods apart from the quorum's pods


def test_large_ids_are_written_in_digits() -> None:
    """A number of a values file is a float for Helm."""
    objects = render({"quorum": {"firstNodeId": 1_000_000}, "observer": {"nodeId": 2_000_000}})
    quorum = named(objects, "StatefulSet", "q-quorate-quorum")
    observer = named(objects, "ConfigMap", "q-quorate-observer")

    assert 1_000_000 == quorum["spec"]["ordinals"]["start"]
    assert "node.id=2000000\n" in "".join(observer["data"].values())


def test_there_is_helm() -> None:
    """Last, so that a machine without it says so once more."""
    assert helm()
    assert 0 == template().returncode
