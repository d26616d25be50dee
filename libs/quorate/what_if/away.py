"""Brokers or log directories are away: what becomes of each partition.

Each becomes what the controller makes of it: leader, ISR, ELR, and an unclean election if the topic allows one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from kraft import Message, Uuid
from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.controller.commands.change_broker_state import change_broker_state, change_in_turns
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import NO_LEADER, Partition, as_record, led_uncleanly
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic, TopicPartition
from quorate.metadata.versions import DIRECTORIES, release_of
from quorate.nouns import NodeId, Offset, uuid_text
from quorate.records import PartitionChangeRecord
from quorate.sql.difference import Difference, compared
from quorate.sql.nouns import NOUNS, rows_of
from quorate.what_if.kinds import Kinds, going, moved
from quorate.what_if.min_isrs import MinIsrs

__all__ = [
    "Becomes",
    "Changed",
    "Counts",
    "Fate",
    "Outcome",
    "brokers_of_rack",
    "lose",
    "registered_broker",
    "take_away",
]

PREFERRED: Final = 0
"""The type of an election of the preferred leader. KIP-460."""
ELECTIONS: Final = 1_000
"""Partitions of one request: Kafka refuses one that writes more than 10,000 records."""


class Counts(NamedTuple):
    """How many partitions are in trouble, as Kafka's metrics count them."""

    offline: int
    """Without a leader: OfflinePartitionsCount."""
    under_min_isr: int
    """With a leader, and fewer in the ISR than min.insync.replicas: UnderMinIsrPartitionCount."""
    under_replicated: int
    """With a leader, and a replica outside of the ISR: UnderReplicatedPartitions."""


class Becomes(StrEnum):
    """The outcomes for a partition that changes, the worst first."""

    OFFLINE = "offline"
    """It has no leader any more."""
    UNCLEAN = "unclean"
    """A replica that was not in sync leads it: what that one lacks is lost."""
    MOVES = "moves"
    """Another broker leads it."""
    SHRINKS = "shrinks"
    """It is led as before, by fewer in the ISR."""


@dataclass(frozen=True, slots=True, eq=False)
class Fate:
    """The outcome for one partition, and for all of its kind, which have other brokers in the same roles (`Kinds`)."""

    of: Partition
    became: Partition
    least: int
    """min.insync.replicas under the leader before, at most the number of replicas."""
    least_after: int
    """The same under the leader after."""

    @property
    def becomes(self) -> Becomes | None:
        """Which change it is, the worst that applies; None for no change."""
        if self.became == self.of:
            return None
        if self.became.leader != self.of.leader and not self.became.has_leader:
            return Becomes.OFFLINE
        if led_uncleanly(self.of, self.became):
            return Becomes.UNCLEAN
        return Becomes.SHRINKS if self.became.leader == self.of.leader else Becomes.MOVES

    @property
    def counted(self) -> Counts:
        """By how much one partition of the kind changes the counts: each -1, 0 or 1."""
        before, after = _counted(self.of, self.least), _counted(self.became, self.least_after)
        return Counts(*(now - was for was, now in zip(before, after, strict=True)))


