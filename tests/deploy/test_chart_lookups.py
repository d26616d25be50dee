"""What the Helm chart makes of what the namespace has already: it refuses, keeps, or first removes voters."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest

from tests.deploy.api_server import api_server
from tests.deploy.chart import CHART, Json, named, of_kind, refusal, render, run

NAMESPACE: Final = "kraft"
QUORUM: Final = "q-quorate-quorum"
IDENTITIES: Final = ("quorum", "heartbeat", "placer", "observer", "admin")
OWN: Final[Json] = {"tls": {"source": "existingSecret", "existingSecrets": {each: f"my-{each}" for each in IDENTITIES}}}
SECRETS: Final = ("quorum-0", "quorum-1", "quorum-2", *IDENTITIES[1:])
"""What OWN takes: one for each node of the quorum."""
WHOLE: Final = {"tls-combined.pem": "eA==", "ca.crt": "eA=="}
DEFAULT: Final[Json] = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "default", "namespace": NAMESPACE},
}
"""Every namespace has it."""


def quorum(
    *,
    release: str = "q",
    replicas: int = 3,
    first: int = 0,
    cluster: str = "",
    certificates: str = "perNode",
    claims: Json | None = None,
) -> Json:
    """The StatefulSet that a release has made."""
    annotations = {"meta.helm.sh/release-name": release, "quorate/node-certificates": certificates}
    about = {"name": QUORUM, "namespace": NAMESPACE, "annotations": {k: v for k, v in annotations.items() if v}}
    spec: Json = {"replicas": replicas, **({"ordinals": {"start": first}} if first else {})}
    if cluster:
        environment = [{"name": "POD_NAME", "valueFrom": {}}, {"name": "QUORATE_CLUSTER_ID", "value": cluster}]
        spec["template"] = {"spec": {"initContainers": [{"name": "format", "env": environment}]}}
    if claims:
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claims}]
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": about, "spec": spec}


def secret(name: str, data: Json) -> Json:
    about = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "data": data}


def secrets(*without: str) -> Iterable[Json]:
    """Those that OWN names, but for these."""
    return (secret(f"my-{each}", WHOLE) for each in SECRETS if each not in without)


def refused(values: Json, objects: Iterable[Json], **how: Any) -> str:
    with api_server([DEFAULT, *objects]) as server:
        return refusal(values, server=server.url, **how)


def made(values: Json, objects: Sequence[Json], **how: Any) -> list[Json]:
    with api_server([DEFAULT, *objects]) as server:
        return render(values, server=server.url, **how)


def test_a_second_release_of_one_name_is_refused() -> None:
    """And not left to Helm, which would say it of one object after the other."""
    says = refused({"fullnameOverride": "q-quorate"}, [quorum(release="first")], release="second")

    assert f"the namespace kraft has a StatefulSet {QUORUM} of release first: two releases cannot share a name" in says


def test_claims_that_are_there_keep_their_size_and_class() -> None:
    """Kubernetes would refuse it after the hooks, when half of the release is upgraded."""
    there = [quorum(claims={"storageClassName": "fast", "resources": {"requests": {"storage": "8Gi"}}})]

    def says(**storage: str) -> str:
        return refused({"quorum": {"storage": {"className": "fast", **storage}}}, there)

    assert "quorum.storage.size = 9Gi: the claims were made with 8Gi" in says(size="9Gi")
    assert f"kubectl delete statefulset {QUORUM} --cascade=orphan" in says(size="9Gi")
    assert 'quorum.storage.className = "slow": the claims were made with "fast"' in says(className="slow")
    assert made({"quorum": {"storage": {"className": "fast", "size": "8192Mi"}}}, there)


@pytest.mark.parametrize(
    ("values", "objects", "why"),
    [
        ({"quorum": {"replicas": 4}}, [], "/quorum/replicas'"),
        ({"quorum": {"replica": 3}}, [], "additional properties 'replica' not allowed"),
        ({}, [quorum(release="first")], "two releases cannot share a name"),
        (OWN, [*secrets("admin")], "no such Secret"),
    ],
    ids=["an even quorum", "a wrong key", "a second release", "no Secret"],
)
def test_what_is_refused_changes_nothing(values: Json, objects: list[Json], why: str) -> None:
    """By `helm install` itself; with values that it takes it does begin to write."""
    with api_server([DEFAULT, *objects]) as server:
        done = install(server.url, values)

        assert 0 != done.returncode
        assert why in done.stderr
        assert [] == server.changes
    with api_server([DEFAULT]) as server:
        install(server.url, {})

        assert [] != server.changes


def install(url: str, values: Json, *more: str) -> subprocess.CompletedProcess[str]:
    """What helm says to `helm install`."""
    where = ("--namespace", NAMESPACE, "--kube-apiserver", url, "--disable-openapi-validation")
    return run("install", "q", str(CHART), *where, *more, values=values)


def test_the_notes_say_how_to_call_and_how_to_run_the_pipeline() -> None:
    with api_server([DEFAULT]) as server:
        done = install(server.url, {"pipeline": {"enabled": True}}, "--dry-run=server")
    notes = done.stdout.partition("\nNOTES:\n")[2]

    assert "grpcurl -cacert ca.crt -cert admin.pem -key admin.pem" in notes
    assert "kubectl -n kraft get secret q-quorate-admin-tls " in notes
    assert "kubectl -n kraft create job --from=cronjob/q-quorate-pipeline now" in notes
    assert "tls.nodeCertificates" not in notes


@pytest.mark.parametrize(("step", "way"), [("shared", "perNode, over moving."), ("moving", "perNode.")])
def test_the_notes_say_that_nodes_with_one_certificate_speak_for_each_other(step: str, way: str) -> None:
    with api_server([DEFAULT]) as server:
        done = install(server.url, {"tls": {"nodeCertificates": step}}, "--dry-run=server")

    assert f"tls.nodeCertificates = {step}: with the certificate that all nodes share each of them may" in done.stdout
    assert f"production: {way}" in done.stdout


def test_the_notes_say_where_brokers_are_and_what_they_do_not_serve_without_gateways() -> None:
    def notes(values: Json) -> str:
        with api_server([DEFAULT]) as server:
            return install(server.url, values, "--dry-run=server").stdout.partition("\nNOTES:\n")[2]

    alone, both = (
        notes({"brokers": {"enabled": True}}),
        notes({"brokers": {"enabled": True}, "gateway": {"enabled": True}}),
    )

    assert ["There is no gateway" in each for each in (alone, both)] == [True, False]
    assert all("brokers at q-quorate-bootstrap.kraft.svc:9092, by TLS with a certificate" in e for e in (alone, both))
    assert "brokers" not in notes({})


LISTENERS: Final[list[Json]] = [
    {"name": "KAFKA", "port": 9092},
    {"name": "LOGINS", "port": 19092, "protocol": "SASL_PLAINTEXT", "saslMechanisms": ["PLAIN"],
     "plainUsers": {"existingSecret": "users"}},
    {"name": "OUTSIDE", "port": 19093, "existingSecret": "public"},
]  # fmt: skip
SEVERAL: Final[Json] = {"gateway": {"enabled": True, "listeners": LISTENERS}}


def test_the_notes_say_where_gateways_are_and_warn_of_listeners_in_the_clear() -> None:
    def notes(values: Json) -> str:
        with api_server([DEFAULT, secret("users", {"sasl.jaas.config": "eA=="}), secret("public", WHOLE)]) as server:
            return install(server.url, values, "--dry-run=server").stdout.partition("\nNOTES:\n")[2]

    several, clear = notes(SEVERAL), {"name": "CLEAR", "port": 9092, "protocol": "PLAINTEXT"}

    assert "gateways at q-quorate-gateway.kraft.svc, by --bootstrap-controller" in several
    assert "port 9092  KAFKA: SSL, a client's certificate required\n" in several
    assert "port 19092  LOGINS: SASL_PLAINTEXT with PLAIN\n" in several
    assert 1 == several.count("WARNING")
    assert "WARNING: the gateways' listener LOGINS has protocol = SASL_PLAINTEXT, which is in the clear" in several
    assert "and read passwords. For production: SASL_SSL." in several
    assert "every client is User:ANONYMOUS. For production: SSL." in notes(
        {"gateway": {"enabled": True, "listeners": [clear]}}
    )
    assert "WARNING" not in notes({"gateway": {"enabled": True}})
    assert "gateway" not in notes({})


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        (
            [secret("public", WHOLE)],
            "listeners[1].plainUsers.existingSecret = users: the namespace kraft has no such Sec",
        ),
        (
            [secret("public", WHOLE), secret("users", {"password": "eA=="})],
            "gateway.listeners[1].plainUsers.existingSecret = users: this Secret has no sasl.jaas.config; it has the",
        ),
        (
            [secret("users", {"sasl.jaas.config": "eA=="})],
            "gateway.listeners[2].existingSecret = public: the namespace kraft has no such Secret",
        ),
        (
            [secret("users", {"sasl.jaas.config": "eA=="}), secret("public", {"tls-combined.pem": "eA=="})],
            "gateway.listeners[2].existingSecret = public: this Secret has no ca.crt; tls-combined.pem has a key and",
        ),
    ],
    ids=["no users", "users under another key", "no certificate", "no authorities"],
)
def test_a_secret_of_a_listener_that_is_not_there_is_refused(objects: list[Json], why: str) -> None:
    assert why in refused(SEVERAL, objects)


def test_a_second_release_of_another_name_is_taken() -> None:
    assert made({}, [quorum(release="first")], release="second")


@pytest.mark.parametrize(("had", "wanted"), [(0, 3000), (3000, 0), (1, 2)])
def test_nodes_that_are_there_keep_their_ids(had: int, wanted: int) -> None:
    says = refused({"quorum": {"firstNodeId": wanted}}, [quorum(first=had)], is_upgrade=True)

    assert f"quorum.firstNodeId = {wanted}: the quorum was installed with {had}, and its nodes keep their ids" in says


@pytest.mark.parametrize(("had", "wanted"), [(0, 100), (100, 200)])
def test_brokers_that_are_there_keep_their_ids(had: int, wanted: int) -> None:
    found = quorum(first=had)
    found["metadata"] = {**found["metadata"], "name": "q-quorate-broker"}
    says = refused({"brokers": {"enabled": True, "firstNodeId": wanted}}, [quorum(), found], is_upgrade=True)

    assert f"brokers.firstNodeId = {wanted}: the brokers were installed with {had}, and they keep their ids" in says


def test_a_cluster_keeps_its_id() -> None:
    """Else the nodes would refuse their volumes, one after the other."""
    values, other = {"clusterId": f"{'a' * 21}A"}, f"{'b' * 21}A"

    says = refused(values, [quorum(cluster=other)], is_upgrade=True)

    assert f"clusterId = {values['clusterId']}: the quorum was installed with {other}, and its volumes keep" in says
    assert made(values, [quorum(cluster=values["clusterId"])], is_upgrade=True)


@pytest.mark.parametrize(
    ("had", "wanted", "hooks"),
    [
        (5, 3, "pre-upgrade,pre-rollback"),
        (3, 3, "pre-rollback"),
        (3, 5, "pre-rollback"),
        (3, 1, "pre-upgrade,pre-rollback"),
    ],
)
def test_voters_are_removed_before_an_upgrade_only_where_it_makes_the_quorum_smaller(
    had: int, wanted: int, hooks: str
) -> None:
    objects = made({"quorum": {"replicas": wanted}}, [quorum(replicas=had)], is_upgrade=True)

    assert hooks == named(objects, "Job", "q-quorate-resize")["metadata"]["annotations"]["helm.sh/hook"]


@pytest.mark.parametrize("absent", SECRETS)
def test_a_secret_that_is_not_there_is_refused_by_its_name(absent: str) -> None:
    says = refused(OWN, secrets(absent))

    assert f"tls.existingSecrets.{absent.split('-')[0]} = my-{absent}: the namespace kraft has no such Secret" in says


STEPS: Final = ("", "shared", "moving", "perNode")
"""How nodes get certificates of their own, from a chart before `tls.nodeCertificates` on."""


@pytest.mark.parametrize("had", STEPS)
@pytest.mark.parametrize("wanted", STEPS[1:])
def test_certificates_of_nodes_of_their_own_come_in_steps_in_which_nodes_let_each_other_in(
    had: str, wanted: str
) -> None:
    at, to = STEPS.index(had), STEPS.index(wanted)
    there, values = [quorum(certificates=had)], {"tls": {"nodeCertificates": wanted}}

    if abs(to - at) <= 1:
        assert made(values, there, is_upgrade=True)
    else:
        says = refused(values, there, is_upgrade=True)
        assert f"tls.nodeCertificates = {wanted}: the running nodes have {had or 'one certificate for all'}" in says
        assert f"Upgrade with {STEPS[at + (1 if to > at else -1)]} first" in says


@pytest.mark.parametrize("key", WHOLE)
def test_a_secret_without_a_key_is_refused(key: str) -> None:
    """One of type kubernetes.io/tls has tls.crt and tls.key, and not what the services read."""
    short = secret("my-placer", {"tls.crt": "eA==", "tls.key": "eA==", **{k: v for k, v in WHOLE.items() if k != key}})
    says = refused(OWN, [*secrets("placer"), short])

    assert f"tls.existingSecrets.placer = my-placer: this Secret has no {key}" in says


def test_secrets_that_are_there_are_taken_and_so_are_unseen_ones() -> None:
    """Without a cluster none can be seen."""
    assert made(OWN, [*secrets()])
    assert render(OWN)


def test_certificates_of_helm_s_own_stay_at_an_upgrade() -> None:
    first = of_kind(render(), "Secret")
    there = [{**each, "metadata": {**each["metadata"], "namespace": NAMESPACE}} for each in first]
    same = of_kind(made({}, there, is_upgrade=True), "Secret")
    more = of_kind(made({"tls": {"extraDnsNames": ["kraft.example"]}}, there, is_upgrade=True), "Secret")
    admin = "q-quorate-admin-tls"

    assert {each["metadata"]["name"]: each["data"] for each in first} == {
        each["metadata"]["name"]: each["data"] for each in same
    }
    assert named(first, "Secret", admin)["data"] == named(more, "Secret", admin)["data"]
    quorum_before, quorum_after = (named(each, "Secret", "q-quorate-quorum-1-tls")["data"] for each in (first, more))
    assert quorum_before["tls.crt"] != quorum_after["tls.crt"]
    assert quorum_before["ca.crt"] == quorum_after["ca.crt"]


def test_a_pipeline_that_is_switched_on_gets_a_certificate_of_the_same_authority() -> None:
    first = of_kind(render(), "Secret")
    there = [{**each, "metadata": {**each["metadata"], "namespace": NAMESPACE}} for each in first]
    more = of_kind(made({"pipeline": {"enabled": True}}, there, is_upgrade=True), "Secret")
    new = named(more, "Secret", "q-quorate-pipeline-tls")

    assert 1 + len(first) == len(more)
    assert all(named(more, "Secret", each["metadata"]["name"])["data"] == each["data"] for each in first)
    assert named(first, "Secret", "q-quorate-ca")["data"]["ca.crt"] == new["data"]["ca.crt"]


@pytest.mark.parametrize(("had", "wanted"), [("moving", "perNode"), ("shared", "moving"), ("moving", "shared")])
def test_the_next_step_waits_until_all_nodes_have_the_one_before(had: str, wanted: str) -> None:
    """Nodes with the rules before it would refuse a restarted one. The way back is open in the middle of a rollout."""

    def there(count: int) -> list[Json]:
        return [{**quorum(certificates=had), "status": {"replicas": 3, "updatedReplicas": count, "readyReplicas": 3}}]

    values = {"tls": {"nodeCertificates": wanted}}
    if wanted == "shared":
        assert made(values, there(1), is_upgrade=True)
    else:
        says = refused(values, there(1), is_upgrade=True)
        assert f"tls.nodeCertificates = {wanted}: the rollout of {had} has 1 of 3 nodes" in says
    assert made(values, there(3), is_upgrade=True)


@pytest.mark.parametrize(
    ("values", "way"),
    [
        ({"quorum": {"controllerSettings": {"delegation.token.secret.key": "k"}}}, "delegationTokens.existingSecret"),
        ({"observer": {"settings": {"observer.database.url": "sqlite://"}}}, "observer.database.existingSecret"),
        (
            {"observer": {"settings": {"observer.state.database.url": "postgresql://o:p@db/state"}}},
            "observer.stateDatabase.existingSecret",
        ),
    ],
    ids=["tokens", "spans", "state"],
)
def test_no_secret_gets_into_a_config_map(values: Json, way: str) -> None:
    assert f"is a secret, and who may read ConfigMaps would see it there; set {way}" in refused(values, [])
