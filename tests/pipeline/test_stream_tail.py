"""Logs that grow, roll, are cut and removed, given out piece by piece without Spark: each row once, damage too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.log_files import FilePart, find, named, parts
from quorate.pipeline.planning import between
from quorate.pipeline.rows import CUT, RowFilter, read
from quorate.pipeline.tail import Cursor, EpochWentBack, TailSettings, advance, directories
from tests.pipeline.logs import batches, checkpoint, flipped, history, node, segment

FOREVER = 1 << 60
SETTLED = TailSettings(lambda _: True)
MOVING_PART = "00000000000000000002-0000000001-4711260935.checkpoint.part"
MOVING = TailSettings(lambda _: False)


class Row(NamedTuple):
    """What is compared of a row."""

    file: str
    offset: int | None
    epoch: int | None
    payload: str | None
    corrupt: str | None


def rows(pieces: Iterable[FilePart]) -> list[Row]:
    """The rows of parts."""
    found = []
    for part in pieces:
        for columns in read(part, RowFilter()):
            name = columns.by_name()
            shown = (name[each] for each in ("offset", "epoch", "payload", "_corrupt"))
            found += [Row(Path(part.place.path).name, *row) for row in zip(*shown, strict=True)]
    return found


def at_once(top: Path) -> list[Row]:
    """What a batch read of the files gives."""
    return rows(part for place in find([str(top)]) for part in parts(place))


class Stream:
    """Follows the one directory below a path, as Spark would: plans, keeps the cursor, reads what lies between."""

    def __init__(
        self, top: Path, *, look: TailSettings = SETTLED, limit: int = FOREVER, part_bytes: int = 1 << 20
    ) -> None:
        self.top = top
        self.look = look
        self.limit = limit
        self.part_bytes = part_bytes
        self.at = Cursor()

    def step(self) -> list[Row]:
        """The rows of the next batch."""
        (directory,) = directories(named([str(self.top)]))
        start = self.at
        # As it comes back from Spark's checkpoint.
        self.at = Cursor(**advance(directory, start, self.look, limit=self.limit)._asdict())
        planned = list(between(directory, start, self.at, part_bytes=self.part_bytes))
        assert planned == list(between(directory, start, self.at, part_bytes=self.part_bytes))
        return rows(planned)

    def drain(self) -> list[Row]:
        """The rows of all batches until nothing is new."""
        found: list[Row] = []
        while True:
            before = self.at
            found += self.step()
            if before == self.at:
                return found


def test_a_log_that_grows_is_given_once(tmp_path: Path) -> None:
    content = batches(history(6))
    path = segment(node(tmp_path), content[:2])
    stream = Stream(tmp_path)
    first = stream.drain()
    with path.open("ab") as file:
        file.write(b"".join(content[2:]))
    rest = stream.drain()

    assert ([0, 1, 2], [3, 4, 5, 6, 7]) == ([row.offset for row in first], [row.offset for row in rest])
    assert at_once(tmp_path) == first + rest
    assert [] == stream.drain()


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("part_bytes", [1, 150, 1 << 20])
def test_read_limits_and_parts_change_nothing(tmp_path: Path, limit: int, part_bytes: int) -> None:
    content = batches(history(8))
    partition = node(tmp_path)
    segment(partition, content[:3])
    segment(partition, content[3:7], base_offset=4)
    segment(partition, content[7:], base_offset=8)
    checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))

    assert sorted(at_once(tmp_path), key=str) == sorted(
        Stream(tmp_path, limit=limit, part_bytes=part_bytes).drain(), key=str
    )


def test_a_limit_is_kept_by_whole_batches(tmp_path: Path) -> None:
    segment(node(tmp_path), batches(history(6)))
    stream = Stream(tmp_path, limit=3)

    assert [3, 3, 2] == [len(stream.step()) for _ in range(3)]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_grows_rolls_and_breaks_is_given_as_if_read_at_once(tmp_path: Path, seed: int) -> None:
    """Damage comes with what is written behind it, or else the stream could not know that it is damage."""
    random = Random(seed)
    content = batches(history(60))
    partition, base = node(tmp_path), 0
    path = segment(partition, [])
    stream = Stream(tmp_path, look=MOVING, limit=random.choice((1, 5, 20, FOREVER)), part_bytes=random.choice((1, 400)))
    found, sizes = [], [2, *[1] * 60]
    kinds = random.choices(("sound", "flipped", "lost", "noise", "twice"), weights=(40, 2, 2, 2, 2), k=len(content))
    kinds[-1] = "sound"
    for batch, size, kind in zip(content, sizes, kinds, strict=True):
        with path.open("ab") as file:
            file.write(damaged(batch, kind, random))
        base += size
        if random.random() < 0.1:
            path = segment(partition, [], base_offset=base)
        if random.random() < 0.3:
            found += stream.step()
    found += stream.drain()
    stream.look = SETTLED
    found += stream.drain()

    assert at_once(tmp_path) == found


def damaged(batch: bytes, kind: str, random: Random) -> bytes:
    match kind:
        case "flipped":
            return flipped(batch)
        case "lost":
            return b""
        case "noise":
            return random.randbytes(random.randrange(1, 200)) + batch
        case "twice":
            return batch + batch
        case _:
            return batch


def test_a_tail_that_is_being_written_is_not_yet_there(tmp_path: Path) -> None:
    content = batches(history(3))
    path = segment(node(tmp_path), [*content[:-1], content[-1][:-7]])
    stream = Stream(tmp_path, look=MOVING)
    first = stream.drain()
    path.write_bytes(b"".join(content))

    assert ([0, 1, 2, 3], [4]) == ([row.offset for row in first], [row.offset for row in stream.drain()])
    assert [] == [row for row in first if row.corrupt]


def test_a_tail_that_has_stood_still_is_told_once(tmp_path: Path) -> None:
    content = batches(history(3))
    path = segment(node(tmp_path), [*content[:-1], content[-1][:-7]])
    stream = Stream(tmp_path)
    told = stream.drain()
    assert told[-1].corrupt is not None

    assert at_once(tmp_path) == told
    assert told[-1].corrupt.startswith(f"{CUT} at offset 4: ")
    assert [] == stream.drain()
    # The node comes back, cuts what is torn, and goes on.
    path.write_bytes(b"".join(content))
    assert [4] == [row.offset for row in stream.drain()]


def test_a_tail_that_was_told_is_not_told_again_when_the_log_goes_on_behind_it(tmp_path: Path) -> None:
    content = batches(history(5))
    partition = node(tmp_path)
    path = segment(partition, [*content[:2], flipped(content[2])])
    stream = Stream(tmp_path)
    told = stream.drain()
    with path.open("ab") as file:
        file.write(content[3])
    segment(partition, content[4:], base_offset=5)

    assert [0, 1, 2, 3] == [row.offset for row in told]
    assert [(4, None), (5, None), (6, None)] == [(row.offset, row.corrupt) for row in stream.drain()]


def test_damage_in_the_middle_is_told_at_once_and_once(tmp_path: Path) -> None:
    content = batches(history(5))
    segment(node(tmp_path), [*content[:2], flipped(content[2]), *content[3:]])
    stream = Stream(tmp_path, look=MOVING, limit=1)
    found = stream.drain()

    assert at_once(tmp_path) == found
    assert [3] == [row.offset for row in found if row.corrupt]


def test_a_missing_segment_is_waited_for_and_then_told(tmp_path: Path) -> None:
    content = batches(history(5))
    partition = node(tmp_path)
    segment(partition, content[:2])
    segment(partition, content[3:], base_offset=4)
    stream = Stream(tmp_path, look=MOVING)
    before = stream.drain()
    stream.look = SETTLED
    after = stream.drain()

    assert ([0, 1, 2], [3, 4, 5, 6]) == ([row.offset for row in before], [row.offset for row in after])
    assert ["offsets 3 to 3 are missing"] == [(row.corrupt or "").partition(",")[0] for row in after if row.corrupt]
    assert at_once(tmp_path) == before + after


def test_segments_that_were_read_may_go(tmp_path: Path) -> None:
    content = batches(history(5))
    partition = node(tmp_path)
    old = segment(partition, content[:2])
    stream = Stream(tmp_path)
    stream.drain()
    segment(partition, content[2:4], base_offset=3)
    old.unlink()

    assert [(3, None), (4, None)] == [(row.offset, row.corrupt) for row in stream.drain()]


def test_segments_that_go_before_they_are_read_are_told(tmp_path: Path) -> None:
    content = batches(history(5))
    partition = node(tmp_path)
    old = segment(partition, content[:2])
    stream = Stream(tmp_path)
    stream.drain()
    old.unlink()
    segment(partition, content[4:], base_offset=5)
    found = stream.drain()

    assert [3, 5, 6] == [row.offset for row in found]
    assert ["offsets 3 to 4 are missing", ""] == [(row.corrupt or "").partition(",")[0] for row in found[:2]]


def test_a_batch_that_is_done_again_tells_what_was_removed_meanwhile(tmp_path: Path) -> None:
    content = batches(history(5))
    partition = node(tmp_path)
    old = segment(partition, content[:4])
    (directory,) = directories(named([str(tmp_path)]))
    end = advance(directory, Cursor(), SETTLED, limit=FOREVER)
    start = Cursor(1, 1, old.name, 1, 0)
    old.unlink()
    segment(partition, content[4:], base_offset=5)
    (directory,) = directories(named([str(tmp_path)]))

    assert ["offsets 1 to 4 were removed before they were read, 0 bytes at byte 0"] == [
        row.corrupt for row in rows(between(directory, start, end))
    ]


def test_what_a_later_leader_replaced_is_read_too_and_nothing_else_again(tmp_path: Path) -> None:
    old = batches(history(4), epoch=1)
    new = batches([history(1)[1]] * 5, base_offset=3, epoch=2)
    path = segment(node(tmp_path), old)
    stream = Stream(tmp_path)
    first = stream.drain()
    path.write_bytes(b"".join(old[:2]))
    waits = stream.drain()
    path.write_bytes(b"".join([*old[:2], *new]))
    told, *again = stream.drain()

    assert (6, []) == (len(first), waits)
    assert told.corrupt is not None
    assert told.corrupt.startswith("offsets 3 to 5 were returned before, and a later leader truncated some of them:")
    assert [(offset, 2) for offset in range(3, 8)] == [(row.offset, row.epoch) for row in again]


def test_an_epoch_that_goes_back_is_refused(tmp_path: Path) -> None:
    partition = node(tmp_path, "one")
    path = segment(partition, batches(history(4), epoch=3))
    stream = Stream(tmp_path)
    stream.drain()
    path.write_bytes(b"".join(batches(history(6), epoch=2)))

    with pytest.raises(EpochWentBack) as caught:
        stream.step()
    assert (
        f"cluster one: epoch went back at offset 5: {partition} has it of epoch 2, and it was given out of epoch 3"
        == str(caught.value)
    )


def test_the_same_log_in_other_segments_is_not_given_again(tmp_path: Path) -> None:
    content = batches(history(5))
    partition = node(tmp_path)
    whole = segment(partition, content[:4])
    stream = Stream(tmp_path)
    stream.drain()
    whole.unlink()
    segment(partition, content[1:3], base_offset=2)
    segment(partition, content[3:], base_offset=4)

    assert [5, 6] == [row.offset for row in stream.drain()]


# Checkpoints.


def test_checkpoints_are_given_once_and_whole(tmp_path: Path) -> None:
    partition = node(tmp_path)
    segment(partition, batches(history(4)))
    stream = Stream(tmp_path, look=MOVING)
    stream.drain()
    path = checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    half = stream.drain()
    path.write_bytes(whole)
    found = stream.drain()
    checkpoint(partition, history()[0], OffsetAndEpoch(offset=4, epoch=1))
    later = stream.drain()

    assert [] == half
    assert [path.name] * 4 == [row.file for row in found]
    assert ["00000000000000000004-0000000001.checkpoint"] * 4 == [row.file for row in later]
    assert [] == stream.drain()


def test_half_checkpoints_are_told_when_they_have_stood_still(tmp_path: Path) -> None:
    partition = node(tmp_path)
    segment(partition, batches(history(1)))
    cut = checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    cut.write_bytes(cut.read_bytes()[:-20])
    half = checkpoint(partition, history()[0], OffsetAndEpoch(offset=3, epoch=1))
    half.rename(f"{half}.part")
    stream = Stream(tmp_path, look=MOVING)
    before = stream.drain()
    stream.look = SETTLED
    after = stream.drain()

    assert {"00000000000000000000.log"} == {row.file for row in before}
    assert {cut.name, f"{half.name}.part"} == {row.file for row in after if row.corrupt}
    assert sorted(at_once(tmp_path), key=str) == sorted(before + after, key=str)
    # Its download goes on after all.
    (partition / f"{half.name}.part").rename(half)
    assert [half.name] * 4 == [row.file for row in stream.drain()]


def test_a_half_checkpoint_that_moves_is_not_passed_over(tmp_path: Path) -> None:
    """A later one has stood still, as its download was given up; the cursor must not stand behind both."""
    partition = node(tmp_path)
    segment(partition, batches(history(1)))
    moving, still = (
        checkpoint(partition, history()[0], OffsetAndEpoch(offset=offset, epoch=1)).rename(partition / name)
        for offset, name in ((2, MOVING_PART), (3, "00000000000000000003-0000000001.checkpoint.part"))
    )
    stream = Stream(tmp_path, look=TailSettings(lambda place: Path(place.path).name != moving.name))
    before = stream.drain()
    stream.look = SETTLED

    assert [] == [row.file for row in before if row.corrupt]
    assert [moving.name, still.name] == [row.file for row in stream.drain()]


def test_a_file_of_two_clusters_is_told_once(tmp_path: Path) -> None:
    partition = node(tmp_path, "one")
    (partition / "meta.properties").write_text("node.id=1\nversion=1\ncluster.id=two\n")
    segment(partition, batches(history(2)))
    stream = Stream(tmp_path)
    first = stream.drain()
    segment(partition, batches(history(2)), base_offset=4)

    assert at_once(tmp_path)[:1] == first
    assert ["00000000000000000004.log"] == [row.file for row in stream.drain()]


def test_of_files_as_they_were_no_more_is_given(tmp_path: Path) -> None:
    content = batches(history(5))
    path = segment(node(tmp_path), content[:3])
    then = {str(path): path.stat().st_size - 5}
    path.write_bytes(b"".join(content))
    stream = Stream(tmp_path, look=TailSettings(lambda _: False, then))

    assert [0, 1, 2] == [row.offset for row in stream.drain()]
