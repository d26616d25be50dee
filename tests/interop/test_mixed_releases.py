"""Other releases vote beside ours, also by TLS, and each begins with the other's snapshot (FetchSnapshot)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from deploy.local.plan import RELEASE
from quorate.cli.offline import load
from quorate.errors import ApiError
from quorate.metadata.canonical import canonical
from quorate.nouns import NodeId, Offset, uuid_text
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_ids, segment_bases
from tests.e2e.calls import eventually
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM, absent
from tests.interop.mixed_plan import PATIENT, Peers, Settings
from tests.interop.mixed_quorum import MixedQuorum, kafkas_first, ours_first
from tests.network.certificates import authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]

OURS: Final = (1, 2)
KAFKA: Final = 3
FORGETFUL: Final[Settings] = PATIENT | {
    "metadata.log.max.record.bytes.between.snapshots": 1_000,
    "metadata.max.retention.bytes": 1_000,
    "metadata.max.idle.interval.ms": 500,
    "metadata.log.cleaning.interval.ms": 200,
    "file.delete.delay.ms": 0,
}
"""Every node makes a snapshot soon, and forgets the log before it."""
RELEASES: Final = {
    "4.0.0": (OLDEST_POM, "4.0-IV3"),
    "4.4.0": (OPERATIONS_POM, RELEASE),
}
"""The metadata.version is one that ours and the release know."""


@pytest.mark.parametrize(("release", "by_tls"), [("4.0.0", False), ("4.4.0", True)])
async def test_a_kafka_begins_with_our_snapshot_leads_and_gives_ours_its_own(
    tmp_path: Path, release: str, by_tls: bool
) -> None:
    pom, level = RELEASES[release]
    peers = Peers(pom=pom, level=level, issuer=authority(tmp_path) if by_tls else None)
    async with ours_first(tmp_path / "quorum", ours=2, kafkas=1, settings=FORGETFUL, peers=peers) as quorum:
        await until_forgotten(quorum, at=1)
        await quorum.start_kafka(KAFKA)
        await quorum.change_voters("add-controller", KAFKA)

        assert began(quorum, KAFKA) > 0  # no log of ours reaches so far back

        await quorum.create_by_wire("while-ours-leads", at=1)
        await quorum.transfer(to=KAFKA)
        await quorum.create_by_wire("while-a-kafka-leads", at=KAFKA)
        await quorum.kill(quorum.quorum(2))
        await quorum.format_anew(quorum.quorum(2), joins=True)
        await quorum.restart(quorum.quorum(2))
        await eventually(lambda: bases(quorum, [2]), all)

        assert began(quorum, 2) > 0

        await quorum.create_by_wire("after-a-disk-was-lost", at=KAFKA)
        last = (await quorum.described(at=KAFKA)).high_watermark
        await eventually(lambda: quorum.find(1), lambda view: view.high_watermark >= last)
        for node_id in OURS:  # else they may make a snapshot of what is committed next, and nothing before it is kept
            await quorum.kill(quorum.controller(node_id))
        committed = await quorum.stop_all()

    start = max(began(quorum, node_id) for node_id in (*OURS, KAFKA))
    states, logs = [], []
    for node_id in (1, 2, KAFKA):
        states.append(canonical(load(quorum.data(node_id), as_of=committed).state))
        logs.append([each for each in quorum.log_of(node_id, below=committed) if each[0] >= start])
    for state, log in zip(states, logs, strict=True):
        assert states[0] == state
        assert logs[0] == log
    names = {topic.name for topic in load(quorum.data(2), as_of=committed).state.topics}
    assert {"while-ours-leads", "while-a-kafka-leads", "after-a-disk-was-lost", "topic-0"} <= names


async def test_ours_becomes_a_voter_of_a_kafka_4_0_also_with_a_new_disk(tmp_path: Path) -> None:
    """Kafka 4.0 has AddRaftVoter 0 alone, which is answered once the new voters have committed."""
    pom, level = RELEASES["4.0.0"]
    async with kafkas_first(tmp_path, ours=1, kafkas=1, peers=Peers(pom=pom, level=level)) as quorum:
        await eventually(lambda: voters(quorum), lambda seen: set(seen) == {1, 2})
        await quorum.create_by_wire("by-both", at=2)
        before = quorum.directory_id(1)
        await quorum.kill(quorum.quorum(1))
        await quorum.format_anew(quorum.quorum(1), joins=True)
        await quorum.restart(quorum.quorum(1))
        after = quorum.directory_id(1)
        seen = await eventually(lambda: voters(quorum), lambda seen: seen.get(1) not in (None, before))

        assert before != after == seen[1]

        await quorum.create_by_wire("by-both-again", at=2)


async def voters(quorum: MixedQuorum) -> dict[NodeId, str]:
    """The directory ids of the voters by node id, as node 2 tells them; empty while it leads nobody."""
    try:
        told = await quorum.described(at=2)
    except (ApiError, OSError):
        return {}
    return {each.replica_id: uuid_text(each.replica_directory_id) for each in told.current_voters}


async def until_forgotten(quorum: MixedQuorum, *, at: NodeId) -> None:
    """Topics are made until both of ours have cut their logs."""
    made = 0

    async def cut() -> list[Offset]:
        nonlocal made
        await quorum.create_by_wire(f"topic-{made}", at=at)
        made += 1
        return await bases(quorum, OURS)

    await eventually(cut, all)


async def bases(quorum: MixedQuorum, nodes: tuple[NodeId, ...] | list[NodeId]) -> list[Offset]:
    """Where the log of each begins now; 0 before it has one."""
    return [began(quorum, node_id) for node_id in nodes]


def began(quorum: MixedQuorum, node_id: NodeId) -> Offset:
    partition = quorum.data(node_id) / PARTITION_DIRECTORY
    starts = segment_bases(partition) if partition.exists() else []
    first = starts[0] if starts else 0
    assert not first or checkpoint_ids(partition), f"the log of {node_id} begins at {first}, without a checkpoint"
    return first
