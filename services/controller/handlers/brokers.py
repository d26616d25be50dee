"""Handlers of the brokers' APIs: registration, unregistration, AlterPartition, log directories, producer ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraft import Uuid
from kraft.api import alter_partition_pb2, broker_registration_pb2
from kraft.api.allocate_producer_ids_pb2 import AllocateProducerIdsRequest
from kraft.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kraft.api.assign_replicas_to_dirs_pb2 import AssignReplicasToDirsRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.unregister_broker_pb2 import UnregisterBrokerRequest
from quorate.controller.commands.allocate_producer_ids import allocate_producer_ids
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.register_broker import register_ahead, register_unless_alive
from quorate.controller.commands.unregister_broker import unregister_ahead, unregister_broker
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.engine.engine import Answer, QueueLimit
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Row, written
from services.controller.metrics import IsrUpdates
from services.controller.outliving import to_the_end

__all__ = ["BROKERS"]

SESSIONS_ASKED_MAX: Final = 3
"""A session is asked for anew this often if another process registers meanwhile; then there is a retriable error."""


async def _register_broker(apis: Apis, call: Call) -> Answer:
    """Registers a broker; a chunked change of its earlier incarnation's partitions is written first, where needed.

    After that change kraft.version and the broker's session are queried again, as it may take long.
    """
    state = apis.driver.engine.state
    given: dict[str, Any] = {"cluster_id": apis.cluster_id, "settings": apis.settings}

    async def known(broker_id: NodeId | None) -> dict[str, Any]:
        """Queries the quorum node for kraft.version and the heartbeat service for the broker's session."""
        return {
            "kraft_version": (await apis.quorum.quorum()).kraft_version,
            "session_epoch": await apis.sessions.valid_epoch(broker_id),
        }

    async def attempt() -> Answer:
        other = _other_process(state, call.asked)
        present = await known(other)
        has_written = await apis.write_ahead(call, register_ahead(state, call.asked, **given, **present))
        if has_written:
            other = _other_process(state, call.asked)
            present = await known(other)
        command = register_unless_alive(call.asked, **given, **present)
        asked_for = command if other is not None else _unless_another_came(call.asked, command)
        return await apis.write(call, asked_for, has_written=has_written)

    async def register() -> Answer:
        for tried in range(1, SESSIONS_ASKED_MAX + 1):
            try:
                return await attempt()
            except AnotherCame:
                if tried == SESSIONS_ASKED_MAX:
                    raise
        raise AssertionError("the loop returns or raises")

    return await to_the_end(register())


class AnotherCame(ApiError):
    """Raised when another process has the broker id, and nobody was asked for its session. Retriable."""

    def __init__(self, broker_id: NodeId) -> None:
        why = f"another process has registered as broker {broker_id} meanwhile; whether it lives is to be asked"
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, why)


def _unless_another_came(request: BrokerRegistrationRequest, command: Command[Any]) -> Command[Any]:
    """Wraps a registration for which there was no other process when it was looked for one: now there may be."""

    def decide(state: ClusterState, moment: Moment) -> Decision[Any]:
        if _other_process(state, request) is not None:
            raise AnotherCame(request.broker_id)
        return command(state, moment)

    return decide


def _other_process(state: ClusterState, request: BrokerRegistrationRequest) -> NodeId | None:
    """Returns the id of a registered broker with another incarnation id; None if there is none."""
    broker = state.brokers.get(request.broker_id)
    return None if broker is None or broker.incarnation_id == request.incarnation_id else broker.id


async def _unregister_broker(apis: Apis, call: Call) -> Answer:
    async def unregister() -> Answer:
        ahead = unregister_ahead(apis.driver.engine.state, call.asked, settings=apis.settings)
        has_written = await apis.write_ahead(call, ahead)
        return await apis.write(call, unregister_broker(call.asked, settings=apis.settings), has_written=has_written)

    return await to_the_end(unregister())


async def _alter_partition(apis: Apis, call: Call) -> Answer:
    sizes: dict[tuple[Uuid, int], int] = {}
    answer = await apis.write(call, _noting(sizes, call.asked, alter_partition(call.asked, settings=apis.settings)))
    if not call.validate_only:
        _count(apis.isr_updates, sizes, answer.response)
    return answer


def _noting(
    sizes: dict[tuple[Uuid, int], int], asked: AlterPartitionRequest, command: Command[AlterPartitionResponse]
) -> Command[AlterPartitionResponse]:
    """Wraps an AlterPartition command: it notes each partition's ISR size before the decision, 0 if it is unknown."""

    def decide(state: ClusterState, moment: Moment) -> Decision[AlterPartitionResponse]:
        for topic in asked.topics:
            for each in topic.partitions:
                partition = state.topics.partition(topic.topic_id, each.partition_index)
                sizes[topic.topic_id, each.partition_index] = 0 if partition is None else len(partition.isr)
        return command(state, moment)

    return decide


def _count(updates: IsrUpdates, sizes: Mapping[tuple[Uuid, int], int], response: AlterPartitionResponse) -> None:
    """Counts the partitions of an AlterPartition answer; one from deduplication, for which nothing was noted, none."""
    for topic in response.topics:
        for partition in topic.partitions:
            before = sizes.get((topic.topic_id, partition.partition_index))
            if before is not None:
                updates.failed += partition.error_code != 0
                updates.expands += partition.error_code == 0 and len(partition.isr) > before
                updates.shrinks += partition.error_code == 0 and len(partition.isr) < before


BROKERS: Final = (
    Row(
        Api(
            name="AllocateProducerIds",
            request=AllocateProducerIdsRequest,
            right=AclOperation.CLUSTER_ACTION,
            lane=QueueLimit.CLUSTER,
        ),
        written(lambda _, call: allocate_producer_ids(call.asked)),
    ),
    Row(
        Api(
            name="AlterPartition",
            request=alter_partition_pb2.AlterPartitionRequest,
            right=AclOperation.CLUSTER_ACTION,
            lane=QueueLimit.CLUSTER,
        ),
        _alter_partition,
    ),
    Row(
        Api(
            name="AssignReplicasToDirs",
            request=AssignReplicasToDirsRequest,
            right=AclOperation.CLUSTER_ACTION,
            lane=QueueLimit.CLUSTER,
        ),
        written(lambda apis, call: assign_replicas_to_dirs(call.asked, settings=apis.settings)),
    ),
    Row(
        Api(
            name="BrokerRegistration",
            request=broker_registration_pb2.BrokerRegistrationRequest,
            right=AclOperation.CLUSTER_ACTION,
            lane=QueueLimit.CLUSTER,
        ),
        _register_broker,
    ),
    Row(
        Api(
            name="UnregisterBroker",
            request=UnregisterBrokerRequest,
            right=AclOperation.ALTER,
        ),
        _unregister_broker,
    ),
)
