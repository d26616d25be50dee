"""Handlers of the topic APIs: create, delete, describe, add partitions, reassign, elect leaders."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Final

from kraft.api.alter_partition_reassignments_pb2 import AlterPartitionReassignmentsRequest
from kraft.api.create_partitions_pb2 import CreatePartitionsRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.api.elect_leaders_pb2 import ElectLeadersRequest
from kraft.api.list_partition_reassignments_pb2 import ListPartitionReassignmentsRequest
from quorate.controller.access import screening
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.list_partition_reassignments import list_partition_reassignments
from quorate.controller.engine.engine import Answer
from quorate.controller.quotas import metered
from quorate.metadata.acls import AclOperation
from quorate.random_uuid import random_uuid
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Row, read, read_without_leader, written

__all__ = ["TOPICS"]


def _create_topics(apis: Apis, call: Call) -> Awaitable[Answer]:
    wanted = partial(wanted_placements, request=call.asked, settings=apis.settings)
    command = partial(create_topics, new_topic_id=random_uuid, settings=apis.settings)
    return apis.place_and_write(call, wanted, command)


def _create_partitions(apis: Apis, call: Call) -> Awaitable[Answer]:
    return apis.place_and_write(call, partial(wanted_more, request=call.asked), create_partitions)


TOPICS: Final = (
    Row(
        Api(
            name="AlterPartitionReassignments",
            request=AlterPartitionReassignmentsRequest,
            right=AclOperation.ALTER,
            has_deadline=True,
        ),
        written(lambda apis, call: alter_partition_reassignments(call.asked, settings=apis.settings)),
    ),
    Row(
        Api(
            name="CreatePartitions",
            request=CreatePartitionsRequest,
            right=None,
            screen=screening.create_partitions,
            meter=metered.CREATE_PARTITIONS,
            has_deadline=True,
        ),
        _create_partitions,
    ),
    Row(
        Api(
            name="CreateTopics",
            request=CreateTopicsRequest,
            right=None,
            screen=screening.create_topics,
            meter=metered.CREATE_TOPICS,
            has_deadline=True,
        ),
        _create_topics,
    ),
    Row(
        Api(
            name="DeleteTopics",
            request=DeleteTopicsRequest,
            right=None,
            screen=screening.delete_topics,
            meter=metered.DELETE_TOPICS,
            has_deadline=True,
        ),
        written(lambda apis, call: apis.within_quota(call, lambda asked: delete_topics(asked, settings=apis.settings))),
    ),
    Row(
        Api(
            name="DescribeTopicPartitions",
            request=DescribeTopicPartitionsRequest,
            right=None,
            is_read=True,
            has_pages=True,
            lists_all=lambda asked: not asked.topics,
        ),
        read(
            lambda apis, call: describe_topic_partitions(
                call.asked,
                partitions_per_page=apis.settings.partitions_per_page,
                allows=call.allows,
                would_allow=call.would_allow,
            )
        ),
    ),
    Row(
        Api(
            name="ElectLeaders",
            request=ElectLeadersRequest,
            right=AclOperation.ALTER,
            has_deadline=True,
        ),
        written(lambda apis, call: elect_leaders(call.asked, settings=apis.settings)),
    ),
    Row(
        Api(
            name="ListPartitionReassignments",
            request=ListPartitionReassignmentsRequest,
            right=AclOperation.DESCRIBE,
            is_read=True,
            needs_leader=False,
        ),
        read_without_leader(lambda _, call: list_partition_reassignments(call.asked)),
    ),
)
