"""One Spark session for all tests here, and one run of all jobs over a real cluster's files: both take their time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.spark import HOW_TO_GET, environment, is_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.tables import ParquetTables

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    # Two, so that what is wrong only between partitions is seen.
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores with the source `kraft`; without Spark the test is skipped."""
    if not is_installed():
        pytest.skip(HOW_TO_GET)
    from services.pipeline.session import start

    os.environ.update({name: value for name, value in environment().items() if name != "PYSPARK_PYTHON"})
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    session = start("local[2]", {**SETTINGS, "spark.sql.warehouse.dir": warehouse}, for_few=True)
    yield session
    session.stop()


@pytest.fixture
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """For a test that reads a plan: nothing is computed before, as is done for few records."""
    from services.pipeline.memory import IS_SMALL

    spark.conf.set(IS_SMALL, "false")
    yield
    spark.conf.set(IS_SMALL, "true")


@pytest.fixture(scope="session")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ParquetTables:
    """Bronze, silver and gold of all nodes of a real cluster: made by one worker, and a copy of them for each."""
    from services.pipeline.tables import ParquetTables

    place = tmp_path_factory.mktemp("lake") / "tables"
    with made_once(tmp_path_factory, "lake") as made:
        if not made.exists():
            make_lake(spark, made)
        shutil.copytree(made, place)
    return ParquetTables(spark, str(place))


@contextmanager
def made_once(places: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A directory of this run, for one worker at a time; it is there only if the worker that made it had no error."""
    base = places.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made = shared / f"{name}-of-all-workers"
    with (shared / f"{name}.lock").open("w") as file:
        flock(file, LOCK_EX)
        try:
            yield made
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise


def make_lake(spark: SparkSession, place: Path) -> None:
    """Bronze, silver and gold."""
    from services.pipeline import bronze, gold
    from services.pipeline.silver import image
    from services.pipeline.tables import ParquetTables, Remembered

    at_hand = Remembered(ParquetTables(spark, str(place)))
    bronze.ingest_files(spark, {"path": str(FIXTURES / "three-dynamic")}, at_hand)
    records, snapshots = at_hand.read(bronze.RECORDS), at_hand.read(bronze.SNAPSHOTS)
    assert records is not None
    assert snapshots is not None
    image.build(records, bronze.whole_snapshots(snapshots), at_hand)
    gold.build(at_hand)