class Changed(msgspec.Struct, frozen=True, gc=False):
    """A partition that changes, as it is before; `fate` is that of a partition of its kind."""

    topic: Topic
    partition_id: int
    partition: Partition
    fate: Fate

    @property
    def difference(self) -> Difference:
        """The change, as that of its row in the table `partitions`."""
        topic, partition_id, partition, fate = self.topic, self.partition_id, self.partition, self.fate
        rows = [
            [*rows_of(NOUNS["partitions"], [((topic.name,), as_record(each, topic.id, partition_id)[0])])]
            for each in (partition, moved(partition, fate.of, fate.became))
        ]
        (found,) = compared(NOUNS["partitions"], *rows)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The effect of brokers or directories that are away: the partitions that change, in the order of topics and ids.

    `before` and `after` count all partitions of the state.
    """

    before: Counts
    after: Counts
    changed: Sequence[Changed]


def brokers_of_rack(state: ClusterState, rack: str) -> list[NodeId]:
    """Returns the registered brokers of a rack, by id. Raises ApiError(INVALID_REQUEST) if there is none."""
    found = [broker.id for broker in state.brokers if broker.rack == rack]
    if not found:
        racks = sorted({repr(broker.rack) for broker in state.brokers if broker.rack is not None})
        there = f"there are {', '.join(racks)}" if racks else "no broker names a rack"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"no registered broker is in rack {rack!r}; {there}")
    return found


def take_away(
    state: ClusterState,
    *,
    brokers: Sequence[NodeId],
    directories: Collection[Uuid] = (),
    settings: ControllerSettings,
    next_offset: Offset,
) -> Outcome:
    """Returns what the controller does if these directories fail, and then these brokers fall silent.

    The brokers are fenced one after the other, in this order, which decides who of the last ones leads at the end.
    With directories all this changes `state`, whose next record has the offset `next_offset`; with brokers alone it
    does not. Raises ApiError, and changes nothing: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST for a directory that no
    broker has; UNSUPPORTED_VERSION for any directory below metadata.version 3.7-IV2, as the log has none (KIP-858).
    """
    order = [registered_broker(state, broker_id).id for broker_id in brokers]
    failed = _by_broker(state, directories)
    before = _counts(state, settings)
    if not failed:
        changed = list(_gone(state, order, settings))
    else:
        noted = _Noted(state)
        _carry_out(state, _commands(state, list(brokers), failed, settings), next_offset, note=noted.note)
        changed = noted.changed(settings)
    after = list(before)
    for fate, count in Counter(each.fate for each in changed).items():
        after = [was + count * more for was, more in zip(after, fate.counted, strict=True)]
    return Outcome(before=before, after=Counts(*after), changed=changed)


def _gone(state: ClusterState, order: Sequence[NodeId], settings: ControllerSettings) -> Iterator[Changed]:
    """Yields the partitions that change if only brokers go: the controller is asked for one of each kind of them."""

    min_isrs = MinIsrs(state, settings)

    def ask(found: TopicPartition) -> Fate:
        return _fate(min_isrs, found, going(state, found, order, settings))

    gone, kinds = frozenset(order), Kinds(state, settings, order, ask, min_isrs)
    for topic in sorted(state.topics, key=lambda each: (each.name, uuid_text(each.id))):
        fate_of = kinds.of_topic(topic)
        for partition_id, partition in topic.pairs():
            if not gone.isdisjoint(partition.isr):
                fate = fate_of(partition_id, partition)
                if fate.became is not fate.of:
                    yield Changed(topic, partition_id, partition, fate)


class _Noted:
    """The partitions that records change, as they were before the first of these."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._before: dict[tuple[Uuid, int], TopicPartition] = {}

    def note(self, record: Message) -> None:
        """Notes the partition of a record that is about to be applied."""
        if isinstance(record, PartitionChangeRecord) and (record.topic_id, record.partition_id) not in self._before:
            topic = self._state.topics.by_id(record.topic_id)
            assert topic is not None, record
            partition = topic.partitions[record.partition_id]
            self._before[topic.id, record.partition_id] = TopicPartition(topic, record.partition_id, partition)

    def changed(self, settings: ControllerSettings) -> list[Changed]:
        """Returns the noted partitions with what has become of them, in the order of topics and ids."""
        min_isrs = MinIsrs(self._state, settings)
        found = [
            Changed(*each, _fate(min_isrs, each, each.topic.partitions[each.partition_id]))
            for each in self._before.values()
        ]
        return sorted(found, key=lambda each: (each.topic.name, uuid_text(each.topic.id), each.partition_id))


def lose(
    state: ClusterState,
    *,
    brokers: Sequence[NodeId],
    settings: ControllerSettings,
    next_offset: Offset,
    with_preferred_leaders: bool = False,
) -> None:
    """Changes `state` as the controller would if these brokers fell silent: they are fenced, in this order.

    The records of that have the offsets from `next_offset` on.

    `with_preferred_leaders` elects these afterwards, like `kafka-leader-election --election-type preferred` (KIP-460).
    Raises ApiError(BROKER_ID_NOT_REGISTERED), and changes nothing.
    """
    for broker_id in brokers:
        registered_broker(state, broker_id)
    end = _carry_out(state, _commands(state, brokers, {}, settings), next_offset)
    if with_preferred_leaders:
        _carry_out(state, _elections(state, settings), end)


