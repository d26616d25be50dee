"""Which files there are, whose cluster they are, and how they are cut, without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.log_files import HALF, bundled, find, has_settled, is_being_written, parts
from quorate.pipeline.tail import directories
from quorate.storage.snapshots import DownloadFile
from tests.pipeline.logs import batches, checkpoint, history, node, segment

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"


def test_a_real_node_has_a_log_and_checkpoints_of_its_cluster() -> None:
    places = find([str(FIXTURES / "combined-static" / "node-1")])

    assert [("log", 0, None), ("checkpoint", 30, 1), ("checkpoint", 51, 1)] == [
        (place.kind, place.base_offset, place.epoch) for place in places
    ]
    assert {("q9Zs1fW3RzmXb0mKpL4vAg", None)} == {(place.cluster_id, place.problem) for place in places}


@pytest.mark.parametrize(
    "pattern", ["", "/*", "/a", "/a/__cluster_metadata-0", "/a/*/*.log", "/**/*.log", "/{b,a}", "/{a/*,b}/*.log"]
)
def test_a_path_is_a_directory_a_file_or_a_glob(tmp_path: Path, pattern: str) -> None:
    log = segment(node(tmp_path / "a", "one"), batches(history()))

    assert [(str(log), "one")] == [(place.path, place.cluster_id) for place in find([f"{tmp_path}{pattern}"])]


def test_braces_stand_for_what_is_there_of_several(tmp_path: Path) -> None:
    logs = [segment(node(tmp_path / name, name), batches(history())) for name in ("a1", "a2", "b", "{c,d}")]

    def found(pattern: str) -> list[str]:
        return [place.path for place in find([f"{tmp_path}/{pattern}"])]

    assert [str(logs[0]), str(logs[2])] == found("{a1,b,nowhere}")
    assert [str(each) for each in logs[:3]] == found("{a*,{b,c}}")
    assert [str(logs[3])] == found("{c,d}")
    with pytest.raises(FileNotFoundError, match=r"\{e,f\}: there is no such file or directory"):
        found("{e,f}")


def test_files_named_twice_are_read_once(tmp_path: Path) -> None:
    segment(node(tmp_path / "a"), batches(history()))

    assert 1 == len(find([str(tmp_path), str(tmp_path / "a")]))


def test_a_log_is_one_though_the_name_of_another_below_it_lies_between_its_files(tmp_path: Path) -> None:
    own = [segment(tmp_path, batches(history()), base_offset=base) for base in (0, 5)]
    below = tmp_path / f"{3:020}"
    below.mkdir()
    other = segment(below, batches(history()))

    places = find([str(tmp_path)])

    assert [(str(own[0]), 5), (str(own[1]), None), (str(other), None)] == [
        (place.path, place.following) for place in places
    ]
    assert [2, 1] == [len(each.segments) for each in directories(places)]


def test_without_meta_properties_the_cluster_is_the_option_or_the_folder(tmp_path: Path) -> None:
    segment(node(tmp_path / "shipped"), batches(history()))

    assert ["shipped"] == [place.cluster_id for place in find([str(tmp_path)])]
    assert ["one"] == [place.cluster_id for place in find([str(tmp_path)], cluster_id="one")]


def test_an_option_that_contradicts_the_files_is_a_problem(tmp_path: Path) -> None:
    segment(node(tmp_path, "one"), batches(history()))
    (place,) = find([str(tmp_path)], cluster_id="two")

    assert f"{tmp_path / 'meta.properties'} says cluster one, the option clusterId two" == place.problem


def test_two_clusters_in_one_place_are_a_problem(tmp_path: Path) -> None:
    partition = node(tmp_path, "one")
    segment(partition, batches(history()))
    (partition / "meta.properties").write_text("node.id=1\nversion=1\ncluster.id=two\n")
    (place,) = find([str(tmp_path)])
    assert place.problem is not None

    assert place.problem.startswith("two clusters in one place")


def test_a_broken_meta_properties_is_a_problem(tmp_path: Path) -> None:
    segment(node(tmp_path, "one"), batches(history()))
    (tmp_path / "meta.properties").write_text("node.id=1\nversion=1\n")
    (place,) = find([str(tmp_path)])

    assert f"{tmp_path / 'meta.properties'}: cluster.id is missing" == place.problem


def test_what_is_no_part_of_a_log_is_passed_over(tmp_path: Path) -> None:
    partition = node(tmp_path, "one")
    log = segment(partition, batches(history()))
    for name in ("00000000000000000000.index", "quorum-state", "00000000000000000000.log.deleted"):
        (partition / name).write_bytes(b"?")
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"?")

    assert [str(log)] == [place.path for place in find([str(tmp_path)])]


PARTS = {
    "Kafka's: Files.createTempFile's number": "-6384759348579",
    "ours: 16 hexadecimal digits": "-0f1e2d3c4b5a6978",
    "a copying tool's": "",
}


@pytest.mark.parametrize("word", PARTS.values(), ids=PARTS.keys())
def test_a_checkpoint_that_is_not_whole_is_a_problem(tmp_path: Path, word: str) -> None:
    partition = node(tmp_path, "one")
    segment(partition, batches(history()))
    half = checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    half.rename(half.with_name(f"{half.stem}{word}.checkpoint.part"))

    assert [("log", 0, None), ("checkpoint", 2, HALF)] == [
        (place.kind, place.base_offset, place.problem) for place in find([str(tmp_path)])
    ]


def test_half_a_checkpoint_is_being_written_until_it_has_stood_still(tmp_path: Path) -> None:
    partition = node(tmp_path, "one")
    log = segment(partition, batches(history()))
    half = checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    part = half.rename(f"{half}.part")
    for path in (log, part):
        os.utime(path, (1_000, 1_000))
    places = find([str(tmp_path)])

    assert [[False, False], [False, True]] == [
        [is_being_written(place, by_ms) for place in places] for by_ms in (1_000_000, 999_999)
    ]
    # Between two looks it may get its name.
    part.rename(half)
    assert [True, False] == [has_settled(place, 1_000_000) for place in places]


def test_what_a_node_downloads_is_known_for_a_part(tmp_path: Path) -> None:
    partition = node(tmp_path, "one")
    segment(partition, batches(history()))
    download = DownloadFile(partition, OffsetAndEpoch(offset=2, epoch=1))
    download.write(0, b"the first piece")
    (half,) = (place for place in find([str(tmp_path)]) if place.kind == "checkpoint")
    download.abandon()

    assert (2, 1, HALF) == (half.base_offset, half.epoch, half.problem)


@pytest.mark.parametrize("part_bytes", [1, 200, 1 << 20])
def test_parts_cover_a_file_and_begin_at_batches(tmp_path: Path, part_bytes: int) -> None:
    content = batches(history(9))
    path = segment(node(tmp_path), content)
    (place,) = find([str(path)])
    cut = list(parts(place, part_bytes=part_bytes))
    starts = {sum(map(len, content[:count])): count + (count > 0) for count in range(len(content))}

    assert [0, *(part.end for part in cut[:-1])] == [part.start for part in cut]
    assert path.stat().st_size == cut[-1].end
    assert [starts[part.start] for part in cut] == [part.offset for part in cut]
    assert [False] * (len(cut) - 1) + [True] == [part.is_last for part in cut]


def test_small_files_are_bundled_in_order(tmp_path: Path) -> None:
    for number in range(10):
        segment(node(tmp_path / str(number)), batches(history()))
    every = [part for place in find([str(tmp_path)]) for part in parts(place)]
    size = every[0].end
    bundles = bundled(every, part_bytes=3 * size)

    assert [3, 3, 3, 1] == list(map(len, bundles))
    assert every == [part for bundle in bundles for part in bundle]


def test_a_copy_of_a_checkpoint_has_its_fingerprint(tmp_path: Path) -> None:
    one, two = node(tmp_path / "a"), node(tmp_path / "b")
    records, snapshot = history()[0], OffsetAndEpoch(offset=2, epoch=1)
    checkpoint(one, records, snapshot)
    copy = checkpoint(two, records, snapshot)
    same = {part.fingerprint for place in find([str(tmp_path)]) for part in parts(place)}
    copy.write_bytes(copy.read_bytes()[:-1])
    different = {part.fingerprint for place in find([str(tmp_path)]) for part in parts(place)}

    assert (1, 2) == (len(same), len(different))
