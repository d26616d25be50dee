"""Bronze layer for Spark Declarative Pipelines: streaming tables of the data source `kraft`.

Spark runs this file by `bronze.yaml`, whose setting `spark.quorate.logs` names the logs. It uses the functions of the
jobs, but a streaming table does not compare new rows with present ones: it needs exactly one replica of each cluster,
so that each record comes once. The jobs (`ingest`, `stream`) take any number of replicas.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.bronze.committed import committed_offsets
from services.pipeline.bronze.records import Sifted, sift
from services.pipeline.source import NAME
from services.pipeline.source.kraft import KraftSource

session = SparkSession.active()
# As `source.register`, but without its setting: a declared pipeline may not change settings, so `bronze.yaml` has it.
session.dataSource.register(KraftSource)


def sifted() -> Sifted:
    """Returns the stream of all rows of the logs, split by their table."""
    return sift(session.readStream.format(NAME).load(str(session.conf.get("spark.quorate.logs"))))


@dp.table(name="bronze_records", partition_cols=["cluster_id", "date"])
def records() -> DataFrame:
    """The table of log records."""
    return sifted().records


@dp.table(name="bronze_committed", partition_cols=["cluster_id"])
def committed() -> DataFrame:
    """The table of committed offsets, one row a record: a stream cannot gather them by epoch, and silver does."""
    reader = session.readStream.format(NAME).option("columns", "cluster_id,kind,offset,epoch,commit")
    return committed_offsets(reader.load(str(session.conf.get("spark.quorate.logs"))))


@dp.table(name="bronze_snapshots", partition_cols=["cluster_id", "date"])
def snapshots() -> DataFrame:
    """The table of checkpoint records."""
    return sifted().snapshots


@dp.table(name="bronze_quarantine", partition_cols=["cluster_id"])
def quarantine() -> DataFrame:
    """The table of files and batches that could not be read."""
    return sifted().quarantine
