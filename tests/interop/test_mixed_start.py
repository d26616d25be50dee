"""Kafka controllers stop, and our processes go on from their directories; then Kafka's go on from ours."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.kafka.node import Node, NodeFailed
from deploy.local.plan import ClusterPlan, make_plan
from deploy.local.ports import free_ports
from quorate.cli.offline import load
from quorate.errors import Corrupt
from quorate.metadata.canonical import canonical
from quorate.nouns import NodeId
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.lock import DirectoryLock
from quorate.storage.names import PARTITION_DIRECTORY
from quorate.wire.batch import batches
from tests.e2e.cluster import VOTERS, Cluster, control_plane, stored_leaders, stored_topics
from tests.e2e.offline import scan, stored_log
from tests.e2e.starting import start
from tests.interop.kafka.judge import controller_properties, dump_log, dumped_batches
from tests.interop.kafka.quorum import Voters, controllers_on, data_of, short_life
from tests.interop.kafka.release import absent
from tests.interop.mixed import OURS, Life, Taken, addresses_in, live_on, topics_of

FIXTURES: Final = Path(__file__).parent / "fixtures"
GROWS: Final = {"quorum-state", "leader-epoch-checkpoint"}
"""What goes on with the log; everything else stays as Kafka left it."""

GOES_ON_TIMEOUT_S: Final = 300

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Directories by node id, as Kafka left them, and which nodes come up at another address."""

    sources: Callable[[Path], Mapping[NodeId, Path]]
    moved: tuple[NodeId, ...] = ()


def fixture_nodes(cluster: str, **names: str) -> Callable[[Path], Mapping[NodeId, Path]]:
    """Of the committed ones; `n1` is of node 1."""
    return lambda _: {int(node[1:]): FIXTURES / cluster / name for node, name in names.items()}


def live_nodes(*, count: int, are_static: bool) -> Callable[[Path], Mapping[NodeId, Path]]:
    """Directories of a Kafka cluster that runs now, and stops."""
    return partial(short_life, count=count, are_static=are_static)


CASES: Final = {
    "one static voter": Case(sources=fixture_nodes("combined-static", n1="node-1")),
    "three voters in the log": Case(
        sources=fixture_nodes("three-dynamic", n1="controller-1", n2="controller-2", n3="controller-3")
    ),
    "three voters, one was killed long ago and has moved": Case(
        sources=fixture_nodes("three-dynamic", n1="controller-unclean", n2="controller-2", n3="controller-3"),
        moved=(1,),
    ),
}
LIVE: Final = {
    "three static voters, live": Case(sources=live_nodes(count=3, are_static=True)),
    "one voter in the log that has moved, live": Case(sources=live_nodes(count=1, are_static=False), moved=(1,)),
}
JUDGED: Final = (pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=str(absent())))


def judged(test: Callable[..., None]) -> Callable[..., None]:
    """A test that needs a Kafka release."""
    for mark in JUDGED:
        test = mark(test)
    return test


@pytest.fixture(scope="module", params=[*CASES, *(pytest.param(name, marks=JUDGED) for name in LIVE)])
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Our processes have lived on Kafka's directories."""
    case, directory = (CASES | LIVE)[request.param], tmp_path_factory.mktemp("mixed")
    try:
        return asyncio.run(live_on(case.sources(directory / "kafka"), directory / "ours", moved=case.moved))
    except Taken as why:
        pytest.skip(str(why))


def test_they_elect_in_a_later_epoch(life: Life) -> None:
    assert life.elected.leader_epoch > life.kafka.epoch
    assert life.elected.high_watermark > life.kafka.as_of_offset


