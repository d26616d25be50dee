"""The findings about partitions grouped by cause: which brokers are missing, since when, and which of them to start.

`quorate.doctor.causes` finds them. The state is that at the log's end, as for the fleet doctor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame

from quorate.doctor import Limits
from services.pipeline.gold.examined import examined
from services.pipeline.gold.told import histories_told
from services.pipeline.silver.present import present

__all__ = ["COLUMNS", "causes"]

COLUMNS: Final = ("cluster_id", "severity", "code", "partitions", "sentence", "advice", "since_time")


def causes(silver: Mapping[str, DataFrame], *, found: DataFrame | None = None) -> DataFrame:
    """Returns one row for each cause and harm (columns COLUMNS); `since_time` is when its last broker went away.

    `found` is the result of `examination`, if the caller has it already.
    """
    if found is None:
        now = present(silver)
        found = examined(now, list(histories_told(now, silver)), Limits())
    return found.where("partitions is not null").select(*COLUMNS)
