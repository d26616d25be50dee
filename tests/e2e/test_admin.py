"""What an operator asks of a running cluster, through the door and by any controller."""

from __future__ import annotations

import pytest

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.api.create_partitions_pb2 import CreatePartitionsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.api.elect_leaders_pb2 import ElectLeadersRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest
from kraft.api.unregister_broker_pb2 import UnregisterBrokerRequest
from kraft.api.unregister_controller_pb2 import UnregisterControllerRequest
from kraft.api.update_features_pb2 import UpdateFeaturesRequest
from kraft.boxes_pb2 import StringList
from kraft.service.controller_pb2 import ChangeBrokerStateRequest
from kraft.service.quorum_pb2 import TransferLeadershipRequest
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from tests.e2e.calls import call_with_retries
from tests.e2e.cluster import PATIENT, VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT


@pytest.mark.parametrize("door", VOTERS)
async def test_a_topic_grows_and_goes(cluster: Cluster, door: int) -> None:
    name = f"grows-{door}"
    await cluster.create(name, at=door)
    stub = cluster.controller_stub(door)
    more = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=4)
    grown = (await call_with_retries(stub.CreatePartitions, CreatePartitionsRequest(topics=[more]))).response

    assert [(name, 0)] == [(each.name, each.error_code) for each in grown.results]

    partitions = (await cluster.topics(at=door))[name].partitions
    assert [0, 1, 2, 3] == [partition.partition_index for partition in partitions]
    assert {3} == {len(set(partition.replica_nodes)) for partition in partitions}

    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)])
    deleted = (await call_with_retries(stub.DeleteTopics, gone)).response

    assert [(name, 0)] == [(each.name, each.error_code) for each in deleted.responses]
    assert name not in await cluster.topics(at=door)


async def test_a_preferred_leader_that_leads_needs_no_election(cluster: Cluster) -> None:
    await cluster.create("elected", at=1)
    asked = ElectLeadersRequest.TopicPartitions(topic="elected", partitions=[0, 9])
    request = ElectLeadersRequest(topic_partitions=ElectLeadersRequest.TopicPartitionsList(items=[asked]))
    answer = (await call_with_retries(cluster.controller_stub(2).ElectLeaders, request)).response

    told = {each.partition_id: each.error_code for each in answer.replica_election_results[0].partition_result}
    assert {0: ErrorCode.ELECTION_NOT_NEEDED, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} == told


async def test_who_is_not_registered_cannot_be_struck_off(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        await call_with_retries(cluster.controller_stub(1).UnregisterBroker, UnregisterBrokerRequest(broker_id=7))

    assert ErrorCode.BROKER_ID_NOT_REGISTERED == refused.value.code


async def test_the_active_controller_is_not_struck_off(cluster: Cluster) -> None:
    """The others find it by its registration."""
    active_id = await cluster.active()
    request = UnregisterControllerRequest(controller_id=active_id)
    for door in VOTERS:
        with pytest.raises(ApiError, match="cannot unregister itself") as refused:
            await call_with_retries(cluster.controller_stub(door).UnregisterController, request)
        assert ErrorCode.INVALID_REQUEST == refused.value.code
        assert {"leader_epoch", "offset"} <= refused.value.metadata.keys()


@pytest.mark.parametrize("target", [0, 5, 9])
async def test_a_number_that_is_no_state_is_named_with_those_that_are(cluster: Cluster, target: int) -> None:
    request = ChangeBrokerStateRequest(broker_id=101, target=target)  # type: ignore[arg-type]  # the stubs' enum type

    with pytest.raises(ApiError, match=f"target {target} is none of 1 FENCED, 2 UNFENCED, 3 CON.*, 4 ") as refused:
        await call_with_retries(cluster.controller_stub(3).ChangeBrokerState, request)

    assert (ErrorCode.INVALID_REQUEST, "target") == (refused.value.code, refused.value.metadata["field"])


@pytest.mark.parametrize("timeout_ms", [-1, 0])
async def test_a_transfer_without_time_is_refused_in_words(cluster: Cluster, timeout_ms: int) -> None:
    request = TransferLeadershipRequest(timeout_ms=timeout_ms)

    with pytest.raises(ApiError, match=f"the timeout is {timeout_ms} ms; it must be at least 1 ms"):
        await call_with_retries(cluster.controller_stub(2).TransferLeadership, request)
    answer = await cluster.quorum_stub(await cluster.leader()).TransferLeadership(request, timeout=10)

    assert f"the timeout is {timeout_ms} ms; it must be at least 1 ms" == answer.error_message


async def test_voters_of_another_cluster_are_refused_in_words(cluster: Cluster) -> None:
    add = AddRaftVoterRequest(cluster_id="another", timeout_ms=1_000, voter_id=9)
    remove = RemoveRaftVoterRequest(cluster_id="another", voter_id=9)
    stub, words = cluster.controller_stub(1), "the request is for cluster 'another'; this node is of cluster '"
    for call, request in ((stub.AddRaftVoter, add), (stub.RemoveRaftVoter, remove)):
        with pytest.raises(ApiError, match=words) as refused:
            await call_with_retries(call, request)
        assert ErrorCode.INCONSISTENT_CLUSTER_ID == refused.value.code


async def test_a_feature_that_nobody_supports_is_refused_and_says_why(cluster: Cluster) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature="metadata.version", max_version_level=99)

    with pytest.raises(ApiError, match="this controller supports 7 to 33") as refused:
        await call_with_retries(
            cluster.controller_stub(3).UpdateFeatures, UpdateFeaturesRequest(feature_updates=[update])
        )

    assert ErrorCode.INVALID_UPDATE_VERSION == refused.value.code


async def test_a_config_that_is_set_at_one_controller_is_told_by_another(cluster: Cluster) -> None:
    await cluster.create("configured", at=1)
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [
        asked(
            resource_type=TOPIC,
            resource_name=name,
            configs=[asked.AlterableConfig(name="max.message.bytes", config_operation=0, value="7")],
        )
        for name in ("configured", "nobody's")
    ]
    changed = await call_with_retries(
        cluster.controller_stub(2).IncrementalAlterConfigs, IncrementalAlterConfigsRequest(resources=resources)
    )

    assert [("configured", ErrorCode.NONE), ("nobody's", ErrorCode.INVALID_TOPIC_EXCEPTION)] == [
        (each.resource_name, each.error_code) for each in changed.response.responses
    ]

    wanted = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name="configured", configuration_keys=StringList(items=["max.message.bytes"])
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True)
    told = (await call_with_retries(cluster.controller_stub(3).DescribeConfigs, request)).response
    (config,) = told.results[0].configs

    assert ("max.message.bytes", "7", ["max.message.bytes", "message.max.bytes"]) == (
        config.name,
        config.value,
        [each.name for each in config.synonyms],
    )
