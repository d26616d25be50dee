"""The answers of gold for Spark Declarative Pipelines: materialized views over silver, by the functions of the jobs.

`pipeline.yaml` names this file, which Spark runs; `spark.quorate.tables` there is the directory of the tables, to which
`ingest` (or `stream`) and `silver` have written: these look first at what is new, and a declaration may not act.

Spark 4.3 analyses a declaration as soon as it comes to `withColumns` or `drop`, and what the same pipeline has yet to
make is not there then; so no view here is made of another. `gold/availability` is called `gold_availability`. There is
no `gold_commit_slo`: it is made of spans, which there need not be, and to ask for a table is to act.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.gold.audit import audit_timeline
from services.pipeline.gold.availability import availability
from services.pipeline.gold.churn import isr_churn
from services.pipeline.gold.doctor import fleet_doctor
from services.pipeline.gold.skew import placement_skew
from services.pipeline.silver.image import HISTORIES, SILVER

TABLES: Final = "spark.quorate.tables"
DECLARED: Final[Mapping[str, Callable[[Mapping[str, DataFrame]], DataFrame]]] = {
    "gold_audit_timeline": audit_timeline,
    "gold_availability": availability,
    "gold_isr_churn": isr_churn,
    "gold_placement_skew": placement_skew,
    "gold_fleet_doctor": fleet_doctor,
}
session = SparkSession.active()


def silver() -> Mapping[str, DataFrame]:
    """What gold is made of."""
    root = str(session.conf.get(TABLES)).rstrip("/")
    return {name: session.read.parquet(f"{root}/{SILVER}/{name}") for name in (*HISTORIES, "events")}


def declare(name: str, of: Callable[[Mapping[str, DataFrame]], DataFrame]) -> None:
    """One view, of its function."""
    dp.materialized_view(name=name)(lambda: of(silver()))


for name, of in DECLARED.items():
    declare(name, of)
