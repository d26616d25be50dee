"""Quorums of our nodes and Kafka controllers: their plan, their processes, and what is asked of them."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from deploy.kafka.node import Node, NodeFailed, ToolFailed, tool
from deploy.local.plan import ClusterPlan, Process
from deploy.local.ports import HOST
from kraft import Message, Uuid
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.service.quorum_pb2 import FindQuorumResponse, TransferLeadershipRequest
from quorate.errors import ApiError, Corrupt, ErrorCode, refusal_of
from quorate.metadata.features import supported_features
from quorate.network.client_config import parse_client_config
from quorate.nouns import METADATA_TOPIC, Epoch, NodeId, Offset, uuid_text
from quorate.random_uuid import random_uuid
from quorate.storage.meta_properties import read_meta_properties
from quorate.wire.batch import batches
from tests.e2e.calls import attempt, call_with_retries, eventually
from tests.e2e.cluster import Cluster, stored_batches, stored_leaders, stored_topics
from tests.interop.kafka.quorum import data_of
from tests.interop.mixed_plan import CLEAR, PATIENT, PEERS, Peers, Settings, as_properties, planned

QUORUM_TOOL: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURE_TOOL: Final = "org.apache.kafka.tools.FeatureCommand"
ALREADY: Final = ("DuplicateVoterException", "VoterNotFoundException")
"""What the tool says when an earlier call has done it, whose answer was lost."""
WRONG: Final = "not the password"
REFUSED_KAFKA: Final = "failed authentication due to"
REFUSED_OURS: Final = "a peer does not let this node in"
READY_S: Final = 300
LOOK_AGAIN_S: Final = 0.01
MADE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
BROKER: Final = 101


class MixedQuorum(Cluster):
    """Our processes, with Kafka's controllers by node id beside them. Our nodes have the ids from 1 on."""

    def __init__(self, plan: ClusterPlan, kafkas: Mapping[NodeId, Node], peers: Peers) -> None:
        super().__init__(plan)
        self.kafkas = dict(kafkas)
        self.peers = peers
        self._client = parse_client_config(peers.client())
        self._brokers: dict[NodeId, tuple[Uuid, Uuid]] = {}
        """The incarnation and the log directory of each broker that registers here."""

    @property
    def pids(self) -> list[int]:
        """The process ids of all our processes that run, and of Kafka's controllers."""
        ours = [self.running.pid(each) for each in self.plan.processes if self.running.is_up(each)]
        return [*ours, *(node.pid for node in self.kafkas.values())]

    @property
    def ours(self) -> list[NodeId]:
        """The ids of our nodes."""
        return [int(each.settings["node.id"]) for each in self.plan.quorum]

    @property
    def first_voters(self) -> list[NodeId]:
        """The ids of Kafka's controllers in a quorum that they have begun alone; of ours where there are no others."""
        return [*self.kafkas] or self.ours

    def kafka_address(self, node_id: NodeId) -> str:
        """Where a node speaks Kafka's wire: a gateway of ours, or a Kafka controller."""
        if node_id in self.kafkas:
            return str(self.kafkas[node_id].properties["listeners"]).partition("://")[2]
        return self.plan.bootstrap_controllers.split(",")[self.ours.index(node_id)]

    def data(self, node_id: NodeId) -> Path:
        """The log directory of a node."""
        return data_of(self.plan.directory, node_id) if node_id in self.kafkas else self.plan.log_dir(node_id)

    def directory_id(self, node_id: NodeId) -> str:
        """The directory id of a node, once it is formatted."""
        meta = read_meta_properties(self.data(node_id))
        assert meta is not None, node_id
        assert meta.directory_id is not None, meta
        return uuid_text(meta.directory_id)

    # Leadership

    async def led_by(self, ids: Iterable[NodeId], *, after: int = -1) -> FindQuorumResponse:
        """A view of one of our nodes in which one of `ids` leads, after an epoch; all of ours that run agree."""
        wanted = set(ids)

        async def views() -> list[FindQuorumResponse]:
            running = [node_id for node_id in self.ours if self.running.is_up(self.quorum(node_id))]
            seen = [await attempt(self.find_once(node_id)) for node_id in running]
            return [view for view in seen if view is not None]

        def agree(seen: list[FindQuorumResponse]) -> bool:
            told = {(view.leader_id, view.leader_epoch) for view in seen}
            return len(told) == 1 and seen[0].leader_id in wanted and seen[0].leader_epoch > after

        return (await eventually(views, agree))[0]

    async def transfer(self, *, to: NodeId) -> int:
        """Has our leader pass the leadership to a voter that is not ours; the new epoch."""
        begun = (await self.led_by(self.ours)).leader_epoch

        async def passed() -> FindQuorumResponse:
            view = await self.led_by([*self.ours, *self.kafkas])
            if view.leader_id in self.ours:
                request = TransferLeadershipRequest(voter_id=to, epoch=view.leader_epoch, timeout_ms=5_000)
                await attempt(call_with_retries(self.quorum_stub(view.leader_id).TransferLeadership, request))
            return await self.led_by([*self.ours, *self.kafkas])

        found = await eventually(passed, lambda view: view.leader_id == to)
        assert found.leader_epoch > begun
        return found.leader_epoch

    # Kafka's controllers

    async def start_kafka(self, node_id: NodeId) -> None:
        await asyncio.to_thread(self.kafkas[node_id].start().wait_ready)

    async def stop_kafka(self, node_id: NodeId) -> None:
        await asyncio.to_thread(self.kafkas[node_id].stop)

    async def refuse_kafka(self, node_id: NodeId) -> str:
        """Starts a Kafka controller with a wrong password, and waits until it is refused and ends; what it said."""
        node = self.kafkas[node_id]
        node.configure(self.peers.listener(WRONG))
        node.start()
        await asyncio.to_thread(node.wait_until, lambda: REFUSED_KAFKA in node.says.read_text(), "refused", READY_S)
        with suppress(NodeFailed):  # it ends by itself, too, with status 1
            await self.stop_kafka(node_id)
        node.configure(self.peers.listener())
        return node.says.read_text()

    async def format_kafka(self, node_id: NodeId) -> None:
        """An empty directory for a controller that is to be added."""
        shutil.rmtree(self.data(node_id), ignore_errors=True)
        await asyncio.to_thread(self.kafkas[node_id].format, self.plan.cluster_id, "--no-initial-controllers")

    async def change_voters(self, how: str, node_id: NodeId, *, by: Iterable[NodeId] = ()) -> None:
        """`add-controller` or `remove-controller` of Kafka's own tool; again while that cannot be done yet.

        `by` are the nodes that it asks; all of ours if none is named.
        """
        servers = ",".join(self.kafka_address(each) for each in by) or self.plan.bootstrap_controllers
        at = ("--bootstrap-controller", servers)
        # A controller is added with its own settings; for a removal any Kafka controller's say how to reach the nodes.
        of = self.kafkas.get(node_id) or next(iter(self.kafkas.values()))
        arguments = [*at, "--command-config", of.directory / "server.properties", how]
        if how == "remove-controller":
            arguments += ["--controller-id", node_id, "--controller-directory-id", self.directory_id(node_id)]

        async def done() -> str:
            try:
                return await asyncio.to_thread(tool, QUORUM_TOOL, *arguments)
            except ToolFailed as failed:
                return str(failed)

        await eventually(done, lambda said: any(each in said for each in ("Added", "Removed", *ALREADY)))

    async def put_voters_into_log(self) -> None:
        """`kafka-features upgrade --feature kraft.version=1`, again while the leader does not know each voter yet."""
        servers = ",".join(self.kafka_address(node_id) for node_id in [*self.ours, *self.kafkas])
        config = next(iter(self.kafkas.values())).directory / "server.properties"
        at = ("--bootstrap-controller", servers, "--command-config", config)

        async def done() -> tuple[int, str]:
            try:
                said = await asyncio.to_thread(tool, FEATURE_TOOL, *at, "upgrade", "--feature", "kraft.version=1")
            except ToolFailed as failed:
                said = str(failed)
            return (await self.led_by([*self.ours, *self.kafkas])).kraft_version, said

        await eventually(done, lambda seen: seen[0])

    # Ours

    async def start_ours(self) -> None:
        """Our processes start, as nobody's: each of our nodes asks Kafka's to let it vote."""
        for process in self.plan.quorum:
            process.settings["controller.quorum.bootstrap.servers"] = self._kafkas_to_ask
            process.settings["controller.quorum.auto.join.enable"] = "true"
            await self.running.format(process, joins=True)
        for process in self.plan.processes:
            await self.running.spawn(process)
        await self.running.ready(self.plan.processes)

    async def refuse_ours(self, process: Process) -> str:
        """One of our quorum nodes starts with a wrong password, hears that it is wrong, and ends; what it logged."""
        own, said = self.plan.directory / PEERS, self.plan.directory / f"{process.name}.log"
        own.write_text(as_properties(self.peers.listener(WRONG)))
        await self.running.spawn(process)
        await eventually(lambda: asyncio.to_thread(said.read_text), lambda text: REFUSED_OURS in text)
        await self.kill(process, signal.SIGTERM)
        own.write_text(as_properties(self.peers.listener()))
        return said.read_text()

    async def is_to_join(self, node_id: NodeId) -> None:
        """One of our nodes, whose vote was taken away, ends; it is to ask for it: its voters are in the log now."""
        process = self.quorum(node_id)
        await self.kill(process, signal.SIGTERM)
        process.settings["controller.quorum.bootstrap.servers"] = self._kafkas_to_ask
        process.settings["controller.quorum.auto.join.enable"] = "true"
        del process.settings["controller.quorum.voters"]

    @property
    def _kafkas_to_ask(self) -> str:
        return ",".join(f"CONTROLLER://{self.kafka_address(node_id)}" for node_id in self.kafkas)

    async def end_ours(self, node_id: NodeId) -> None:
        """One of our nodes, its controller and its gateway end in good order."""
        place = self.ours.index(node_id)
        for process in (self.quorum(node_id), self.plan.controllers[place], self.plan.gateways[place]):
            await self.kill(process, signal.SIGTERM)

    # Kafka's wire

    async def ask(self, node_id: NodeId, request: Message) -> Any:
        """One request at a node's listener for Kafka's wire. Raises OSError and ApiError."""
        host, _, port = self.kafka_address(node_id).rpartition(":")
        async with await self._client.connect((host, int(port))) as connection:
            return await connection.ask(request)

    async def described(self, *, at: NodeId) -> DescribeQuorumResponse.TopicData.PartitionData:
        """The quorum, as the leader tells it on Kafka's wire. Raises OSError and ApiError."""
        part = DescribeQuorumRequest.TopicData
        answer: DescribeQuorumResponse = await self.ask(
            at, DescribeQuorumRequest(topics=(part(METADATA_TOPIC, (part.PartitionData(0),)),))
        )
        found = answer.topics[0].partitions[0] if answer.topics else None
        if found is None or found.error_code:
            raise refusal_of(found.error_code if found else answer.error_code, "DescribeQuorum")
        return found

    async def described_by_one_of(self, nodes: Sequence[NodeId]) -> DescribeQuorumResponse.TopicData.PartitionData:
        """The same by whichever of these nodes comes to lead."""
        while True:
            for node_id in nodes:
                with suppress(ApiError, OSError):
                    return await self.described(at=node_id)
            await asyncio.sleep(LOOK_AGAIN_S)

    async def create_by_wire(self, topic: str, *, at: NodeId) -> None:
        """A topic on the one broker of these stories, made at one node; asked again while that cannot be done there."""

        async def made() -> ErrorCode:
            try:
                await self.unfence(at=at)
                return await self._created(topic, at=at)
            except ApiError as refusal:
                return refusal.code
            except OSError:
                return ErrorCode.NETWORK_EXCEPTION

        await eventually(made, lambda code: code in MADE)

    async def create_by_one_of(self, topic: str, nodes: Sequence[NodeId]) -> None:
        """The same by whichever of these nodes comes to lead."""

        async def made() -> bool:
            for node_id in nodes:
                try:
                    await self.unfence(at=node_id)
                    if await self._created(topic, at=node_id) in MADE:
                        return True
                except (ApiError, OSError):
                    pass
            return False

        await eventually(made)

    async def _created(self, topic: str, *, at: NodeId) -> ErrorCode:
        asked = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        answer: CreateTopicsResponse = await self.ask(at, CreateTopicsRequest(topics=(asked,), timeout_ms=10_000))
        return ErrorCode(answer.topics[0].error_code)

    async def unfence(self, broker_id: NodeId = BROKER, *, at: NodeId) -> Epoch:
        """A broker registers, or is registered already, and says that it has replayed that; its broker epoch."""
        incarnation_id, directory_id = self._brokers.setdefault(broker_id, (random_uuid(), random_uuid()))
        registration = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self.plan.cluster_id,
            incarnation_id=incarnation_id,
            listeners=(BrokerRegistrationRequest.Listener("PLAINTEXT", HOST, 9092, 0),),
            features=tuple(
                BrokerRegistrationRequest.Feature(name, low, high)
                for name, (low, high) in sorted(supported_features().items())
            ),
            log_dirs=(directory_id,),
        )
        registered: BrokerRegistrationResponse = await self.ask(at, registration)
        if registered.error_code:
            raise refusal_of(registered.error_code, "BrokerRegistration")
        replayed = (await self.described(at=at)).high_watermark - 1
        epoch = registered.broker_epoch
        beat = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=replayed)
        heard: BrokerHeartbeatResponse = await self.ask(at, beat)
        if heard.error_code:
            raise refusal_of(heard.error_code, "BrokerHeartbeat")
        return epoch

    # What is stored, once all have ended

    async def stop_all(self) -> Offset:
        """Ends all nodes once each has what is committed now; the offset before which that is."""
        committed = (await self.led_by([*self.ours, *self.kafkas])).high_watermark

        async def ends() -> list[Offset]:
            return [_end(self.data(node_id)) for node_id in (*self.ours, *self.kafkas)]

        await eventually(ends, lambda seen: min(seen) >= committed)
        for node_id in self.kafkas:
            await self.stop_kafka(node_id)
        await self.stop()
        return committed

    def log_of(self, node_id: NodeId, *, below: Offset) -> list[tuple[Offset, Epoch, bytes]]:
        """The batches of a node's log before an offset."""
        return [each for each in stored_batches(self.data(node_id)) if each[0] < below]

    def topics_in(self, node_id: NodeId) -> list[str]:
        """The topics in a node's log, in the order in which they were made."""
        return stored_topics(self.data(node_id))

    def leaders_in(self, node_id: NodeId) -> list[NodeId]:
        """The leaders in a node's log, by epoch."""
        return [leader_id for _, leader_id in stored_leaders(self.data(node_id))]


