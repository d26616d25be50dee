"""Extents: two files that may share an offset are found among the many that cannot, by a few numbers a file."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

from services.pipeline.bronze.extents import OffsetExtent, overlapping


def extent(
    offsets: list[int], source: str = "a", cluster_id: str = "one", fingerprint: str | None = None
) -> OffsetExtent:
    """What `extents` gathers of these offsets."""
    parity = 0
    for offset in offsets:
        parity ^= offset
    return OffsetExtent(cluster_id, fingerprint, source, min(offsets), max(offsets), len(offsets), parity)


@pytest.mark.parametrize(
    ("offsets", "is_whole"),
    [
        ([0], True),
        ([7, 8, 9], True),
        ([7, 9], False),
        ([7, 7, 8], False),
        ([7, 8, 8, 10], False),  # one twice and one missing: as many rows as there are offsets
        (list(range(1_000_003, 1_000_103)), True),
    ],
)
def test_a_file_with_a_gap_or_an_offset_twice_is_not_whole(offsets: list[int], is_whole: bool) -> None:
    assert is_whole is extent(offsets).is_whole


def test_any_offset_for_any_other_is_seen() -> None:
    chance = Random(1)
    for _ in range(200):
        first = chance.randrange(1000)
        offsets = list(range(first, first + chance.randrange(3, 50)))
        assert extent(offsets).is_whole
        gone, again = chance.sample(offsets[1:-1], 1)[0], chance.choice((offsets[0], offsets[-1]))
        changed = [again if offset == gone else offset for offset in offsets]
        assert not extent(changed).is_whole, (gone, again)


def test_overlaps_are_those_that_every_pair_says() -> None:
    chance = Random(2)
    for _ in range(300):
        files = []
        for number in range(chance.randrange(8)):
            first = chance.randrange(40)
            offsets = [first, first + chance.randrange(12)]
            owner = (chance.choice("xy"), chance.choice((None, "f")))
            files.append(extent(offsets, str(number), *owner))
        pairs = [pair for pair in combinations(files, 2) if pair[0].meets(pair[1])]

        assert {each for pair in pairs for each in pair} == overlapping(files)


def test_a_checkpoints_offsets_are_not_the_logs() -> None:
    log, checkpoint = extent([0, 1, 2]), extent([0, 1], "b", fingerprint="f")

    assert set() == overlapping([log, checkpoint])
    assert not log.meets(checkpoint)
