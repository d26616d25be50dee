"""The table of configs that are set on topics, brokers, client metrics and groups. KIP-631, KIP-714, KIP-848."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kraft import Message
from quorate.metadata.faults import ReplayFault
from quorate.nouns import Offset
from quorate.records import ConfigRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = [
    "BROKER",
    "BROKER_LOGGER",
    "CLIENT_METRICS",
    "GROUP",
    "NOTHING_SET",
    "RESOURCE_TYPES",
    "TOPIC",
    "ConfigResource",
    "Configs",
]

TOPIC: Final = 2
BROKER: Final = 4
"""The resource type of a broker's configs; an empty resource name stands for the default of all brokers."""
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
RESOURCE_TYPES: Final[Mapping[int, str]] = {
    TOPIC: "TOPIC",
    BROKER: "BROKER",
    BROKER_LOGGER: "BROKER_LOGGER",
    CLIENT_METRICS: "CLIENT_METRICS",
    GROUP: "GROUP",
}
"""Kafka's name of each resource type (`ConfigResource.Type`)."""

NOTHING_SET: Final[Mapping[str, str]] = {}


class ConfigResource(NamedTuple):
    """A config resource: its type (`TOPIC`, `BROKER` …) and its name."""

    type: int
    name: str


class Configs:
    """The table of explicitly set configs, by resource. Default values are not stored here."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        # The inner dicts are replaced, never changed in place; none is empty.
        self._resources: TimelineDict[ConfigResource, Mapping[str, str]] = TimelineDict(registry)

    def __len__(self) -> int:
        """Returns the number of resources with at least one config."""
        return len(self._resources)

    def __iter__(self) -> Iterator[ConfigResource]:
        """Yields the resources with at least one config, sorted by type and name."""
        return iter(sorted(self._resources))

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Returns the configs that are set on a resource, by config name; empty if there are none."""
        return self._resources.get(ConfigResource(resource_type, name), NOTHING_SET)

    def get(self, resource_type: int, name: str, config: str) -> str | None:
        """Returns the value of one config of a resource; None if it is not set."""
        return self.of(resource_type, name).get(config)

    def records(self) -> Iterator[tuple[Message, int]]:
        """Yields a ConfigRecord and its record version for each config, sorted by resource and name."""
        for resource in self:
            values = self._resources[resource]
            for name in sorted(values):
                yield ConfigRecord(resource.type, resource.name, name, values[name]), 0

    def set(self, record: ConfigRecord, _: Offset) -> None:
        """Sets a config; a null value deletes it. Raises ReplayFault for a broker name that is not a number."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        if resource.type == BROKER and resource.name and not _is_id(resource.name):
            raise ReplayFault(
                f"config {record.name!r} of broker {resource.name!r}: brokers are named by their id, or not"
            )
        before = self._resources.get(resource, NOTHING_SET)
        assert before or before is NOTHING_SET, resource
        if record.value is not None:
            self._resources[resource] = {**before, record.name: record.value}
        elif record.name in before:
            self._replace(resource, {name: value for name, value in before.items() if name != record.name})

    def drop_topic(self, name: str) -> None:
        """Deletes all configs of a topic, when the topic is removed."""
        self._resources.pop(ConfigResource(TOPIC, name), None)

    def _replace(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        if values:
            self._resources[resource] = values
        else:
            del self._resources[resource]


def _is_id(name: str) -> bool:
    return name.removeprefix("-").isascii() and name.removeprefix("-").isdigit()
