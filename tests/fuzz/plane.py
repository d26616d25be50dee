"""A live control plane to be fuzzed: what its words are, and whether it is still whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from deploy.local.own import format_broker, planned
from deploy.local.plan import Process
from deploy.local.ports import HOST, free_ports
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from quorate.nouns import EPOCHS_END, METADATA_TOPIC, METADATA_TOPIC_ID, uuid_text
from tests.e2e.calls import attempt, call_once, eventually
from tests.e2e.cluster import VOTERS, Cluster, control_plane, stored_records
from tests.fuzz.inputs import ID_OF_NOBODY, Words
from tests.fuzz.voters import restore_voters

TOPICS: Final = ("orders", "clicks")
TROUBLE: Final = (
    "Traceback", "unexpected error", "never retrieved", "fatal:", "Exception in callback", "Assertion",
    "handler failed",
)  # fmt: skip
"""What the log of a process has if something went wrong in it that nobody meant."""
READY_WITHIN_S: Final = 180.0
OWN: Final = 104
"""The id of the broker of ours."""


class Plane:
    """The processes, and how far their logs were read."""

    def __init__(self, cluster: Cluster, broker: Process) -> None:
        self.cluster = cluster
        self._broker = broker
        self._read = dict.fromkeys((each.name for each in self.processes), 0)

    @property
    def processes(self) -> tuple[Process, ...]:
        """All, but of each kind that has copies the first is enough to be fuzzed."""
        return (*self.cluster.plan.processes, self._broker)

    async def words(self) -> Words:
        """What the cluster knows by now."""
        cluster = self.cluster
        views = [view for node_id in VOTERS if (view := await attempt(cluster.find_once(node_id))) is not None]
        view = max(views, key=lambda each: each.leader_epoch)
        topics = await attempt(cluster.topics()) or {}
        epoch, end = view.leader_epoch, view.high_watermark
        directories = [*cluster.plan.directory_ids.values(), ID_OF_NOBODY]
        brokers = [*cluster.plan.brokers, 7]
        known = {
            "cluster_id": [cluster.plan.cluster_id],
            "broker_epoch": [broker.epoch for broker in cluster.brokers.values()],
            "partition_epoch": [0, 1],
            "epoch": [epoch - 1, epoch, epoch, epoch + 1],
            "offset": [0, end - 1, end, end, end + 1],
            "directory_id": directories,
            "broker_id": brokers,
            "broker_ids": brokers,
            "replicas": brokers,
            "voter_id": [*VOTERS, 9],
            "replica_id": [*VOTERS, -1, 201, 9],
            "candidate_id": [*VOTERS, 9],
            "leader_id": [*VOTERS, 9],
            "node_id": [*VOTERS, 9],
            "topic_name": [METADATA_TOPIC, METADATA_TOPIC, *TOPICS],
            "topic_id": [uuid_text(METADATA_TOPIC_ID)] * 2 + [topic.topic_id for topic in topics.values()],
            "topic_names": list(TOPICS),
            "name": [*TOPICS, METADATA_TOPIC, "retention.ms", "cleanup.policy", "metadata.version", "alice"],
            "value": ["compact", "delete", "1", "-1", "9223372036854775807"],
            "partition_index": [0, 0, 1],
            "partition": [0, 0, 1],
            "partitions": [0, 1],
            "partition_indexes": [0, 1],
            "num_partitions": [1, 3, -1],
            "count": [1, 2, 3, 4],
            "partition_count": [1, 3],
            "replication_factor": [1, 3, -1],
            "resource_type": [2, 4, 8, 16, 32],
            "resource_name": [*TOPICS, "101", ""],
            "timeout_ms": [0, 1, 100],
            "max_wait_ms": [0, 1, 100],
            "max_bytes": [0, 1, 4_096, 1 << 20],
            "port": [9092, 1],
            "principal": ["User:alice"],
            "host": ["*", "127.0.0.1"],
            "trace_id": ["0" * 31 + "1"],
        }
        live = list(cluster.plan.directory_ids.values())
        return Words(known=known, but=_spared(live, list(cluster.plan.brokers)), instead=_EPOCHS)

    async def faults(self) -> list[str]:
        """What is wrong by now: a process that has ended, or that says something in its log, or is not ready again."""
        found = []
        for process in self.processes:
            if not self.cluster.running.is_up(process):
                return [f"{process.name} has ended:\n{self._news(process)}"]
            if trouble := [line for line in self._news(process).splitlines() if any(each in line for each in TROUBLE)]:
                found.append(f"{process.name} says {len(trouble)} times: {trouble[0][:2_000]}")
        try:
            await self._whole()
        except AssertionError as late:
            views = [await attempt(self.cluster.find_once(node_id)) for node_id in VOTERS]
            seen = [(view.node_id, view.role, view.leader_id, view.leader_epoch) for view in views if view is not None]
            found.append(f"not whole again: {late}; (node, role, leader, epoch) are {seen}")
        return found

    async def _whole(self) -> None:
        await restore_voters(self.cluster, within_s=READY_WITHIN_S)
        await eventually(self._unready, lambda found: not found, within_s=READY_WITHIN_S)
        await self.cluster.active()

    async def _unready(self) -> list[str]:
        """The names of the processes that do not say of themselves that they are ready."""
        return [process.name for process in self.processes if not await attempt(self.cluster.health(process))]

    def _news(self, process: Process) -> str:
        """What it has written since the last look."""
        with (self.cluster.plan.directory / f"{process.name}.log").open("rb") as file:
            file.seek(self._read[process.name])
            data = file.read()
        self._read[process.name] += len(data)
        return data.decode(errors="replace")

    def records(self) -> list[object]:
        """Every data record in the log of the node whose log is the longest."""
        logs = [stored_records(self.cluster.plan.log_dir(node_id)) for node_id in VOTERS]
        return max(logs, key=len)  # type: ignore[return-value]


# An epoch above the present one is taken over, as Raft wants it, but for one that is too far ahead.
_EPOCHS: Final = dict.fromkeys(
    ("replica_epoch", "leader_epoch", "current_leader_epoch", "last_offset_epoch", "epoch"),
    (-(2**31), -1, 0, 1, 1_000, EPOCHS_END - 1_000, EPOCHS_END - 1, EPOCHS_END),
)


def _spared(directories: list[str], brokers: list[int]) -> dict[str, list[object]]:
    """With these words a request would rightly take the cluster apart: they are an operator's."""
    return {
        "AlterQuorum.directory_id": list(directories),
        "RemoveRaftVoter.voter_directory_id": list(directories),
        "UpdateRaftVoter.voter_directory_id": list(directories),
        "UnregisterBroker.broker_id": list(brokers),
        "Submit.broker_id": list(brokers),
        "AdminStream.broker_id": list(brokers),
    }


