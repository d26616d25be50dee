"""Views in SQLite's SQL for what people ask, by name; each stands on the tables and on the views before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["VIEWS", "View"]


class View(NamedTuple):
    """What a view has, in words and in SQL."""

    about: str
    query: str


_OF_PARTITION: Final = "p.topic, p.partition_id, p.leader, p.replicas, p.isr, p.eligible_leader_replicas"
_ISR_SIZE: Final = "json_array_length(p.isr)"


def _is_in(column: str) -> str:
    """Returns the SQL for: broker `r.value` is in this column's list. It searches the text, and parses no JSON."""
    return f"instr(replace(replace({column}, '[', ','), ']', ','), ',' || r.value || ',') > 0"


VIEWS: Final[Mapping[str, View]] = {
    "replicas": View(
        "each replica of each partition",
        f"""
        SELECT p.topic, p.partition_id, r.value AS broker_id, r.key AS position, r.value = p.leader AS is_leader,
          {_is_in("p.isr")} AS is_in_sync, {_is_in("p.adding_replicas")} AS is_adding,
          {_is_in("p.removing_replicas")} AS is_removing,
          json_extract(p.directories, '$[' || r.key || ']') AS directory
        FROM partitions AS p, json_each(p.replicas) AS r
        """,
    ),
    "min_insync_replicas": View(
        "min.insync.replicas of each topic: its own, else the cluster's, else 1; files of brokers are not known here",
        """
        SELECT t.name AS topic, CAST(coalesce(
          (SELECT c.value FROM configs AS c WHERE c.resource_type = 'TOPIC' AND c.resource_name = t.name
             AND c.name = 'min.insync.replicas'),
          (SELECT c.value FROM configs AS c WHERE c.resource_type = 'BROKER' AND c.resource_name = ''
             AND c.name = 'min.insync.replicas'), '1') AS INTEGER) AS min_insync_replicas
        FROM topics AS t
        """,
    ),
    "under_replicated": View(
        "partitions with a replica outside the ISR",
        f"SELECT {_OF_PARTITION} FROM partitions AS p WHERE {_ISR_SIZE} < json_array_length(p.replicas)",
    ),
    "offline": View("partitions without a leader", f"SELECT {_OF_PARTITION} FROM partitions AS p WHERE p.leader < 0"),
    "under_min_isr": View(
        "partitions whose ISR is smaller than min.insync.replicas: a produce with acks=all is refused",
        f"""
        SELECT {_OF_PARTITION}, m.min_insync_replicas FROM partitions AS p JOIN min_insync_replicas AS m USING (topic)
        WHERE {_ISR_SIZE} < min(m.min_insync_replicas, json_array_length(p.replicas))
        """,
    ),
    "at_min_isr": View(
        "partitions whose ISR is just min.insync.replicas: one broker less, and they are under it",
        f"""
        SELECT {_OF_PARTITION}, m.min_insync_replicas FROM partitions AS p JOIN min_insync_replicas AS m USING (topic)
        WHERE {_ISR_SIZE} = min(m.min_insync_replicas, json_array_length(p.replicas))
        """,
    ),
    "not_preferred_leader": View(
        "partitions that another than their first replica leads, or none",
        f"SELECT {_OF_PARTITION} FROM partitions AS p WHERE p.leader IS NOT json_extract(p.replicas, '$[0]')",
    ),
    "reassigning": View(
        "partitions in the middle of a reassignment",
        f"""
        SELECT {_OF_PARTITION}, p.adding_replicas, p.removing_replicas FROM partitions AS p
        WHERE p.adding_replicas <> '[]' OR p.removing_replicas <> '[]'
        """,
    ),
    "broker_load": View(
        "what each broker has: replicas, leaders, replicas outside the ISR",
        """
        SELECT b.broker_id, b.rack, b.fenced, b.in_controlled_shutdown, coalesce(r.replicas, 0) AS replicas,
          coalesce(r.leaders, 0) AS leaders, coalesce(r.not_in_sync, 0) AS not_in_sync
        FROM brokers AS b LEFT JOIN (
          SELECT broker_id, count(*) AS replicas, sum(is_leader) AS leaders, sum(NOT is_in_sync) AS not_in_sync
          FROM replicas GROUP BY broker_id
        ) AS r USING (broker_id)
        """,
    ),
    "rack_load": View(
        "the same of each rack; null for brokers without one",
        """
        SELECT rack, count(*) AS brokers, sum(fenced) AS fenced, sum(replicas) AS replicas, sum(leaders) AS leaders,
          sum(not_in_sync) AS not_in_sync
        FROM broker_load GROUP BY rack
        """,
    ),
    "directory_load": View(
        "replicas and leaders of each log directory",
        """
        SELECT b.broker_id, d.value AS directory, coalesce(r.replicas, 0) AS replicas, coalesce(r.leaders, 0) AS leaders
        FROM brokers AS b, json_each(b.log_dirs) AS d LEFT JOIN (
          SELECT broker_id, directory, count(*) AS replicas, sum(is_leader) AS leaders
          FROM replicas GROUP BY broker_id, directory
        ) AS r ON r.broker_id = b.broker_id AND r.directory = d.value
        """,
    ),
}
"""All views by name."""
