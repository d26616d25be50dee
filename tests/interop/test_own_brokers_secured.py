"""A broker of ours and one of Kafka's behind one SASL_SSL: in one ISR, and with the same answers by the same rights."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import pytest_asyncio

from deploy.local.ports import HOST, free_ports
from kraft import Message, Uuid
from kraft.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kraft.api.create_acls import CreateAclsRequest, CreateAclsResponse
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_records import DeleteRecordsRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.describe_configs import DescribeConfigsRequest
from kraft.api.describe_log_dirs import DescribeLogDirsRequest
from kraft.api.describe_producers import DescribeProducersRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.fetch import FetchRequest
from kraft.api.find_coordinator import FindCoordinatorRequest
from kraft.api.init_producer_id import InitProducerIdRequest
from kraft.api.list_offsets import ListOffsetsRequest
from kraft.api.metadata import MetadataRequest
from kraft.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kraft.api.produce import ProduceRequest
from kraft.api.write_txn_markers import WriteTxnMarkersRequest
from quorate.authorizer import CLUSTER_NAME
from quorate.controller.access.scram_keys import ITERATIONS_MIN, salted_password
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId, parse_uuid
from quorate.protocol.sasl.scram import ScramClient
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.own_brokers import MODULE, SUPER, OwnBrokers, secured
from tests.e2e.records import Writer, consumed, lost, stored
from tests.interop.kafka.fleet import PERFORMANCE, Fleet, fleet_of
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.network.certificates import Authority, authority
from tests.partition_log.batches import produced
from tests.services.broker.calling import codes_in

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

OURS, KAFKAS = 101, 102
BOTH: Final = (OURS, KAFKAS)
SCRAM_512: Final = 2
AT: Final = {broker_id: f"at-{broker_id}" for broker_id in BOTH}
"""A topic that this broker leads, and the other one follows."""
MANY: Final = 100
TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Secured:
    """Two brokers, where each is reached, and who issues certificates."""

    fleet: Fleet
    own: OwnBrokers
    issuer: Authority
    store: Path
    clear: Mapping[NodeId, int]
    secure: Mapping[NodeId, int]

    @property
    def servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.secure.values())

    def replica(self, broker_id: NodeId, name: str) -> Path:
        home = self.fleet.plane.plan.directory / f"broker-{broker_id}"
        return (self.own.disks(OURS)[0] if broker_id == OURS else home / "data") / name

    async def create(self, topic: str, *leaders: NodeId) -> Uuid:
        """A topic with a partition for each leader, on both; its id."""
        asked = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1)
        for index, leader in enumerate(leaders):
            others = [each for each in BOTH if each != leader]
            asked.assignments.add(partition_index=index, broker_ids=[leader, *others])
        asked.configs.add(name="min.insync.replicas", value="2")
        stub = self.fleet.plane.controller_stub(1)
        answer = await call_with_retries(stub.CreateTopics, CreateTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS))
        assert ErrorCode.NONE == answer.response.topics[0].error_code, answer.response
        await self.fleet.in_sync(topic)
        return parse_uuid(answer.response.topics[0].topic_id)

    async def user(self, name: str, *rights: tuple[AclOperation, ResourceType, str]) -> str:
        """A new SCRAM user with these rights, made through our broker; its password."""
        password, salt = secrets.token_hex(8), secrets.token_bytes(16)
        salted = salted_password(SCRAM_512, password.encode(), salt, ITERATIONS_MIN)
        upsert = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name, SCRAM_512, ITERATIONS_MIN, salt, salted
        )
        of = CreateAclsRequest.AclCreation
        literal, allow = PatternType.LITERAL, AclPermission.ALLOW
        entries = tuple(
            of(kind, resource, literal, f"User:{name}", "*", operation, allow) for operation, kind, resource in rights
        )
        async with await connect(HOST, self.clear[OURS]) as admin:
            scram = AlterUserScramCredentialsRequest(upsertions=(upsert,))
            made = await admin.ask_for(AlterUserScramCredentialsResponse, scram)
            assert [ErrorCode.NONE] == [each.error_code for each in made.results], made
            if entries:
                added = await admin.ask_for(CreateAclsResponse, CreateAclsRequest(entries))
                assert {ErrorCode.NONE} == {ErrorCode(each.error_code) for each in added.results}, added
        return password

    async def login(self, broker_id: NodeId, name: str, password: str) -> Connection:
        """A connection of the user, once the broker knows it."""

        async def connection() -> Connection | None:
            begin = lambda: ScramClient(SCRAM_512, name, password, nonce=lambda: secrets.token_hex(8))  # noqa: E731
            try:
                return await connect(HOST, self.secure[broker_id], begin=begin, tls=self.issuer.client())
            except ApiError as refusal:
                assert refusal.code is ErrorCode.SASL_AUTHENTICATION_FAILED, refusal
                return None

        found = await eventually(connection)
        assert found is not None
        return found

    def client(self, name: str, password: str) -> dict[str, str]:
        """librdkafka's settings for the user's login."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.issuer.certificate),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": password,
        }

    def javas(self, name: str, password: str) -> Path:
        """A file of the same for Kafka's own client."""
        file = self.fleet.plane.plan.directory / f"{name}.properties"
        jaas = f'{MODULE}.scram.ScramLoginModule required username="{name}" password="{password}";'
        of_tls = f"ssl.truststore.type=PEM\nssl.truststore.location={self.issuer.certificate}\n"
        of_sasl = f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={jaas}\n"
        file.write_text(f"bootstrap.servers={self.servers}\nsecurity.protocol=SASL_SSL\nacks=all\n{of_tls}{of_sasl}")
        return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    issuer = authority(directory)
    stores = {each: issuer.issue(f"broker-{each}", f"/CN=broker-{each}") for each in BOTH}
    ours_clear, *ports = free_ports(3)
    secure = dict(zip(BOTH, ports, strict=True))
    settings = lambda each, port: secured(issuer, stores[each], port, secure[each])  # noqa: E731
    async with fleet_of(
        directory, {KAFKAS: OPERATIONS_POM}, level="4.0-IV3", controller_settings=SUPER, settings_of=settings
    ) as fleet:
        gateways = {"gateway.endpoints": ",".join(each.kafka_address for each in fleet.plane.plan.gateways)}
        own = OwnBrokers(fleet.plane, ids=(OURS,), settings={**settings(OURS, ours_clear), **gateways})
        await own.start()
        clear = {OURS: ours_clear, KAFKAS: fleet.ports[KAFKAS]}
        yield Secured(fleet, own, issuer, stores[OURS], clear, secure)


