"""Gold, the answer layer: tables that are computed from silver alone.

audit          a sentence for every change: before, after, and the request that caused it; audit_kept, audit_rows
availability   for how long each partition was offline or under its min ISR, each day
churn          how often each broker left and joined ISRs, won and lost leaderships, each day
commit_slo     commit latencies, the slowest follower, and the gaps between leaders, each hour
skew           replicas and leaders against a fair share, and partitions that share a rack
doctor         findings that an operator should look at, with advice; doctor_rules, doctor_partitions, doctor_nodes,
               doctor_quorum, doctor_access
causes         the doctor's findings about partitions, grouped by the brokers that are missing
conditions     when a partition is offline, under its min ISR, under-replicated; advice: what can be done about it
story          the main events of each cluster, in order, and how many partitions were unhealthy after each;
               story_partitions, story_nodes
what_if        the loss of brokers or racks, simulated
began          since when a condition has held; silence finds periods without an active controller
clocks         where the times of a log go back, because another controller's clock is behind
secrets        which config values may be secrets
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame

from services.pipeline.gold.audit import audit_timeline
from services.pipeline.gold.availability import availability
from services.pipeline.gold.causes import causes
from services.pipeline.gold.churn import isr_churn
from services.pipeline.gold.commit_slo import commit_slo
from services.pipeline.gold.doctor import DoctorLimits, fleet_doctor
from services.pipeline.gold.skew import placement_skew
from services.pipeline.gold.story import story
from services.pipeline.memory import kept
from services.pipeline.silver.image import DEPOSED, HISTORIES, SILVER
from services.pipeline.silver.present import MIN_ISR_DEFAULT, Present, present
from services.pipeline.silver.write_path import WRITE_PATH
from services.pipeline.tables import Tables

__all__ = ["GOLD", "TABLES", "build"]

GOLD: Final = "gold"
_OF_HISTORY: Final[Mapping[str, Callable[..., DataFrame]]] = {
    "audit_timeline": audit_timeline,
    "availability": availability,
    "isr_churn": isr_churn,
    "commit_slo": commit_slo,
    "story": story,
}
_OF_NOW: Final[Mapping[str, Callable[..., DataFrame]]] = {
    "placement_skew": placement_skew,
    "fleet_doctor": fleet_doctor,
    "causes": causes,
}
TABLES: Final = (*_OF_HISTORY, *_OF_NOW)


def build(tables: Tables, *, min_isr: int = MIN_ISR_DEFAULT) -> dict[str, DataFrame]:
    """Builds every table; `min_isr` is assumed if no record sets min.insync.replicas.

    Raises LookupError without silver.
    """
    found = {name: tables.read(f"{SILVER}/{name}") for name in (*HISTORIES, "events")}
    silver = {name: table for name, table in found.items() if table is not None}
    if len(silver) < len(found):
        raise LookupError("there is no silver to make gold of: run silver before")
    # The write path does not exist if there are no spans.
    more = {name: tables.read(f"{SILVER}/{name}") for name in (DEPOSED, WRITE_PATH)}
    silver |= {name: table for name, table in more.items() if table is not None}
    arguments: dict[str, dict[str, Any]] = {"availability": {"min_isr": min_isr}}
    arguments |= {name: {"limits": DoctorLimits(min_isr=min_isr)} for name in ("story", "fleet_doctor", "causes")}
    made = {
        name: tables.keep(f"{GOLD}/{name}", of(silver, **arguments.get(name, {}))) for name, of in _OF_HISTORY.items()
    }
    # These tables read only the present state, which is small compared with the histories, and read it several times.
    with kept(*present(silver)) as frames:
        now = Present(*frames)
        return made | {
            name: tables.keep(f"{GOLD}/{name}", of(silver, now=now, **arguments.get(name, {})))
            for name, of in _OF_NOW.items()
        }
