"""The observer service on quorums of Kafka releases: it tells what Kafka's own tools tell, and leaves no trace."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Final

import pytest
import pytest_asyncio

from deploy.kafka.node import Node, tool
from deploy.kafka.release import POM, version
from deploy.local.kafka import SETTINGS as OF_BROKER
from deploy.local.ports import HOST, free_ports
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.metadata.no_op_record import NoOpRecord
from quorate.metadata.acls import AclOperation
from quorate.network.client import connect
from quorate.network.client_config import ClientConfig, Endpoint
from quorate.nouns import METADATA_TOPIC, NodeId, Offset
from quorate.pipeline.kafka_nodes import KafkaNodes
from quorate.pipeline.live import QuorumReader
from quorate.records import decode_record
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.names import PARTITION_DIRECTORY
from quorate.wire.batch import BatchHeader, batches, data_values
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.observing import Observing, observing
from tests.e2e.starting import start
from tests.interop.kafka.fleet import TOOLS
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.interop.kafka.secured import secured_controller
from tests.interop.test_live_readers import CLUSTER_ID, Quorum

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

BROKER: Final = 101
RELEASES: Final = [POM, OPERATIONS_POM]
Described = DescribeQuorumResponse.TopicData.PartitionData
ROW: Final = re.compile(r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\d+)\tReplicas: (\S*)\tIsr: (\S*)\t")
TOPIC: Final = re.compile(r"^Topic: (\S+)\tTopicId: (\S+)\t", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """Three controllers and a broker of one release, and an observer from the start on."""

    quorum: Quorum
    server: str
    observer: Observing
    directory: Path

    @property
    def controllers(self) -> list[str]:
        return [self.quorum.addresses([node_id]) for node_id in self.quorum.ports]

    async def asks(self, main: str, *arguments: object) -> str:
        """What a tool says that asks the broker."""
        return await asyncio.to_thread(tool, TOOLS + main, "--bootstrap-server", self.server, *arguments)

    async def create(self, topic: str) -> None:
        """A topic by Kafka's tool, which the observer knows at the end."""
        await self.asks("TopicCommand", "--create", "--topic", topic, "--partitions", 3, "--replication-factor", 1)

        async def known() -> bool:
            response, _ = await self.observer.topics(topic)
            return not response.topics[0].error_code

        await eventually(known)

    async def described(self) -> Described:
        """What the leader says of the quorum: DescribeQuorum, as kafka-metadata-quorum asks for it."""

        async def found() -> Described | None:
            for node_id, port in self.quorum.ports.items():
                if self.quorum.nodes[node_id].is_running:
                    described = await describe(HOST, port)
                    if not described.error_code and described.leader_id == node_id:
                        return described
            return None

        leader = await eventually(found)
        assert leader is not None
        return leader


async def describe(host: str, port: int) -> Described:
    data = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(topics=(data(METADATA_TOPIC, (data.PartitionData(0),)),))
    async with await connect(host, port) as client:
        answer = await client.ask_for(DescribeQuorumResponse, request)
    return answer.topics[0].partitions[0]


def written(bootstrap: list[Endpoint], *, since: Offset, until: Offset) -> set[str]:
    """The types of the records between two offsets of the log."""
    found: set[str] = set()
    with closing(QuorumReader(KafkaNodes(bootstrap, ClientConfig()), retry_s=WITHIN_S)) as reader:
        while since < until:
            for position, header in batches(data := reader.records(since).records):
                types = {"control"} if header.is_control else types_in(data, position, header)
                found |= types if since <= header.base_offset < until else set()
                since = header.next_offset
    return found


def types_in(data: bytes, position: int, header: BatchHeader) -> set[str]:
    return {type(decode_record(value)).__name__ for value in data_values(data, position, header)}


def broker(directory: Path, pom: Path, voters: object, port: int) -> Node:
    own = {
        "node.id": BROKER,
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": directory / "data",
    }
    return Node(directory, {**OF_BROKER, **own}, pom=pom)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=RELEASES, ids=version)
