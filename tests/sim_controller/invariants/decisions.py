"""What may be decided, where the request is known: I-44, I-45, I-52, I-54, I-57, I-63, I-68."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kraft import Message
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.nouns import NOBODY, NodeId, Offset
from quorate.records import PartitionRecord, RegisterBrokerRecord
from tests.sim.invariants.base import require
from tests.sim_controller.invariants.partitions import is_unclean, joined
from tests.sim_controller.model import Model, Step

UNCLEAN_ELECTION = 1
ANY_EPOCH = -1


@dataclass(frozen=True, kw_only=True)
class Decided:
    """One command's records, and the cluster before and after them. `request` is None for what nobody asked for."""

    what: str
    request: Any
    base_offset: Offset
    records: Sequence[Message]
    steps: Sequence[Step]
    before: Model
    after: Model


def judge(decided: Decided) -> None:
    """Everything that hangs on why it was decided."""
    _judge_joined(decided)
    _judge_unclean(decided)
    _judge_new(decided)
    _judge_registration(decided)
    if isinstance(decided.request, AlterPartitionRequest):
        _judge_alteration(decided, decided.request)


def _judge_joined(decided: Decided) -> None:
    """I-52: into an ISR one comes by AlterPartition, in the epoch in which one is there; or as the elected one."""
    for step in decided.steps:
        new, before, after = joined(step), step.before, step.after
        what = (decided.what, decided.request, step)
        epochs = _asked_epochs(decided.request, step) if isinstance(decided.request, AlterPartitionRequest) else {}
        if new and not epochs:
            assert before is not None
            if _is_going_back(decided, step):
                continue
            is_elected = new == {after.leader} == set(after.isr)
            require(is_elected, "I-52", "a replica joins by AlterPartition, or as the leader", sorted(new), *what)
            is_clean = after.leader in before.elr and after.recovery == before.recovery
            require(is_clean or is_unclean(step), "I-54", "a leader was in I, else in E, or is unclean", *what)
            continue
        # The move that an AlterPartition ends may leave nobody in sync who can lead: a directory has failed.
        is_elected = is_unclean(step) and {after.leader} == set(after.isr)
        for id in sorted(new - {after.leader} if is_elected else new):
            require(decided.after.is_active(id), "I-52", "who joins is there, and unfenced", id, *what)
            given, known = epochs.get(id), decided.after.members[id].epoch
            require(given in (ANY_EPOCH, known), "I-52", "who joins is the one that was seen", id, given, known, *what)


def _is_going_back(decided: Decided, step: Step) -> bool:
    """Kafka's exception: a move is called off, nobody who stays is in sync, and there is no ELR that could be empty.

    Then the first replica stands for the ISR, if the topic allows unclean elections.
    """
    return (
        isinstance(decided.request, AlterPartitionReassignmentsRequest)
        and not decided.before.has_elr
        and decided.before.elects_uncleanly(step.key[0])
        and step.after.leader == NOBODY
        and step.after.isr == step.after.replicas[:1]
    )


def _asked_epochs(request: AlterPartitionRequest, step: Step) -> dict[NodeId, int]:
    for topic in request.topics:
        for asked in topic.partitions:
            if (topic.topic_id, asked.partition_index) == step.key:
                plain = dict.fromkeys(asked.new_isr, ANY_EPOCH)
                return plain | {member.broker_id: member.broker_epoch for member in asked.new_isr_with_epochs}
    return {}


def _judge_alteration(decided: Decided, request: AlterPartitionRequest) -> None:
    """I-50, I-51, I-68: who knows another epoch than the present one changes nothing."""
    member = decided.before.members.get(request.broker_id)
    is_known = member is not None and member.epoch == request.broker_epoch
    require(is_known or not decided.steps, "I-68", "a stale broker epoch changes nothing", request, decided.steps)
    asked = {
        (topic.topic_id, each.partition_index): (each.leader_epoch, each.partition_epoch)
        for topic in request.topics
        for each in topic.partitions
    }
    for step in decided.steps:
        assert step.before is not None
        leader_epoch, partition_epoch = asked[step.key]
        known = step.before
        is_led = leader_epoch == known.leader_epoch
        require(is_led, "I-51", "who alters a partition knows its leader epoch", request, known)
        is_leader = known.leader == request.broker_id
        require(is_leader, "I-51", "only its leader alters a partition", request, known)
        is_latest = partition_epoch == known.partition_epoch
        require(is_latest, "I-50", "who alters a partition knows its partition epoch", request, known)


