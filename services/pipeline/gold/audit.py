"""The audit timeline: one sentence for every change, with the state before and after and the request's trace id.

Values that may be secrets are not in it, only their configs' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.gold.audit_sentences import changes
from services.pipeline.gold.audit_sentences import sentences as others
from services.pipeline.gold.partition_sentences import COLUMNS, SCHEMA, sentences
from services.pipeline.gold.states import States
from services.pipeline.memory import shortened
from services.pipeline.tables import Computed, TableFile

__all__ = ["audit_timeline"]


def audit_timeline(silver: Mapping[str, DataFrame], *, files: Sequence[TableFile] | None = None) -> list[Computed]:
    """Returns a row (SCHEMA) for each thing that a record sets or removes, also if its value stays the same.

    They are in two parts, for one table: rows about partitions, and rows about all else.

    Records of the base checkpoint have no row. Nor do unknown records and those of ZooKeeper's migration; and what is
    removed with its topic has no row of its own. `files` are those of the partition histories, if workers may read
    them.
    """
    bases = silver["events"].where("is_base").select("cluster_id", "offset").distinct()
    told = shortened(changes(silver)).join(fn.broadcast(bases), ["cluster_id", "offset"], "left_anti")
    base_offsets = bases.toArrow()
    states = States(silver["partition_history"], files)
    return [states.computed(COLUMNS, lambda rows, _: sentences(rows, base_offsets), SCHEMA), others(told)]