async def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kafka]:
    directory = tmp_path_factory.mktemp("kafka")
    with ExitStack() as stack:
        quorum = await asyncio.to_thread(Quorum, directory, request.param, stack)
        (port,) = free_ports(1)
        voters = quorum.nodes[1].properties["controller.quorum.voters"]
        node = stack.enter_context(broker(directory / "broker", request.param, voters, port))
        await asyncio.to_thread(lambda: (node.format(CLUSTER_ID), node.start().wait_ready()))
        controllers = [quorum.addresses([node_id]) for node_id in quorum.ports]
        async with observing(directory, controllers) as observer:
            await observer.ready()
            yield Kafka(quorum=quorum, server=f"{HOST}:{port}", observer=observer, directory=directory)


async def test_it_tells_what_kafkas_tools_tell(kafka: Kafka) -> None:
    for topic in ("orders", "payments"):
        await kafka.create(topic)
    told = await eventually(  # what a broker tells is what it has applied
        lambda: kafka.asks("TopicCommand", "--describe"), lambda said: len(ROW.findall(said)) >= 6
    )
    status = await kafka.asks("MetadataQuorumCommand", "describe", "--status")
    listing = (TOOLS + "ClusterTool", "list-endpoints", "--bootstrap-server", kafka.server)
    endpoints = await asyncio.to_thread(tool, *listing)
    response, offset = await kafka.observer.topics()
    cluster = await kafka.observer.cluster()

    assert offset > 0
    assert {"orders", "payments"} == {each.name for each in response.topics}
    assert dict(TOPIC.findall(told)) == {each.name: each.topic_id for each in response.topics}
    assert sorted(ROW.findall(told)) == sorted(
        (
            topic.name,
            str(each.partition_index),
            str(each.leader_id),
            ",".join(map(str, each.replica_nodes)),
            ",".join(map(str, each.isr_nodes)),
        )
        for topic in response.topics
        for each in topic.partitions
    )
    assert f"ClusterId:              {cluster.cluster_id}\n" in status
    assert f"LeaderId:               {cluster.controller_id}\n" in status
    rows = [line.split() for line in endpoints.splitlines()[1:]]
    assert [row[:3] for row in rows] == [[str(each.broker_id), each.host, str(each.port)] for each in cluster.brokers]


async def test_nothing_on_the_cluster_changes(kafka: Kafka, tmp_path: Path) -> None:
    """While another observer starts, reads everything and answers, the log grows by Kafka's own NoOpRecords alone."""
    await kafka.create("before")

    async def looked() -> list[Described]:
        before = await kafka.described()
        async with observing(tmp_path, kafka.controllers) as late:
            await late.ready()
            response, _ = await late.topics("before")
            meanwhile = await kafka.described()
        assert [0] == [each.error_code for each in response.topics]
        return [before, meanwhile, await kafka.described()]

    def is_quiet(seen: list[Described]) -> bool:
        """No election of Kafka's own, as may be on a busy machine, and a NoOpRecord: else they look again."""
        return seen[0].leader_epoch == seen[-1].leader_epoch and seen[0].high_watermark < seen[-1].high_watermark

    seen = await eventually(looked, is_quiet)
    bootstrap = [(HOST, port) for port in kafka.quorum.ports.values()]
    ends = (seen[0].high_watermark, seen[-1].high_watermark)

    assert [[BROKER]] * 3 == [[observer.replica_id for observer in each.observers] for each in seen]
    assert [{1, 2, 3}] * 3 == [{voter.replica_id for voter in each.current_voters} for each in seen]
    assert {NoOpRecord.__name__} == await asyncio.to_thread(written, bootstrap, since=ends[0], until=ends[1])