def _end(log_dir: Path) -> Offset:
    """The end of a log that may be in the middle of a write; 0 then."""
    try:
        *_, (_, _, last) = stored_batches(log_dir)
    except (Corrupt, ValueError):
        return 0
    ((_, header),) = batches(last)
    return header.next_offset


@asynccontextmanager
async def restarted(quorum: MixedQuorum, node_id: NodeId) -> AsyncIterator[None]:
    """One of our quorum nodes is killed, and runs again at the end."""
    process = quorum.quorum(node_id)
    await quorum.kill(process)
    try:
        yield
    finally:
        await quorum.restart(process)


@asynccontextmanager
async def ours_first(
    directory: Path, *, ours: int, kafkas: int, settings: Settings = PATIENT, peers: Peers = CLEAR
) -> AsyncIterator[MixedQuorum]:
    """Our nodes, which are the first voters, run; Kafka's controllers are formatted as nobody's and do not run yet."""
    async with _mixed(directory, ours=ours, kafkas=kafkas, settings=settings, peers=peers) as mixed:
        await mixed.running.start()
        for node_id in mixed.kafkas:
            await mixed.format_kafka(node_id)
        yield mixed


@asynccontextmanager
async def static_quorum(directory: Path, *, ours: int, kafkas: int, peers: Peers = CLEAR) -> AsyncIterator[MixedQuorum]:
    """All nodes are configured as voters (kraft.version 0), and run."""
    async with _mixed(directory, ours=ours, kafkas=kafkas, is_static=True, peers=peers) as mixed:
        for node in mixed.kafkas.values():
            await asyncio.to_thread(node.format, mixed.plan.cluster_id)
            node.start()
        await mixed.running.start()
        for node in mixed.kafkas.values():
            await asyncio.to_thread(node.wait_ready)
        yield mixed


