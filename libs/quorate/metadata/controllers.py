"""The table of registered controllers: their end points and supported features. KIP-919."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kraft import Message
from quorate.metadata.faults import ReplayFault
from quorate.metadata.known import by_name, known
from quorate.metadata.versions import CONTROLLER_REGISTRATION
from quorate.nouns import NodeId, Offset
from quorate.records import RegisterControllerRecord, UnregisterControllerRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["Controllers"]


class Controllers:
    """The table of controller registrations by node id, with end points and features sorted by name."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._controllers: TimelineDict[NodeId, RegisterControllerRecord] = TimelineDict(registry)

    def __len__(self) -> int:
        return len(self._controllers)

    def __iter__(self) -> Iterator[RegisterControllerRecord]:
        """Yields all controllers, sorted by id."""
        return iter([self._controllers[controller_id] for controller_id in sorted(self._controllers)])

    def __contains__(self, controller_id: object) -> bool:
        return controller_id in self._controllers

    def get(self, controller_id: NodeId) -> RegisterControllerRecord | None:
        """Returns the registration of this controller, or None."""
        return self._controllers.get(controller_id)

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Yields each controller's record and its record version, sorted by id; none below metadata.version 3.7-IV0."""
        if metadata_version >= CONTROLLER_REGISTRATION:
            for controller in self:
                yield controller, 0

    def register(self, record: RegisterControllerRecord, _: Offset) -> None:
        """Adds a controller, or replaces its registration."""
        self._controllers[record.controller_id] = msgspec.structs.replace(
            known(record), end_points=by_name(record.end_points), features=by_name(record.features)
        )

    def unregister(self, record: UnregisterControllerRecord, _: Offset) -> None:
        """Removes a controller. Raises ReplayFault unless it is registered."""
        if record.controller_id not in self._controllers:
            raise ReplayFault(f"controller {record.controller_id} is not registered")
        del self._controllers[record.controller_id]