def _judge_unclean(decided: Decided) -> None:
    """I-54: only where the topic allows it, an operator wants it, or nobody but the last known leader is left."""
    request = decided.request
    is_wanted = isinstance(request, ElectLeadersRequest) and request.election_type == UNCLEAN_ELECTION
    for step in filter(is_unclean, decided.steps):
        before, after = step.before, step.after
        assert before is not None
        is_last_known = decided.before.has_elr and before.leader == NOBODY and after.leader in before.last_known
        may = is_wanted or is_last_known or decided.before.elects_uncleanly(step.key[0])
        require(may, "I-54", "an unclean election is allowed, or asked for", decided.what, request, step)


def _judge_new(decided: Decided) -> None:
    """I-63, but for the racks, which are judged where the placer is asked."""
    if not isinstance(decided.request, CreateTopicsRequest | CreatePartitionsRequest):
        return
    for record in decided.records:
        if isinstance(record, PartitionRecord):
            replicas, members = record.replicas, decided.before.members
            require(len(set(replicas)) == len(replicas), "I-63", "distinct brokers", record)
            require(set(replicas) <= members.keys(), "I-63", "registered brokers", record, sorted(members))
            isr = tuple(id for id in replicas if members[id].is_active)
            require(record.isr == isr, "I-63", "the ISR are those that are active", record, isr)
            require(bool(isr) and record.leader == isr[0], "I-63", "the first of them leads", record)


def judge_placement(model: Model, replicas: Sequence[Sequence[NodeId]], factor: int) -> None:
    """I-63: what the placer has chosen for one topic, of the brokers as they were when it was asked."""
    usable = {id: member for id, member in model.members.items() if member.is_usable}
    sizes = Counter(member.rack for member in usable.values())
    for each in replicas:
        what = (each, factor, usable)
        require(len(each) == len(set(each)) == factor, "I-63", "RF distinct brokers", *what)
        require(set(each) <= usable.keys(), "I-63", "usable brokers", *what)
        require(not usable[each[0]].fenced, "I-63", "the first is not fenced", *what)
        counts = Counter(usable[id].rack for id in each)
        for rack, size in sizes.items():
            is_even = counts[rack] == size or all(counts[other] <= counts[rack] + 1 for other in sizes)
            require(is_even, "I-63", "racks as even as they can be", rack, counts, *what)


def _judge_registration(decided: Decided) -> None:
    """I-44: an epoch is an offset of the registration, and rises; I-57: who stopped uncleanly is eligible no more."""
    request = decided.request
    if not isinstance(request, BrokerRegistrationRequest):
        return
    registered = [record for record in decided.records if isinstance(record, RegisterBrokerRecord)]
    for record in registered:
        known = decided.before.members.get(record.broker_id)
        if known is not None and known.incarnation == record.incarnation_id:
            require(record.broker_epoch == known.epoch, "I-44", "a process keeps its epoch", record, known)
            continue
        is_own = record.broker_epoch == decided.base_offset
        require(is_own, "I-44", "a broker epoch is the offset of its registration", record, decided.base_offset)
        is_clean = known is not None and request.previous_broker_epoch == known.epoch
        eligible = [key for key, part in decided.after.parts.items() if record.broker_id in part.elr]
        require(is_clean or not eligible, "I-57", "an unclean stop ends eligibility", record.broker_id, eligible)
        in_sync = [
            key
            for key, part in decided.after.parts.items()
            if record.broker_id in part.isr and (decided.after.has_elr and key not in decided.after.legacy)
        ]
        require(not in_sync, "I-57", "a new process is in no ISR", record.broker_id, in_sync)
