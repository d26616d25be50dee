"""A broker of our own takes part: it registers, is unfenced, leaves in order, and comes back as the same."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import pytest_asyncio

from deploy.local.ports import HOST, free_ports
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.list_offsets_pb2 import ListOffsetsRequest
from kraft.service.broker_pb2_grpc import BrokerStub
from quorate.errors import ErrorCode
from quorate.network.client import connect
from quorate.partition_log.names import CLEAN_SHUTDOWN
from quorate.records import RegisterBrokerRecord
from quorate.runtime.clients.client import call, open_channel
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import Cluster, stored_records
from tests.e2e.own_brokers import PASSWORD, OwnBrokers, plane_without_brokers, secured
from tests.e2e.records import Writer, consumed, lost
from tests.network.certificates import Authority, authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with plane_without_brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def brokers(cluster: Cluster, issuer: Authority) -> OwnBrokers:
    """101 is in the stories, 102 beside it: where nobody is heard at all, nobody is fenced. Both have two disks.

    They ask each other by TLS and with a login.
    """
    brokers = OwnBrokers(cluster, ids=(101, 102), directories=2)
    brokers[101].settings["grpc.listeners"] = f"GRPC://{HOST}:{free_ports(1)[0]}"
    for each in brokers.ids:
        clear, secure = brokers[each].kafka_address.rpartition(":")[2], free_ports(1)[0]
        store = issuer.issue(f"broker-{each}", f"/CN=broker-{each}")
        brokers[each].settings.update(secured(issuer, store, int(clear), secure))
    await brokers.start()
    return brokers


async def registrations(cluster: Cluster) -> list[RegisterBrokerRecord]:
    """All registrations of broker 101 so far, by the active controller's log."""
    records = stored_records(cluster.plan.log_dir(await cluster.active()))
    return [each for each in records if isinstance(each, RegisterBrokerRecord) and each.broker_id == 101]


def marks(disks: list[Path]) -> list[int | None]:
    """The broker epoch in the mark of each directory."""
    paths = [disk / CLEAN_SHUTDOWN for disk in disks]
    return [json.loads(path.read_text())["brokerEpoch"] if path.exists() else None for path in paths]


async def test_is_registered_with_its_listener_and_directories(cluster: Cluster, brokers: OwnBrokers) -> None:
    await brokers.unfenced(101, 102)  # controller 1 may stand by, and hear of it later than the broker
    registered = (await brokers.registered())[101]
    (record, *_) = await registrations(cluster)
    found = [read_meta_properties(disk) for disk in brokers.disks(101)]
    address = brokers[101].kafka_address

    assert address == f"{registered.host}:{registered.port}"
    assert {each.directory_id for each in found if each is not None} == {*record.log_dirs}
    assert 2 == len(record.log_dirs)
    assert [None, None] == marks(brokers.disks(101))

    described = await cluster.describe_quorum(1)

    assert 101 in {observer.replica_id for observer in described.observers}


async def test_its_listener_answers_a_client_s_first_request(cluster: Cluster, brokers: OwnBrokers) -> None:
    host, port = brokers[101].kafka_address.split(":")
    async with await connect(host, int(port)) as connection:
        answer = await connection.ask_for(ApiVersionsResponse, ApiVersionsRequest("test", "1"))

    told = sorted(each.api_key for each in answer.api_keys)
    assert [0, 1, 2, 3, 10, 17, 18, 21, 22, 23, 27, 29, 32, 34, 35, 36, 41, 48, 50, 60, 61, 66, 75] == told
    assert "metadata.version" in {each.name for each in answer.finalized_features}


async def test_it_answers_by_grpc(brokers: OwnBrokers) -> None:
    topic = ListOffsetsRequest.ListOffsetsTopic(name="missing")
    topic.partitions.add(partition_index=0, timestamp=-1)
    async with open_channel(brokers[101].settings["grpc.listeners"].removeprefix("GRPC://")) as channel:
        stub: Any = BrokerStub(channel)
        answer = await call(stub.ListOffsets, ListOffsetsRequest(topics=[topic]), deadline_ms=30_000)

    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == answer.topics[0].partitions[0].error_code


