"""The table formats: the Spark settings that each needs, and opening the tables of one at a path.

Parquet comes with Spark. Other formats are extras, each built for one Spark release: `make spark-formats` downloads
that Spark and the jars into build/spark-formats/FORMAT. Any other session gets the jars with Spark's `--packages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from services.pipeline.tables.delta import DeltaTables
from services.pipeline.tables.parquet import ParquetTables
from services.pipeline.tables.verbs import Lake

__all__ = ["EXTRAS", "FORMATS", "PARQUET", "Extra", "jars_of", "open_tables", "settings_of", "tables_of"]

PARQUET: Final = "parquet"
EXTRAS: Final = Path(__file__).parents[3] / "build" / "spark-formats"


class Extra(NamedTuple):
    """A format's library that does not come with Spark."""

    package: str
    """Maven coordinates of the library."""
    spark: str
    """The Spark release for which it is built and with which it was tested."""
    settings: Mapping[str, str]
    """Session settings that it needs before the session starts."""


class Format(NamedTuple):
    """A table format: its implementation, and the files by which it is recognized."""

    tables: Callable[[SparkSession, str], Lake]
    mark: str
    """A glob below the tables' root that matches only if the tables have this format."""
    extra: Extra | None = None


# Delta 4.4.0, the latest release of 2026-11-21, on Spark 4.3.0: it writes, but cannot read what it wrote, because
# the constructor of LogicalRDD has changed.
FORMATS: Final[Mapping[str, Format]] = {
    "delta": Format(
        DeltaTables,
        "*/*/_delta_log/*.json",
        Extra(
            "io.delta:delta-spark_4.2_2.13:4.4.0",
            "4.2",
            {
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            },
        ),
    ),
    PARQUET: Format(ParquetTables, "*/*/_SUCCESS"),
}

ICEBERG: Final = "iceberg"
NO_ICEBERG: Final = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0, the newest of 2026-11-24, is for Spark 4.1, and Spark "
    "4.3.0 does not load it (SparkView implements View, which is no interface any more)"
)


def settings_of(format_: str, extras: Path = EXTRAS) -> dict[str, str]:
    """Returns the settings for a new session that uses this format; empty if the format's jars are not in `extras`."""
    jars = jars_of(format_, extras)
    extra = FORMATS[format_].extra if jars else None
    return {"spark.jars": ",".join(map(str, jars)), **extra.settings} if extra is not None else {}


def jars_of(format_: str, extras: Path = EXTRAS) -> list[Path]:
    """Lists the jars of a format on this machine."""
    return sorted((extras / format_ / "jars").glob("*.jar"))


def open_tables(spark: SparkSession, root: str, format_: str) -> Lake:
    """Opens the tables at `root` in this format.

    Raises LookupError if the session lacks its library or they have another.
    """
    if format_ == ICEBERG:
        raise LookupError(f"--format {format_}: {NO_ICEBERG}; --format {PARQUET} needs nothing, delta needs Spark 4.2")
    chosen = FORMATS[format_]
    if chosen.extra is not None:
        _check(spark, format_, chosen.extra)
    for name, other in FORMATS.items():
        if name != format_ and _is_there(spark, f"{root.rstrip('/')}/{other.mark}"):
            raise LookupError(f"--format {format_}: the tables in {root} are {name}; one directory has one format")
    return chosen.tables(spark, root)


def _check(spark: SparkSession, format_: str, extra: Extra) -> None:
    """Checks the session's Spark release before anything is written: with the wrong one, tables could be unreadable."""
    if not spark.version.startswith(f"{extra.spark}."):
        raise LookupError(
            f"--format {format_}: this is Spark {spark.version}, and {extra.package} runs with Spark {extra.spark} "
            f"alone; `make spark-formats` brings both, --format {PARQUET} needs neither"
        )
    if not _is_known(spark, format_):
        conf_options = " ".join(f"--conf {name}={value}" for name, value in extra.settings.items())
        raise LookupError(
            f"--format {format_}: this session has not the classes of {extra.package}; `make spark-formats` brings "
            f"them to local ones, any other takes --packages {extra.package} {conf_options}"
        )


def tables_of(format_: str) -> Callable[[SparkSession, str], Lake]:
    """Returns the format's implementation without the checks of `open_tables`, for tables that were opened before."""
    return FORMATS[format_].tables


def _is_known(spark: SparkSession, format_: str) -> bool:
    try:
        _ = spark.read.format(format_).load("nowhere").schema
    except AnalysisException as problem:
        return problem.getCondition() != "DATA_SOURCE_NOT_FOUND"
    return True


def _is_there(spark: SparkSession, glob: str) -> bool:
    try:
        _ = spark.read.format("binaryFile").load(glob).schema
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True
