"""The listings: topics, partitions, brokers and so on, each a query in SQL that SQLite and PostgreSQL both take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["LISTINGS", "PARTITIONS_IN", "Listing", "listing_query"]

PARTITIONS: Final = "partitions"
ANY: Final = "*"
"""At the end of a name: any text may follow."""


class Listing(NamedTuple):
    """The rows that one command lists, in words and in SQL; a name that is given is looked for in the column `key`.

    `order` is what follows ORDER BY: numbers of columns.
    """

    about: str
    key: str
    query: str
    order: str = "1"


LISTINGS: Final[Mapping[str, Listing]] = {
    "topics": Listing(
        "Topics: partitions, replicas, and how many of these are not in the ISR.",
        "topic",
        """
        SELECT t.name AS topic, count(DISTINCT r.partition_id) AS partitions, count(r.partition_id) AS replicas,
          count(r.partition_id) FILTER (WHERE NOT r.is_in_sync) AS not_in_sync, t.topic_id
        FROM topics AS t LEFT JOIN replicas AS r ON r.topic = t.name GROUP BY t.name, t.topic_id
        """,
    ),
    PARTITIONS: Listing(
        "Partitions: leader, replicas, ISR, ELR.",
        "topic",
        """
        SELECT p.topic, p.partition_id, p.leader, p.leader_epoch, p.replicas, p.isr, p.eligible_leader_replicas,
          p.adding_replicas, p.removing_replicas FROM partitions AS p
        """,
        order="1, 2",
    ),
    "brokers": Listing(
        "Brokers: state, replicas, leaders.",
        "broker_id",
        """
        SELECT l.broker_id, l.rack, l.fenced, l.in_controlled_shutdown, l.replicas, l.leaders, l.not_in_sync,
          b.broker_epoch, b.end_points FROM broker_load AS l JOIN brokers AS b USING (broker_id)
        """,
    ),
    "controllers": Listing(
        "Controllers that have registered (KIP-919).",
        "controller_id",
        "SELECT controller_id, incarnation_id, end_points, features FROM controllers",
    ),
    "voters": Listing(
        "Voters of the quorum, where the log has them (KIP-853).",
        "voter_id",
        "SELECT voter_id, voter_directory_id, endpoints FROM voters",
    ),
    "configs": Listing(
        "Dynamic configs, by resource; the empty name is the default of all brokers.",
        "resource_name",
        "SELECT resource_type, resource_name, name, value FROM configs",
        order="1, 2, 3",
    ),
    "acls": Listing(
        "ACLs.",
        "principal",
        """
        SELECT principal, permission_type, operation, resource_type, pattern_type, resource_name, host, id FROM acls
        """,
        order="1, 4, 6, 3, 8",
    ),
    "quotas": Listing("Client quotas.", "entity", "SELECT entity, key, value FROM client_quotas", order="1, 2"),
    "users": Listing(
        "Users with SCRAM credentials.", "name", "SELECT name, mechanism, iterations FROM scram_users", order="1, 2"
    ),
    "tokens": Listing(
        "Delegation tokens: their times, in ms since 1970.",
        "owner",
        """
        SELECT owner, token_id, requester, renewers, issue_timestamp, expiration_timestamp, max_timestamp
        FROM delegation_tokens
        """,
        order="1, 2",
    ),
    "leaders": Listing(
        "Leaders by broker: how many partitions it should lead, as their first replica, and how many others lead.",
        "broker_id",
        """
        SELECT b.broker_id, b.rack, b.fenced, count(r.broker_id) FILTER (WHERE r.is_leader) AS leaders,
          count(r.broker_id) FILTER (WHERE r.position = 0) AS preferred,
          count(r.broker_id) FILTER (WHERE r.position = 0 AND NOT r.is_leader) AS led_by_others,
          100 * count(r.broker_id) FILTER (WHERE r.position = 0 AND NOT r.is_leader)
            / nullif(count(r.broker_id) FILTER (WHERE r.position = 0), 0) AS imbalance_percent
        FROM brokers AS b LEFT JOIN replicas AS r USING (broker_id) GROUP BY b.broker_id, b.rack, b.fenced
        """,
    ),
    "features": Listing("Finalized features.", "name", "SELECT name, feature_level FROM features"),
    "reassign": Listing(
        "Partitions in the middle of a reassignment.",
        "topic",
        "SELECT topic, partition_id, leader, replicas, isr, adding_replicas, removing_replicas FROM reassigning",
        order="1, 2",
    ),
}
"""All listings by the noun of their command."""

PARTITIONS_IN: Final = ("under_replicated", "offline", "under_min_isr", "at_min_isr", "not_preferred_leader")
"""The views that have some of the partitions; those that are being reassigned have a listing of their own."""


def listing_query(noun: str, *, name: str | None = None, only: str | None = None) -> str:
    """Returns the SQL of the listing `noun`, for SQLite and PostgreSQL.

    With `name` of those rows whose key is this text, or begins with it if it ends with `*`. `only` is for partitions: a
    view, one of PARTITIONS_IN, that they have to be in.
    """
    listing = LISTINGS[noun]
    assert only is None or (noun == PARTITIONS and only in PARTITIONS_IN), (noun, only)
    some = "" if only is None else f" JOIN {only} AS o ON o.topic = p.topic AND o.partition_id = p.partition_id"
    where = "" if name is None else f" WHERE {_has_name(listing.key, name)}"
    return f"SELECT * FROM ({listing.query.strip()}{some}) AS q{where} ORDER BY {listing.order}"


def _has_name(key: str, name: str) -> str:
    text = f"CAST(q.{key} AS text)"
    if name.endswith(ANY):
        begin = name.removesuffix(ANY)
        return f"substr({text}, 1, {len(begin)}) = {_literal(begin)}"
    return f"{text} = {_literal(name)}"


def _literal(text: str) -> str:
    """Returns the text as SQL has it, in both databases: a quotation mark is doubled, and nothing else is special."""
    return "'" + text.replace("'", "''") + "'"
