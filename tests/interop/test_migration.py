"""Kafka controllers are replaced by Quorate and back, with brokers and a client at work: MIXED.md, step by step.

Three Kafka controllers; three of our nodes that join them; ours alone; three new Kafka controllers that join ours;
Kafka controllers alone. A broker's client writes all the time, and a topic is made through a broker at each stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from kraft.api.describe_quorum import DescribeQuorumResponse
from quorate.cli.offline import load
from quorate.errors import ApiError
from quorate.nouns import NodeId
from tests.e2e.calls import eventually
from tests.interop.busy_brokers import WITHIN_S, Brokers, Writer, at_work
from tests.interop.kafka.release import absent
from tests.interop.mixed_quorum import MixedQuorum, kafkas_alone

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]

OURS: Final = (1, 2, 3)
KAFKAS: Final = (4, 5, 6)
BROKERS: Final = (101, 102)
WRITTEN: Final = "written-all-the-time"


async def test_controllers_move_to_quorate_and_back_while_brokers_and_a_client_work(tmp_path: Path) -> None:
    async with AsyncExitStack() as life:
        quorum = await life.enter_async_context(kafkas_alone(tmp_path, ours=len(OURS), kafkas=len(KAFKAS)))
        brokers = Brokers(quorum, BROKERS, KAFKAS + OURS)
        await life.enter_async_context(at_work(brokers, Writer(brokers, WRITTEN)))
        await brokers.create("by-kafkas")

        await quorum.start_ours()
        await voters(quorum, {*KAFKAS, *OURS})
        await brokers.create("by-both")

        for node_id in KAFKAS:
            await quorum.stop_kafka(node_id)
            await quorum.change_voters("remove-controller", node_id)
        await voters(quorum, {*OURS})
        assert (await quorum.led_by(OURS)).leader_id in OURS
        await brokers.create("by-ours")

        for node_id in KAFKAS:
            await quorum.format_kafka(node_id)
            await quorum.start_kafka(node_id)
            await quorum.change_voters("add-controller", node_id)
        await voters(quorum, {*KAFKAS, *OURS})
        await brokers.create("by-both-again")
        by_both = await committed(quorum, KAFKAS + OURS)

        for node_id in OURS:
            await quorum.end_ours(node_id)
            await quorum.change_voters("remove-controller", node_id, by=KAFKAS)
        await voters(quorum, {*KAFKAS})
        await brokers.create("by-kafkas-again")
        in_the_end = await committed(quorum, KAFKAS)

    stages = ["by-kafkas", "by-both", "by-ours", "by-both-again", "by-kafkas-again"]
    for node_id in KAFKAS:
        assert {WRITTEN, *stages} <= {topic.name for topic in load(quorum.data(node_id)).state.topics}, node_id
    assert stages == [topic for topic in quorum.topics_in(KAFKAS[0]) if topic in stages]
    assert {*OURS} & {*quorum.leaders_in(KAFKAS[0])}
    for others, end in ((KAFKAS, in_the_end), (OURS, by_both)):
        for node_id in others:
            assert quorum.log_of(KAFKAS[0], below=end) == quorum.log_of(node_id, below=end), node_id


async def committed(quorum: MixedQuorum, nodes: Iterable[NodeId]) -> int:
    """The high watermark, once every one of these nodes has all that is below it."""
    told = await eventually(lambda: described(quorum, nodes))
    assert told is not None
    end = told.high_watermark

    async def ends() -> list[int]:
        found = await described(quorum, nodes)
        return [] if found is None else [each.log_end_offset for each in found.current_voters]

    await eventually(ends, lambda seen: bool(seen) and min(seen) >= end, within_s=WITHIN_S)
    return int(end)


async def voters(quorum: MixedQuorum, wanted: Iterable[NodeId]) -> None:
    """Waits until these vote, as the active controller says on Kafka's wire."""

    async def told() -> set[NodeId]:
        found = await described(quorum, wanted)
        return set() if found is None else {each.replica_id for each in found.current_voters}

    await eventually(told, lambda seen: seen == set(wanted), within_s=WITHIN_S)


async def described(
    quorum: MixedQuorum, nodes: Iterable[NodeId]
) -> DescribeQuorumResponse.TopicData.PartitionData | None:
    """The quorum, as the one of these nodes that is active tells it; None if none is."""
    for node_id in nodes:
        try:
            return await quorum.described(at=node_id)
        except (ApiError, OSError):
            continue
    return None