def _carry_out(
    state: ClusterState,
    commands: Iterable[Command[Any]],
    next_offset: Offset,
    *,
    note: Callable[[Message], None] = lambda _: None,
) -> Offset:
    """Applies what each command writes, before the next is asked for; returns the offset of the next record."""
    offset = next_offset
    for command in commands:
        for record in command(state, Moment(next_offset=offset, now_ms=0)).records:
            note(record)
            state.apply(record, offset)
            offset += 1
        state.settle()
    return offset


def _elections(state: ClusterState, settings: ControllerSettings) -> Iterator[Command[Any]]:
    """Yields the elections of preferred leaders, of so many partitions each that no request is refused as too large."""
    led_by_others = [(topic.name, partition_id) for topic, partition_id, _ in state.topics.imbalanced()]
    for start in range(0, len(led_by_others), ELECTIONS):
        asked: dict[str, list[int]] = {}
        for name, partition_id in led_by_others[start : start + ELECTIONS]:
            asked.setdefault(name, []).append(partition_id)
        topics = tuple(ElectLeadersRequest.TopicPartitions(name, tuple(ids)) for name, ids in asked.items())
        yield elect_leaders(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=topics), settings=settings)


def _commands(
    state: ClusterState,
    brokers: Sequence[NodeId],
    failed: Mapping[NodeId, Collection[Uuid]],
    settings: ControllerSettings,
) -> Iterator[Command[Any]]:
    """Yields each command when the one before is carried out."""
    for broker_id, directories in failed.items():
        broker = registered_broker(state, broker_id)
        yield change_broker_state(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            target=_standing(broker),
            settings=settings,
            offline_log_dirs=directories,
        )
    for broker_id in brokers:
        broker = registered_broker(state, broker_id)
        yield from change_in_turns(
            state, broker_id=broker.id, broker_epoch=broker.epoch, target=ControlState.FENCED, settings=settings
        )


def _standing(broker: Broker) -> ControlState:
    """Returns the state in which the broker is, for a heartbeat that asks for no other."""
    if broker.fenced:
        return ControlState.FENCED
    return ControlState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else ControlState.UNFENCED


def registered_broker(state: ClusterState, broker_id: NodeId) -> Broker:
    """Returns a broker's registration. Raises ApiError(BROKER_ID_NOT_REGISTERED), which names those that there are."""
    broker = state.brokers.get(broker_id)
    if broker is None:
        there = ", ".join(str(each.id) for each in state.brokers) or "none"
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered; registered are: {there}"
        )
    return broker


def _by_broker(state: ClusterState, directories: Collection[Uuid]) -> dict[NodeId, list[Uuid]]:
    level = state.features.record_level
    if directories and level < DIRECTORIES:
        since, this = release_of(DIRECTORIES), release_of(level)
        why = f"log directories are in the log from metadata.version {since} on; this is {this}"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, why)
    found: dict[NodeId, list[Uuid]] = {}
    for directory in directories:
        owner = state.brokers.owner_of(directory)
        if owner is None:
            why = f"no registered broker has the log directory {uuid_text(directory)}"
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
        found.setdefault(owner, []).append(directory)
    return found


def _fate(min_isrs: MinIsrs, found: TopicPartition, became: Partition) -> Fate:
    name, of = found.topic.name, found.partition
    return Fate(of, became, min_isrs.least(name, of), min_isrs.least(name, became))


def _counts(state: ClusterState, settings: ControllerSettings) -> Counts:
    topics, min_isrs = state.topics, MinIsrs(state, settings)
    if min_isrs.any_own:  # the index of small ISRs does not know who leads
        under = sum(_is_under(each, min_isrs.least(topic.name, each)) for topic, _, each in topics.all())
    else:
        under = topics.under_min_isr_count(min_isrs.of_topic)
    return Counts(
        offline=topics.leader_count(NO_LEADER),
        under_min_isr=under,
        under_replicated=topics.under_replicated_count,
    )


def _is_under(partition: Partition, least: int) -> bool:
    return partition.is_short and len(partition.isr) < least


def _counted(partition: Partition, least: int) -> Counts:
    """Returns how a partition is counted in `_counts`."""
    return Counts(
        offline=not partition.has_leader,
        under_min_isr=_is_under(partition, least),
        under_replicated=partition.is_under_replicated,
    )
