"""`quorate topics`, `quorate partitions` and so on: each lists what the state has, all of it or what has a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft import Message, Uuid
from quorate.metadata.state import ClusterState
from quorate.records import PartitionRecord, RegisterBrokerRecord, TopicRecord
from quorate.sql.database import Database
from quorate.sql.listings import LISTINGS, PARTITIONS_IN, listing_query
from quorate.sql.nouns import Image
from tests.cli.directories import KAFKA_NODES, run

Row = dict[str, Any]  # Any: what JSON has as values
NODE = next(node for node in KAFKA_NODES if node.name == "controller-3")
NAMES = ("orders", "orders-eu", "Orders", "ord_rs", "it's", "100%")
VERBS = {"features": ("features", "list"), "reassign": ("reassign", "list")}
TABLES = {
    "quotas": "client_quotas",
    "users": "scram_users",
    "tokens": "delegation_tokens",
    "leaders": "brokers",
    "reassign": "reassigning",
}


def listed(*words: str, path: Path = NODE) -> list[Row]:
    """The rows of a listing."""
    ran = run(*words, "--offline", path, "--json")
    assert (0, "") == (ran.code, ran.err), ran
    rows: list[Row] = ran.document["rows"]
    return rows


@pytest.mark.parametrize("noun", LISTINGS)
def test_lists_as_much_as_its_table_has(noun: str) -> None:
    """Each column that has a table's name for it has that table's values."""
    rows = listed(*VERBS.get(noun, (noun,)))
    of_table = listed("sql", f"select * from {TABLES.get(noun, noun)}")
    shared = [] if not rows else [name for name in rows[0] if of_table and name in of_table[0]]

    assert len(of_table) == len(rows)
    for name in shared:
        assert sorted(str(row[name]) for row in of_table) == sorted(str(row[name]) for row in rows)


@pytest.mark.parametrize("view", PARTITIONS_IN)
def test_partitions_can_be_those_of_a_view(view: str) -> None:
    rows = listed("partitions", "--only", view.replace("_", "-"))

    assert [(row["topic"], row["partition_id"]) for row in listed("sql", f"select * from {view} order by 1, 2")] == [
        (row["topic"], row["partition_id"]) for row in rows
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("orders", {"orders"}),
        ("orders*", {"orders", "orders-eu"}),
        ("ord_rs", {"ord_rs"}),
        ("it's", {"it's"}),
        ("it'*", {"it's"}),
        ("100%", {"100%"}),
        ("%", set()),
        ("*", set(NAMES)),
        ("", set()),
        ("x' or '1'='1", set()),
    ],
)
def test_a_name_is_that_name_and_no_pattern_but_for_its_end(asked: str, found: set[str]) -> None:
    state = ClusterState()
    records: list[Message] = [RegisterBrokerRecord(broker_id=1, broker_epoch=1, fenced=False)]
    for number, name in enumerate(NAMES):
        topic_id = Uuid(bytes([*bytes(15), number + 1]))
        records += [TopicRecord(name, topic_id), PartitionRecord(0, topic_id, (1,), (1,), (), (), 1, 0, 0, 0)]
    state.apply_all(records, 0)
    database = Database(Image(state=state, voters=None), now_s=lambda: 0.0)
    rows = list(database.ask(listing_query("topics", name=asked)).rows)
    database.close()

    assert sorted(found) == [row[0] for row in rows]
    assert {(1, 1, 0)} >= {tuple(row[1:4]) for row in rows}


def test_leaders_are_counted_beside_those_that_should_be() -> None:
    """Broker 1 should lead two partitions and leads one of them; that of broker 2 has no leader."""
    state, topic_id = ClusterState(), Uuid(bytes([*bytes(15), 1]))
    records: list[Message] = [RegisterBrokerRecord(broker_id=each, broker_epoch=1, fenced=False) for each in (1, 2, 3)]
    records.append(TopicRecord("orders", topic_id))
    for number, (replicas, leader) in enumerate([((1, 2), 1), ((1, 2), 2), ((2, 1), -1)]):
        records.append(PartitionRecord(number, topic_id, replicas, replicas, (), (), leader, 0, 0, 0))
    state.apply_all(records, 0)
    database = Database(Image(state=state, voters=None), now_s=lambda: 0.0)
    answer = database.ask(listing_query("leaders"))
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    database.close()

    names = ("broker_id", "leaders", "preferred", "led_by_others", "imbalance_percent")
    assert [(1, 1, 2, 1, 50), (2, 1, 1, 1, 100), (3, 0, 0, 0, None)] == [
        tuple(row[name] for name in names) for row in rows
    ]


def test_a_noun_is_listed_without_a_verb_and_what_is_called_like_one_with_it() -> None:
    bare, listed_so = (run(*words, "--offline", NODE, "--json") for words in (["topics"], ["topics", "list"]))
    named = run("topics", "list", "create", "--offline", NODE, "--json")

    assert bare == listed_so
    assert (0, []) == (named.code, named.document["rows"])
    assert "Commands:" in run("topics", "--help").out


@pytest.mark.parametrize("word", ["creat", "crate", "del", "remove"])
def test_a_word_that_looks_like_a_verb_is_refused_with_the_verbs(word: str) -> None:
    ran = run("topics", word, "--offline", NODE)
    named = run("topics", "list", word, "--offline", NODE)

    why = f"'{word}' is no verb of topics, which has: list, create, delete, add-partitions; what is called so: "
    assert (2, "", f"quorate: {why}quorate topics list {word}; see --help\n") == ran
    assert 0 == named.code


def test_a_noun_that_has_no_names_says_of_none_how_it_is_listed() -> None:
    ran = run("quorum", "describ", "--offline", NODE)

    assert (
        2,
        "quorate: 'describ' is no verb of quorum, which has: add-voter, remove-voter, describe; see --help\n",
    ) == (
        ran.code,
        ran.err,
    )


def test_a_broker_is_named_by_its_id() -> None:
    (row,) = listed("brokers", "5")

    assert (5, "b") == (row["broker_id"], row["rack"])


def test_an_observer_is_asked_of_the_past_but_not_of_what_a_transaction_says_so_far() -> None:
    of = ("--observer", "localhost:1")
    past, open_transaction = run("topics", *of, "--as-of", "7"), run("sql", "SELECT 1", *of, "--with-open-transaction")

    assert (3, "") == (past.code, past.out)
    assert (2, "") == (open_transaction.code, open_transaction.out)
    assert "--with-open-transaction are not for --observer" in open_transaction.err
