"""Which formats the tables may have, what each needs of a session, and the tables of one at a place.

Parquet comes with Spark. The others are extras, each built for one Spark: `make spark-formats` brings that Spark and
the jars into build/spark-formats/FORMAT, and any other session takes them as Spark does (`--packages`).
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
    """What does not come with Spark."""

    package: str
    """By Maven's coordinates."""
    spark: str
    """The release of Spark that it is built for, and was tried with."""
    settings: Mapping[str, str]
    """Of a session, before it starts."""


class Format(NamedTuple):
    """A format: its tables, and how one knows them."""

    tables: Callable[[SparkSession, str], Lake]
    mark: str
    """What lies below the tables' root when they have this format, as a glob."""
    extra: Extra | None = None


# Delta 4.4.0 with Spark 4.3.0 (2026-11-21, and there was no later one): it writes, and cannot read what it wrote, as
# LogicalRDD has another constructor.
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
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0, the newest of 2026-11-21, is for Spark 4.1, and Spark "
    "4.3.0 does not load it (SparkView implements View, which is no interface any more)"
)


def settings_of(format_: str, extras: Path = EXTRAS) -> dict[str, str]:
    """What a session that is yet to start must be told; nothing where the jars are not in `extras`."""
    jars = jars_of(format_, extras)
    extra = FORMATS[format_].extra if jars else None
    return {"spark.jars": ",".join(map(str, jars)), **extra.settings} if extra is not None else {}


def jars_of(format_: str, extras: Path = EXTRAS) -> list[Path]:
    """The jars of a format on this machine."""
    return sorted((extras / format_ / "jars").glob("*.jar"))


def open_tables(spark: SparkSession, root: str, format_: str) -> Lake:
    """The tables at `root`, in this format. Raises LookupError if the session cannot, or they have another one."""
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
    """Before anything is written: with another Spark's jars, what is written might not be read."""
    if not spark.version.startswith(f"{extra.spark}."):
        raise LookupError(
            f"--format {format_}: this is Spark {spark.version}, and {extra.package} runs with Spark {extra.spark} "
            f"alone; `make spark-formats` brings both, --format {PARQUET} needs neither"
        )
    if not _is_known(spark, format_):
        told = " ".join(f"--conf {name}={value}" for name, value in extra.settings.items())
        raise LookupError(
            f"--format {format_}: this session has not the classes of {extra.package}; `make spark-formats` brings "
            f"them to local ones, any other takes --packages {extra.package} {told}"
        )


def tables_of(format_: str) -> Callable[[SparkSession, str], Lake]:
    """The same without a look, for who has opened them before."""
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
