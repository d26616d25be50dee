"""The fleet doctor: what an operator should look at, one row a finding, with what to do.

Findings rest on the log alone, and on its own time: "now" is a cluster's last record. What stands in the files of
brokers and controllers is in no log.

doctor_partitions   leaders, ISRs, replicas, reassignments, racks
doctor_nodes        registrations, features, voters
doctor_access       configs, ACLs and tokens that are about nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.nouns import Offset
from services.pipeline.gold.doctor_access import access_findings
from services.pipeline.gold.doctor_nodes import feature_findings, node_findings, voter_findings
from services.pipeline.gold.doctor_partitions import leader_findings, partition_findings, topic_findings
from services.pipeline.gold.doctor_rules import FINDING, Limits
from services.pipeline.silver.present import Present, present

__all__ = ["COLUMNS", "Limits", "fleet_doctor"]

COLUMNS: Final = (*FINDING[:1], "as_of_offset", "as_of_time", *FINDING[1:])


def fleet_doctor(
    silver: Mapping[str, DataFrame],
    at_offset: Offset | None = None,
    limits: Limits | None = None,
    *,
    now: Present | None = None,
) -> DataFrame:
    """All findings of all clusters, now or as of an offset: columns COLUMNS.

    `severity` is error (something does not work), warn (it will not, after the next failure or upgrade) or info;
    `code` names the kind of finding and `subject` whom it is about. Since when it is so, is null where no one record
    says it. `limits` are what is taken for long and for much; `now` is what `present` says, if the caller has it.
    """
    now, limits = now or present(silver, at_offset), limits or Limits()
    earlier = {
        name: table if at_offset is None else table.where(fn.col("valid_from_offset") < at_offset)
        for name, table in silver.items()
        if name in ("broker_history", "partition_history")
    }
    found = [
        partition_findings(now, earlier["partition_history"], limits),
        topic_findings(now),
        leader_findings(now, limits),
        node_findings(now, earlier["broker_history"], limits),
        feature_findings(now),
        voter_findings(now),
        access_findings(now),
    ]
    rows = reduce(DataFrame.unionByName, found)
    return rows.join(fn.broadcast(now.at), "cluster_id").select(*COLUMNS)