def test_the_leader_has_all_that_a_majority_had(life: Life) -> None:
    """One of them may have had more: a record that Kafka never committed."""
    ends = sorted(((found.epoch, found.as_of_offset) for found in map(load, life.sources.values())), reverse=True)
    committed = ends[len(ends) // 2]

    assert committed <= (life.kafka.epoch, life.kafka.as_of_offset)


def test_every_process_serves_what_kafka_had(life: Life) -> None:
    expected = topics_of(life.kafka.state)

    assert expected
    assert dict.fromkeys(life.before, expected) == life.before


def test_what_our_controller_writes_is_served_besides(life: Life) -> None:
    expected = topics_of(life.kafka.state).keys() | {OURS}

    assert dict.fromkeys(life.after, expected) == {who: topics.keys() for who, topics in life.after.items()}
    for topics in life.after.values():
        ((_, partition),) = topics[OURS]["partitions"].items()

        assert [101, 102, 103] == sorted(partition["isr"])


def test_each_log_goes_on_from_its_last_record(life: Life) -> None:
    """What Kafka wrote is there byte by byte; right after it our first leader's epoch begins, with its record."""
    end, of_kafka = life.kafka.as_of_offset, stored_log(life.kafka.path)
    for node_id, log_dir in life.log_dirs.items():
        log = stored_log(log_dir)

        assert of_kafka == [batch for batch in log if batch.base_offset < end], node_id
        assert (end, life.elected.leader_epoch) == next(
            (batch.base_offset, batch.epoch) for batch in log if batch.base_offset >= end
        )
        assert (life.elected.leader_epoch, life.elected.leader_id) in stored_leaders(log_dir)
        assert 1 == stored_topics(log_dir).count(OURS)


def test_the_directories_are_sound_and_agree(life: Life) -> None:
    """`quorate log verify` finds nothing; the logs are equal as far as they all go, and so is the state there."""
    common = scan(list(life.log_dirs.values()), cluster_id=life.plan.cluster_id)

    assert OURS in common.topics
    for log_dir in life.log_dirs.values():
        assert canonical(life.kafka.state) == canonical(load(log_dir, as_of=life.kafka.as_of_offset).state)


def test_kraft_version_stays_and_the_voters_too_but_for_where_they_are(life: Life) -> None:
    for log_dir in life.log_dirs.values():
        after = load(log_dir)

        assert life.kafka.kraft_version == after.kraft_version
        assert (life.kafka.voters is None) == (after.voters is None)
        if life.kafka.voters is not None and after.voters is not None:
            assert dict(life.voters) == addresses_in(after)
            assert {(each.voter_id, each.voter_directory_id) for each in life.kafka.voters.voters} == {
                (each.voter_id, each.voter_directory_id) for each in after.voters.voters
            }


def test_the_vote_is_kept_in_the_form_in_which_kafka_kept_it(life: Life) -> None:
    for node_id, source in life.sources.items():
        before, after = quorum_state(source), quorum_state(life.log_dirs[node_id])

        assert life.kafka.kraft_version == before["data_version"] == after["data_version"]
        assert before.keys() == after.keys()
        assert before["leaderEpoch"] < life.elected.leader_epoch <= after["leaderEpoch"]


def test_what_kafka_left_beside_the_log_is_as_it_was(life: Life) -> None:
    for node_id, source in life.sources.items():
        assert left_beside(source)
        for path in left_beside(source):
            copy = life.log_dirs[node_id] / path.relative_to(source)

            assert path.read_bytes() == copy.read_bytes(), copy


@judged
def test_its_dump_tool_finds_every_batch_valid(life: Life) -> None:
    for log_dir in life.log_dirs.values():
        found = dumped_batches(dump_log(*segments(log_dir)))

        assert life.kafka.as_of_offset < found[-1].last_offset
        assert [batch.base_offset for batch in found[1:]] == [batch.last_offset + 1 for batch in found[:-1]], log_dir


@judged
def test_kafka_goes_on_from_ours_and_we_from_kafkas(life: Life, tmp_path: Path) -> None:
    """That we go on from the only voter's is shown of one that we formatted."""
    voters = Voters(addresses=life.voters, are_static=life.kafka.voters is None)
    continued = gone_on(life.log_dirs, tmp_path, voters)
    if len(continued) == 1:
        return
    again = asyncio.run(live_on(continued, tmp_path / "again", topic="again", brokers=(111, 112, 113)))

    assert again.elected.leader_epoch > again.kafka.epoch > life.elected.leader_epoch
    assert {OURS, "again"} <= again.after["observer-201"].keys()
    assert "again" in scan(list(again.log_dirs.values()), cluster_id=life.plan.cluster_id).topics


@judged
def test_kafka_goes_on_from_voters_that_we_took_into_the_log(tmp_path: Path) -> None:
    """The directories were formatted by us; our first leader's first batch has the voters (KIP-853)."""
    plan = asyncio.run(life_of_ours(tmp_path / "ours"))
    log_dirs = {node_id: plan.log_dir(node_id) for node_id in VOTERS}
    first, *_ = dumped_batches(dump_log(*segments(log_dirs[1])))
    addresses = {node_id: node.address for node_id, node in zip(VOTERS, plan.quorum, strict=True)}

    assert ["LeaderChange", "KRaftVersion", "KRaftVoters"] == [
        line.partition(" ")[0].rstrip(":") for line in first.lines
    ]
    assert addresses == addresses_in(load(log_dirs[1]))

    gone_on(log_dirs, tmp_path, Voters(addresses=addresses, are_static=False))


@judged
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "in the log"])
def test_kafka_goes_on_from_the_only_voter_that_we_formatted_and_we_again(tmp_path: Path, dynamic: bool) -> None:
    plan = asyncio.run(life_of_one(tmp_path / "ours", dynamic=dynamic))
    voters = Voters(addresses={1: plan.quorum[0].address}, are_static=not dynamic)

    continued = gone_on({1: plan.log_dir(1)}, tmp_path, voters)
    again = asyncio.run(live_on(continued, tmp_path / "again", topic="again", brokers=(111, 112, 113)))

    assert int(dynamic) == again.kafka.kraft_version
    assert again.elected.leader_epoch > again.kafka.epoch
    assert {OURS, "again"} <= again.after["observer-201"].keys()
    assert "again" in scan(list(again.log_dirs.values()), cluster_id=plan.cluster_id).topics


