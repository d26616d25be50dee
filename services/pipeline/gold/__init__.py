"""Gold: answers, from silver alone.

audit          a sentence for every change, what was and what is, and whose request it was
availability   how long each partition was offline or under its min ISR, each day
churn          what each broker did to the ISRs, each day
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from services.pipeline.gold.audit import audit_timeline
from services.pipeline.gold.availability import availability
from services.pipeline.gold.churn import isr_churn
from services.pipeline.silver.image import HISTORIES, SILVER
from services.pipeline.tables import Tables

__all__ = ["GOLD", "TABLES", "build"]

GOLD: Final = "gold"
TABLES: Final = ("audit_timeline", "availability", "isr_churn")


def build(tables: Tables) -> dict[str, DataFrame]:
    """Every table of gold. Raises LookupError if there is no silver."""
    found = {name: tables.read(f"{SILVER}/{name}") for name in (*HISTORIES, "events")}
    silver = {name: table for name, table in found.items() if table is not None}
    if len(silver) < len(found):
        raise LookupError("there is no silver to make gold of: run silver before")
    made = {"audit_timeline": audit_timeline, "availability": availability, "isr_churn": isr_churn}
    return {name: tables.keep(f"{GOLD}/{name}", of(silver)) for name, of in made.items()}
