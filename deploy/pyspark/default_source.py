"""Kafka's metadata logs as a Spark data source: `spark.read.format("kraft")`.

Spark imports every package of its Python path whose name begins with `pyspark_`, and registers its `DefaultSource`.
"""

from services.pipeline.source.kraft import KraftSource as DefaultSource

__all__ = ["DefaultSource"]
