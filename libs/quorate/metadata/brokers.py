"""The brokers that have registered: who they are, where, and whether they take part. KIP-631."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kraft import Message, Uuid
from quorate.metadata.faults import ReplayFault
from quorate.metadata.known import by_name
from quorate.metadata.versions import CORDONED_DIRECTORIES, DIRECTORIES, version_at
from quorate.nouns import NodeId, Offset, uuid_text
from quorate.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["Broker", "Brokers"]

_FENCING: Final[Mapping[int, bool | None]] = {-1: False, 0: None, 1: True}
_SHUTDOWN: Final[Mapping[int, bool | None]] = {0: None, 1: True}


class Broker(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One broker's registration. Lists are sorted, so that a log and a checkpoint of it give equal brokers."""

    id: NodeId
    epoch: int
    """Names this registration: the offset of its record. KIP-631."""
    incarnation_id: Uuid
    """Names the process."""
    end_points: tuple[RegisterBrokerRecord.BrokerEndpoint, ...]
    features: tuple[RegisterBrokerRecord.BrokerFeature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    log_dirs: tuple[Uuid, ...]
    cordoned_log_dirs: tuple[Uuid, ...] | None
    """Directories that get no more replicas; None where the broker cannot say. KIP-1066."""
    registration_offset: Offset
    """Where the record lay that registered it, or the end of the checkpoint that had it. Not part of the state."""

    @property
    def is_active(self) -> bool:
        """May it lead, and join an ISR? Not while fenced or on its way out."""
        return not self.fenced and not self.in_controlled_shutdown

    def supports(self, feature: str, level: int) -> bool:
        """Is `level` in the range that the broker declared? A feature it did not name is at 0."""
        for declared in self.features:
            if declared.name == feature:
                return declared.min_supported_version <= level <= declared.max_supported_version
        return level == 0

    def end_point(self, listener: str) -> RegisterBrokerRecord.BrokerEndpoint | None:
        """Where it listens under this name, or None."""
        return next((end_point for end_point in self.end_points if end_point.name == listener), None)


class Brokers:
    """Registrations by broker id, and who owns which directory."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._brokers: TimelineDict[NodeId, Broker] = TimelineDict(registry)
        self._owners: TimelineDict[Uuid, NodeId] = TimelineDict(registry)

    def __len__(self) -> int:
        return len(self._brokers)

    def __iter__(self) -> Iterator[Broker]:
        """All brokers, by id."""
        return iter([self._brokers[broker_id] for broker_id in sorted(self._brokers)])

    def __contains__(self, broker_id: object) -> bool:
        return broker_id in self._brokers

    def get(self, broker_id: NodeId) -> Broker | None:
        """The broker with this id, or None."""
        return self._brokers.get(broker_id)

    def active(self) -> tuple[Broker, ...]:
        """The brokers that may lead, by id."""
        return tuple(broker for broker in self if broker.is_active)

    def is_active(self, broker_id: NodeId) -> bool:
        """May this broker lead? Not if there is none."""
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.is_active

    def owner_of(self, directory: Uuid) -> NodeId | None:
        """The broker that has registered this directory, or None. KIP-858."""
        return self._owners.get(directory)

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Each broker, by id, with what this level has fields for."""
        version = version_at(RegisterBrokerRecord, metadata_version)
        for broker in self:
            yield _as_record(broker, metadata_version), version

    def register(self, record: RegisterBrokerRecord, offset: Offset) -> None:
        """A broker as it is from now on. Raises ReplayFault if another one has a directory of its."""
        listeners = {end_point.name for end_point in record.end_points}
        if "" in listeners:
            raise ReplayFault(f"broker {record.broker_id} has an end point without a name")
        log_dirs = tuple(sorted(record.log_dirs, key=_as_kafka_sorts))
        before = self._brokers.get(record.broker_id)
        self._own(record.broker_id, before.log_dirs if before else (), log_dirs)
        self._brokers[record.broker_id] = Broker(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            end_points=by_name(record.end_points),
            features=by_name(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            log_dirs=log_dirs,
            cordoned_log_dirs=record.cordoned_log_dirs,
            registration_offset=offset,
        )

    def unregister(self, record: UnregisterBrokerRecord, _: Offset) -> None:
        """A broker goes. Raises ReplayFault unless it is registered in that epoch."""
        broker = self._registered(record.broker_id, record.broker_epoch)
        self._own(broker.id, broker.log_dirs, ())
        del self._brokers[broker.id]

    def change(self, record: BrokerRegistrationChangeRecord, _: Offset) -> None:
        """Fenced or not, on its way out, directories. Raises ReplayFault unless it is registered in that epoch."""
        if record.fenced not in _FENCING:
            raise ReplayFault(f"broker {record.broker_id}: fenced={record.fenced}; only -1, 0 and 1 exist")
        if record.in_controlled_shutdown not in _SHUTDOWN:
            raise ReplayFault(
                f"broker {record.broker_id}: inControlledShutdown={record.in_controlled_shutdown}; only 0 and 1 exist"
            )
        broker = self._registered(record.broker_id, record.broker_epoch)
        fenced, shutdown = _FENCING[record.fenced], _SHUTDOWN[record.in_controlled_shutdown]
        log_dirs = tuple(sorted(record.log_dirs, key=_as_kafka_sorts)) or broker.log_dirs
        cordoned = record.cordoned_log_dirs
        self._own(broker.id, broker.log_dirs, log_dirs)
        self._brokers[broker.id] = msgspec.structs.replace(
            broker,
            fenced=broker.fenced if fenced is None else fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown if shutdown is None else shutdown,
            log_dirs=log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else cordoned,
        )

    def fence(self, record: FenceBrokerRecord, offset: Offset) -> None:
        """As `change` with fenced=1, before 3.3-IV2."""
        self.change(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=1), offset)

    def unfence(self, record: UnfenceBrokerRecord, offset: Offset) -> None:
        """As `change` with fenced=-1, before 3.3-IV2."""
        self.change(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=-1), offset)

    def _registered(self, broker_id: NodeId, epoch: int) -> Broker:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise ReplayFault(f"broker {broker_id} is not registered")
        if broker.epoch != epoch:
            raise ReplayFault(f"broker {broker_id} is registered in epoch {broker.epoch}, not in epoch {epoch}")
        return broker

    def _own(self, broker_id: NodeId, before: tuple[Uuid, ...], after: tuple[Uuid, ...]) -> None:
        for directory in after:
            owner = self._owners.get(directory)
            if owner not in (None, broker_id):
                raise ReplayFault(f"directory {uuid_text(directory)} of broker {broker_id} belongs to broker {owner}")
        for directory in set(before) - set(after):
            del self._owners[directory]
        for directory in set(after) - set(before):
            self._owners[directory] = broker_id


def _as_record(broker: Broker, metadata_version: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker
        and version_at(RegisterBrokerRecord, metadata_version) >= 2,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=broker.end_points,
        features=broker.features,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown
        and version_at(RegisterBrokerRecord, metadata_version) >= 1,
        log_dirs=broker.log_dirs if metadata_version >= DIRECTORIES else (),
        cordoned_log_dirs=broker.cordoned_log_dirs if metadata_version >= CORDONED_DIRECTORIES else None,
    )


def _as_kafka_sorts(uuid: Uuid) -> tuple[int, int]:
    """Kafka compares the halves of an id as signed numbers."""
    high, low = struct.unpack(">qq", uuid)
    return high, low
