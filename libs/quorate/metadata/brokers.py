"""The table of registered brokers: end points, features, log directories and fencing state. KIP-631."""

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
    """The registration of one broker. Its lists are sorted, so that a log and a checkpoint of it give equal brokers."""

    id: NodeId
    epoch: int
    """The broker epoch, which identifies this registration: the offset of its record. KIP-631."""
    incarnation_id: Uuid
    """The incarnation id, which identifies one process of the broker. KIP-631."""
    end_points: tuple[RegisterBrokerRecord.BrokerEndpoint, ...]
    features: tuple[RegisterBrokerRecord.BrokerFeature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    log_dirs: tuple[Uuid, ...]
    cordoned_log_dirs: tuple[Uuid, ...] | None
    """Log directories that get no new replicas; None if the broker did not report any list. KIP-1066."""
    registration_offset: Offset
    """The offset of the registration record, or the end offset of the checkpoint that had it. Not part of the state."""

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead partitions and join an ISR: neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown

    def supports(self, feature: str, level: int) -> bool:
        """Returns whether the broker supports a feature level; of a feature that it did not declare, only level 0."""
        for declared in self.features:
            if declared.name == feature:
                return declared.min_supported_version <= level <= declared.max_supported_version
        return level == 0


class Brokers:
    """The table of broker registrations by broker id, and of the owner of each log directory."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._brokers: TimelineDict[NodeId, Broker] = TimelineDict(registry)
        self._owners: TimelineDict[Uuid, NodeId] = TimelineDict(registry)

    def __len__(self) -> int:
        return len(self._brokers)

    def __iter__(self) -> Iterator[Broker]:
        """Yields all brokers, sorted by id."""
        return iter([self._brokers[broker_id] for broker_id in sorted(self._brokers)])

    def __contains__(self, broker_id: object) -> bool:
        return broker_id in self._brokers

    def get(self, broker_id: NodeId) -> Broker | None:
        """Returns the broker with this id, or None."""
        return self._brokers.get(broker_id)

    def registrations(self) -> tuple[Broker, ...]:
        """Returns all brokers, unsorted: the same objects as long as nothing of them changes, so that `==` is cheap."""
        return tuple(self._brokers.values())

    def active(self) -> tuple[Broker, ...]:
        """Returns the brokers that are neither fenced nor in controlled shutdown, sorted by id."""
        return tuple(broker for broker in self if broker.is_active)

    def is_active(self, broker_id: NodeId) -> bool:
        """Returns whether a broker is registered, not fenced and not in controlled shutdown."""
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.is_active

    def owner_of(self, directory: Uuid) -> NodeId | None:
        """Returns the id of the broker that has registered this log directory, or None. KIP-858."""
        return self._owners.get(directory)

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Yields each broker's registration record and its record version, sorted by id.

        The record has the fields that this metadata.version has.
        """
        version = version_at(RegisterBrokerRecord, metadata_version)
        for broker in self:
            yield _as_record(broker, metadata_version), version

    def record(self, broker_id: NodeId, metadata_version: int) -> RegisterBrokerRecord | None:
        """Returns the registration record of one broker, as `records` yields it; None if it is not registered."""
        broker = self.get(broker_id)
        return None if broker is None else _as_record(broker, metadata_version)

    def register(self, record: RegisterBrokerRecord, offset: Offset) -> None:
        """Adds or replaces a broker's registration; `offset` is its record's.

        Raises ReplayFault if another broker owns one of its log directories, or an end point has no name.
        """
        assert offset >= 0, (record, offset)
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
        """Removes a broker. Raises ReplayFault unless it is registered with that broker epoch."""
        broker = self._registered(record.broker_id, record.broker_epoch)
        self._own(broker.id, broker.log_dirs, ())
        del self._brokers[broker.id]
        assert all(directory not in self._owners for directory in broker.log_dirs), broker

    def change(self, record: BrokerRegistrationChangeRecord, _: Offset) -> None:
        """Changes fencing, shutdown state or log directories. A field that is 0, empty or null keeps what it was.

        Raises ReplayFault for another broker epoch, a value that does not exist, or a directory of another broker.
        """
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
        """Fences a broker, as a change with fenced=1; such records are older than metadata.version 3.3-IV2."""
        self.change(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=1), offset)

    def unfence(self, record: UnfenceBrokerRecord, offset: Offset) -> None:
        """Unfences a broker, as a change with fenced=-1; such records are older than metadata.version 3.3-IV2."""
        self.change(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=-1), offset)

    def _registered(self, broker_id: NodeId, epoch: int) -> Broker:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise ReplayFault(f"broker {broker_id} is not registered")
        assert broker.id == broker_id, (broker, broker_id)
        if broker.epoch != epoch:
            raise ReplayFault(f"broker {broker_id} is registered in epoch {broker.epoch}, not in epoch {epoch}")
        return broker

    def _own(self, broker_id: NodeId, before: tuple[Uuid, ...], after: tuple[Uuid, ...]) -> None:
        for directory in after:
            owner = self._owners.get(directory)
            if owner not in (None, broker_id):
                raise ReplayFault(f"directory {uuid_text(directory)} of broker {broker_id} belongs to broker {owner}")
        for directory in set(before) - set(after):
            assert self._owners[directory] == broker_id, (directory, broker_id, self._owners[directory])
            del self._owners[directory]
        for directory in set(after) - set(before):
            self._owners[directory] = broker_id
        assert all(self._owners.get(directory) == broker_id for directory in after), (broker_id, after)


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
    """Returns the two halves of an id as signed numbers: Kafka sorts ids by them."""
    high, low = struct.unpack(">qq", uuid)
    return high, low
