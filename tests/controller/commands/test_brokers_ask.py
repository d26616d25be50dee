"""What brokers ask of the controller for themselves: producer ids, directories; and controllers that are struck off."""

from __future__ import annotations

import pytest

from kraft import Uuid
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.unregister_controller import UnregisterControllerRequest
from quorate.controller.commands.allocate_producer_ids import LAST_PRODUCER_ID, allocate_producer_ids
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.unregister_controller import unregister_controller
from quorate.errors import ErrorCode
from quorate.metadata.partitions import NO_LEADER
from quorate.records import ProducerIdsRecord
from tests.controller.clusters import Cluster, uuid

Directory = AssignReplicasToDirsRequest.DirectoryData
Topic = Directory.TopicData
Partition = Topic.PartitionData


def epoch(cluster: Cluster, broker_id: int) -> int:
    broker = cluster.state.brokers.get(broker_id)
    assert broker is not None
    return broker.epoch


# Producer ids.


def test_each_block_begins_where_the_last_ended() -> None:
    cluster = Cluster(25).brokers(1, 2)
    blocks = [
        cluster.write(allocate_producer_ids(AllocateProducerIdsRequest(broker_id, epoch(cluster, broker_id))))
        for broker_id in (1, 2, 1)
    ]

    assert [(0, 1000), (1000, 1000), (2000, 1000)] == [
        (each.producer_id_start, each.producer_id_len) for each in blocks
    ]


def test_the_last_block_is_the_last() -> None:
    cluster = Cluster(25).brokers(1)
    request = AllocateProducerIdsRequest(1, epoch(cluster, 1))
    cluster.apply([ProducerIdsRecord(1, 0, LAST_PRODUCER_ID - 1_000)])

    assert LAST_PRODUCER_ID - 1_000 == cluster.write(allocate_producer_ids(request)).producer_id_start
    assert ErrorCode.UNKNOWN_SERVER_ERROR == cluster.refusal(allocate_producer_ids(request)).code


def test_a_broker_of_yesterday_gets_no_ids() -> None:
    cluster = Cluster(25).brokers(1)

    assert (
        ErrorCode.STALE_BROKER_EPOCH == cluster.refusal(allocate_producer_ids(AllocateProducerIdsRequest(1, 999))).code
    )


# Directories.


def two_directories() -> tuple[Cluster, Uuid]:
    """Broker 1 has two directories, so that nobody knows yet where its replicas lie."""
    cluster = Cluster(25)
    cluster.register(1, log_dirs=(uuid(11), uuid(12)))
    cluster.brokers(2)
    cluster.unfence(1)
    return cluster, cluster.topic("t", [1, 2])


def assigned(cluster: Cluster, directory: Uuid, topic_id: Uuid, partition_id: int = 0, broker_id: int = 1) -> ErrorCode:
    request = AssignReplicasToDirsRequest(
        broker_id,
        epoch(cluster, broker_id),
        (Directory(directory, (Topic(topic_id, (Partition(partition_id),)),)),),
    )
    response = cluster.write(assign_replicas_to_dirs(request, settings=cluster.settings))
    return ErrorCode(response.directories[0].topics[0].partitions[0].error_code)


def test_a_replica_has_a_directory_from_then_on() -> None:
    cluster, topic_id = two_directories()

    assert ErrorCode.NONE == assigned(cluster, uuid(12), topic_id)
    partition = cluster.partition("t")
    assert (uuid(12), (1, 2), 1) == (partition.directory_of(1), partition.isr, partition.leader)


def test_one_in_a_directory_that_is_gone_leads_no_more() -> None:
    cluster, topic_id = two_directories()

    assert ErrorCode.NONE == assigned(cluster, uuid(13), topic_id)
    partition = cluster.partition("t")
    assert (uuid(13), (2,), 2) == (partition.directory_of(1), partition.isr, partition.leader)


def test_if_it_was_the_only_one_nobody_leads() -> None:
    cluster, _ = two_directories()
    alone = cluster.topic("alone", [1])
    assigned(cluster, uuid(13), alone)

    assert ((1,), NO_LEADER) == (cluster.partition("alone").isr, cluster.partition("alone").leader)


def test_refuses_what_is_not_there_or_not_the_brokers() -> None:
    cluster, topic_id = two_directories()
    other = cluster.topic("other", [2])

    assert ErrorCode.UNKNOWN_TOPIC_ID == assigned(cluster, uuid(12), uuid(99))
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == assigned(cluster, uuid(12), topic_id, 9)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == assigned(cluster, uuid(12), other)


@pytest.mark.parametrize(
    ("level", "broker_epoch", "code"),
    [(16, 1, ErrorCode.UNSUPPORTED_VERSION), (25, 999, ErrorCode.STALE_BROKER_EPOCH)],
    ids=["below 3.7-IV2", "another epoch"],
)
def test_refuses_as_a_whole(level: int, broker_epoch: int, code: ErrorCode) -> None:
    cluster = Cluster(level)
    command = assign_replicas_to_dirs(AssignReplicasToDirsRequest(1, broker_epoch), settings=cluster.settings)

    assert code == cluster.refusal(command).code


# Controllers.


def test_a_controller_is_struck_off_once() -> None:
    cluster = Cluster(33)
    listener = ControllerRegistrationRequest.Listener("CONTROLLER", "a", 9093)
    cluster.write(register_controller(ControllerRegistrationRequest(3001, uuid(1), listeners=(listener,))))
    cluster.write(unregister_controller(UnregisterControllerRequest(3001), active_id=3000))

    assert 3001 not in cluster.state.controllers
    assert (
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        == cluster.refusal(unregister_controller(UnregisterControllerRequest(3001), active_id=3000)).code
    )


def test_the_active_controller_cannot_strike_itself_off() -> None:
    """Kafka: QuorumController.unregisterController, before anything else is looked at."""
    for level in (32, 33):
        command = unregister_controller(UnregisterControllerRequest(3001), active_id=3001)
        refused = Cluster(level).refusal(command)

        assert (ErrorCode.INVALID_REQUEST, "controller_id") == (refused.code, refused.metadata["field"])


def test_older_clusters_cannot_strike_controllers_off() -> None:
    refused = Cluster(32).refusal(unregister_controller(UnregisterControllerRequest(3001), active_id=3000))

    assert ErrorCode.UNSUPPORTED_VERSION == refused.code
