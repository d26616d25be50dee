"""Bronze for Spark Declarative Pipelines: streaming tables of the source `kraft`, by the functions of the jobs.

`bronze.yaml` names this file, which Spark runs; `spark.quorate.logs` there are the logs. A streaming table takes what
comes and looks at nothing that is there: give it one replica of each cluster, of which every record comes once. The
jobs (`ingest`, `stream`) take any number of replicas.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.bronze.records import Sifted, sift
from services.pipeline.source import NAME
from services.pipeline.source.kraft import KraftSource

session = SparkSession.active()
# As `source.register` does, but for its setting, which no definition may change: `bronze.yaml` has it.
session.dataSource.register(KraftSource)


def sifted() -> Sifted:
    """All rows of the logs, as they come, by the table that they belong into."""
    return sift(session.readStream.format(NAME).load(str(session.conf.get("spark.quorate.logs"))))


@dp.table(name="bronze_records", partition_cols=["cluster_id", "date"])
def records() -> DataFrame:
    """Records of logs."""
    return sifted().records


@dp.table(name="bronze_snapshots", partition_cols=["cluster_id", "date"])
def snapshots() -> DataFrame:
    """Records of checkpoints."""
    return sifted().snapshots


@dp.table(name="bronze_quarantine", partition_cols=["cluster_id"])
def quarantine() -> DataFrame:
    """What could not be read."""
    return sifted().quarantine
