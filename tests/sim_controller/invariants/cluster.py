"""Runs records through a model and judges each: I-43 … I-51, I-53, I-55 on every state and change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraft import Message, Uuid
from quorate.nouns import NodeId, Offset
from quorate.records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.sim.invariants.base import require
from tests.sim_controller.invariants.partitions import judge_all, judge_eligible, judge_step
from tests.sim_controller.model import METADATA_FEATURE, Model, Step

_OF_BROKERS = (RegisterBrokerRecord, BrokerRegistrationChangeRecord, UnregisterBrokerRecord)
_OF_LEVELS = (RegisterBrokerRecord, RegisterControllerRecord, FeatureLevelRecord)


def run(model: Model, records: Sequence[Message], base_offset: Offset) -> list[Step]:
    """`model` after `records`, which are one batch; every state on the way is judged."""
    steps: list[Step] = []
    for offset, record in enumerate(records, base_offset):
        _judge_record(model, record)
        failed = _failed(model, record)
        changed = model.apply(record, offset)
        judge_directories(model, failed)
        for step in changed:
            judge_step(model, step, is_cleared=isinstance(record, ClearElrRecord))
        steps += changed
        if isinstance(record, _OF_BROKERS):
            judge_all(model)
        if isinstance(record, _OF_LEVELS):
            judge_levels(model)
    is_swept = any(isinstance(record, ConfigRecord | FeatureLevelRecord) for record in records)
    for key in model.parts if is_swept else {step.key for step in steps if step.key in model.parts}:
        judge_eligible(model, key)
    return steps


def judge_directories(model: Model, failed: Iterable[tuple[NodeId, Uuid]]) -> None:
    """I-46: once a directory is struck off, what lay there leads nothing, and is in no ISR but its own of one.

    So it is at that record. Later a leader may say that it has caught up all the same: Kafka's AlterPartition asks
    whether a broker is there, and nothing of its directories.
    """
    for id, directory in failed:
        for key, part in sorted(model.parts.items()):
            if id in part.replicas and part.directories[part.replicas.index(id)] == directory:
                is_in = part.leader == id or (id in part.isr and len(part.isr) > 1)
                require(not is_in, "I-46", "nobody leads from a failed directory", id, key, part)


def judge_levels(model: Model) -> None:
    """I-45: every level lies in the range of every node that has registered; what a node does not name is at 0."""
    nodes = [("broker", id, member.ranges) for id, member in model.members.items()]
    nodes += [("controller", id, ranges) for id, ranges in model.controllers.items()]
    for kind, id, ranges in nodes:
        known = {name: (low, high) for name, low, high in ranges}
        for name, level in model.levels.items():
            low, high = known.get(name, (0, 0))
            require(low <= level <= high, "I-45", "a level that every node supports", kind, id, name, level, low, high)


def _judge_record(model: Model, record: Message) -> None:
    if isinstance(record, ProducerIdsRecord):
        known = model.next_producer_id
        require(record.next_producer_id > known, "I-44", "producer ids rise", record, known)
    elif isinstance(record, RegisterBrokerRecord):
        member = model.members.get(record.broker_id)
        is_same = member is not None and member.incarnation == record.incarnation_id
        is_newer = member is None or record.broker_epoch > member.epoch or is_same
        require(is_newer, "I-44", "broker epochs rise", record.broker_id, record.broker_epoch, member)
    elif isinstance(record, TopicRecord):
        is_free = record.name not in model.topics and record.topic_id not in model.names
        require(is_free, "I-44", "a topic's name and id are its own", record)
    elif isinstance(record, FeatureLevelRecord) and record.name == METADATA_FEATURE:
        require(record.feature_level > 0, "I-45", "a cluster has a metadata.version", record)


def _failed(model: Model, record: Message) -> set[tuple[NodeId, Uuid]]:
    """The broker and each of its directories that the record takes from it. KIP-858."""
    if not isinstance(record, BrokerRegistrationChangeRecord) or not record.log_dirs:
        return set()
    id = record.broker_id
    return {(id, directory) for directory in model.members[id].directories if directory not in record.log_dirs}


class Ever:
    """What has been used up for good by what is committed: ids of topics, epochs of brokers."""

    def __init__(self) -> None:
        self.topic_ids: set[bytes] = set()
        self.epochs: dict[NodeId, int] = {}
        self.owners: dict[int, NodeId] = {}

    def note(self, records: Iterable[Message]) -> None:
        """Raises Violation for what was there before. I-44."""
        for record in records:
            if isinstance(record, TopicRecord):
                require(record.topic_id not in self.topic_ids, "I-44", "topic ids are never used again", record)
                self.topic_ids.add(record.topic_id)
            elif isinstance(record, RegisterBrokerRecord):
                id, epoch = record.broker_id, record.broker_epoch
                known = self.epochs.get(id, -1)
                require(epoch >= known, "I-44", "broker epochs rise, over unregistrations too", id, epoch, known)
                self.epochs[id] = epoch
                owner = self.owners.setdefault(epoch, id)
                require(owner == id, "I-44", "an epoch is one broker's", epoch, id, owner)
