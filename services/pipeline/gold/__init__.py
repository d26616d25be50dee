"""Gold: answers, from silver alone.

audit          a sentence for every change, what was and what is, and whose request it was
availability   how long each partition was offline or under its min ISR, each day
churn          what each broker did to the ISRs, each day
commit_slo     how long writes took, and who was last, each hour; and how long elections kept them waiting
skew           who has more than a fair share of replicas and leaders, and which partitions share a rack
doctor         what an operator should look at, and what to do
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from services.pipeline.gold.audit import audit_timeline
from services.pipeline.gold.availability import availability
from services.pipeline.gold.churn import isr_churn
from services.pipeline.gold.commit_slo import commit_slo
from services.pipeline.gold.doctor import fleet_doctor
from services.pipeline.gold.skew import placement_skew
from services.pipeline.silver.image import HISTORIES, SILVER
from services.pipeline.silver.present import Present, present
from services.pipeline.silver.write_path import WRITE_PATH
from services.pipeline.tables import Tables

__all__ = ["GOLD", "TABLES", "build"]

GOLD: Final = "gold"
_OF_HISTORY: Final[Mapping[str, Callable[[Mapping[str, DataFrame]], DataFrame]]] = {
    "audit_timeline": audit_timeline,
    "availability": availability,
    "isr_churn": isr_churn,
    "commit_slo": commit_slo,
}
_OF_NOW: Final[Mapping[str, Callable[..., DataFrame]]] = {
    "placement_skew": placement_skew,
    "fleet_doctor": fleet_doctor,
}
TABLES: Final = (*_OF_HISTORY, *_OF_NOW)


def build(tables: Tables) -> dict[str, DataFrame]:
    """Every table of gold. Raises LookupError if there is no silver."""
    found = {name: tables.read(f"{SILVER}/{name}") for name in (*HISTORIES, "events")}
    silver = {name: table for name, table in found.items() if table is not None}
    if len(silver) < len(found):
        raise LookupError("there is no silver to make gold of: run silver before")
    # Without spans there is none.
    paths = tables.read(f"{SILVER}/{WRITE_PATH}")
    silver |= {} if paths is None else {WRITE_PATH: paths}
    made = {name: tables.keep(f"{GOLD}/{name}", of(silver)) for name, of in _OF_HISTORY.items()}
    # These look again and again at what holds now, a small part of what ever was.
    now = Present(*(frame.persist() for frame in present(silver)))
    try:
        return made | {name: tables.keep(f"{GOLD}/{name}", of(silver, now=now)) for name, of in _OF_NOW.items()}
    finally:
        for frame in now:
            frame.unpersist()
