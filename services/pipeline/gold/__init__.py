"""Gold, the answer layer: tables that are computed from silver alone.

audit          a sentence for every change: before, after, and the request that caused it; audit_sentences, audit_rows
availability   for how long each partition was offline or under its min ISR, each day
churn          how often each broker left and joined ISRs, won and lost leaderships, each day
commit_slo     commit latencies, the slowest follower, and the gaps between leaders, each hour
skew           replicas and leaders against a fair share, and partitions that share a rack
doctor         findings that an operator should look at, with advice; doctor_rules, doctor_quorum
clusters       a cluster's state in a Python worker, for cores without I/O
examined       the rules of `quorate.doctor`, in Python workers; `told`: the past that they need, which `past` finds of
               partitions and `pasts` of all else
causes         the doctor's findings about partitions, grouped by the brokers that are missing
conditions     when a partition is offline, under its min ISR, under-replicated
story          the main events of each cluster, in order, and how many partitions were unhealthy after each;
               story_partitions, story_nodes
what_if        the loss of brokers or racks, simulated, in lines
silence        periods without an active controller
clocks         where the times of a log go back, because another controller's clock is behind
states         brings the states of each partition together in a Python worker; spans, past and partition_sentences are
               computed there over arrays
of_silver      of which silver gold was made
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.doctor import Limits
from services.pipeline.gold.audit import audit_timeline
from services.pipeline.gold.availability import availability
from services.pipeline.gold.causes import causes
from services.pipeline.gold.churn import isr_churn
from services.pipeline.gold.commit_slo import commit_slo
from services.pipeline.gold.doctor import examination, fleet_doctor
from services.pipeline.gold.of_silver import noted, of_silver
from services.pipeline.gold.past import turning_spans
from services.pipeline.gold.skew import placement_skew
from services.pipeline.gold.spans import settings
from services.pipeline.gold.states import States
from services.pipeline.gold.story import story
from services.pipeline.memory import kept
from services.pipeline.silver.image import DEPOSED, HISTORIES, SILVER
from services.pipeline.silver.present import MIN_ISR_DEFAULT, Present, present
from services.pipeline.silver.write_path import WRITE_PATH
from services.pipeline.tables import Rows, Tables

__all__ = ["GOLD", "TABLES", "build", "of_silver"]

GOLD: Final = "gold"
TABLES: Final = (
    "audit_timeline",
    "availability",
    "isr_churn",
    "commit_slo",
    "story",
    "placement_skew",
    "fleet_doctor",
    "causes",
)
_PARTITIONS: Final = "partition_history"


def build(tables: Tables, *, min_isr: int = MIN_ISR_DEFAULT) -> dict[str, DataFrame]:
    """Builds and writes every table of gold from silver; returns them by name, without `gold/`.

    `min_isr` is assumed if no record sets min.insync.replicas. `of_silver` then says which silver they were made of.
    Raises LookupError without silver.
    """
    found = {name: tables.read(f"{SILVER}/{name}") for name in (*HISTORIES, "events")}
    silver = {name: table for name, table in found.items() if table is not None}
    if len(silver) < len(found):
        raise LookupError("there is no silver to make gold of: run silver before")
    # The write path does not exist if there are no spans.
    more = {name: tables.read(f"{SILVER}/{name}") for name in (DEPOSED, WRITE_PATH)}
    silver |= {name: table for name, table in more.items() if table is not None}
    with noted(tables):
        return _built(tables, silver, min_isr)


def _built(tables: Tables, silver: Mapping[str, DataFrame], min_isr: int) -> dict[str, DataFrame]:
    states = States(silver[_PARTITIONS], tables.files(f"{SILVER}/{_PARTITIONS}"))
    limits = Limits(min_isr=min_isr)
    # Several tables are about the present state, which is small compared with the histories, and read it several times.
    with kept(*present(silver)) as frames:
        now = Present(*frames)
        ends = now.at.select("cluster_id", fn.col("as_of_time").alias("log_end_time"))
        given = settings(silver["config_history"], ends, min_isr=min_isr)
        with (
            kept(turning_spans(states, given)) as (spans,),
            kept(examination(silver, limits, now=now, files=states.files)) as (examined,),
        ):
            made: dict[str, Callable[[], Rows]] = {
                "audit_timeline": lambda: audit_timeline(silver, files=states.files),
                "availability": lambda: availability(silver, files=states.files, given=given),
                "isr_churn": lambda: isr_churn(silver, files=states.files),
                "commit_slo": lambda: commit_slo(silver),
                "story": lambda: story(silver, spans=spans),
                "placement_skew": lambda: placement_skew(silver, now=now),
                "fleet_doctor": lambda: fleet_doctor(silver, now=now, found=examined),
                "causes": lambda: causes(silver, found=examined),
            }
            assert made.keys() == set(TABLES), made.keys()
            return {name: tables.keep(f"{GOLD}/{name}", made[name]()) for name in TABLES}
