"""The answers of gold for Spark Declarative Pipelines: materialized views over silver, by the functions of the jobs.

`pipeline.yaml` names this file, which Spark runs. `spark.quorate.silver` there is where silver is, but for the names of
its tables, which have to be there before (`silver.py` says why); with `spark.quorate.spans` also what `silver` made of
spans, which the commit SLO has latencies of. `gold/availability` is called `gold_availability`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.gold.audit import audit_timeline
from services.pipeline.gold.availability import availability
from services.pipeline.gold.churn import isr_churn
from services.pipeline.gold.commit_slo import commit_slo
from services.pipeline.gold.doctor import fleet_doctor
from services.pipeline.gold.skew import placement_skew
from services.pipeline.silver.image import HISTORIES
from services.pipeline.silver.write_path import WRITE_PATH

SILVER: Final = "spark.quorate.silver"
SPANS: Final = "spark.quorate.spans"
DECLARED: Final[Mapping[str, Callable[[Mapping[str, DataFrame]], DataFrame]]] = {
    "gold_audit_timeline": audit_timeline,
    "gold_availability": availability,
    "gold_isr_churn": isr_churn,
    "gold_commit_slo": commit_slo,
    "gold_placement_skew": placement_skew,
    "gold_fleet_doctor": fleet_doctor,
}
session = SparkSession.active()


def silver() -> Mapping[str, DataFrame]:
    """What gold is made of."""
    there = (*HISTORIES, "events", *((WRITE_PATH,) if session.conf.get(SPANS) == "true" else ()))
    return {name: session.read.parquet(f"{session.conf.get(SILVER)}{name}") for name in there}


def declare(name: str, rows: DataFrame) -> None:
    """One view. Its rows are made before: to look at a schema is to ask, and what is declared may not."""
    dp.materialized_view(name=name)(lambda: rows)


for name, of in DECLARED.items():
    declare(name, of(silver()))
