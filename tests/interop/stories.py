"""The lives that clusters of a Kafka release are led through, so that their metadata logs hold every kind of change.

Each story answers: node name → (directory with its metadata log, what it is), moments described, timeline.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from deploy.kafka.node import Node, tool
from deploy.local.ports import free_ports
from tests.interop.kafka.drive import Drive, Json

Story = tuple[Json, list[Json], list[Json]]

CLUSTER_ID: Final = "q9Zs1fW3RzmXb0mKpL4vAg"
SECURITY: Final[dict[str, object]] = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
CONTROLLER: Final[dict[str, object]] = {
    "broker.session.timeout.ms": 3000,
    "metadata.log.max.record.bytes.between.snapshots": 6000,
    "metadata.max.idle.interval.ms": 2000,
}
BROKER: Final[dict[str, object]] = {
    "inter.broker.listener.name": "PLAINTEXT",
    "broker.heartbeat.interval.ms": 500,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 1,
    "group.initial.rebalance.delay.ms": 0,
    "num.network.threads": 1,
    "num.io.threads": 2,
    "log.cleaner.enable": "false",
}
FENCED_TIMEOUT_S: Final = 300
CAUGHT_UP_TIMEOUT_S: Final = 300


def combined_static(scratch: Path) -> Story:
    """One process that is broker and controller, with static voters: kraft.version 0."""
    controller, broker = free_ports(2)
    data = scratch / "node-1" / "data"
    properties = (
        SECURITY
        | CONTROLLER
        | BROKER
        | {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": data,
        }
    )
    properties["metadata.log.max.record.bytes.between.snapshots"] = 2000
    node = Node(scratch / "node-1", properties)
    node.format(CLUSTER_ID, "--add-scram", "SCRAM-SHA-256=[name=admin,iterations=4096,password=not-a-secret]")
    with node.start().wait_ready(), Drive(f"127.0.0.1:{broker}") as drive:
        drive.note("started", node=1)
        topics_of_one(drive)
        moments = [drive.described("topics")]
        access(drive)
        drive.note("stop", node=1)
        node.stop()
        node.start().wait_ready()
        drive.note("started", node=1)
        drive.change("createTopic", name="after-restart", partitions=1, replicas=1)
        moments.append(drive.described("before the stop"))
        drive.note("stop", node=1)
        node.stop()
    return {"node-1": (data, "broker and controller, stopped cleanly twice")}, moments, drive.timeline


def topics_of_one(drive: Drive) -> None:
    """Topics and configs that a single broker can have."""
    drive.change("createTopic", name="plain", partitions=2, replicas=1)
    drive.change("createTopic", name="configured", partitions=1, replicas=1, configs={"retention.ms": "60000"})
    drive.change("createTopic", name="short-lived", partitions=1, replicas=1)
    drive.refused("TopicExistsException", "createTopic", name="plain", partitions=1, replicas=1)
    drive.refused("InvalidReplicationFactorException", "createTopic", name="wide", partitions=1, replicas=2)
    drive.change("createPartitions", name="plain", count=3)
    drive.change("deleteTopic", name="short-lived")
    drive.change("alterConfigs", type="TOPIC", name="plain", SET={"cleanup.policy": "compact", "segment.ms": "3600000"})
    drive.change("alterConfigs", type="TOPIC", name="plain", APPEND={"cleanup.policy": "delete"})
    drive.change("alterConfigs", type="TOPIC", name="plain", DELETE={"segment.ms": ""})
    drive.change("alterConfigs", type="BROKER", name="1", SET={"log.cleaner.threads": "2"})
    drive.change("alterConfigs", type="BROKER", name="", SET={"message.max.bytes": "2000000"})
    drive.change("alterConfigs", type="CLIENT_METRICS", name="watch", SET={"interval.ms": "60000", "metrics": "org."})
    drive.change("alterConfigs", type="GROUP", name="readers", SET={"consumer.session.timeout.ms": "50000"})
    drive.change("produce", topic="plain", count=3)


def access(drive: Drive) -> None:
    """Quotas, ACLs, users: set, changed and taken back, some of each left standing."""
    drive.change("alterQuotas", entity={"user": "alice"}, values={"producer_byte_rate": 1048576})
    drive.change("alterQuotas", entity={"user": "alice", "client-id": None}, values={"request_percentage": 12.5})
    drive.change("alterQuotas", entity={"user": None}, values={"consumer_byte_rate": 2e6, "producer_byte_rate": 1e6})
    drive.change("alterQuotas", entity={"user": None}, values={"consumer_byte_rate": None})
    drive.change("alterQuotas", entity={"ip": "127.0.0.2"}, values={"connection_creation_rate": 10.0})
    drive.change("alterQuotas", entity={"ip": "127.0.0.2"}, values={"connection_creation_rate": None})
    reads = {"type": "TOPIC", "pattern": "LITERAL", "host": "*", "operation": "READ", "permission": "ALLOW"}
    writes = reads | {"pattern": "PREFIXED", "operation": "WRITE", "permission": "DENY"}
    drive.change("createAcl", name="plain", principal="User:alice", **reads)
    drive.change("createAcl", name="pl", principal="User:bob", **writes)
    drive.change("createAcl", **reads | {"type": "GROUP"}, name="*", principal="User:*")
    drive.change("deleteAcl", name="plain", principal="User:alice", **reads)
    drive.change("upsertScram", user="alice", mechanism="SCRAM_SHA_256", iterations=4096)
    drive.change("upsertScram", user="alice", mechanism="SCRAM_SHA_512", iterations=8192)
    drive.change("upsertScram", user="bob", mechanism="SCRAM_SHA_256", iterations=4096)
    drive.change("upsertScram", user="alice", mechanism="SCRAM_SHA_256", iterations=5000)
    drive.change("deleteScram", user="bob", mechanism="SCRAM_SHA_256")


def three_dynamic(scratch: Path) -> Story:
    """Three controllers with a voter set in the log, kraft.version 1; brokers in two racks, a late one that leaves."""
    with ExitStack() as stack:
        cluster = Dynamic(scratch, stack)
        cluster.start_all()
        with Drive(cluster.servers(4, 5)) as drive:
            cluster.drive = drive
            moments = [*topics_of_two(cluster), *broker_lost(cluster), *broker_back(cluster)]
            access(drive)
            late_broker(cluster)
            leader_changes(cluster)
            voters(cluster)
            moments.append(drive.described("before the stop"))
            cluster.stop_all()
    return cluster.kept(), moments, drive.timeline


class Dynamic:
    """The nodes of `three_dynamic`: controllers 1, 2, 3; brokers 4, 5, 6; 5 has two log directories."""

    RACKS: Final = {4: "a", 5: "b", 6: "a"}
    drive: Drive

    def __init__(self, scratch: Path, stack: ExitStack) -> None:
        self.scratch = scratch
        self.port = dict(zip(range(1, 7), free_ports(6), strict=True))
        self.id_of = {node: tool("kafka.tools.StorageTool", "random-uuid").strip() for node in (1, 2, 3)}
        self.nodes = {node: stack.enter_context(self._controller(node)) for node in (1, 2, 3)}
        self.nodes |= {node: stack.enter_context(self._broker(node)) for node in (4, 5, 6)}
        self._format()

    def servers(self, *nodes: int) -> str:
        return ",".join(f"127.0.0.1:{self.port[node]}" for node in nodes)

    def data(self, node: int) -> Path:
        return self.scratch / f"node-{node}" / "data"

    def start_all(self) -> None:
        for node in (1, 2, 3):
            self.nodes[node].start()
        for node in (1, 2, 3):
            self.nodes[node].wait_ready()
        for node in (4, 5):
            self.nodes[node].start()
        for node in (4, 5):
            self.nodes[node].wait_ready()

    def stop_all(self) -> None:
        """Brokers while there are controllers; the active controller last."""
        active = self.active()
        for node in (5, 4, *sorted({1, 2, 3} - {active}), active):
            self.stop(node)

    def start(self, node: int) -> None:
        self.drive.note("start", node=node)
        self.nodes[node].start().wait_ready()
        self.drive.note("started", node=node)

    def stop(self, node: int) -> None:
        self.drive.note("stop", node=node)
        self.nodes[node].stop()
        self.drive.note("stopped", node=node)

    def kill(self, node: int) -> None:
        self.drive.note("kill", node=node)
        self.nodes[node].kill()

    def active(self) -> int:
        leader: int = self.drive.describe()["quorum"]["leaderId"]
        return leader

    def wait(self, what: str, holds: Callable[[Json], bool]) -> None:
        """Until a description is so; what went wrong in between (no leader) is asked again."""
        self.nodes[4].wait_until(lambda: holds(self.drive.describe()), what, FENCED_TIMEOUT_S)
        self.drive.note(what)

    def kept(self) -> Json:
        words = {
            "controller-1": "a controller, stopped cleanly",
            "controller-2": "a controller, stopped cleanly",
            "controller-3": "a controller, stopped cleanly",
            "broker-4": "a broker, stopped cleanly",
            "broker-5": "a broker with two log directories, killed once",
            "broker-6": "a broker that came late (its log begins at a snapshot) and was unregistered",
        }
        found: Json = {name: (self.data(int(name[-1])), what) for name, what in words.items()}
        unclean = "the active controller as SIGKILL left it, without its indexes (10 MiB of zeros each)"
        return found | {"controller-unclean": (self.scratch / "unclean", unclean)}

    def _controller(self, node: int) -> Node:
        properties = (
            SECURITY
            | CONTROLLER
            | {
                "process.roles": "controller",
                "node.id": node,
                "listeners": f"CONTROLLER://127.0.0.1:{self.port[node]}",
                "advertised.listeners": f"CONTROLLER://127.0.0.1:{self.port[node]}",
                "controller.quorum.bootstrap.servers": self.servers(1, 2, 3),
                "log.dirs": self.data(node),
            }
        )
        return Node(self.scratch / f"node-{node}", properties)

    def _broker(self, node: int) -> Node:
        more = f",{self.data(node)}-2" if node == 5 else ""
        properties = (
            SECURITY
            | BROKER
            | {
                "process.roles": "broker",
                "node.id": node,
                "broker.rack": self.RACKS[node],
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port[node]}",
                "controller.quorum.bootstrap.servers": self.servers(1, 2, 3),
                "log.dirs": f"{self.data(node)}{more}",
                "metadata.log.dir": self.data(node),
            }
        )
        return Node(self.scratch / f"node-{node}", properties)

    def _format(self) -> None:
        voters = ",".join(f"{node}@{self.servers(node)}:{directory}" for node, directory in self.id_of.items())
        for number, node in self.nodes.items():
            node.format(CLUSTER_ID, *(("--initial-controllers", voters) if number <= 3 else ()))


def topics_of_two(cluster: Dynamic) -> list[Json]:
    """Topics laid out by Kafka and by hand."""
    drive = cluster.drive
    drive.change("createTopic", name="orders", partitions=4, replicas=2, configs={"min.insync.replicas": "2"})
    drive.change("createTopic", name="manual", assignment=[[4, 5], [5, 4], [5, 4]])
    drive.change("createTopic", name="single", assignment=[[4], [5]])
    drive.change("createTopic", name="plain", partitions=2, replicas=1, configs={"retention.ms": "60000"})
    drive.change("createTopic", name="cleared", assignment=[[5, 4], [4, 5]], configs={"min.insync.replicas": "2"})
    drive.change("createTopic", name="short-lived", partitions=3, replicas=2)
    drive.change("createPartitions", name="manual", count=4, assignment=[[4, 5]])
    drive.change("createPartitions", name="plain", count=3)
    drive.refused("InvalidPartitionsException", "createPartitions", name="plain", count=2)
    drive.refused("InvalidReplicaAssignmentException", "createTopic", name="odd", assignment=[[4, 4]])
    drive.change("deleteTopic", name="short-lived")
    drive.refused("UnknownTopicOrPartitionException", "deleteTopic", name="short-lived")
    drive.change("alterConfigs", type="TOPIC", name="plain", SET={"cleanup.policy": "compact", "segment.ms": "3600000"})
    drive.change("alterConfigs", type="TOPIC", name="plain", APPEND={"cleanup.policy": "delete"})
    drive.change("alterConfigs", type="TOPIC", name="plain", DELETE={"segment.ms": ""})
    drive.refused("InvalidConfigurationException", "alterConfigs", type="TOPIC", name="plain", SET={"segment.ms": "-7"})
    drive.change("alterConfigs", type="BROKER", name="4", SET={"log.cleaner.threads": "2"})
    drive.change("alterConfigs", type="BROKER", name="", SET={"message.max.bytes": "2000000"})
    for topic in ("orders", "manual", "cleared"):
        drive.change("produce", topic=topic, count=4)
    return [drive.described("topics")]


def broker_lost(cluster: Dynamic) -> list[Json]:
    """Broker 5 is gone without a word: its session ends, ISRs shrink below min.insync.replicas, ELRs fill."""
    cluster.kill(5)
    cluster.wait("broker 5 is fenced", lambda seen: "error" not in seen and _fenced(seen) == {5})
    cluster.drive.change("reassign", topic="single", partition=0, replicas=[5])
    moment = cluster.drive.described("broker 5 lost, a reassignment to it waits")
    cluster.drive.change("alterConfigs", type="TOPIC", name="cleared", SET={"min.insync.replicas": "1"})
    return [moment, cluster.drive.described("min.insync.replicas lowered")]


def broker_back(cluster: Dynamic) -> list[Json]:
    """It comes back: ISRs grow, the reassignment ends, leaders are put right; then it goes in an orderly way."""
    drive = cluster.drive
    cluster.start(5)
    cluster.wait("the reassignment is done", lambda seen: not seen.get("reassignments", [1]) and _whole(seen))
    drive.change("reassign", topic="single", partition=1, replicas=[4, 5])
    cluster.wait("the second is done", lambda seen: not seen.get("reassignments", [1]) and _whole(seen))
    drive.change("elect", topic="cleared", partition=0)
    drive.refused("ElectionNotNeededException", "elect", topic="cleared", partition=0)
    cluster.stop(5)
    moment = drive.described("broker 5 shut down")
    cluster.start(5)
    cluster.wait("all replicas are in sync", _whole)
    return [moment]


def late_broker(cluster: Dynamic) -> None:
    """Broker 6 begins with a snapshot, holds a replica, goes and is unregistered."""
    cluster.start(6)
    cluster.drive.change("createTopic", name="guest", assignment=[[6, 4]])
    cluster.drive.refused("BrokerIdNotRegisteredException", "unregister", broker=99)
    cluster.drive.change("reassign", topic="guest", partition=0, replicas=[4])
    cluster.wait("broker 6 holds nothing", lambda seen: not seen.get("reassignments", [1]))
    cluster.stop(6)
    cluster.drive.change("unregister", broker=6)


def leader_changes(cluster: Dynamic) -> None:
    """One active controller is killed, the next one stops in an orderly way; both come back."""
    first = cluster.active()
    cluster.kill(first)
    shutil.copytree(cluster.data(first), cluster.scratch / "unclean")
    cluster.wait("another leads", lambda seen: seen.get("quorum", {}).get("leaderId") not in (None, first))
    cluster.drive.change("createTopic", name="after-the-kill", partitions=2, replicas=2)
    cluster.start(first)
    second = cluster.active()
    cluster.stop(second)
    cluster.wait("the next leads", lambda seen: seen.get("quorum", {}).get("leaderId") not in (None, second))
    cluster.drive.change("deleteTopic", name="after-the-kill")
    cluster.start(second)


def voters(cluster: Dynamic) -> None:
    """A voter leaves the set and joins it again; a feature goes down a level and up again; directories are cordoned."""
    voter = next(node for node in (1, 2, 3) if node != cluster.active())
    who = {"voter": voter, "directory": cluster.id_of[voter]}
    cluster.drive.change_within(CAUGHT_UP_TIMEOUT_S, "removeVoter", **who)
    cluster.drive.change_within(CAUGHT_UP_TIMEOUT_S, "addVoter", **who, port=cluster.port[voter])
    cluster.drive.change("updateFeature", name="transaction.version", level=1, how="SAFE_DOWNGRADE")
    cluster.drive.change("updateFeature", name="transaction.version", level=2)
    cluster.drive.change("alterConfigs", type="BROKER", name="5", SET={"cordoned.log.dirs": "*"})


def _fenced(seen: Json) -> set[int]:
    return {broker["id"] for broker in seen["brokers"] if broker["fenced"]}


def _whole(seen: Json) -> bool:
    """Whether every replica is in sync."""
    partitions = [each for topic in seen.get("topics", {}).values() for each in topic["partitions"]]
    return bool(partitions) and all(set(each["replicas"]) == set(each["isr"]) for each in partitions)
