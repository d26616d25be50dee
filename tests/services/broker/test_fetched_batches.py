"""What a follower makes of the batches that its leader sends."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.calls import eventually
from tests.partition_log.batches import NOW_MS, emptied, placed, produced
from tests.services.broker import test_partitions, test_resting
from tests.services.broker.test_resting import bounds, following, leading

disks = test_partitions.disks
others_disks = test_resting.others_disks


async def test_what_a_log_cleaner_has_left_empty_is_followed(disks: list[Path], others_disks: list[Path]) -> None:
    """A leader of Kafka's has such batches in each topic that it compacts."""
    async with leading(disks, 1) as leader:
        left = placed(emptied(produced(count=3, producer=(5, 0, 0))), offset=0, epoch=0)
        leader[0].log.append_as_follower(left, now_ms=NOW_MS)
        await leader.append(0)
        async with following(leader, others_disks) as (scene, _):

            async def ends() -> list[int]:
                return [each.log.leo for each in scene.replicas.table]

            await eventually(ends, lambda found: found == [4])
            assert bounds(leader.scene)["orders-0"][2] == bounds(scene)["orders-0"][2]
