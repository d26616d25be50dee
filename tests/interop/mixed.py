"""Directories of Kafka controllers under our processes: copied, started on, and what was seen meanwhile."""

from __future__ import annotations

import shutil
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from deploy.local.plan import ClusterPlan, Process, make_plan
from kraft.service.quorum_pb2 import FindQuorumResponse
from quorate.cli.offline import Offline, load
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, uuid_text
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.calls import eventually
from tests.e2e.cluster import Cluster

OURS: Final = "ours"
"""The topic that our controller creates."""

Topics = dict[str, Any]  # Any: a topic as `topics_of` tells it


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Our processes ran on copies of `sources`, by node id; they have ended, and `plan` says where the copies are.

    `kafka` is what the log of the first leader had been; `before` and `after` what each process served when nothing
    was asked for yet and in the end; `voters` where each voter was in the end, as the quorum says.
    """

    sources: Mapping[NodeId, Path]
    plan: ClusterPlan
    kafka: Offline
    elected: FindQuorumResponse
    before: Mapping[str, Topics]
    after: Mapping[str, Topics]
    voters: Mapping[NodeId, str]

    @property
    def log_dirs(self) -> dict[NodeId, Path]:
        """The continued directories."""
        return {node_id: self.plan.log_dir(node_id) for node_id in self.sources}


class Taken(Exception):
    """Where a log says that a voter listens, somebody else does."""


async def live_on(
    sources: Mapping[NodeId, Path],
    directory: Path,
    *,
    moved: Collection[NodeId] = (),
    topic: str = OURS,
    brokers: tuple[NodeId, ...] = (101, 102, 103),
) -> Life:
    """Let our processes run on copies of Kafka's directories, create a topic on `brokers`, and end in good order.

    Raises Taken.
    """
    plan = replace(
        plan_on(sources, directory, moved=moved), brokers=brokers, racks=dict(zip(brokers, "abc", strict=True))
    )
    if addresses := taken(plan):
        raise Taken(f"somebody else listens at {', '.join(addresses)}, where these logs have their voters")
    async with running_on(plan) as cluster:
        elected = await leader_of(cluster, sources)
        before = await served(cluster, sources, bool)
        for broker_id in plan.brokers:
            await cluster.join(broker_id)
        answer = await cluster.create(topic, at=max(sources))
        assert not answer.topics[0].error_code, answer
        voters = await _voters(cluster, sources)
        after = await served(cluster, sources, lambda topics: topic in topics)
        await cluster.end_voters()
    kafka = load(sources[elected.leader_id])
    return Life(sources=sources, plan=plan, kafka=kafka, elected=elected, before=before, after=after, voters=voters)


def plan_on(sources: Mapping[NodeId, Path], directory: Path, *, moved: Collection[NodeId] = ()) -> ClusterPlan:
    """Our processes over copies of Kafka's directories.

    If the log has the voters (kraft.version 1), the configuration has none, and a quorum node listens where the log
    says, unless it has `moved`.
    """
    first = next(iter(sources.values()))
    meta = read_meta_properties(first)
    assert meta is not None, first
    plan = make_plan(directory, voters=len(sources), dynamic=load(first).kraft_version > 0, cluster_id=meta.cluster_id)
    plan = replace(plan, directory_ids={})
    for node_id, source in sources.items():
        shutil.copytree(source, plan.log_dir(node_id), ignore=shutil.ignore_patterns("*.dump.txt"))
    recorded = addresses_in(load(first))
    here = {each.address: recorded.get(int(each.settings["node.id"])) for each in plan.quorum}
    stay = {before: after for before, after in here.items() if after is not None}
    for node_id in moved:
        stay.pop(plan.quorum[node_id - 1].address)
    return _at(plan, stay)


def taken(plan: ClusterPlan) -> list[str]:
    """The addresses that somebody else listens on: those that a log says are not ours to choose."""
    return [process.address for process in plan.processes if not _is_free(process)]


def addresses_in(found: Offline) -> dict[NodeId, str]:
    """Where the voters of a log listen; empty if they are configured."""
    if found.voters is None:
        return {}
    return {each.voter_id: f"{each.endpoints[0].host}:{each.endpoints[0].port}" for each in found.voters.voters}


@asynccontextmanager
async def running_on(plan: ClusterPlan) -> AsyncIterator[Cluster]:
    """The plan's processes, and nothing formatted; all are ended at the end."""
    cluster = Cluster(plan)
    try:
        for process in plan.processes:
            await cluster.running.spawn(process)
        await cluster.running.ready(plan.processes)
        yield cluster
    finally:
        await cluster.stop()