async def serial(port: int) -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(HOST, port, ssl=context)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


ON_TOPICS: Final = (AclOperation.WRITE, ResourceType.TOPIC), (AclOperation.READ, ResourceType.TOPIC)


async def test_producers_with_scram_over_tls_while_a_certificate_is_replaced(both: Secured) -> None:
    """Partitions led by each and followed by the other, with acks=all; both logs are the same at the end."""
    await both.create("orders", *BOTH)
    of_group = (AclOperation.READ, ResourceType.GROUP, "none")  # librdkafka asks for its coordinator
    password = await both.user("writer", *((*each, "orders") for each in ON_TOPICS), of_group)
    for each in BOTH:
        await (await both.login(each, "writer", password)).close()
    client = both.client("writer", password)
    async with Writer(both.servers, "orders", partitions=2, settings=client) as writer:
        await writer.more(MANY)
        before = await serial(both.secure[OURS])
        both.store.write_text(both.issuer.issue("next", "/CN=broker-101").read_text())
        after = await eventually(lambda: serial(both.secure[OURS]), lambda seen: seen != before)
        await writer.more(MANY)
    said = await both.fleet.run(
        *(PERFORMANCE, "--topic", "orders", "--num-records", MANY, "--record-size", 100, "--throughput", -1),
        *("--command-config", both.javas("writer", password)),
    )
    ends = {index: max(offset for offset, _ in told) + 1 for index, told in writer.acknowledged.items()}
    seen = await asyncio.to_thread(consumed, both.servers, "orders", ends, client)
    await both.fleet.in_sync("orders")
    logs = {
        index: [stored(both.replica(each, f"orders-{index}"))[:end] for each in BOTH] for index, end in ends.items()
    }

    assert before != after
    assert [] == writer.problems
    assert said.splitlines()[-1].startswith(f"{MANY} records sent")
    assert {} == {index: gone for index, told in writer.acknowledged.items() if (gone := lost(told, seen[index]))}
    assert {index: [log[0]] * 2 for index, log in logs.items()} == logs


