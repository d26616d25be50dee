"""OTEL_METRICS_EXPORTER at every service: what it says by scrape is what the cluster is."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

import pytest

from deploy.local.plan import Process
from deploy.local.ports import free_ports
from kraft.api.alter_partition_pb2 import AlterPartitionRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from quorate.errors import ErrorCode
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

SAMPLE = re.compile(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


async def scraped(port: int) -> dict[str, float]:
    """Every sample by its name and labels."""

    def get() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    return {name: float(value) for name, value in SAMPLE.findall(await asyncio.to_thread(get))}


def exporter(port: int) -> dict[str, str]:
    """The environment of a process that says its numbers at this port."""
    return {
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
    }


async def exporting(cluster: Cluster, process: Process) -> int:
    """It starts anew, and says its numbers at this port."""
    (port,) = free_ports(1)
    await cluster.kill(process)
    await cluster.running.spawn(process, environ=exporter(port))
    await cluster.running.ready([process])
    return port


async def two_topics(cluster: Cluster) -> None:
    topic = CreateTopicsRequest.CreatableTopic
    wanted = [topic(name=name, num_partitions=4, replication_factor=3) for name in ("one", "two")]
    await call_with_retries(cluster.controller_stub(1).CreateTopics, CreateTopicsRequest(topics=wanted))


async def alter_isr(cluster: Cluster, topic: Any, isr: Sequence[int], *, partition_epoch: int) -> int:
    """The leader of partition 0 says who is in sync with it; the error in its answer, 0 for none."""
    asked = AlterPartitionRequest.TopicData
    partition = asked.PartitionData(
        partition_index=0,
        leader_epoch=topic.partitions[0].leader_epoch,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=[
            asked.PartitionData.BrokerState(broker_id=each, broker_epoch=cluster.brokers[each].epoch) for each in isr
        ],
    )
    leader = cluster.brokers[topic.partitions[0].leader_id]
    request = AlterPartitionRequest(
        broker_id=leader.id,
        broker_epoch=leader.epoch,
        topics=[asked(topic_id=topic.topic_id, partitions=[partition])],
    )
    told = await call_with_retries(cluster.controller_stub(await cluster.active()).AlterPartition, request)
    return int(told.response.topics[0].partitions[0].error_code)


OF_THE_CLUSTER = {
    'kraft_brokers{kraft_broker_state="active"}': 3,
    'kraft_brokers{kraft_broker_state="fenced"}': 0,
    'kraft_brokers{kraft_broker_state="controlled_shutdown"}': 0,
    "kraft_topics": 2,
    "kraft_partitions": 8,
    "kraft_partitions_offline": 0,
    "kraft_partitions_imbalanced": 0,
    "kraft_partitions_under_replicated": 0,
    "kraft_partitions_under_min_isr": 0,
}


async def test_every_service_says_its_numbers(cluster: Cluster) -> None:
    placer = await exporting(cluster, cluster.plan.placer)
    observer = await exporting(cluster, cluster.plan.observer)
    heartbeat = await exporting(cluster, cluster.plan.heartbeat)
    controllers = [await exporting(cluster, controller) for controller in cluster.plan.controllers]
    active = await cluster.active()
    began_at_ms = time.time() * 1000
    await two_topics(cluster)
    seen = await eventually(lambda: scraped(observer), lambda found: found.get("kraft_partitions") == 8)
    beats = await eventually(lambda: scraped(heartbeat), lambda found: found.get("kraft_heartbeat_sessions") == 3)

    async def of_all() -> list[dict[str, float]]:
        return [await scraped(port) for port in controllers]

    # A controller hears by and by of who leads.
    of_controllers = await eventually(
        of_all,
        lambda each: [node_id == active for node_id in (1, 2, 3)] == [of["kraft_controller_active"] for of in each],
    )

    assert OF_THE_CLUSTER == {name: seen[name] for name in OF_THE_CLUSTER}
    assert began_at_ms - 1 <= seen["kraft_metadata_applied_at_milliseconds"] <= time.time() * 1000
    assert seen["kraft_metadata_lag_milliseconds"] >= 0
    assert OF_THE_CLUSTER == {name: of_controllers[active - 1][name] for name in OF_THE_CLUSTER}
    assert {f'kraft_heartbeat_silence_seconds{{kraft_broker_id="{id}"}}' for id in (101, 102, 103)} <= beats.keys()
    assert [node_id == active for node_id in (1, 2, 3)] == [each["kraft_controller_active"] for each in of_controllers]
    assert all(each["kraft_controller_elections_total"] >= 1 for each in of_controllers)
    leader = of_controllers[active - 1]
    assert leader["kraft_metadata_lag_milliseconds"] == 0
    assert leader["kraft_metadata_applied_offset"] >= leader["kraft_metadata_committed_offset"] > 0
    assert leader["kraft_controller_decision_duration_seconds_count"] > 0
    assert leader["kraft_controller_queue_duration_seconds_count"] > 0
    assert 8 == (await scraped(placer))["kraft_placer_partitions_total"]
    for each in (seen, beats, *of_controllers, await scraped(placer)):
        assert each["kraft_loop_hold_longest_seconds"] >= 0


OF_ISRS = ("expands", "shrinks", "failed_updates")


async def test_isrs_that_leaders_change_are_counted(cluster: Cluster) -> None:
    ports = [await exporting(cluster, controller) for controller in cluster.plan.controllers]
    creatable = CreateTopicsRequest.CreatableTopic
    config = creatable.CreatableTopicConfig(name="min.insync.replicas", value="2")
    wanted = creatable(name="three", num_partitions=1, replication_factor=3, configs=[config])
    active = await cluster.active()
    await call_with_retries(cluster.controller_stub(active).CreateTopics, CreateTopicsRequest(topics=[wanted]))
    topic = (await cluster.topics(active))["three"]
    leader, *others = topic.partitions[0].replica_nodes

    errors = [await alter_isr(cluster, topic, [leader], partition_epoch=0)]
    short = await scraped(ports[active - 1])
    errors += [await alter_isr(cluster, topic, [leader, *others], partition_epoch=epoch) for epoch in (0, 1)]
    whole = await scraped(ports[active - 1])

    assert [0, int(ErrorCode.INVALID_UPDATE_VERSION), 0] == errors
    assert (1, 1) == tuple(short[f"kraft_partitions_{name}"] for name in ("under_replicated", "under_min_isr"))
    assert [0, 1, 0] == [short[f"kraft_controller_isr_{name}_total"] for name in OF_ISRS]
    assert (0, 0) == tuple(whole[f"kraft_partitions_{name}"] for name in ("under_replicated", "under_min_isr"))
    assert [1, 1, 1] == [whole[f"kraft_controller_isr_{name}_total"] for name in OF_ISRS]


async def test_a_broker_that_falls_silent_is_counted_as_fenced_and_what_it_led_moves(cluster: Cluster) -> None:
    """A partition whose only replica was there has no leader any more, and is offline."""
    port = await exporting(cluster, cluster.plan.observer)
    creatable = CreateTopicsRequest.CreatableTopic
    alone = creatable.CreatableReplicaAssignment(partition_index=0, broker_ids=[103])
    wanted = creatable(name="alone", num_partitions=-1, replication_factor=-1, assignments=[alone])
    await call_with_retries(cluster.controller_stub(1).CreateTopics, CreateTopicsRequest(topics=[wanted]))
    await cluster.brokers[103].shut_down()

    seen = await eventually(
        lambda: scraped(port), lambda found: found.get('kraft_brokers{kraft_broker_state="fenced"}') == 1
    )

    assert 2 == seen['kraft_brokers{kraft_broker_state="active"}']
    assert seen["kraft_partitions_imbalanced"] > 0
    assert seen["kraft_partitions_offline"] == 1
    assert seen["kraft_partitions_under_replicated"] == seen["kraft_partitions"] - 1
