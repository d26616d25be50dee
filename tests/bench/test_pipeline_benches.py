"""What the pipeline's benches measure is whole: each record comes through once, every checkpoint agrees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.spark import HOW_TO_GET, is_installed
from tests.bench.pipeline_jobs import JOBS, Asked, Job, Round, run
from tests.bench.pipeline_logs import Logs, logs
from tests.bench.synthetic_clusters import LISTING, main

RECORDS = 3_000
PART_BYTES = 20_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("logs") / "made"
    assert main(["--records", str(RECORDS), "--clusters", "2", "--to", str(to)]) == 0
    return to


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def rounds(made: Path, lake: Path) -> dict[str, Round]:
    """Every job once, one after the other: verify fails where a checkpoint differs, again where anything was new."""
    if not is_installed():
        pytest.skip(HOW_TO_GET)
    jobs = [Job(name=name, rows=RECORDS, logs=str(made), lake=str(lake), part_bytes=PART_BYTES) for name in JOBS]
    return {each.name: each for each in run(Asked(master="local[2]", jobs=jobs, for_few=True))}


@pytest.mark.timeout(1_800)
def test_every_job_is_measured(rounds: dict[str, Round]) -> None:
    assert set(JOBS) == set(rounds)
    for each in rounds.values():
        assert each.seconds > 0, each
        assert each.jvm_cpu > 0, each
    assert rounds["parquet"].worker_bytes > 0, "somebody decoded"


@pytest.mark.timeout(1_800)
def test_every_record_comes_through_once(rounds: dict[str, Round], made: Path, lake: Path) -> None:
    import pyarrow.dataset as ds

    listed = json.loads((made / LISTING).read_text())
    expected = {each["cluster_id"]: each["records"] for each in listed}
    bronze = ds.dataset(lake / "bronze" / "records", partitioning="hive").to_table(["cluster_id", "offset"]).to_pylist()

    assert expected.keys() == {row["cluster_id"] for row in bronze}
    for cluster_id, records in expected.items():
        offsets = sorted(row["offset"] for row in bronze if row["cluster_id"] == cluster_id)
        assert list(range(records)) == offsets


def test_logs_that_are_there_are_taken_as_they_are(made: Path) -> None:
    with logs(1, made) as found:
        listed = json.loads((made / LISTING).read_text())

        assert made == found.directory
        assert (2, sum(each["records"] for each in listed)) == (found.clusters, found.records)


def test_logs_are_made_and_go_with_their_tables() -> None:
    with logs(2_000, segment_bytes=40_000) as found:
        kept: Logs = found
        found.lake.mkdir()

        assert len(list(found.directory.rglob("*.log"))) > 1
        assert found.bytes == sum(path.stat().st_size for path in found.directory.rglob("*.log"))
    assert not kept.directory.exists()
    assert not kept.lake.exists()
