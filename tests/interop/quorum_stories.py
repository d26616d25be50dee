"""Lives of small clusters of a Kafka release: a quorum that grows and shrinks, a checkpoint that loses users, and a
leader that is deposed with records that nobody else has.
"""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from deploy.kafka.node import Node, tool
from deploy.local.ports import free_ports
from quorate.nouns import Offset
from quorate.wire.batch import batches
from tests.interop.kafka.drive import Drive, Json
from tests.interop.stories import BROKER, CAUGHT_UP_TIMEOUT_S, CLUSTER_ID, CONTROLLER, FENCED_TIMEOUT_S, SECURITY, Story

MECHANISM: Final = "SCRAM_SHA_256"
FIRST: Final = "mallory"
LOST: Final = ("alice", "bob")
DEPOSED: Final = 40
"""Records that the deposed leader has alone: a topic and its partitions."""
AFTER: Final = 5
"""Topics that are there after the divergence."""
PATIENT: Final = {"controller.quorum.fetch.timeout.ms": 10_000}
"""A leader resigns after 1.5 times this without a majority: time for one more request, on a slow machine, too."""
FILLERS: Final = 12
"""Topics enough that a checkpoint becomes due."""


def voters_changed(scratch: Path) -> Story:
    """A quorum of one takes in two more controllers, then loses its first, which leads (KIP-853)."""
    with ExitStack() as stack:
        ports = dict(zip((1, 2, 3, 4), free_ports(4), strict=True))
        nodes = {node: stack.enter_context(_node(scratch, node, ports)) for node in ports}
        nodes[1].format(CLUSTER_ID, "--standalone")
        for node in (2, 3, 4):
            nodes[node].format(CLUSTER_ID, *(() if node == 4 else ("--no-initial-controllers",)))
        nodes[1].start().wait_ready()
        nodes[4].start().wait_ready()
        with Drive(f"127.0.0.1:{ports[4]}") as drive:
            drive.change("createTopic", name="of-one-voter", partitions=2, replicas=1)
            moments = [drive.described("one voter")]
            for node in (2, 3):
                nodes[node].start().wait_ready()
                drive.note("started", node=node)
                who = {"voter": node, "directory": _directory_id(scratch, node), "port": ports[node]}
                drive.change_within(CAUGHT_UP_TIMEOUT_S, "addVoter", **who)
            moments.append(drive.described("three voters"))
            first = {"voter": 1, "directory": _directory_id(scratch, 1)}
            drive.change_within(CAUGHT_UP_TIMEOUT_S, "removeVoter", **first)
            nodes[4].wait_until(lambda: _leader(drive) not in (None, 1), "led by another", FENCED_TIMEOUT_S)
            drive.note("another leads")
            drive.change("createTopic", name="of-two-voters", partitions=1, replicas=1)
            moments.append(drive.described("before the stop"))
            active = _leader(drive)
            for node in (4, 1, *sorted({2, 3}, key=lambda each: each == active)):
                drive.note("stop", node=node)
                nodes[node].stop()
    kept: Json = {
        "controller-1": (_data(scratch, 1), "the first voter, removed while it led; an observer then, stopped cleanly"),
        "controller-2": (_data(scratch, 2), "formatted with --no-initial-controllers, added, stopped cleanly"),
        "controller-3": (_data(scratch, 3), "formatted with --no-initial-controllers, added, stopped cleanly"),
    }
    return kept, moments, drive.timeline


def deposed_leader(scratch: Path) -> Story:
    """A leader appends 40 records while both followers are frozen, is killed, and the followers go on without them."""
    with ExitStack() as stack:
        ports = dict(zip((1, 2, 3, 4), free_ports(4), strict=True))
        nodes = {node: stack.enter_context(_node(scratch, node, ports, **PATIENT)) for node in ports}
        _format_three(nodes, ports)
        for each in nodes.values():
            each.start()
        for each in nodes.values():
            each.wait_ready()
        with Drive(f"127.0.0.1:{ports[4]}") as drive, ThreadPoolExecutor() as threads:
            drive.change("createTopic", name="kept", partitions=2, replicas=1)
            moments = [drive.described("before the divergence")]
            first = _leader(drive)
            assert first is not None
            followers = sorted({1, 2, 3} - {first})
            with Drive(f"127.0.0.1:{ports[4]}") as doomed:
                doomed.describe()  # its client is connected now, so that its next request is sent at once
                for node in followers:
                    nodes[node].send(signal.SIGSTOP)
                drive.note("frozen", nodes=followers)
                # What a follower asked for before is answered into its socket, and appended when it goes on: let that
                # be the record that an idle controller writes.
                _wait_for_records(nodes[first], scratch, first, 1)
                asked = {"name": "deposed", "partitions": DEPOSED - 1, "replicas": 1}
                answer = threads.submit(doomed.change, "createTopic", **asked)
                _wait_for_records(nodes[first], scratch, first, DEPOSED)
                nodes[first].kill()
                nodes[4].kill()  # it would ask the next leader for the same
                doomed.kill()
                assert answer.exception() is not None, "nobody was told that the topic is there"
            drive.note("kill", node=first)
            for node in followers:
                nodes[node].send(signal.SIGCONT)
            nodes[4].start().wait_ready()
            nodes[4].wait_until(lambda: _leader(drive) not in (None, first), "led by another", FENCED_TIMEOUT_S)
            drive.note("another leads")
            for number in range(AFTER):
                drive.change("createTopic", name=f"after-{number}", partitions=1, replicas=1)
            moments.append(drive.described("before the stop"))
            active = _leader(drive)
            for node in (4, *sorted(followers, key=lambda each: each == active)):
                drive.note("stop", node=node)
                nodes[node].stop()
    assert _epoch_ends(scratch, first)[1] >= _epoch_ends(scratch, followers[0])[1] + DEPOSED, "they diverged"
    kept: Json = {
        f"controller-{node}": (_data(scratch, node), "frozen for a while, then one of two; stopped cleanly")
        for node in followers
    }
    kept[f"controller-{first}"] = (_data(scratch, first), f"the first leader, killed with {DEPOSED} records of its own")
    return dict(sorted(kept.items())), moments, drive.timeline