@asynccontextmanager
async def kafkas_first(
    directory: Path, *, ours: int, kafkas: int, settings: Settings = PATIENT, peers: Peers = CLEAR
) -> AsyncIterator[MixedQuorum]:
    """Kafka's controllers, which are the first voters, run; our nodes run as nobody's, and ask them first."""
    async with kafkas_alone(directory, ours=ours, kafkas=kafkas, settings=settings, peers=peers) as mixed:
        await mixed.start_ours()
        yield mixed


@asynccontextmanager
async def kafkas_alone(
    directory: Path, *, ours: int, kafkas: int, settings: Settings = PATIENT, peers: Peers = CLEAR
) -> AsyncIterator[MixedQuorum]:
    """Kafka's controllers, which are the first voters, run; ours are planned. All have these settings."""
    async with _mixed(directory, ours=ours, kafkas=kafkas, settings=settings, peers=peers) as mixed:
        named = {node_id: uuid_text(random_uuid()) for node_id in mixed.kafkas}
        first = ",".join(f"{node_id}@{mixed.kafka_address(node_id)}:{named[node_id]}" for node_id in named)
        for node in mixed.kafkas.values():
            level = ("--release-version", peers.level)
            await asyncio.to_thread(node.format, mixed.plan.cluster_id, "--initial-controllers", first, *level)
            node.start()
        for node in mixed.kafkas.values():
            await asyncio.to_thread(node.wait_ready)
        yield mixed


@asynccontextmanager
async def _mixed(
    directory: Path,
    *,
    ours: int,
    kafkas: int,
    is_static: bool = False,
    settings: Settings = PATIENT,
    peers: Peers = CLEAR,
) -> AsyncIterator[MixedQuorum]:
    """Nothing is formatted, nothing runs; whatever does is ended at the end."""
    plan, nodes = planned(directory, ours=ours, kafkas=kafkas, is_static=is_static, settings=settings, peers=peers)
    mixed = MixedQuorum(plan, nodes, peers)
    try:
        yield mixed
    finally:
        for node in mixed.kafkas.values():
            if node.is_running:
                node.kill()
        await mixed.stop()