def listener(gateway: Process) -> str:
    """Where a gateway speaks Kafka's wire."""
    return gateway.settings["listeners"].partition("://")[2]


@asynccontextmanager
async def live_plane(directory: Path) -> AsyncIterator[Plane]:
    """Voters in the log, controllers, gateways, heartbeat, placer, observer, three brokers, one of ours, two topics."""
    async with control_plane(
        directory,
        session_timeout_ms=30_000,
        dynamic=True,
        observer_settings={"observer.log.relay": "true"},
        with_gateways=True,
    ) as cluster:
        topics = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=3, replication_factor=3) for name in TOPICS
        ]
        active = await cluster.active()
        await call_once(
            cluster.controller_stub(active).CreateTopics, CreateTopicsRequest(topics=topics, timeout_ms=10_000)
        )
        broker = await _own_broker(cluster)
        yield Plane(cluster, broker)


async def _own_broker(cluster: Cluster) -> Process:
    """Starts a broker of ours; its address is that of its RPCs."""
    port, *others = free_ports(3)
    broker = planned(cluster.plan, OWN, iter(others), settings={"grpc.listeners": f"RPCS://{HOST}:{port}"})
    format_broker(cluster.plan, broker)
    await cluster.running.spawn(broker)
    await cluster.running.ready([broker])
    return replace(broker, port=port)
