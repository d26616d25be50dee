"""The doctor: findings that an operator should look at, one row each, with advice.

Findings use only the log and its timestamps: "now" is a cluster's last record. The configuration files of brokers and
controllers are not in the log and are not considered. The rules are those of `quorate.doctor`; two that read all
records of a log are Spark's (`doctor_quorum`).

`examined`          the core, in Python workers
`told`              the past for the core; `past`, `pasts`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.doctor import Limits
from services.pipeline.gold.doctor_quorum import deposed_findings, silence_findings
from services.pipeline.gold.doctor_rules import FINDING
from services.pipeline.gold.examined import examined
from services.pipeline.gold.past import partitions_told
from services.pipeline.gold.spans import settings
from services.pipeline.gold.states import States
from services.pipeline.gold.told import histories_told
from services.pipeline.memory import shortened, united
from services.pipeline.silver.image import DEPOSED
from services.pipeline.silver.present import Present, present
from services.pipeline.tables import TableFile

__all__ = ["COLUMNS", "examination", "fleet_doctor"]

COLUMNS: Final = (*FINDING[:1], "as_of_offset", "as_of_time", *FINDING[1:])


def fleet_doctor(
    silver: Mapping[str, DataFrame], *, now: Present | None = None, found: DataFrame | None = None
) -> DataFrame:
    """Returns all findings about all clusters, with columns COLUMNS.

    `severity` is error (something does not work), warn (it will not work after the next failure or upgrade) or info;
    `code` is the kind of finding, `subject` the thing that it is about. `since_offset` and `since_time` are null if no
    record has them. `now` is the result of `present`, `found` that of `examination`, if the caller has them already.
    """
    now = now or present(silver)
    if found is None:
        found = examination(silver, Limits(), now=now)
    rows = [
        found.where("partitions is null").select(*FINDING),
        silence_findings(silver["events"]),
        *((deposed_findings(silver[DEPOSED]),) if DEPOSED in silver else ()),
    ]
    return united(rows).join(fn.broadcast(now.at), "cluster_id").select(*COLUMNS)


def examination(
    silver: Mapping[str, DataFrame],
    limits: Limits,
    *,
    now: Present,
    files: Sequence[TableFile] | None = None,
) -> DataFrame:
    """Returns the findings and the causes of `quorate.doctor` about all clusters, with the past of each (`examined`).

    `limits` are the thresholds; `files` are those of the partition histories, if workers may read them.
    """
    ends = now.at.select("cluster_id", fn.col("as_of_time").alias("log_end_time"))
    given = settings(silver["config_history"], ends, min_isr=limits.min_isr)
    told = [
        partitions_told(States(silver["partition_history"], files), given),
        *histories_told(now, silver),
    ]
    return examined(now, [shortened(each) for each in told], limits)