def calls(topic: str, topic_id: Uuid, data: bytes, follower: NodeId) -> dict[str, Message]:
    """What is asked of the leader of a topic with one partition."""
    listed, epochs = ListOffsetsRequest.ListOffsetsTopic, OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    fetched = FetchRequest.FetchTopic(
        topic=topic, topic_id=topic_id, partitions=(FetchRequest.FetchTopic.FetchPartition(0, partition_max_bytes=100),)
    )
    replica = FetchRequest.ReplicaState(follower, 1 << 40)
    written = ProduceRequest.TopicProduceData
    part = written(name=topic, topic_id=topic_id, partition_data=(written.PartitionProduceData(0, data),))
    deleted = DeleteRecordsRequest.DeleteRecordsTopic
    of_metadata, configs = MetadataRequest.MetadataRequestTopic, DescribeConfigsRequest.DescribeConfigsResource
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    all_topics = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    return {
        "metadata by name": MetadataRequest((of_metadata(name=topic), of_metadata(name="missing")), **all_topics),
        "metadata by id": MetadataRequest((of_metadata(topic_id, None), of_metadata(Uuid(bytes([9] * 16)), None))),
        "metadata": MetadataRequest(None, **all_topics),
        "produce": ProduceRequest(None, -1, TIMEOUT_MS, (part,)),
        "fetch": FetchRequest(max_wait_ms=0, max_bytes=100, session_epoch=-1, topics=(fetched,)),
        "fetch as replica": FetchRequest(
            replica_state=replica, max_wait_ms=0, max_bytes=100, session_epoch=-1, topics=(fetched,)
        ),
        "list offsets": ListOffsetsRequest(topics=(listed(topic, (listed.ListOffsetsPartition(0, -1, -2),)),)),
        "epochs": OffsetForLeaderEpochRequest(-1, (epochs(topic, (epochs.OffsetForLeaderPartition(0, -1, 0),)),)),
        "delete records": DeleteRecordsRequest((deleted(topic, (deleted.DeleteRecordsPartition(0, 0),)),), TIMEOUT_MS),
        "producer id": InitProducerIdRequest(transactional_id=None),
        "coordinator": FindCoordinatorRequest(key_type=0, coordinator_keys=("a group",)),
        "coordinator of a transaction": FindCoordinatorRequest(key_type=1, coordinator_keys=("an id",)),
        "log directories": DescribeLogDirsRequest(()),
        "configs": DescribeConfigsRequest((configs(2, topic, ("retention.ms",)), configs(2, "missing", ()))),
        "configs of a broker": DescribeConfigsRequest((configs(4, "102", ("log.dirs",)),)),
        "producers": DescribeProducersRequest((DescribeProducersRequest.TopicRequest(topic, (0,)),)),
        "cluster": DescribeClusterRequest(include_cluster_authorized_operations=True),
        "topic": DescribeTopicPartitionsRequest(
            (DescribeTopicPartitionsRequest.TopicRequest(topic), DescribeTopicPartitionsRequest.TopicRequest("missing"))
        ),
        "markers": WriteTxnMarkersRequest((marker(7, 0, True, (marker.WritableTxnMarkerTopic("missing", (0,)),), 0),)),
    }


