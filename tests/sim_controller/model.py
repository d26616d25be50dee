"""The checker's own view of a cluster: what the records of the log say, replayed by rules written anew.

Nothing of `quorate.metadata` or `quorate.controller` is called here: both are under test. A model is cheap to fork,
since its values are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kraft import Message, Uuid
from quorate.nouns import NOBODY, NodeId, Offset
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from tests.sim.invariants.base import require

UNTOLD: Final = -2
RECOVERING: Final = 1
ELR_FEATURE: Final = "eligible.leader.replicas.version"
METADATA_FEATURE: Final = "metadata.version"
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
TOPIC_CONFIG, BROKER_CONFIG = 2, 4
MIGRATING: Final = Uuid(bytes(16))
"""The directory of a replica that was placed before directories had ids. KIP-858."""

Key = tuple[Uuid, int]
"""A partition: its topic's id and its number."""
Ranges = tuple[tuple[str, int, int], ...]


class Part(NamedTuple):
    """One partition, in the words of tests/INVARIANTS.md."""

    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: int
    partition_epoch: int
    recovery: int
    directories: tuple[Uuid, ...]


class Member(NamedTuple):
    """One broker's registration."""

    epoch: int
    incarnation: Uuid
    fenced: bool
    leaving: bool
    """In controlled shutdown."""
    rack: str | None
    directories: tuple[Uuid, ...]
    cordoned: tuple[Uuid, ...]
    ranges: Ranges

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.leaving

    @property
    def is_usable(self) -> bool:
        """May it be given replicas?"""
        return not self.leaving and not (self.directories and set(self.directories) <= set(self.cordoned))


class Step(NamedTuple):
    """One partition before and after a record; `before` is None for a new one."""

    key: Key
    before: Part | None
    after: Part