def lost_scram(scratch: Path) -> Story:
    """One request removes the only user of a mechanism and makes two others: ScramDelta.apply loses those.

    It empties the map of the mechanism, takes it out of the image, and puts what follows into a map that nobody has
    any more. It goes by Java's HashMap of the names: `mallory` comes before `alice` and `bob`.
    """
    controller, broker = free_ports(2)
    data = _data(scratch, 1)
    own = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": data,
    }
    soon = {"metadata.log.max.record.bytes.between.snapshots": 1500}
    node = Node(data.parent, SECURITY | CONTROLLER | BROKER | own | soon)
    node.format(CLUSTER_ID)
    with node.start().wait_ready(), Drive(f"127.0.0.1:{broker}") as drive:
        drive.change("upsertScram", user=FIRST, mechanism=MECHANISM, iterations=4096)
        drive.change("upsertScram", user="grace", mechanism="SCRAM_SHA_512", iterations=4096)
        moments = [drive.described("one user of SCRAM-SHA-256")]
        gone = {"do": "deleteScram", "user": FIRST, "mechanism": MECHANISM}
        come = [{"do": "upsertScram", "user": user, "mechanism": MECHANISM, "iterations": 4096} for user in LOST]
        drive.change("alterScram", alterations=[gone, *come])
        for number in range(FILLERS):
            drive.change("createTopic", name=f"filler-{number}", partitions=1, replicas=1)
        moments.append(drive.described("before the stop"))
        drive.note("stop", node=1)
        node.stop()
    kept: Json = {"node-1": (data, "broker and controller; its later checkpoints lack users that its log has")}
    return kept, moments, drive.timeline


def _node(scratch: Path, node: int, ports: dict[int, int], **more: object) -> Node:
    is_controller = node != 4
    listener = f"{'CONTROLLER' if is_controller else 'PLAINTEXT'}://127.0.0.1:{ports[node]}"
    properties = {
        "process.roles": "controller" if is_controller else "broker",
        "node.id": node,
        "listeners": listener,
        "advertised.listeners": listener,
        "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{ports[each]}" for each in (1, 2, 3)),
        "log.dirs": _data(scratch, node),
    }
    return Node(scratch / f"node-{node}", SECURITY | (CONTROLLER if is_controller else BROKER) | properties | more)


def _format_three(nodes: dict[int, Node], ports: dict[int, int]) -> None:
    ids = {node: tool("kafka.tools.StorageTool", "random-uuid").strip() for node in (1, 2, 3)}
    voters = ",".join(f"{node}@127.0.0.1:{ports[node]}:{directory}" for node, directory in ids.items())
    for number, node in nodes.items():
        node.format(CLUSTER_ID, *(("--initial-controllers", voters) if number in ids else ()))


def _wait_for_records(node: Node, scratch: Path, node_id: int, count: int) -> None:
    """Waits until the node's log has so many records more than now."""
    end = max(_epoch_ends(scratch, node_id).values()) + count
    what = f"at offset {end}"
    node.wait_until(lambda: max(_epoch_ends(scratch, node_id).values()) >= end, what, CAUGHT_UP_TIMEOUT_S)


def _epoch_ends(scratch: Path, node: int) -> dict[int, Offset]:
    """Returns where each epoch of a node's log ends (exclusive)."""
    (log,) = (_data(scratch, node) / "__cluster_metadata-0").glob("*.log")
    return {header.epoch: header.next_offset for _, header in batches(log.read_bytes())}


def _data(scratch: Path, node: int) -> Path:
    return scratch / f"node-{node}" / "data"


def _directory_id(scratch: Path, node: int) -> str:
    lines = (_data(scratch, node) / "meta.properties").read_text().splitlines()
    (found,) = (line.removeprefix("directory.id=") for line in lines if line.startswith("directory.id="))
    return found


def _leader(drive: Drive) -> int | None:
    quorum = drive.describe().get("quorum")
    return None if quorum is None else int(quorum["leaderId"])