async def leader_of(cluster: Cluster, nodes: Iterable[NodeId]) -> FindQuorumResponse:
    """The leader's view, once it has committed in its epoch."""

    async def leads() -> FindQuorumResponse | None:
        views = [await cluster.find(node_id) for node_id in nodes]
        return next((view for view in views if view.role == "Leader" and view.high_watermark > 0), None)

    view = await eventually(leads)
    assert view is not None
    return view


async def served(cluster: Cluster, nodes: Iterable[NodeId], holds: Callable[[Topics], bool]) -> dict[str, Topics]:
    """All topics as each controller tells them, and the observer: once they tell the same, and `holds` is true of it.

    The observer says what it has, and may be behind.
    """

    async def told() -> dict[str, Topics]:
        tell = {cluster.controller(node_id).name: await cluster.topics(at=node_id) for node_id in nodes}
        tell[cluster.plan.observer.name] = await cluster.topics()
        return {who: {name: _told(topic) for name, topic in topics.items()} for who, topics in tell.items()}

    first = cluster.plan.observer.name
    return await eventually(
        told, lambda tell: holds(tell[first]) and all(tell[first] == each for each in tell.values())
    )


def topics_of(state: ClusterState) -> Topics:
    """All topics of a state, each as `served` tells it."""
    return {
        topic.name: {
            "id": uuid_text(topic.id),
            "partitions": {
                number: {
                    "leader": (partition.leader, partition.leader_epoch),
                    "replicas": list(partition.replicas),
                    "isr": list(partition.isr),
                    "elr": list(partition.elr),
                    "last known elr": list(partition.last_known_elr),
                }
                for number, partition in topic.partitions.items()
            },
        }
        for topic in state.topics
    }


def _is_free(process: Process) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((process.place.host, process.port))
        except OSError:
            return False
    return True


def _told(topic: Any) -> dict[str, Any]:
    return {
        "id": topic.topic_id,
        "partitions": {
            partition.partition_index: {
                "leader": (partition.leader_id, partition.leader_epoch),
                "replicas": list(partition.replica_nodes),
                "isr": list(partition.isr_nodes),
                "elr": list(partition.eligible_leader_replicas.items),
                "last known elr": list(partition.last_known_elr.items),
            }
            for partition in topic.partitions
        },
    }


async def _voters(cluster: Cluster, nodes: Iterable[NodeId]) -> dict[NodeId, str]:
    """Where the quorum says that each voter is, once all nodes say what is so."""
    wanted = {node_id: cluster.quorum(node_id).address for node_id in nodes}

    async def known() -> list[dict[NodeId, str]]:
        views = [await cluster.find(node_id) for node_id in wanted]
        return [{voter.id: f"{voter.host}:{voter.port}" for voter in view.voters} for view in views]

    return (await eventually(known, lambda seen: seen == [wanted] * len(wanted)))[0]


def _at(plan: ClusterPlan, addresses: Mapping[str, str]) -> ClusterPlan:
    """The same plan with other addresses, wherever they stand."""

    def moved(process: Process) -> Process:
        settings = dict(process.settings)
        for before, after in addresses.items():
            settings = {key: value.replace(before, after) for key, value in settings.items()}
        port = int(addresses.get(process.address, process.address).rpartition(":")[2])
        return replace(process, port=port, settings=settings)

    return replace(
        plan,
        quorum=tuple(map(moved, plan.quorum)),
        controllers=tuple(map(moved, plan.controllers)),
        placer=moved(plan.placer),
        heartbeat=moved(plan.heartbeat),
        observer=moved(plan.observer),
    )
