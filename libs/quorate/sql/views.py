"""Views for what people ask, by name; each stands on the tables and on the views before it.

They are written once. Each expression that SQLite and PostgreSQL spell differently, lists above all, has a word in
`Sql`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["POSTGRESQL", "SQLITE", "VIEWS", "View", "views_in"]


class View(NamedTuple):
    """The rows of a view, in words and in SQL."""

    about: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sql:
    """The expressions that SQLite and PostgreSQL spell differently, as formats for one of them. `{0}` is the operand: a
    list is JSON as text."""

    each: str
    """A list's items as rows, called `{1}`."""
    text: str
    """The value of such a row, as text or as the list has it."""
    number: str
    """The value of such a row, which is a number."""
    place: str
    """The place of such a row in its list, from 0 on."""
    length: str
    at: str
    """The item at the place `{1}`."""
    position: str
    """Where `{1}` begins in a text, from 1 on; 0 if it is not there."""
    least: str
    """The lesser one of it and `{1}`."""
    differs: str
    """Whether it is another value than `{1}`, null counted as one."""
    integer: str
    """The number that a text begins with; 0 if it is none."""


SQLITE: Final = Sql(
    each="json_each({0}) AS {1}",
    text="{0}.value",
    number="{0}.value",
    place="{0}.key",
    length="json_array_length({0})",
    at="json_extract({0}, '$[' || {1} || ']')",
    position="instr({0}, {1})",
    least="min({0}, {1})",
    differs="{0} IS NOT {1}",
    integer="CAST({0} AS INTEGER)",
)
POSTGRESQL: Final = Sql(
    each="json_array_elements_text(CAST({0} AS json)) WITH ORDINALITY AS {1}(value, ordinality)",
    text="{0}.value",
    number="CAST({0}.value AS bigint)",
    place="({0}.ordinality - 1)",
    length="json_array_length(CAST({0} AS json))",
    at="(CAST({0} AS json) ->> CAST({1} AS integer))",
    position="strpos({0}, {1})",
    least="least({0}, {1})",
    differs="{0} IS DISTINCT FROM {1}",
    integer=r"CAST(coalesce(substring({0} from '^\s*([+-]?[0-9]{{1,18}})'), '0') AS bigint)",
)

_OF_PARTITION: Final = "p.topic, p.partition_id, p.leader, p.replicas, p.isr, p.eligible_leader_replicas"


def _is_in(sql: Sql, column: str) -> str:
    """Returns the SQL for: broker `r.value` is in this column's list. It searches the text, and parses no JSON."""
    return sql.position.format(f"replace(replace({column}, '[', ','), ']', ',')", "',' || r.value || ','") + " > 0"


def views_in(sql: Sql) -> Mapping[str, View]:
    """Returns all views by name, in the SQL of a database."""
    return {**_of_replicas(sql), **_of_partitions(sql), **_of_brokers(sql)}


def _of_replicas(sql: Sql) -> Mapping[str, View]:
    value, place = sql.number.format("r"), sql.place.format("r")
    return {
        "replicas": View(
            "each replica of each partition",
            f"""
            SELECT p.topic, p.partition_id, {value} AS broker_id, {place} AS position, {value} = p.leader AS is_leader,
              {_is_in(sql, "p.isr")} AS is_in_sync, {_is_in(sql, "p.adding_replicas")} AS is_adding,
              {_is_in(sql, "p.removing_replicas")} AS is_removing, {sql.at.format("p.directories", place)} AS directory
            FROM partitions AS p CROSS JOIN {sql.each.format("p.replicas", "r")}
            """,
        ),
        "min_insync_replicas": View(
            "min.insync.replicas of each topic: its own, else the cluster's, else 1; brokers' files are not known here",
            f"""
            SELECT t.name AS topic, {sql.integer.format(_MIN_ISR)} AS min_insync_replicas
            FROM topics AS t
            """,
        ),
    }


_MIN_ISR: Final = """coalesce(
              (SELECT c.value FROM configs AS c WHERE c.resource_type = 'TOPIC' AND c.resource_name = t.name
                 AND c.name = 'min.insync.replicas'),
              (SELECT c.value FROM configs AS c WHERE c.resource_type = 'BROKER' AND c.resource_name = ''
                 AND c.name = 'min.insync.replicas'), '1')"""


