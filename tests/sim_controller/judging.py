"""What each answer claims, and whether the log bears it out at the offset that the answer speaks of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft import Message
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from quorate.errors import ErrorCode
from quorate.nouns import Offset
from tests.sim.invariants.base import Ledger, require
from tests.sim_controller.calls import Call
from tests.sim_controller.cells import is_data, record_of
from tests.sim_controller.invariants.history import History
from tests.sim_controller.model import Model


def written(ledger: Ledger, start: Offset, end: Offset) -> list[Message]:
    """The committed records of [start, end) that a controller wrote."""
    return [record_of(text) for _, text in ledger.cells[start:end] if is_data(text)]


def judge_answer(history: History, call: Call) -> None:
    """Is the answer what the state before the decision, or the state after it, makes it?"""
    judge = _JUDGES.get(type(call.request))
    if judge is not None:
        judge(call, history.model_at(call.base), history.model_at(call.offset))


def _fits(holds: bool, call: Call, why: str, *values: object) -> None:
    require(holds, "I-40", f"{call.what} is answered as the log has it: {why}", call.offset, *values)


def _created(call: Call, before: Model, after: Model) -> None:
    for result in call.response.topics:
        if result.error_code == 0:
            _fits(result.name not in before.topics, call, "it was free", result.name)
            known = after.topics.get(result.name)
            _fits(known == result.topic_id, call, "it is there", result.name, known, result.topic_id)
        elif result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            _fits(result.name in before.topics, call, "it was taken", result.name)


def _deleted(call: Call, before: Model, after: Model) -> None:
    for result in call.response.responses:
        if result.error_code == 0:
            _fits(result.topic_id in before.names, call, "it was there", result.topic_id)
            _fits(result.topic_id not in after.names, call, "it is gone", result.topic_id)
        elif result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            _fits(result.name not in before.topics, call, "it was not there", result.name)


def _grown(call: Call, before: Model, after: Model) -> None:
    counts = {asked.name: asked.count for asked in call.request.topics}
    for result in call.response.results:
        if result.error_code == 0:
            known = len(after.parts_of(after.topics[result.name]))
            _fits(known == counts[result.name], call, "it has grown", result.name, known)
        elif result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            _fits(result.name not in before.topics, call, "it was not there", result.name)


def _described(call: Call, before: Model, after: Model) -> None:
    """I-39: a read shows the committed state at its offset, all of it and nothing else."""
    told = {topic.name: topic for topic in call.response.topics}
    require(
        sorted(told) == sorted(after.topics), "I-39", "all topics, and no other", sorted(told), sorted(after.topics)
    )
    for name, topic_id in after.topics.items():
        topic, parts = told[name], after.parts_of(topic_id)
        require(topic.topic_id == topic_id, "I-39", "its id", name)
        require(len(topic.partitions) == len(parts), "I-39", "all partitions", name, len(parts))
        for each in topic.partitions:
            part = parts[each.partition_index]
            shown = (
                each.replica_nodes,
                each.isr_nodes,
                each.eligible_leader_replicas or (),
                each.last_known_elr or (),
                each.leader_epoch,
            )
            known = (part.replicas, part.isr, part.elr, part.last_known, part.leader_epoch)
            require(shown == known, "I-39", "a partition as it is", name, each.partition_index, shown, known)
            require(each.leader_id in (part.leader, -1), "I-39", "its leader", name, each, part)


def _listed(call: Call, before: Model, after: Model) -> None:
    """I-39 once more."""
    shown = {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in call.response.topics
        for each in topic.partitions
    }
    known = {
        (after.names[key[0]], key[1]): (part.replicas, part.adding, part.removing)
        for key, part in after.parts.items()
        if part.adding or part.removing
    }
    require(shown == known, "I-39", "all that is being moved", shown, known)


def _altered(call: Call, before: Model, after: Model) -> None:
    for topic in call.response.topics:
        for told in topic.partitions:
            if told.error_code == 0:
                part = after.parts[topic.topic_id, told.partition_index]
                shown = (told.leader_id, told.leader_epoch, told.isr, told.partition_epoch, told.leader_recovery_state)
                known = (part.leader, part.leader_epoch, part.isr, part.partition_epoch, part.recovery)
                _fits(shown == known, call, "the partition as it is now", shown, known)


def _allocated(call: Call, before: Model, after: Model) -> None:
    first, length = call.response.producer_id_start, call.response.producer_id_len
    _fits(first >= before.next_producer_id, call, "nobody has had it", first, before.next_producer_id)
    _fits(first + length <= after.next_producer_id, call, "nobody will have it", first, after.next_producer_id)


def _registered(call: Call, before: Model, after: Model) -> None:
    known = after.members.get(call.request.broker_id)
    is_so = known is not None and known.epoch == call.response.broker_epoch
    _fits(is_so and known.incarnation == call.request.incarnation_id, call, "it is registered", known, call.response)  # type: ignore[union-attr]


_JUDGES: Final[dict[type[Message], Callable[[Call, Model, Model], None]]] = {
    AllocateProducerIdsRequest: _allocated,
    AlterPartitionRequest: _altered,
    BrokerRegistrationRequest: _registered,
    CreatePartitionsRequest: _grown,
    CreateTopicsRequest: _created,
    DeleteTopicsRequest: _deleted,
    DescribeTopicPartitionsRequest: _described,
    ListPartitionReassignmentsRequest: _listed,
}
