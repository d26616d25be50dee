"""What the containers of the chart run, and the settings with which each starts, by its service's own loader."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any, Final

from quorate.runtime.settings.config import load
from services.broker.config import FOR_FORMAT, BrokerConfig
from services.broker.first_start import BrokerFirstStartConfig
from services.controller.config import ControllerConfig
from services.gateway.config import GatewayConfig
from services.heartbeat.config import HeartbeatConfig
from services.observer.check import CheckConfig
from services.observer.config import ObserverConfig
from services.placer.config import PlacerConfig
from services.quorum.config import QuorumConfig
from services.quorum.first_start import FirstStartConfig
from services.quorum.own_certificate import OwnCertificateConfig
from services.quorum.resize import ResizeConfig
from tests.deploy.chart import Json, named

__all__ = ["BY_ARGUMENTS", "CONFIGS", "environment", "loaded", "program"]

CONFIGS: Final[dict[str, type]] = {
    "services.quorum": QuorumConfig,
    "services.quorum.first_start": FirstStartConfig,
    "services.quorum.own_certificate": OwnCertificateConfig,
    "services.quorum.resize": ResizeConfig,
    "services.controller": ControllerConfig,
    "services.gateway": GatewayConfig,
    "services.heartbeat": HeartbeatConfig,
    "services.placer": PlacerConfig,
    "services.observer": ObserverConfig,
    "services.observer.check": CheckConfig,
    "services.broker": BrokerConfig,
    "services.broker.first_start": BrokerFirstStartConfig,
}
BY_ARGUMENTS: Final = "services.pipeline"
"""It has a command line in place of properties."""
POD: Final = {"POD_NAME": "q-quorate-quorum-1", "POD_IP": "10.0.0.7", "NODE_NAME": "host-1"}
SECRET: Final = {"url": "sqlite://", "sasl.jaas.config": 'x.PlainLoginModule required user_alice="secret";'}
"""What Secrets of somebody else have, by key."""


def environment(container: Json) -> dict[str, str]:
    """The variables of a container in its pod, as a kubelet makes them."""
    known: dict[str, str] = {}
    for each in container.get("env", []):
        if "value" in each:
            value = re.sub(r"\$\(([A-Z_]+)\)", lambda found: known[found[1]], str(each["value"]))
        elif "secretKeyRef" in each["valueFrom"]:
            value = SECRET[each["valueFrom"]["secretKeyRef"]["key"]]
        else:
            path = each["valueFrom"]["fieldRef"]["fieldPath"]
            value = "1" if "pod-index" in path else POD[each["name"]]
        assert each["name"] not in known, f"{each['name']} is there twice"
        known[each["name"]] = value
    return known


def program(container: Json) -> str:
    """The module that a container runs; each image runs its own service."""
    if "command" in container:
        assert ["python", "-m"] == container["command"][:2]
        return str(container["command"][2])
    return f"services.{container['image'].rpartition('/')[2].partition(':')[0]}"


def loaded(objects: list[Json], spec: Json, container: Json, directory: Path) -> Any:
    """The settings with which a container starts, by its service's own loader. Raises ConfigError."""
    (directory / "files").mkdir(exist_ok=True)
    arguments = list(container["args"])
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for mount in container["volumeMounts"]:
        volume = volumes.get(mount["name"], {})
        if "configMap" in volume and mount["mountPath"] in arguments:
            file = directory / "files" / mount["subPath"]
            file.write_text(named(objects, "ConfigMap", volume["configMap"]["name"])["data"][mount["subPath"]])
            arguments[arguments.index(mount["mountPath"])] = str(file)
    module = program(container)
    assert importlib.util.find_spec(module) is not None, module
    others = FOR_FORMAT if issubclass(CONFIGS[module], BrokerConfig) else ()
    return load(CONFIGS[module], arguments, environment(container), others=others)
