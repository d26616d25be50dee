"""DescribeTopicPartitions and DescribeAcls of very many: each step asks for the rights on few, and ends."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.api.describe_acls import DescribeAclsRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from quorate.controller.commands.describe_acls import describe_acls
from quorate.controller.commands.describe_topic_partitions import NAMES_PER_STEP, describe_topic_partitions
from quorate.controller.engine.decision import Command, Moment, steps_of
from quorate.controller.engine.steps import ITEMS_PER_STEP
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.metadata.state import ClusterState
from quorate.nouns import Uuid
from quorate.records import AccessControlEntryRecord
from tests.controller.clusters import Cluster, uuid

COUNT = 1_000
NAMED = DescribeTopicPartitionsRequest(
    tuple(DescribeTopicPartitionsRequest.TopicRequest(f"secret-{number}") for number in range(COUNT))
)


class Refusing:
    """Allows nothing; counts how often it is asked within a step."""

    def __init__(self) -> None:
        self.asked = self.asked_max = 0

    def __call__(self, *_: object) -> bool:
        self.asked += 1
        self.asked_max = max(self.asked_max, self.asked)
        return False


def run(state: ClusterState, command: Command[Any], rights: Refusing) -> tuple[Any, int]:
    """The response, and how many steps it took."""
    steps, count = steps_of(command, state, Moment(next_offset=0, now_ms=0)), 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value.response, count
        count += 1
        rights.asked = 0


def topics_of_others() -> Cluster:
    cluster = Cluster().brokers(1)
    for number in range(COUNT):
        cluster.topic(f"secret-{number}", [1])
    return cluster


@pytest.mark.parametrize(("request_", "shown"), [(NAMED, COUNT), (DescribeTopicPartitionsRequest(), 0)])
def test_refused_topics_are_asked_about_in_steps(request_: DescribeTopicPartitionsRequest, shown: int) -> None:
    rights = Refusing()
    command = describe_topic_partitions(request_, allows=rights, would_allow=rights)
    told, _ = run(topics_of_others().state, command, rights)

    assert rights.asked_max <= NAMES_PER_STEP
    assert [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * shown == [topic.error_code for topic in told.topics]


def test_many_entries_are_listed_in_steps() -> None:
    cluster = Cluster()
    cluster.apply(entry(uuid(number + 1), f"topic-{number}") for number in range(COUNT))
    every = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    told, step_count = run(cluster.state, describe_acls(every), Refusing())

    assert COUNT == len(told.resources)
    assert step_count > COUNT // ITEMS_PER_STEP


def entry(entry_id: Uuid, name: str) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=entry_id,
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=AclOperation.READ,
        permission_type=AclPermission.ALLOW,
    )