def _of_partitions(sql: Sql) -> Mapping[str, View]:
    isr, replicas = sql.length.format("p.isr"), sql.length.format("p.replicas")
    least = sql.least.format("m.min_insync_replicas", replicas)
    with_least = "m.min_insync_replicas FROM partitions AS p JOIN min_insync_replicas AS m USING (topic)"
    # Equal texts are equal lists, as of most partitions: to compare them costs less than to parse them.
    is_short = f"p.isr <> p.replicas AND {isr} < {replicas}"
    first = sql.at.format("p.replicas", "0")
    is_other = sql.differs.format("p.leader", f"CAST({first} AS bigint)")
    return {
        "under_replicated": View(
            "partitions with a replica outside the ISR",
            f"SELECT {_OF_PARTITION} FROM partitions AS p WHERE {is_short}",
        ),
        "offline": View(
            "partitions without a leader", f"SELECT {_OF_PARTITION} FROM partitions AS p WHERE p.leader < 0"
        ),
        "under_min_isr": View(
            "partitions whose ISR is smaller than min.insync.replicas: a produce with acks=all is refused",
            # The condition that most partitions fail is asked first: the other side costs two look-ups.
            f"SELECT {_OF_PARTITION}, {with_least} WHERE {is_short} AND {isr} < m.min_insync_replicas",
        ),
        "at_min_isr": View(
            "partitions whose ISR is just min.insync.replicas: one broker less, and they are under it",
            f"SELECT {_OF_PARTITION}, {with_least} WHERE {isr} = {least}",
        ),
        "not_preferred_leader": View(
            "partitions that another than their first replica leads, or none",
            f"SELECT {_OF_PARTITION} FROM partitions AS p WHERE {is_other}",
        ),
        "reassigning": View(
            "partitions in the middle of a reassignment",
            f"""
            SELECT {_OF_PARTITION}, p.adding_replicas, p.removing_replicas FROM partitions AS p
            WHERE p.adding_replicas <> '[]' OR p.removing_replicas <> '[]'
            """,
        ),
    }


def _of_brokers(sql: Sql) -> Mapping[str, View]:
    return {
        "broker_load": View(
            "what each broker has: replicas, leaders, replicas outside the ISR",
            """
            SELECT b.broker_id, b.rack, b.fenced, b.in_controlled_shutdown, coalesce(r.replicas, 0) AS replicas,
              coalesce(r.leaders, 0) AS leaders, coalesce(r.not_in_sync, 0) AS not_in_sync
            FROM brokers AS b LEFT JOIN (
              SELECT broker_id, count(*) AS replicas, count(*) FILTER (WHERE is_leader) AS leaders,
                count(*) FILTER (WHERE NOT is_in_sync) AS not_in_sync
              FROM replicas GROUP BY broker_id
            ) AS r USING (broker_id)
            """,
        ),
        "rack_load": View(
            "the same of each rack; null for brokers without one",
            """
            SELECT rack, count(*) AS brokers, count(*) FILTER (WHERE fenced) AS fenced,
              CAST(sum(replicas) AS bigint) AS replicas, CAST(sum(leaders) AS bigint) AS leaders,
              CAST(sum(not_in_sync) AS bigint) AS not_in_sync
            FROM broker_load GROUP BY rack
            """,
        ),
        "directory_load": View(
            "replicas and leaders of each log directory",
            f"""
            SELECT b.broker_id, {sql.text.format("d")} AS directory, coalesce(r.replicas, 0) AS replicas,
              coalesce(r.leaders, 0) AS leaders
            FROM brokers AS b CROSS JOIN {sql.each.format("b.log_dirs", "d")} LEFT JOIN (
              SELECT broker_id, directory, count(*) AS replicas, count(*) FILTER (WHERE is_leader) AS leaders
              FROM replicas GROUP BY broker_id, directory
            ) AS r ON r.broker_id = b.broker_id AND r.directory = {sql.text.format("d")}
            """,
        ),
    }


VIEWS: Final = views_in(SQLITE)
"""All views by name, in SQLite's SQL."""
