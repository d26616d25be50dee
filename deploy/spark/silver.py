"""Silver for Spark Declarative Pipelines: materialized views over bronze, by the functions of the jobs.

`silver.yaml` names this file, which Spark runs. `spark.quorate.bronze` there is where bronze is, but for the names of
its tables: `TABLES/bronze/` for what the jobs have written, `WAREHOUSE/bronze_` for what `bronze.yaml` has. They must
be there before: Spark 4.3 analyses a declaration as soon as it comes to `withColumns` or `drop`, and what the same
pipeline has yet to make is not there then. Which records count is looked up here, once; no declared function acts.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.bronze import whole_snapshots
from services.pipeline.silver.brokers import broker_history
from services.pipeline.silver.events import events
from services.pipeline.silver.kept import feature_history, kept_history, voter_history
from services.pipeline.silver.partitions import partition_history
from services.pipeline.silver.topics import config_history, topic_history

session = SparkSession.active()


def bronze(name: str) -> DataFrame:
    """A table of bronze."""
    return session.read.parquet(f"{session.conf.get('spark.quorate.bronze')}{name}")


def declare(name: str, rows: DataFrame) -> None:
    """One view."""
    dp.materialized_view(name=name)(lambda: rows)


counted = events(bronze("records"), whole_snapshots(bronze("snapshots")))
topics, kept = topic_history(counted), kept_history(counted)
made = {
    "events": counted,
    "topic_history": topics,
    "partition_history": partition_history(counted, topics),
    "config_history": config_history(counted, topics),
    "broker_history": broker_history(counted),
    "kept_history": kept,
    "feature_history": feature_history(kept),
    "voter_history": voter_history(kept),
}
for each, rows in made.items():
    declare(f"silver_{each}", rows)
