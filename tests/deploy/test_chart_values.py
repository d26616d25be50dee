"""Every value of the Helm chart does something, is in its schema with what it means, and is in the README's table."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.tls.key_stores import read_stores
from tests.deploy.chart import CERT_MANAGER, PROMETHEUS, SPARK_OPERATOR, Json, helm, merged, render, schema, values_file
from tests.deploy.chart_values import README, TABLES, leaves, listener_keys, parts, unset

IDENTITIES: Final = ("quorum", "gateway", "broker", "heartbeat", "placer", "observer", "admin", "pipeline", "collector")
OWN_CERTIFICATES: Final[Json] = {
    "tls": {
        "source": "existingSecret",
        "existingSecrets": {name: f"{name}-pem" for name in IDENTITIES},
    },
    "gateway": {"enabled": True},
    "brokers": {"enabled": True},
    "pipeline": {"enabled": True},
    "collector": {"enabled": True},
}
DIGEST: Final = "sha256:" + "0" * 64
AFFINITY: Final[Json] = {"podAntiAffinity": {"x": 1}}
BY_OPERATOR: Final[Json] = {
    "pipeline": {
        "enabled": True,
        "runner": "sparkOperator",
        "logs": {"existingClaim": "copies"},
        "lake": {"accessMode": "ReadWriteMany"},
    }
}
WHERE: Final[dict[str, Json]] = {
    "tls.certManager": {"tls": {"source": "certManager", "certManager": {"issuerRef": {"name": "ours"}}}},
    "tls.existingSecrets": OWN_CERTIFICATES,
    "principals": OWN_CERTIFICATES,
    "gateway": {"gateway": {"enabled": True}},
    "brokers.enabled": {},
    "brokers": {"brokers": {"enabled": True}},
    "observer.autoscaling": {"observer": {"autoscaling": {"enabled": True}}},
    "pipeline.logs": {"pipeline": {"enabled": True}},
    "pipeline.sparkOperator": BY_OPERATOR,
    "pipeline.runner": {"pipeline": {**BY_OPERATOR["pipeline"], "runner": "cronJob"}},
    "pipeline.enabled": {},
    "pipeline": {"pipeline": {"enabled": True}},
    "collector.enabled": {},
    "collector": {"collector": {"enabled": True}},
    "metrics.dashboards": {"metrics": {"dashboards": {"enabled": True}}},
    "observer.database.key": {"observer": {"database": {"existingSecret": "spans"}}},
    "observer.stateDatabase.key": {"observer": {"stateDatabase": {"existingSecret": "state"}}},
    "observer.stateDatabase.volume.enabled": {},
    "observer.stateDatabase.volume": {"observer": {"stateDatabase": {"volume": {"enabled": True}}}},
    "delegationTokens.key": {"delegationTokens": {"existingSecret": "tokens"}},
}
"""With which other values a value means something, by the beginning of its path."""
OTHERS: Final[dict[str, Any]] = {
    "clusterId": "another",
    "image.pullPolicy": "Always",
    "image.pullSecrets": ["pull"],
    "image.digests": {"quorum": DIGEST},
    "serviceAccount.name": "mine",
    "logging.level": "debug",
    "logging.format": "json",
    "tls.source": "existingSecret",
    "tls.existingSecrets": {"quorum": "another"},
    "tls.certManager.issuerRef.kind": "ClusterIssuer",
    "tls.certManager.duration": "240h",
    "tls.certManager.renewBefore": "24h",
    "tls.principalMappingRules": "DEFAULT",
    "tls.nodeCertificates": "moving",
    "tls.nodeIdMappingRules": "RULE:^kafka$/101/",
    "tls.extraDnsNames": ["kraft.example"],
    "quorum.replicas": 5,
    "heartbeat.replicas": 2,
    "gateway.listeners": [{"name": "KAFKA", "port": 9091}],
    "pipeline.runner": "sparkOperator",
    "collector.exporters": {"debug": {}},
    "pipeline.schedule": "5 4 * * *",
    "pipeline.lake.accessMode": "ReadWriteMany",
    "pipeline.memory": "2g",
    "pipeline.scratchSize": "3Gi",
    "pipeline.sparkOperator.executorMemory": "3g",
    "pipeline.sparkOperator.executorMemoryOverhead": "2g",
    "quorum.maxUnavailable": 0,
    "brokers.controlledShutdownSeconds": 50,
    "tracing.endpoint": "https://collector.example:4317",
    "metrics.podMonitor.interval": "10s",
    "networkPolicy.extraEgress": [{"ports": [{"port": 5432}]}],
}
"""Another value, where none can be made out of the default alone."""
BY_NAME: Final[dict[str, Any]] = {
    "settings": {"max.calls": 1000},
    "controllerSettings": {"max.calls": 1000},
    "tolerations": [{"operator": "Exists"}],
    "affinity": AFFINITY,
    "size": "9Gi",
    "clients": [],
    "brokers": ["User:b"],
    "readers": ["User:r"],
    "superUsers": ["User:s"],
    "metrics": [],
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
}
LEAVES: Final = list(leaves(values_file()))


def another(place: str, default: Any) -> Any:
    """A value that is not the default, and that the schema takes."""
    if place in OTHERS:
        return OTHERS[place]
    name = place.rpartition(".")[2]
    if place == "networkPolicy.brokers":
        return []
    for known, value in BY_NAME.items():
        if name.lower().endswith(known.lower()):
            return value
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 2
    if isinstance(default, dict):
        return {"some": "thing"}
    if place.startswith("principals."):
        return f"{default}-2"
    assert isinstance(default, str), (place, default)
    return f"{default}x"


def at(place: str, value: Any) -> Json:
    """A tree of values with this one alone."""
    tree = value
    for name in reversed(place.split(".")):
        tree = {name: tree}
    return dict(tree)


def seen(values: Json, directory: Path, *, reads_certificates: bool) -> str:
    """What is rendered, without certificates, which are made anew each time, but for the days on which they expire."""
    objects = render(values, apis=(CERT_MANAGER, PROMETHEUS, SPARK_OPERATOR))
    for each in objects:
        if each["kind"] == "Secret":
            data = each.pop("data")
            if reads_certificates and "tls-combined.pem" in data:
                store, trusted = directory / "store.pem", directory / "ca.crt"
                store.write_bytes(base64.b64decode(data["tls-combined.pem"]))
                trusted.write_bytes(base64.b64decode(data["ca.crt"]))
                each["expires"] = read_stores(store, trusted).expires_at // 86_400
    return repr(objects)


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    """What was rendered, by the values beside the one that changes."""
    return {}


@pytest.mark.parametrize(("place", "default"), [(place, default) for place, default, _ in LEAVES], ids=str)
def test_a_value_that_is_changed_changes_what_is_rendered(
    place: str, default: Any, before: dict[str, str], tmp_path: Path
) -> None:
    helm()
    beside: Json = next((values for beginning, values in WHERE.items() if place.startswith(beginning)), {})
    if place == "tls.source":
        beside = {"tls": {"existingSecrets": OWN_CERTIFICATES["tls"]["existingSecrets"]}}
    reads_certificates = place.startswith("tls.")
    key = f"{beside} {reads_certificates}"
    if key not in before:
        before[key] = seen(beside, tmp_path, reads_certificates=reads_certificates)
    changed = seen(merged(beside, at(place, another(place, default))), tmp_path, reads_certificates=reads_certificates)

    assert before[key] != changed


def test_every_value_is_in_the_schema_and_says_what_it_means() -> None:
    shapes = [*((place, shape) for place, _, shape in LEAVES), *((place, shape) for place, shape, _ in listener_keys())]

    assert [] == [place for place, shape in shapes if not shape.get("description", "").endswith(".")]
    # Helm's own, and what has no default: a Secret's name is asked for where it is needed.
    assert ["global"] == list(unset(schema(), values_file()))


def test_the_schema_is_closed_everywhere() -> None:
    """But where a schema is another's: of an affinity Kubernetes', of exporters the collector's."""
    open_ones = []

    def look(shape: Any, place: str) -> None:
        if isinstance(shape, dict):
            if shape.get("type") == "object" and shape.get("additionalProperties") is not False:
                open_ones.append(place)
            for name, inner in shape.items():
                look(inner, f"{place}/{name}")

    look(schema(), "")
    affinity = "/definitions/affinity/properties"

    assert [f"{affinity}/{name}" for name in ("nodeAffinity", "podAffinity", "podAntiAffinity")] + [
        "/properties/global",
        "/properties/collector/properties/exporters",
    ] == open_ones


@pytest.mark.parametrize("name", TABLES)
def test_the_readme_has_the_table(name: str) -> None:
    _, inside, _ = parts(name, README.read_text())

    assert TABLES[name]() == inside, "python -m tests.deploy.chart_values"
