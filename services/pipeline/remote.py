"""For a client of Spark Connect, whose plans are messages: they may be deep, and are resolved anew at each question."""

from __future__ import annotations

import importlib

from google.protobuf.internal.api_implementation import Type
from pyspark.sql import DataFrame, SparkSession

__all__ = ["allow_deep_plans", "with_schema"]


def allow_deep_plans() -> None:
    """Lets protobuf decode messages of any depth in this process.

    The client copies each plan into the one above it, which for protobuf means to encode and to decode it. Its usual
    implementation, upb, refuses more than 100 levels, which plans of silver and gold have.
    """
    if Type() == "upb":
        importlib.import_module("google._upb._message").SetAllowOversizeProtos(True)


def with_schema(spark: SparkSession, path: str) -> DataFrame:
    """Returns the Parquet table at `path` with the schema that it has now.

    Without it the server runs a job over the table's files each time that it is asked for the columns of a plan, for
    each place of the plan where the table is read.
    """
    return spark.read.schema(spark.read.parquet(path).schema).parquet(path)