async def life_of_one(directory: Path, *, dynamic: bool) -> ClusterPlan:
    cluster = Cluster(replace(make_plan(directory, voters=1, dynamic=dynamic), is_observed=False))
    try:
        await cluster.start()
        await cluster.create(OURS, at=1)
        await cluster.end_voters()
    finally:
        await cluster.stop()
    return cluster.plan


async def life_of_ours(directory: Path) -> ClusterPlan:
    async with control_plane(directory, dynamic=True, is_observed=False) as cluster:
        await cluster.create(OURS, at=1)
        await cluster.end_voters()
        return cluster.plan


def gone_on(ours: Mapping[NodeId, Path], scratch: Path, voters: Voters) -> dict[NodeId, Path]:
    """Kafka controllers on copies of our directories go on with writing, and stop; the copies.

    They replay strictly: what does not fit the record before ends the process.
    """
    logs = {node_id: stored_log(log_dir) for node_id, log_dir in ours.items()}
    end = max(log[-1].end_offset for log in logs.values())
    with controllers_on(ours, scratch, voters) as nodes:
        for node_id, node in nodes.items():
            goes_on = partial(has_data_beyond, data_of(scratch, node_id), end)
            node.wait_until(goes_on, f"beyond our end, {end}", GOES_ON_TIMEOUT_S)
        for node in reversed(nodes.values()):
            node.stop()
    shared = [batch for batch in logs[1] if all(batch in log for log in logs.values())]
    for node_id in ours:
        log = stored_log(data_of(scratch, node_id))

        assert shared == log[: len(shared)], node_id
        assert OURS in topics_of(load(data_of(scratch, node_id)).state)
        dumped_batches(dump_log(*segments(data_of(scratch, node_id))))
    return {node_id: data_of(scratch, node_id) for node_id in ours}


@judged
def test_a_directory_has_one_owner_ours_or_kafkas(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(FIXTURES / "combined-static" / "node-1", data, ignore=shutil.ignore_patterns("*.dump.txt"))
    theirs, ours = free_ports(2)
    kafka = Node(tmp_path / "kafka", controller_properties(1, theirs, data))
    with DirectoryLock(data), kafka.start(), pytest.raises(NodeFailed, match="Failed to acquire lock"):
        kafka.wait_ready()
    listener = {
        "listeners": f"CONTROLLER://127.0.0.1:{ours}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{ours}",
    }
    with kafka.start():
        kafka.wait_ready()
        ended = asyncio.run(start("quorum", {"node.id": "1", "metadata.log.dir": str(data), **listener}, tmp_path))

    assert ExitCode.MISCONFIGURED == ended.code
    assert ["is locked by another process" in line for line in ended.fatal] == [True]


def segments(log_dir: Path) -> list[Path]:
    """In the order of their offsets. A segment that was written a week ago is rolled before the next batch."""
    return sorted((log_dir / PARTITION_DIRECTORY).glob("*.log"))


def has_data_beyond(log_dir: Path, end: int) -> bool:
    """Is there a data batch at `end` or after it? The log may be in the middle of a write."""
    try:
        return any(
            not header.is_control and header.base_offset >= end
            for segment in segments(log_dir)
            for _, header in batches(segment.read_bytes())
        )
    except Corrupt:
        return False


def quorum_state(log_dir: Path) -> dict[str, Any]:
    """Kafka's line of it."""
    first, *_ = (log_dir / PARTITION_DIRECTORY / "quorum-state").read_text().splitlines()
    found: dict[str, Any] = json.loads(first)
    return found


def left_beside(source: Path) -> list[Path]:
    """Every file but those that go on with the log: segments and their indexes, its epochs, the election."""
    partition = source / PARTITION_DIRECTORY
    return [
        path
        for path in source.rglob("*")
        if path.is_file()
        and not path.name.endswith(".dump.txt")
        and not (path.parent == partition and (path.name in GROWS or path.suffix in (".log", ".index", ".timeindex")))
    ]
