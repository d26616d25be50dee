"""What a follower makes of the batches that its leader sends: those that a log cleaner has left empty, and bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.replication import Phase, ReplicationSettings
from services.broker.callers import Caller
from services.broker.fetch import Fetch
from tests.e2e.calls import eventually
from tests.partition_log.batches import NOW_MS, emptied, placed, produced
from tests.services.broker import test_partitions, test_resting
from tests.services.broker.test_partitions import Scene
from tests.services.broker.test_resting import following, leading

disks = test_partitions.disks
others_disks = test_resting.others_disks


async def ended(scene: Scene, *expected: int) -> None:
    """Waits until the logs end there."""

    async def ends() -> list[int]:
        return [each.log.leo for each in scene.replicas.table]

    await eventually(ends, lambda found: found == [*expected])


async def test_what_a_log_cleaner_has_left_empty_is_followed(disks: list[Path], others_disks: list[Path]) -> None:
    """A leader of Kafka's has such batches in each topic that it compacts."""
    async with leading(disks, 1) as leader:
        left = placed(emptied(produced(count=3, producer=(5, 0, 0))), offset=0, epoch=0)
        leader[0].log.append_as_follower(left, now_ms=NOW_MS)
        await leader.append(0)
        async with following(leader, others_disks) as (scene, _):
            await ended(scene, 4)

            assert [4] == [each.log.leo for each in scene.replicas.table]


class Garbled:
    """A leader's fetches, of which some answers have a bit flipped in the byte `at`."""

    def __init__(self, fetch: Fetch, at: int, *, answers: int) -> None:
        self._fetch = fetch
        self._at = at
        self.left = answers

    async def answer(self, request: FetchRequest, version: int, caller: Caller) -> FetchResponse:
        answer = await self._fetch.answer(request, version, caller)
        if not (self.left and answer.responses and (data := answer.responses[0].partitions[0]).records):
            return answer
        self.left -= 1
        records = bytearray(data.records)
        records[self._at] ^= 1
        topic = replace(answer.responses[0], partitions=(replace(data, records=bytes(records)),))
        return replace(answer, responses=(topic,))


@pytest.mark.parametrize("at", [-1, 16], ids=["a record of the last batch", "a header"])
async def test_a_batch_that_is_not_what_it_was_is_fetched_again(
    disks: list[Path], others_disks: list[Path], caplog: pytest.LogCaptureFixture, at: int
) -> None:
    """Kafka's CorruptRecordException: the next copy may be whole."""
    async with leading(disks, 1) as leader:
        leader.fetch = garbled = Garbled(leader.fetch, at, answers=3)  # type: ignore[assignment]  # it stands in for one
        async with following(leader, others_disks) as (scene, _):
            (hosted,) = scene.replicas.table
            role = hosted.following
            assert role is not None
            role.settings = ReplicationSettings(fetch_backoff_ms=5)
            for _ in range(2):
                leader[0].log.append_as_leader(produced(), epoch=0, now_ms=NOW_MS)
            leader.replicas.touch(leader[0].key)

            await ended(scene, 2)
            told = [each for each in caplog.records if "fetched again" in str(vars(each))]

            assert (0, Phase.FETCHING, "", 1) == (garbled.left, role.phase, role.failure, len(told))
