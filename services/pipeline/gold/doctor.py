"""The doctor: findings that an operator should look at, one row each, with advice.

Findings use only the log and its timestamps: "now" is a cluster's last record. The configuration files of brokers and
controllers are not in the log and are not considered.

doctor_partitions   leaders, ISRs, replicas, reassignments, racks
doctor_nodes        registrations, features
doctor_quorum       voters, periods without an active controller, records of deposed leaders
doctor_access       configs, ACLs and tokens of things that do not exist
doctor_since        since when conditions hold that several histories make together
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.nouns import Offset
from services.pipeline.gold.doctor_access import access_findings
from services.pipeline.gold.doctor_nodes import feature_findings, node_findings
from services.pipeline.gold.doctor_partitions import (
    leader_findings,
    partition_findings,
    topic_findings,
)
from services.pipeline.gold.doctor_quorum import deposed_findings, silence_findings, voter_findings
from services.pipeline.gold.doctor_rules import FINDING, DoctorLimits
from services.pipeline.gold.doctor_since import config_conditions
from services.pipeline.gold.past import Past, past_of
from services.pipeline.gold.spans import settings
from services.pipeline.gold.states import States
from services.pipeline.memory import shortened, united
from services.pipeline.silver.image import DEPOSED
from services.pipeline.silver.present import Present, present

__all__ = ["COLUMNS", "DoctorLimits", "fleet_doctor"]

COLUMNS: Final = (*FINDING[:1], "as_of_offset", "as_of_time", *FINDING[1:])
_READ: Final = {
    **dict.fromkeys(("broker_history", "partition_history", "config_history", "kept_history"), "valid_from_offset"),
    "events": "offset",
    DEPOSED: "offset",
}
"""The histories that the doctor reads, and the column that limits them to records below an offset."""


def fleet_doctor(
    silver: Mapping[str, DataFrame],
    at_offset: Offset | None = None,
    limits: DoctorLimits | None = None,
    *,
    now: Present | None = None,
    past: Past | None = None,
) -> DataFrame:
    """Returns all findings about all clusters, now or as of an offset, with columns COLUMNS.

    `severity` is error (something does not work), warn (it will not work after the next failure or upgrade) or info;
    `code` is the kind of finding, `subject` the thing that it is about. `since_offset` and `since_time` are null if no
    record has them. `limits` are the thresholds; `now` is the result of `present`, and `past` that of `past_of`, if the
    caller has them already.
    """
    now, limits = now or present(silver, at_offset), limits or DoctorLimits()
    earlier = {
        name: silver[name] if at_offset is None else silver[name].where(fn.col(since) < at_offset)
        for name, since in _READ.items()
        if name in silver
    }
    if past is None:
        ends = now.at.select("cluster_id", fn.col("as_of_time").alias("log_end_time"))
        given = settings(earlier["config_history"], ends, min_isr=limits.min_isr)
        past = past_of(States(earlier["partition_history"]), given)
    since = shortened(config_conditions(now, past.spans))
    found = [
        partition_findings(now, past, since, limits),
        topic_findings(now, earlier, since, limits),
        leader_findings(now, past.states, limits),
        node_findings(now, earlier["broker_history"], limits),
        feature_findings(now),
        voter_findings(now, earlier["kept_history"]),
        silence_findings(earlier["events"], limits),
        access_findings(now, earlier["events"]),
        *((deposed_findings(earlier[DEPOSED]),) if DEPOSED in earlier else ()),
    ]
    return united(found).join(fn.broadcast(now.at), "cluster_id").select(*COLUMNS)