async def wipe(kafka: Kafka, node_id: NodeId) -> None:
    """A controller loses its log, starts, and has caught up: its log begins with the leader's latest checkpoint."""
    node = kafka.quorum.nodes[node_id]
    node.kill()
    shutil.rmtree(node.directory / "data" / PARTITION_DIRECTORY)
    await asyncio.to_thread(lambda: (node.format(CLUSTER_ID, "--ignore-formatted"), node.start().wait_ready()))

    async def lag() -> int:
        described = await kafka.described()
        (voter,) = [each for each in described.current_voters if each.replica_id == node_id]
        return described.high_watermark - voter.log_end_offset

    await eventually(lag, lambda behind: behind <= 0)


async def test_a_leader_dies_whose_log_goes_further_back_than_the_next_ones(kafka: Kafka) -> None:
    """The observer sleeps, and then finds a leader that has only a checkpoint of what it has not read."""
    leader = (await kafka.described()).leader_id
    await kafka.create("seen")
    kafka.observer.send(SIGSTOP)
    others = [node_id for node_id in kafka.quorum.nodes if node_id != leader]
    await kafka.asks("TopicCommand", "--create", "--topic", "unseen", "--partitions", 3)
    # The Fetch that it has open may have been answered up to here; it reads the answer once it goes on.
    answered = (await kafka.described()).high_watermark
    await kafka.asks("TopicCommand", "--create", "--topic", "unread", "--partitions", 3)

    async def newest() -> Offset:
        files = (kafka.quorum.nodes[leader].directory / "data" / PARTITION_DIRECTORY).glob("*.checkpoint")
        return max(int(file.name.partition("-")[0]) for file in files)

    await eventually(newest, lambda end: end > answered)
    for node_id in others:
        await wipe(kafka, node_id)
    kafka.quorum.nodes[leader].kill()
    following = await kafka.described()
    before = kafka.observer.loaded()
    kafka.observer.send(SIGCONT)
    await kafka.create("afterwards")
    response, _ = await kafka.observer.topics()
    cluster = await kafka.observer.cluster()
    kafka.quorum.nodes[leader].start()

    assert following.leader_id in others
    assert following.leader_id == cluster.controller_id
    assert {"seen", "unseen", "unread", "afterwards"} <= {each.name for each in response.topics}
    assert [] != [each for each in kafka.observer.loaded()[len(before) :] if each > answered]


def written_to(file: Path, properties: Mapping[str, str]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), "utf-8")
    return file


async def test_over_tls_it_logs_in_by_scram_and_needs_cluster_action_and_nothing_more(tmp_path: Path) -> None:
    """Of one release: how our client logs in at both `test_wire_client.py` shows."""
    with secured_controller(tmp_path, OPERATIONS_POM) as controller:
        where = controller.address
        unnamed = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "bootstrap.controllers": where}
        settings = unnamed | {"cluster.id": CLUSTER_ID}
        guess = {"command.config": str(written_to(tmp_path / "guess.properties", controller.client("guess")))}
        known = {"command.config": str(written_to(tmp_path / "client.properties", controller.client()))}
        unknown = await start("observer", settings | guess, tmp_path)
        stranger = await start("observer", settings | known, tmp_path)
        await controller.allow(AclOperation.CLUSTER_ACTION)
        curious = await start("observer", unnamed | known, tmp_path)
        async with observing(tmp_path, [where], known | {"cluster.id": CLUSTER_ID}) as observer:
            await observer.ready()
            cluster = await observer.cluster()
    ends = [unknown, stranger, curious]
    said = [line for each in ends for line in each.fatal]
    refused = f"fatal: ApiError: CLUSTER_AUTHORIZATION_FAILED: {where}: "

    assert [ExitCode.FAILED] * 3 == [each.code for each in ends]
    assert len(said) == 3
    assert said[0].startswith(f"fatal: ApiError: SASL_AUTHENTICATION_FAILED: {where}: ")
    assert "guess" not in said[0]
    assert said[1] == f"{refused}Fetch requires CLUSTER_ACTION on the cluster"
    assert re.fullmatch(rf"{re.escape(refused)}.+ requires ALTER on the cluster", said[2])
    assert (CLUSTER_ID, 1) == (cluster.cluster_id, cluster.controller_id)
