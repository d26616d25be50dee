"""What an operator has in the controllers' files: policies of their own (KIP-108), and Kafka's broker configs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from quorate.controller.configs.values import Source
from quorate.controller.policies import NewTopic, PolicyViolation
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from tests.e2e.calls import call_with_retries
from tests.e2e.cluster import PATIENT, VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT


class Named:
    """Topics are called after the controller that decides; the class is found by its name in the configuration."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self._node_id = configs["node.id"]

    def validate(self, request: NewTopic) -> None:
        if not request.topic.startswith("by-"):
            raise PolicyViolation(f"controller {self._node_id} takes no {request.topic!r}")


CONTROLLER_SETTINGS = {
    "create.topic.policy.class.name": f"{__name__}:Named",
    "delete.topic.enable": "false",
    "log.retention.minutes": "7",
    "log.segment.bytes": "2097152",
}


@pytest.mark.parametrize("door", VOTERS)
async def test_a_topic_that_the_policy_refuses_is_not_created(cluster: Cluster, door: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic
    wanted = [topic(name=name, num_partitions=1, replication_factor=1) for name in ("other", f"by-{door}")]
    answer = (
        await call_with_retries(cluster.controller_stub(door).CreateTopics, CreateTopicsRequest(topics=wanted))
    ).response

    refused, created = answer.topics
    assert (ErrorCode.POLICY_VIOLATION, 0) == (refused.error_code, created.error_code)
    assert refused.error_message in {f"controller {node_id} takes no 'other'" for node_id in VOTERS}
    assert {f"by-{door}"} == (await cluster.topics(at=door)).keys() & {"other", f"by-{door}"}


@pytest.mark.parametrize("door", VOTERS)
async def test_a_broker_config_in_the_file_stands_in_for_what_a_topic_does_not_say(cluster: Cluster, door: int) -> None:
    name = f"by-file-{door}"
    await cluster.create(name, at=door)
    resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = resource(resource_type=TOPIC, resource_name=name)
    answer = (
        await call_with_retries(
            cluster.controller_stub(door).DescribeConfigs, DescribeConfigsRequest(resources=[asked])
        )
    ).response

    told = {config.name: (config.value, config.config_source) for config in answer.results[0].configs}
    assert ("2097152", Source.STATIC) == told["segment.bytes"]
    # Of a value that is set in another unit Kafka tells no source.
    assert (str(7 * 60_000), Source.DEFAULT) == told["retention.ms"]
    assert ("-1", Source.DEFAULT) == told["retention.bytes"]


@pytest.mark.parametrize("door", VOTERS)
async def test_no_topic_is_deleted_where_none_is_to_be(cluster: Cluster, door: int) -> None:
    name = f"by-nobody-{door}"
    await cluster.create(name, at=door)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)])
    with pytest.raises(ApiError) as refused:
        await call_with_retries(cluster.controller_stub(door).DeleteTopics, request)

    assert ErrorCode.TOPIC_DELETION_DISABLED == refused.value.code
    assert name in await cluster.topics(at=door)