USERS: Final[Mapping[str, tuple[tuple[AclOperation, ResourceType], ...]]] = {
    "nobody": (),
    "reader": ((AclOperation.READ, ResourceType.TOPIC),),
    "describer": ((AclOperation.DESCRIBE, ResourceType.TOPIC), (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)),
    "producer": ((AclOperation.WRITE, ResourceType.TOPIC), (AclOperation.DELETE, ResourceType.TOPIC)),
    "operator": ((AclOperation.ALTER, ResourceType.CLUSTER), (AclOperation.DESCRIBE, ResourceType.CLUSTER)),
    "actor": (
        (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
        (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    ),
    "everywhere": tuple(
        (AclOperation.ALL, kind) for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
    ),
}
NOT_OURS: Final = {"coordinator", "coordinator of a transaction"}
"""Of those who may: ours coordinates nothing, and Kafka's makes the topic."""


async def outcomes(
    connection: Connection, other: Connection, asked: Mapping[str, Message], topic: str
) -> dict[str, Any]:
    """By call the error codes, the operations, and the topics in the answers; in a version that both have."""
    found: dict[str, Any] = {}
    for name, request in asked.items():
        version = min(each.version_of(type(request)) for each in (connection, other))

        async def answer(request: Message = request, version: int = version) -> dict[str, Any]:
            return dict(msgspec.to_builtins(await connection.ask(request, version=version)))

        # a broker of Kafka's that has no block of producer ids yet asks for one, and says so
        plain = await eventually(answer, lambda seen: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS not in codes_in(seen))
        codes = sorted(codes_in(plain))
        told = {each["name"] for each in plain.get("topics", ()) if each.get("name")} if name == "metadata" else set()
        own = [each.get("topic_authorized_operations") for each in plain.get("topics", ()) if each.get("name") == topic]
        found[name] = (codes, own, topic in told, plain.get("cluster_authorized_operations"))
        if name == "metadata":  # how many topics and partitions there are is not what is compared
            found[name] = (max(codes, default=0), *found[name][1:])
    return found


async def test_the_same_rights_get_the_same_answers(both: Secured) -> None:
    """Each user asks each broker about the topic that it leads."""
    ids = {each: await both.create(AT[each], each) for each in BOTH}
    seen: dict[str, dict[NodeId, dict[str, Any]]] = {}
    for user, rights in USERS.items():
        resources = [
            (operation, kind, name)
            for operation, kind in rights
            for name in (
                (CLUSTER_NAME,) if kind is ResourceType.CLUSTER else ("*",) if user == "everywhere" else AT.values()
            )
        ]
        password = await both.user(user, *resources, (AclOperation.READ, ResourceType.GROUP, f"mark-{user}"))
        connections = {each: await both.login(each, user, password) for each in BOTH}
        for connection in connections.values():
            await knows(connection, f"mark-{user}")
        ours, kafkas = connections[OURS], connections[KAFKAS]
        seen[user] = {
            each: await outcomes(
                of, other, calls(AT[each], ids[each], produced(count=1), OURS + KAFKAS - each), AT[each]
            )
            for each, of, other in ((OURS, ours, kafkas), (KAFKAS, kafkas, ours))
        }
        for connection in connections.values():
            await connection.close()
    differ = {
        (user, call): (told, by[KAFKAS][call])
        for user, by in seen.items()
        for call, told in by[OURS].items()
        if told != by[KAFKAS][call] and not (user == "everywhere" and call in NOT_OURS)
    }

    assert {} == differ
    refused = {code for by in seen["nobody"][OURS].values() for code in (by[0] if isinstance(by[0], list) else [by[0]])}
    assert {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED} <= refused


async def knows(connection: Connection, group: str) -> None:
    """Waits until the broker has the user's last entry: it names the group's coordinator, or says there is none."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))

    async def codes() -> list[int]:
        return list(codes_in(msgspec.to_builtins(await connection.ask(request))))

    await eventually(codes, lambda seen: ErrorCode.GROUP_AUTHORIZATION_FAILED not in seen)