async def test_brokers_replicate_over_tls_with_logins_and_ask_for_rights(
    cluster: Cluster, brokers: OwnBrokers, issuer: Authority
) -> None:
    """acks=all is answered once the other broker has fetched; alice, who has no entry, writes nothing."""
    topic = CreateTopicsRequest.CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1)
    topic.configs.add(name="min.insync.replicas", value="2")
    for index, replicas in enumerate(([101, 102], [102, 101])):
        topic.assignments.add(partition_index=index, broker_ids=replicas)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    await call_with_retries(cluster.controller_stub(1).CreateTopics, request)
    secure = ",".join(brokers[each].settings["listeners"].rpartition("//")[2] for each in brokers.ids)
    tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(issuer.certificate), "sasl.mechanism": "PLAIN"}
    broker, alice = (
        {**tls, "sasl.username": name, "sasl.password": word}
        for name, word in (("broker", PASSWORD), ("alice", "hers"))
    )
    async with Writer(secure, "orders", partitions=2, settings=broker) as writer:
        await writer.more(10)
    ends = {index: max(offset for offset, _ in told) + 1 for index, told in writer.acknowledged.items()}
    seen = await asyncio.to_thread(consumed, secure, "orders", ends, broker)
    denied = confluent_kafka.Producer({"bootstrap.servers": secure, **alice})
    refusals: list[str] = []
    denied.produce("orders", b"hers", on_delivery=lambda error, _: refusals.append(error.name()))
    assert 0 == await asyncio.to_thread(denied.flush, 60)

    assert [] == writer.problems
    assert {} == {index: gone for index, told in writer.acknowledged.items() if (gone := lost(told, seen[index]))}
    assert ["TOPIC_AUTHORIZATION_FAILED"] == refusals


async def test_leaves_in_order_and_comes_back_as_the_same(cluster: Cluster, brokers: OwnBrokers) -> None:
    (*_, before) = await registrations(cluster)
    await brokers.stop(101)

    assert [before.broker_epoch] * 2 == marks(brokers.disks(101))
    assert {102} == set(await brokers.registered())

    await brokers.start(101)
    (*_, after) = await registrations(cluster)

    assert {*before.log_dirs} == {*after.log_dirs}
    assert after.broker_epoch > before.broker_epoch
    assert before.incarnation_id != after.incarnation_id
    assert f"previous_broker_epoch={before.broker_epoch}" in brokers.log(101)


async def test_a_process_that_follows_a_killed_one_waits_for_the_end_of_its_session(
    cluster: Cluster, brokers: OwnBrokers
) -> None:
    (*_, before) = await registrations(cluster)
    await brokers.kill(101)

    assert [None, None] == marks(brokers.disks(101))

    await brokers.start(101)
    (*_, after) = await registrations(cluster)

    assert after.broker_epoch > before.broker_epoch
    assert "previous_broker_epoch=-1" in brokers.log(101).rpartition("starting")[2]


async def test_a_process_that_never_registered_marks_no_clean_stop_of_the_killed_one(
    cluster: Cluster, brokers: OwnBrokers
) -> None:
    await brokers.kill(101)
    (nowhere,) = free_ports(1)
    settings = {**brokers[101].settings, "controller.endpoints": f"127.0.0.1:{nowhere}"}
    alone = replace(brokers[101], name="alone", settings=settings)
    await cluster.running.spawn(alone)

    async def said() -> str:
        return (cluster.plan.directory / "alone.log").read_text()

    assert await eventually(said, lambda text: "starting" in text)
    assert 0 == await cluster.running.kill(alone, signal.SIGTERM)
    assert [None, None] == marks(brokers.disks(101))

    await brokers.start(101)


async def test_a_broker_that_stood_still_is_fenced_and_unfenced_again(cluster: Cluster, brokers: OwnBrokers) -> None:
    async with cluster.stopped(brokers[101]):
        await brokers.unfenced(102)
        while_stopped = set(await brokers.registered())
    await brokers.unfenced(101, 102)

    assert {102} == while_stopped


async def test_a_second_process_does_not_open_the_directories(cluster: Cluster, brokers: OwnBrokers) -> None:
    twin = replace(brokers[101], name="twin")
    await cluster.running.spawn(twin)

    assert ExitCode.MISCONFIGURED == await cluster.ended(twin)
    assert "is locked by another process" in (cluster.plan.directory / "twin.log").read_text()
