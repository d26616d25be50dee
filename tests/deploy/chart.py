"""Renders the Helm chart with a real helm, and reads what comes out."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML and kubernetes-validate: make chart")

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "quorate"
KUBERNETES: Final = ("1.30.0", "1.31.0", "1.32.0", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0")
"""From the oldest that Chart.yaml takes to the newest."""
NEWEST: Final = KUBERNETES[-1]
CERT_MANAGER: Final = "cert-manager.io/v1"
PROMETHEUS: Final = "monitoring.coreos.com/v1"
SPARK_OPERATOR: Final = "sparkoperator.k8s.io/v1beta2"
QUICK: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Libyaml's reader needs a tenth of the time; a PyYAML that was built without it has only its own."""
HELM_S: Final = 120
"""Against hanging: it renders in half a second."""

Json = dict[str, Any]


@lru_cache
def helm() -> str:
    """The program; without it the test is skipped."""
    found = shutil.which("helm") or shutil.which("helm", path=str(ROOT / "build" / "bin"))
    if found is None:
        how = "GOBIN=$PWD/build/bin go install helm.sh/helm/v3/cmd/helm@v3.19.5"
        pytest.skip(f"needs helm on PATH or in build/bin: {how}")
    return found


def run(*arguments: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Helm with these arguments, and with values from its standard input."""
    given = ("--values", "-") if values is not None else ()
    return subprocess.run(
        [helm(), *arguments, *given],
        check=False,
        capture_output=True,
        text=True,
        input=json.dumps(values) if values is not None else None,
        timeout=HELM_S,
    )


def template(
    values: Mapping[str, Any] | None = None,
    *,
    kubernetes: str = NEWEST,
    apis: Sequence[str] = (),
    release: str = "q",
    namespace: str = "kraft",
    is_upgrade: bool = False,
    server: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """What helm says to `helm template`, which looks objects up at the URL of an API server, if there is one."""
    known = [part for api in apis for part in ("--api-versions", api)]
    upgrade = ["--is-upgrade"] if is_upgrade else []
    where = ["--namespace", namespace, "--kube-version", kubernetes]
    where += ["--dry-run=server", "--kube-apiserver", server] if server else []
    return run("template", release, str(CHART), *where, *known, *upgrade, values=dict(values or {}))


def render(values: Mapping[str, Any] | None = None, **how: Any) -> list[Json]:
    """The objects of a release with these values."""
    done = template(values, **how)
    assert 0 == done.returncode, done.stderr
    return [each for each in yaml.load_all(done.stdout, QUICK) if each]


def refusal(values: Mapping[str, Any], **how: Any) -> str:
    """What helm says to values that it does not take."""
    done = template(values, **how)
    assert 0 != done.returncode, "these values were taken"
    return done.stderr


def named(objects: Sequence[Json], kind: str, name: str) -> Json:
    """The only object of this kind with this name."""
    found = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    assert 1 == len(found), (kind, name, [each["metadata"]["name"] for each in objects if each["kind"] == kind])
    return found[0]


def of_kind(objects: Sequence[Json], kind: str) -> list[Json]:
    return [each for each in objects if each["kind"] == kind]


def pod_specs(objects: Sequence[Json]) -> Iterator[tuple[str, Json, Json]]:
    """Every pod of a release: whose it is, its metadata, and its spec."""
    for each in objects:
        name = f"{each['kind']}/{each['metadata']['name']}"
        if each["kind"] == "Pod":
            yield name, each["metadata"], each["spec"]
        elif each["kind"] in ("StatefulSet", "Deployment", "Job"):
            template = each["spec"]["template"]
            yield name, template["metadata"], template["spec"]
        elif each["kind"] == "CronJob":
            template = each["spec"]["jobTemplate"]["spec"]["template"]
            yield name, template["metadata"], template["spec"]


def containers(spec: Json) -> list[Json]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def values_file() -> Json:
    found: Json = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def schema() -> Json:
    found: Json = json.loads((CHART / "values.schema.json").read_text())
    return found


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> Json:
    """Two trees of values in one; `other` counts more."""
    both = dict(one)
    for key, value in other.items():
        inner = both.get(key)
        both[key] = merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return both


def faults(shape: Any, value: Any, place: str = "spec") -> list[str]:
    """What of a value its shape does not know: a type, a tuple of choices, a list of one shape, or fields."""
    if isinstance(shape, type):
        return [] if type(value) is shape else [f"{place} is {value!r}, no {shape.__name__}"]
    if isinstance(shape, tuple):
        return [] if value in shape else [f"{place} is {value!r}, none of {shape}"]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{place} is {value!r}, no list"]
        return [fault for number, each in enumerate(value) for fault in faults(shape[0], each, f"{place}[{number}]")]
    if not isinstance(value, dict):
        return [f"{place} is {value!r}, no object"]
    found = []
    for name, each in value.items():
        known = shape.get(name, shape.get(str))
        found += [f"{place} has no {name}"] if known is None else faults(known, each, f"{place}.{name}")
    return found
