"""Gold layer for Spark Declarative Pipelines: materialized views over silver, by the functions of the jobs.

Spark runs this file by `pipeline.yaml`. Its setting `spark.quorate.silver` is the path prefix of the silver tables,
which must exist before (`silver.py` says why). With `spark.quorate.spans` the commit SLO also reads the latencies in
silver/write_path. The view of `gold/availability` is named `gold_availability`, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.gold.audit import audit_timeline
from services.pipeline.gold.availability import availability
from services.pipeline.gold.causes import causes
from services.pipeline.gold.churn import isr_churn
from services.pipeline.gold.commit_slo import commit_slo
from services.pipeline.gold.doctor import fleet_doctor
from services.pipeline.gold.skew import placement_skew
from services.pipeline.gold.story import story
from services.pipeline.remote import allow_deep_plans, with_schema
from services.pipeline.silver.image import DEPOSED, HISTORIES
from services.pipeline.silver.write_path import WRITE_PATH
from services.pipeline.tables import Rows, frame_of

SILVER: Final = "spark.quorate.silver"
SPANS: Final = "spark.quorate.spans"
DECLARED: Final[Mapping[str, Callable[[Mapping[str, DataFrame]], Rows]]] = {
    "gold_audit_timeline": audit_timeline,
    "gold_availability": availability,
    "gold_isr_churn": isr_churn,
    "gold_commit_slo": commit_slo,
    "gold_placement_skew": placement_skew,
    "gold_fleet_doctor": fleet_doctor,
    "gold_causes": causes,
    "gold_story": story,
}
allow_deep_plans()
session = SparkSession.active()


def silver() -> Mapping[str, DataFrame]:
    """Returns the silver tables by name; the write path only if `spark.quorate.spans` is true."""
    there = (*HISTORIES, "events", DEPOSED, *((WRITE_PATH,) if session.conf.get(SPANS) == "true" else ()))
    return {name: with_schema(session, f"{session.conf.get(SILVER)}{name}") for name in there}


def declare(name: str, rows: DataFrame) -> None:
    """Declares a view. Its rows are built before, as this runs queries, which a declared function may not do."""
    dp.materialized_view(name=name)(lambda: rows)


tables = silver()
for name, of in DECLARED.items():
    declare(name, frame_of(of(tables)))
