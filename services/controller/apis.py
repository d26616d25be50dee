"""What each API asks of the engine: one table, whatever door a request comes through."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from kraft import Uuid
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.controller.commands.allocate_producer_ids import allocate_producer_ids
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.list_partition_reassignments import list_partition_reassignments
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.commands.unregister_controller import unregister_controller
from quorate.controller.commands.update_features import kraft_version_update, update_features
from quorate.controller.decision import Command
from quorate.controller.engine import Answer
from quorate.controller.new_partitions import Placements, StalePlacement, usable_brokers
from quorate.controller.settings import Settings
from quorate.metadata.state import ClusterState
from quorate.placement import PlacementSpec
from quorate.runtime.client import Client
from services.controller.driver import Driver
from services.controller.placing import place
from services.controller.quorum_node import QuorumNode

PLACEMENTS_TRIED_MAX: Final = 3
"""Brokers come and go while the placer is asked; who meets that so often is told to try again."""

Handler: TypeAlias = Callable[["Apis", Any], Awaitable[Answer]]
"""Takes Kafka's request. Raises ApiError to refuse it as a whole."""

_Wanted: TypeAlias = Callable[[ClusterState], tuple[tuple[str, PlacementSpec], ...]]


class Apis:
    """Everything that a handler may need, on the controller that is active."""

    def __init__(
        self, driver: Driver, quorum: QuorumNode, placers: Client[PlacerStub], settings: Settings, *, cluster_id: str
    ) -> None:
        self.driver = driver
        self.quorum = quorum
        self.placers = placers
        self.settings = settings
        self.cluster_id = cluster_id

    async def answer(self, rpc: str, asked: Any) -> Answer:
        """The answer to one request, once all that it rests on is committed."""
        return await HANDLERS[rpc](self, asked)

    async def place_and_write(self, rpc: str, wanted: _Wanted, command: Callable[[Placements], Command[Any]]) -> Answer:
        """Places, then writes; places again if the brokers have changed in between."""
        state = self.driver.engine.state
        for tried in range(1, PLACEMENTS_TRIED_MAX + 1):
            placements = await place(self.placers, usable_brokers(state), wanted(state))
            try:
                return await self.driver.write(rpc, command(placements))
            except StalePlacement:
                if tried == PLACEMENTS_TRIED_MAX:
                    raise
        raise AssertionError("the loop returns or raises")


async def _create_topics(apis: Apis, asked: Any) -> Answer:
    def wanted(state: ClusterState) -> tuple[tuple[str, PlacementSpec], ...]:
        return wanted_placements(state, asked, apis.settings)

    def command(placements: Placements) -> Command[Any]:
        return create_topics(asked, placements=placements, new_topic_id=_random_id, settings=apis.settings)

    return await apis.place_and_write("CreateTopics", wanted, command)


async def _create_partitions(apis: Apis, asked: Any) -> Answer:
    return await apis.place_and_write(
        "CreatePartitions",
        lambda state: wanted_more(state, asked),
        lambda placements: create_partitions(asked, placements=placements),
    )


async def _update_features(apis: Apis, asked: Any) -> Answer:
    """All of it is checked first; kraft.version, which is the quorum's to write, comes last."""
    present = await apis.quorum.kraft_version()
    wanted = kraft_version_update(asked)
    is_new = wanted is not None and wanted != present
    if is_new:
        await apis.quorum.upgrade_kraft_version(wanted or 0, apis.driver.leader_epoch, validate_only=True)
    answer = await apis.driver.write(
        "UpdateFeatures", update_features(asked, kraft_version=present, settings=apis.settings)
    )
    if is_new and not asked.validate_only:
        await apis.quorum.upgrade_kraft_version(wanted or 0, apis.driver.leader_epoch)
    return answer


async def _register_broker(apis: Apis, asked: Any) -> Answer:
    broker = apis.driver.engine.state.brokers.get(asked.broker_id)
    command = register_broker(
        asked,
        cluster_id=apis.cluster_id,
        # It is alive as far as the log says: not fenced.
        session_epoch=None if broker is None or broker.fenced else broker.epoch,
        kraft_version=await apis.quorum.kraft_version(),
        settings=apis.settings,
    )
    return await apis.driver.write("BrokerRegistration", command)


def _plain(rpc: str, command: Callable[[Apis, Any], Command[Any]]) -> Handler:
    """Nothing has to be asked of anybody else first."""

    async def handle(apis: Apis, asked: Any) -> Answer:
        return await apis.driver.write(rpc, command(apis, asked))

    return handle


def _read(rpc: str, command: Callable[[Apis, Any], Command[Any]]) -> Handler:
    """What is acknowledged is seen: of a leader that has been replaced unheard nothing is told."""

    async def handle(apis: Apis, asked: Any) -> Answer:
        await apis.quorum.confirm(apis.driver.leader_epoch)
        return await apis.driver.write(rpc, command(apis, asked))

    return handle


_PLAIN: Final[Mapping[str, Callable[[Apis, Any], Command[Any]]]] = {
    "AllocateProducerIds": lambda _, asked: allocate_producer_ids(asked),
    "AlterPartition": lambda apis, asked: alter_partition(asked, settings=apis.settings),
    "AlterPartitionReassignments": lambda apis, asked: alter_partition_reassignments(asked, settings=apis.settings),
    "AssignReplicasToDirs": lambda apis, asked: assign_replicas_to_dirs(asked, settings=apis.settings),
    "ControllerRegistration": lambda _, asked: register_controller(asked),
    "DeleteTopics": lambda apis, asked: delete_topics(asked, settings=apis.settings),
    "ElectLeaders": lambda apis, asked: elect_leaders(asked, settings=apis.settings),
    "UnregisterBroker": lambda apis, asked: unregister_broker(asked, settings=apis.settings),
    "UnregisterController": lambda _, asked: unregister_controller(asked),
}

_READS: Final[Mapping[str, Callable[[Apis, Any], Command[Any]]]] = {
    "DescribeCluster": lambda apis, asked: describe_cluster(
        asked, cluster_id=apis.cluster_id, controller_id=apis.driver.leader_id
    ),
    "DescribeTopicPartitions": lambda _, asked: describe_topic_partitions(asked),
    "ListPartitionReassignments": lambda _, asked: list_partition_reassignments(asked),
}

HANDLERS: Final[Mapping[str, Handler]] = {
    "BrokerRegistration": _register_broker,
    "CreatePartitions": _create_partitions,
    "CreateTopics": _create_topics,
    "UpdateFeatures": _update_features,
    **{rpc: _plain(rpc, command) for rpc, command in _PLAIN.items()},
    **{rpc: _read(rpc, command) for rpc, command in _READS.items()},
}
"""By the RPC's name. A read, too, waits until all that it has seen is committed."""


def _random_id() -> Uuid:
    return Uuid(secrets.token_bytes(16))