class Model:
    """Tables by what the log says. `apply` answers with the partitions that a record has changed."""

    def __init__(self) -> None:
        self.topics: dict[str, Uuid] = {}
        self.names: dict[Uuid, str] = {}
        self.parts: dict[Key, Part] = {}
        self.members: dict[NodeId, Member] = {}
        self.controllers: dict[NodeId, Ranges] = {}
        self.levels: dict[str, int] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.next_producer_id = 0
        self.opened: Offset | None = None
        """Where the transaction began that is open."""
        self.legacy: frozenset[Key] = frozenset()
        """Partitions whose last ISR member was remembered in the ISR while the ELR was off, and is there still."""
        self._before: Model | None = None

    def fork(self) -> Model:
        """A second model, that goes its own way."""
        other = Model.__new__(Model)
        other.topics, other.names, other.parts = dict(self.topics), dict(self.names), dict(self.parts)
        other.members, other.controllers = dict(self.members), dict(self.controllers)
        other.levels, other.configs = dict(self.levels), dict(self.configs)
        other.next_producer_id, other.opened, other.legacy = self.next_producer_id, self.opened, self.legacy
        other._before = self._before
        return other

    # What is asked of it.

    @property
    def has_elr(self) -> bool:
        return self.levels.get(ELR_FEATURE, 0) > 0

    @property
    def level(self) -> int:
        return self.levels.get(METADATA_FEATURE, 33)

    def min_isr(self, key: Key) -> int:
        """m: what a write needs, and never more than there are replicas."""
        return min(int(self.config(key[0], MIN_ISR, "1")), len(self.parts[key].replicas))

    def elects_uncleanly(self, topic_id: Uuid) -> bool:
        return self.config(topic_id, UNCLEAN, "false").strip().lower() == "true"

    def config(self, topic_id: Uuid, name: str, default: str) -> str:
        """A topic config: the topic's own, the cluster's, or Kafka's default."""
        own = self.configs.get((TOPIC_CONFIG, self.names[topic_id]), {})
        return own.get(name, self.configs.get((BROKER_CONFIG, ""), {}).get(name, default))

    def is_active(self, broker: NodeId) -> bool:
        return broker in self.members and self.members[broker].is_active

    def parts_of(self, topic_id: Uuid) -> dict[int, Part]:
        """By number."""
        return {number: part for (owner, number), part in self.parts.items() if owner == topic_id}

    def led_by(self, broker: NodeId) -> Iterator[tuple[Key, Part]]:
        return ((key, part) for key, part in self.parts.items() if part.leader == broker)

    def facts(self) -> tuple[Any, ...]:
        """Everything, to be compared."""
        configs = {resource: values for resource, values in self.configs.items() if values}
        return (
            self.topics,
            self.parts,
            self.members,
            self.controllers,
            {name: level for name, level in self.levels.items() if level},
            configs,
            self.next_producer_id,
        )

    # Replay.

    def apply(self, record: Message, offset: Offset) -> list[Step]:
        """The partitions that changed. Raises Violation for marks of transactions that do not pair (I-43)."""
        replay = _REPLAY.get(type(record))
        return [] if replay is None else list(replay(self, record, offset))

    def _begin(self, record: Any, offset: Offset) -> Iterator[Step]:
        require(self.opened is None, "I-43", "transactions do not nest", self.opened, offset)
        self._before = self.fork()
        self.opened = offset
        yield from ()

    def _end(self, record: Any, offset: Offset) -> Iterator[Step]:
        require(self.opened is not None, "I-43", "a transaction ends that has not begun", offset)
        self.opened, self._before = None, None
        yield from ()

    def _abort(self, record: Any, offset: Offset) -> Iterator[Step]:
        require(self.opened is not None, "I-43", "a transaction is aborted that has not begun", offset)
        assert self._before is not None
        vars(self).update(vars(self._before.fork()))
        yield from ()

    def _feature(self, record: FeatureLevelRecord, _: Offset) -> Iterator[Step]:
        if record.name == ELR_FEATURE and record.feature_level and not self.has_elr:
            lonely = (key for key, part in self.parts.items() if part.leader == NOBODY and len(part.isr) == 1)
            self.legacy = frozenset(lonely)
        self.levels[record.name] = record.feature_level
        yield from ()

    def _config(self, record: ConfigRecord, _: Offset) -> Iterator[Step]:
        resource = (record.resource_type, record.resource_name)
        values = dict(self.configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        self.configs[resource] = values
        yield from ()

    def _register(self, record: RegisterBrokerRecord, _: Offset) -> Iterator[Step]:
        self.members[record.broker_id] = Member(
            record.broker_epoch,
            record.incarnation_id,
            record.fenced,
            record.in_controlled_shutdown,
            record.rack,
            tuple(sorted(record.log_dirs)),
            tuple(record.cordoned_log_dirs or ()),
            _ranges(record.features),
        )
        yield from ()

    def _change_member(self, record: BrokerRegistrationChangeRecord, _: Offset) -> Iterator[Step]:
        member = self.members[record.broker_id]
        assert member.epoch == record.broker_epoch, (member, record)
        cordoned = record.cordoned_log_dirs
        self.members[record.broker_id] = member._replace(
            fenced={-1: False, 0: member.fenced, 1: True}[record.fenced],
            leaving=member.leaving or record.in_controlled_shutdown == 1,
            directories=tuple(sorted(record.log_dirs)) or member.directories,
            cordoned=member.cordoned if cordoned is None else tuple(cordoned),
        )
        yield from ()

    def _unregister(self, record: UnregisterBrokerRecord, _: Offset) -> Iterator[Step]:
        del self.members[record.broker_id]
        yield from ()

    def _register_controller(self, record: RegisterControllerRecord, _: Offset) -> Iterator[Step]:
        self.controllers[record.controller_id] = _ranges(record.features)
        yield from ()

    def _unregister_controller(self, record: UnregisterControllerRecord, _: Offset) -> Iterator[Step]:
        del self.controllers[record.controller_id]
        yield from ()

    def _producer_ids(self, record: ProducerIdsRecord, _: Offset) -> Iterator[Step]:
        self.next_producer_id = record.next_producer_id
        yield from ()

    def _topic(self, record: TopicRecord, _: Offset) -> Iterator[Step]:
        self.topics[record.name] = record.topic_id
        self.names[record.topic_id] = record.name
        yield from ()

    def _remove_topic(self, record: RemoveTopicRecord, _: Offset) -> Iterator[Step]:
        name = self.names.pop(record.topic_id)
        del self.topics[name]
        self.configs.pop((TOPIC_CONFIG, name), None)
        for number in self.parts_of(record.topic_id):
            del self.parts[record.topic_id, number]
        yield from ()

    def _lay_down(self, record: PartitionRecord, _: Offset) -> Iterator[Step]:
        key = (record.topic_id, record.partition_id)
        before = self.parts.get(key)
        part = Part(
            record.replicas,
            record.adding_replicas,
            record.removing_replicas,
            record.isr,
            record.eligible_leader_replicas or (),
            record.last_known_elr or (),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.leader_recovery_state,
            record.directories or (MIGRATING,) * len(record.replicas),
        )
        self.parts[key] = part
        yield Step(key, before, part)

    def _change(self, record: PartitionChangeRecord, _: Offset) -> Iterator[Step]:
        key = (record.topic_id, record.partition_id)
        yield self._put(key, _changed(self.parts[key], record))

    def _clear_elr(self, record: ClearElrRecord, _: Offset) -> Iterator[Step]:
        wanted = self.topics[record.topic_name] if record.topic_name else None
        for key, part in list(self.parts.items()):
            if wanted in (None, key[0]) and (part.elr or part.last_known):
                after = part._replace(elr=(), last_known=(), partition_epoch=part.partition_epoch + 1)
                yield self._put(key, after)

    def _put(self, key: Key, after: Part) -> Step:
        before = self.parts[key]
        self.parts[key] = after
        if key in self.legacy and before.isr != after.isr:
            self.legacy -= {key}
        return Step(key, before, after)


def _changed(part: Part, record: PartitionChangeRecord) -> Part:
    """A change: what it does not carry stays; each counts; with a leader, be it the same one, an epoch begins."""
    replicas = _or(record.replicas, part.replicas)
    directories = _or(record.directories, part.directories)
    if all(directory == MIGRATING for directory in directories):
        directories = (MIGRATING,) * len(replicas)
    is_led_anew = record.leader != UNTOLD
    return Part(
        replicas,
        _or(record.adding_replicas, part.adding),
        _or(record.removing_replicas, part.removing),
        _or(record.isr, part.isr),
        _or(record.eligible_leader_replicas, part.elr),
        _or(record.last_known_elr, part.last_known),
        record.leader if is_led_anew else part.leader,
        part.leader_epoch + (1 if is_led_anew else 0),
        part.partition_epoch + 1,
        part.recovery if record.leader_recovery_state == -1 else record.leader_recovery_state,
        directories,
    )


def _or(told: tuple[Any, ...] | None, known: tuple[Any, ...]) -> tuple[Any, ...]:
    return known if told is None else told


def _ranges(features: Any) -> Ranges:
    return tuple(sorted((each.name, each.min_supported_version, each.max_supported_version) for each in features))


_REPLAY: Final[dict[type[Message], Callable[[Model, Any, Offset], Iterator[Step]]]] = {
    AbortTransactionRecord: Model._abort,
    BeginTransactionRecord: Model._begin,
    BrokerRegistrationChangeRecord: Model._change_member,
    ClearElrRecord: Model._clear_elr,
    ConfigRecord: Model._config,
    EndTransactionRecord: Model._end,
    FeatureLevelRecord: Model._feature,
    PartitionChangeRecord: Model._change,
    PartitionRecord: Model._lay_down,
    ProducerIdsRecord: Model._producer_ids,
    RegisterBrokerRecord: Model._register,
    RegisterControllerRecord: Model._register_controller,
    RemoveTopicRecord: Model._remove_topic,
    TopicRecord: Model._topic,
    UnregisterBrokerRecord: Model._unregister,
    UnregisterControllerRecord: Model._unregister_controller,
}
"""What this view has tables for; the rest is compared by the hash of the whole state alone."""
