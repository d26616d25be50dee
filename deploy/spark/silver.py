"""Silver layer for Spark Declarative Pipelines: materialized views over bronze, by the functions of the jobs.

Spark runs this file by `silver.yaml`. Its setting `spark.quorate.bronze` is the path prefix of the bronze tables:
`TABLES/bronze/` if the jobs wrote them, `WAREHOUSE/bronze_` if `bronze.yaml` did. They must exist before: Spark 4.3
analyses a declaration at `withColumns` or `drop`, and a table of the same pipeline does not exist then. The records
that count are looked up once, here, since a declared function may not run queries.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.bronze import divided, known_in, whole_snapshots
from services.pipeline.remote import allow_deep_plans, with_schema
from services.pipeline.silver.brokers import broker_history
from services.pipeline.silver.events import events_of
from services.pipeline.silver.kept import feature_history, kept_history, voter_history
from services.pipeline.silver.partitions import partition_history
from services.pipeline.silver.topics import config_history, topic_history

allow_deep_plans()
session = SparkSession.active()


def bronze(name: str) -> DataFrame:
    """Returns a bronze table by name."""
    return with_schema(session, f"{session.conf.get('spark.quorate.bronze')}{name}")


def declare(name: str, rows: DataFrame) -> None:
    """Declares one materialized view with these rows."""
    dp.materialized_view(name=name)(lambda: rows)


committed = known_in(bronze("committed"))
found = divided(bronze("records"), committed)
counted = events_of(found.settled, whole_snapshots(bronze("snapshots")), committed)
topics, kept = topic_history(counted), kept_history(counted)
made = {
    "events": counted,
    "deposed": found.deposed,
    "topic_history": topics,
    "partition_history": partition_history(counted, counted).frame(),
    "config_history": config_history(counted, topics),
    "broker_history": broker_history(counted),
    "kept_history": kept,
    "feature_history": feature_history(kept),
    "voter_history": voter_history(kept),
}
for each, rows in made.items():
    declare(f"silver_{each}", rows)
