"""Configs to be changed one by one: requests, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.commands.incremental_alter_configs import ConfigOperation, incremental_alter_configs
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Decision
from quorate.controller.policies import ConfigChange, PolicyViolation
from quorate.errors import ErrorCode
from quorate.metadata.configs import TOPIC, ConfigResource
from quorate.records import ConfigRecord
from tests.controller.clusters import Cluster

Asked: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource
Config: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig

ORDERS = ConfigResource(TOPIC, "orders")


def to_set(name: str, value: str | None) -> Config:
    """It shall have this value."""
    return Config(name, ConfigOperation.SET, value)


def delete(name: str) -> Config:
    """It shall have none."""
    return Config(name, ConfigOperation.DELETE, None)


def append(name: str, value: str | None) -> Config:
    """It shall have these parts as well."""
    return Config(name, ConfigOperation.APPEND, value)


def subtract(name: str, value: str | None) -> Config:
    """It shall not have these parts."""
    return Config(name, ConfigOperation.SUBTRACT, value)


def asked(resource: ConfigResource, *configs: Config) -> Asked:
    """One resource of a request."""
    return Asked(resource.type, resource.name, configs)


def record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    """What the log has of it."""
    return ConfigRecord(resource.type, resource.name, name, value)


def decided(cluster: Cluster, *resources: Asked, validate_only: bool = False) -> Decision[object]:
    """What would be answered and written."""
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    decision = cluster.decide(incremental_alter_configs(request, settings=cluster.settings))
    return Decision(decision.response, decision.records)


def altered(cluster: Cluster, *resources: Asked) -> list[tuple[ConfigResource, ErrorCode]]:
    """Each resource's error, once the records are applied."""
    request = IncrementalAlterConfigsRequest(resources=resources)
    response = cluster.write(incremental_alter_configs(request, settings=cluster.settings))
    return [
        (ConfigResource(each.resource_type, each.resource_name), ErrorCode(each.error_code))
        for each in response.responses
    ]


@dataclass(frozen=True)
class LongKept:
    """A policy: retention.ms is not set to less than this."""

    least_ms: int

    def validate(self, request: ConfigChange) -> None:
        """Raises PolicyViolation."""
        value = request.configs.get("retention.ms")
        if value is not None and int(value) < self.least_ms:
            raise PolicyViolation(f"retention.ms={value} is below {self.least_ms}")


def with_policy() -> Cluster:
    """Broker 1; topic orders, nothing is set; a policy refuses retention.ms below 1000."""
    cluster = Cluster(33, settings=ControllerSettings(alter_config_policy=LongKept(1_000))).brokers(1)
    cluster.topic("orders", [1])
    return cluster


def with_orders(configs: Mapping[str, str] = {}, *, elr: bool = False) -> Cluster:
    """A broker 1 and a topic, with these configs."""
    cluster = Cluster(33, elr=elr).brokers(1)
    cluster.topic("orders", [1], **{name.replace(".", "_"): value for name, value in configs.items()})
    return cluster
