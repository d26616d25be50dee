"""Handlers of the topic APIs: create, delete, describe, add partitions, reassign, elect leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.list_partition_reassignments import list_partition_reassignments
from quorate.controller.engine.decision import Command
from quorate.controller.engine.engine import Answer
from quorate.controller.partitions.new_partitions import Placements
from quorate.metadata.state import ClusterState
from quorate.placement import PlacementSpec
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Handler, random_id, read, written

__all__ = ["TOPICS"]


async def _create_topics(apis: Apis, call: Call) -> Answer:
    def wanted(state: ClusterState) -> tuple[tuple[str, PlacementSpec], ...]:
        return wanted_placements(state, call.asked, apis.settings)

    def command(placements: Placements) -> Command[Any]:
        return apis.within_quota(
            call,
            lambda asked: create_topics(asked, placements=placements, new_topic_id=random_id, settings=apis.settings),
        )

    return await apis.place_and_write(call, wanted, command)


async def _create_partitions(apis: Apis, call: Call) -> Answer:
    return await apis.place_and_write(
        call,
        lambda state: wanted_more(state, call.asked),
        lambda placements: apis.within_quota(call, lambda asked: create_partitions(asked, placements=placements)),
    )


TOPICS: Final[Mapping[str, Handler]] = {
    "AlterPartitionReassignments": written(
        lambda apis, call: alter_partition_reassignments(call.asked, settings=apis.settings)
    ),
    "CreatePartitions": _create_partitions,
    "CreateTopics": _create_topics,
    "DeleteTopics": written(
        lambda apis, call: apis.within_quota(call, lambda asked: delete_topics(asked, settings=apis.settings))
    ),
    "DescribeTopicPartitions": read(
        lambda apis, call: describe_topic_partitions(
            call.asked,
            partitions_per_page=apis.settings.partitions_per_page,
            allows=call.allows,
            would_allow=call.would_allow,
        )
    ),
    "ElectLeaders": written(lambda apis, call: elect_leaders(call.asked, settings=apis.settings)),
    "ListPartitionReassignments": read(lambda _, call: list_partition_reassignments(call.asked)),
}
