"""Configurations that were set, by resource: topics, brokers, client metrics, groups. KIP-631, KIP-714, KIP-848."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kraft import Message
from quorate.metadata.faults import ReplayFault
from quorate.nouns import Offset
from quorate.records import ConfigRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["BROKER", "BROKER_LOGGER", "CLIENT_METRICS", "GROUP", "NOTHING_SET", "TOPIC", "Configs", "Resource"]

TOPIC: Final = 2
BROKER: Final = 4
"""With an empty name: the default of all brokers."""
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

NOTHING_SET: Final[Mapping[str, str]] = {}


class Resource(NamedTuple):
    """What is configured: a type (`TOPIC`, `BROKER` …) and a name."""

    type: int
    name: str


class Configs:
    """What was set explicitly. Defaults are the reader's affair."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        # The inner dicts are replaced, never changed; none is empty.
        self._resources: TimelineDict[Resource, Mapping[str, str]] = TimelineDict(registry)

    def __len__(self) -> int:
        """Resources that have anything set."""
        return len(self._resources)

    def __iter__(self) -> Iterator[Resource]:
        """Resources that have anything set, by type and name."""
        return iter(sorted(self._resources))

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What is set on a resource, by config name."""
        return self._resources.get(Resource(resource_type, name), NOTHING_SET)

    def get(self, resource_type: int, name: str, config: str) -> str | None:
        """One config of a resource; None if it is not set."""
        return self.of(resource_type, name).get(config)

    def records(self) -> Iterator[tuple[Message, int]]:
        """Every config, by resource and name."""
        for resource in self:
            values = self._resources[resource]
            for name in sorted(values):
                yield ConfigRecord(resource.type, resource.name, name, values[name]), 0

    def set(self, record: ConfigRecord, _: Offset) -> None:
        """Set a config, or with a null value delete it. Raises ReplayFault for a broker that is no number."""
        resource = Resource(record.resource_type, record.resource_name)
        if resource.type == BROKER and resource.name and not _is_id(resource.name):
            raise ReplayFault(
                f"config {record.name!r} of broker {resource.name!r}: brokers are named by their id, or not"
            )
        before = self._resources.get(resource, NOTHING_SET)
        if record.value is not None:
            self._resources[resource] = {**before, record.name: record.value}
        elif record.name in before:
            self._replace(resource, {name: value for name, value in before.items() if name != record.name})

    def drop_topic(self, name: str) -> None:
        """Nothing is set on a topic that is gone."""
        self._resources.pop(Resource(TOPIC, name), None)

    def _replace(self, resource: Resource, values: Mapping[str, str]) -> None:
        if values:
            self._resources[resource] = values
        else:
            del self._resources[resource]


def _is_id(name: str) -> bool:
    return name.removeprefix("-").isascii() and name.removeprefix("-").isdigit()
