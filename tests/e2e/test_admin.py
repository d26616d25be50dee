"""What an operator asks of a running cluster, through the door and by any controller."""

from __future__ import annotations

import pytest

from kraft.api.create_partitions_pb2 import CreatePartitionsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.elect_leaders_pb2 import ElectLeadersRequest
from kraft.api.unregister_broker_pb2 import UnregisterBrokerRequest
from kraft.api.update_features_pb2 import UpdateFeaturesRequest
from quorate.errors import ApiError, ErrorCode
from tests.e2e.cluster import VOTERS, Cluster, spoken

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.parametrize("door", VOTERS)
async def test_a_topic_grows_and_goes(cluster: Cluster, door: int) -> None:
    name = f"grows-{door}"
    await cluster.create(name, at=door)
    stub = cluster.controller_stub(door)
    more = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=4)
    grown = (await spoken(stub.CreatePartitions, CreatePartitionsRequest(topics=[more]))).response

    assert [(name, 0)] == [(each.name, each.error_code) for each in grown.results]

    partitions = (await cluster.topics(at=door))[name].partitions
    assert [0, 1, 2, 3] == [partition.partition_index for partition in partitions]
    assert {3} == {len(set(partition.replica_nodes)) for partition in partitions}

    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)])
    deleted = (await spoken(stub.DeleteTopics, gone)).response

    assert [(name, 0)] == [(each.name, each.error_code) for each in deleted.responses]
    assert name not in await cluster.topics(at=door)


async def test_a_preferred_leader_that_leads_needs_no_election(cluster: Cluster) -> None:
    await cluster.create("elected", at=1)
    asked = ElectLeadersRequest.TopicPartitions(topic="elected", partitions=[0, 9])
    request = ElectLeadersRequest(topic_partitions=ElectLeadersRequest.TopicPartitionsList(items=[asked]))
    answer = (await spoken(cluster.controller_stub(2).ElectLeaders, request)).response

    told = {each.partition_id: each.error_code for each in answer.replica_election_results[0].partition_result}
    assert {0: ErrorCode.ELECTION_NOT_NEEDED, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} == told


async def test_who_is_not_registered_cannot_be_struck_off(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        await spoken(cluster.controller_stub(1).UnregisterBroker, UnregisterBrokerRequest(broker_id=7))

    assert ErrorCode.BROKER_ID_NOT_REGISTERED == refused.value.code


async def test_a_feature_that_nobody_supports_is_refused_and_says_why(cluster: Cluster) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature="metadata.version", max_version_level=99)

    with pytest.raises(ApiError, match="this controller supports 7 to 33") as refused:
        await spoken(cluster.controller_stub(3).UpdateFeatures, UpdateFeaturesRequest(feature_updates=[update]))

    assert ErrorCode.INVALID_UPDATE_VERSION == refused.value.code
