"""Two clusters under one id: logs that contradict each other are found, and replicas of one cluster never are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.pipeline.log_files import find
from quorate.pipeline.twins import TwoClusters, twins
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.logs import batches, flipped, history, node, segment

WHOLE = batches(history(4))
OTHER = batches(history(4, name="payments"))


def problems(place: Path) -> list[str | None]:
    return [each.problem for each in twins(find([str(place)]))]


def cut(directory: Path) -> None:
    """A replica whose first segment is gone."""
    partition = node(directory, "c")
    segment(partition, WHOLE[1:3], base_offset=2)
    segment(partition, WHOLE[3:], base_offset=4)


def whole(directory: Path) -> None:
    segment(node(directory, "c"), WHOLE)


def other(directory: Path) -> None:
    segment(node(directory, "c"), OTHER)


def damaged(directory: Path) -> None:
    segment(node(directory, "c"), [flipped(OTHER[0]), *OTHER[1:]])


def later(directory: Path) -> None:
    """A log of which the first records are of a later epoch."""
    segment(node(directory, "c"), batches(history(4, name="payments"), epoch=2))


def empty(directory: Path) -> None:
    segment(node(directory, "c"), [])


@pytest.mark.parametrize("second", [whole, cut, damaged, later, empty], ids=lambda each: each.__name__)
def test_replicas_damage_and_epochs_contradict_nobody(tmp_path: Path, second: Callable[[Path], None]) -> None:
    whole(tmp_path / "a")
    second(tmp_path / "b")

    assert [] == problems(tmp_path)


def test_the_contradiction_is_named_with_both_files_offset_and_epoch(tmp_path: Path) -> None:
    whole(tmp_path / "a")
    other(tmp_path / "b")
    paths = [str(next((tmp_path / name).rglob("*.log"))) for name in ("a", "b")]

    assert [f"two clusters under the id c: {paths[0]} and {paths[1]} differ at offset 0 of epoch 1"] == problems(
        tmp_path
    )


def test_it_is_found_where_the_first_segments_are_gone(tmp_path: Path) -> None:
    cut(tmp_path / "a")
    segment(node(tmp_path / "b", "c"), [*WHOLE[:1], *batches([history(1)[0]], base_offset=2)])
    (problem,) = problems(tmp_path)

    assert problem is not None
    assert problem.endswith(" differ at offset 2 of epoch 1")


@pytest.mark.parametrize("name", ["combined-static", "three-dynamic", "voters-changed"])
def test_of_a_released_kafkas_replicas_none_contradicts(name: str) -> None:
    assert [] == problems(FIXTURES / name)


def test_two_clusters_of_a_released_kafka_that_were_formatted_with_one_id_do() -> None:
    problem = problems(FIXTURES)[0]

    assert problem is not None
    assert problem.startswith(f"two clusters under the id q9Zs1fW3RzmXb0mKpL4vAg: {FIXTURES}/combined-static/")


def test_two_clusters_that_were_both_read_end_a_stream(tmp_path: Path) -> None:
    """Their logs had no offset in common at first."""
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from services.pipeline.source.stream import KraftStreamReader

    whole(tmp_path / "a")
    late = node(tmp_path / "b", "c")
    segment(late, batches(history(2, name="payments"), base_offset=50), base_offset=50)
    before = KraftStreamReader({"path": str(tmp_path)}, ["offset"]).latestOffset({}, ReadAllAvailable())
    early = segment(late, OTHER)

    with pytest.raises(TwoClusters) as caught:
        KraftStreamReader({"path": str(tmp_path)}, ["offset"]).latestOffset(before, ReadAllAvailable())
    assert str(caught.value).startswith("two clusters under the id c: ")
    assert str(early) in str(caught.value)
    assert str(caught.value).endswith("differ at offset 0 of epoch 1, and records of both were returned")


def test_logs_that_agree_are_not_compared_again(tmp_path: Path) -> None:
    whole(tmp_path / "a")
    whole(tmp_path / "b")
    empty(tmp_path / "c")
    agreed: set[tuple[str, str]] = set()
    assert [] == list(twins(find([str(tmp_path)]), agreed))
    paths = [str(next((tmp_path / name).rglob("*.log"))) for name in ("a", "b", "c")]
    assert {(paths[0], paths[1])} == agreed

    Path(paths[1]).write_bytes(b"".join(OTHER))
    Path(paths[2]).write_bytes(b"".join(OTHER))
    assert [paths[2]] == [place.path for place in twins(find([str(tmp_path)]), agreed)]
