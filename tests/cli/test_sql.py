"""`quorate sql`: tables equal the image, views a walk of it, and a query does nothing but read within its caps."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraft import Message, Uuid
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch, uuid_text
from quorate.records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    VotersRecord,
)
from quorate.sql.database import Database
from quorate.sql.nouns import NOUNS, Image
from quorate.sql.views import VIEWS
from tests.cli.directories import END_OFFSET, KAFKA_NODES, Ran, a_history, contents, run, write_checkpoint, write_log
from tests.network.test_observer import LOOPBACK, Partition, Script, answer, listening

Row = dict[str, Any]  # Any: what JSON has as values
NODE = next(node for node in KAFKA_NODES if node.name == "controller-3")
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
BROKERS = {1: "a", 2: "a", 3: "b", 4: None}
"""Racks by broker; broker 5 is no broker that has registered."""


def asked(query: str, path: Path, *options: object) -> list[Row]:
    """The rows of an answer."""
    ran = run("sql", query, "--offline", path, "--json", *options)
    assert (0, "") == (ran.code, ran.err), ran
    rows: list[Row] = ran.document["rows"]
    return rows


def refused(query: str, path: Path, *options: object) -> str:
    """Why a query has no answer."""
    ran = run("sql", query, "--offline", path, *options)
    assert (1, "") == (ran.code, ran.out), ran
    return ran.err


def lists(row: Row) -> Row:
    """The row, its lists as such."""
    return {name: json.loads(value) if str(value).startswith("[") else value for name, value in row.items()}


@pytest.mark.parametrize("node", KAFKA_NODES, ids=lambda node: f"{node.parent.name}-{node.name}")
def test_the_tables_are_the_image(node: Path) -> None:
    shown = run("image", "show", "--offline", node, "--json").document
    tables = {name: [lists(row) for row in asked(f"SELECT * FROM {name}", node)] for name in NOUNS}
    partitions = {(row["topic"], row["partition_id"]): row for row in tables["partitions"]}

    assert {name: topic["topicId"] for name, topic in shown["topics"].items()} == {
        row["name"]: row["topic_id"] for row in tables["topics"]
    }
    assert partitions.keys() == {
        (name, int(number)) for name, topic in shown["topics"].items() for number in topic["partitions"]
    }
    for (name, number), row in partitions.items():
        expected = shown["topics"][name]["partitions"][str(number)]
        assert expected == {
            "replicas": row["replicas"],
            "directories": row["directories"],
            "isr": row["isr"],
            "removingReplicas": row["removing_replicas"],
            "addingReplicas": row["adding_replicas"],
            "elr": row["eligible_leader_replicas"] or [],
            "lastKnownElr": row["last_known_elr"] or [],
            "leader": row["leader"],
            "leaderRecoveryState": row["leader_recovery_state"],
            "leaderEpoch": row["leader_epoch"],
            "partitionEpoch": row["partition_epoch"],
        }
    assert [
        (each["id"], each["epoch"], each["rack"], each["fenced"]) for each in shown["cluster"]["brokers"].values()
    ] == [(row["broker_id"], row["broker_epoch"], row["rack"], bool(row["fenced"])) for row in tables["brokers"]]
    assert [int(number) for number in shown["cluster"]["controllers"]] == [
        row["controller_id"] for row in tables["controllers"]
    ]
    assert [(each["id"], each["directoryId"]) for each in shown["voters"] or ()] == [
        (row["voter_id"], row["voter_directory_id"]) for row in tables["voters"]
    ]
    assert shown["features"]["finalizedVersions"] == {row["name"]: row["feature_level"] for row in tables["features"]}
    assert shown["configs"] == _by_resource(tables["configs"])
    assert [(each["entity"], each["quotas"]) for each in shown["clientQuotas"]] == _by_entity(tables["client_quotas"])
    assert [{"id": key, **each} for key, each in shown["acls"].items()] == [_camel(row) for row in tables["acls"]]
    assert {(mechanism, user) for mechanism, users in shown["scram"].items() for user in users} == {
        (row["mechanism"], row["name"]) for row in tables["scram_users"]
    }
    assert list(shown["delegationTokens"]) == [row["token_id"] for row in tables["delegation_tokens"]]
    upcoming = shown["producerIds"]["nextProducerId"]
    assert ([{"next_producer_id": upcoming}] if upcoming else []) == tables["producer_ids"]


def _by_resource(rows: list[Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["resource_type"], {}).setdefault(row["resource_name"], {})[row["name"]] = row["value"]
    return found


def _by_entity(rows: list[Row]) -> list[tuple[Row, Row]]:
    found: dict[str, tuple[Row, Row]] = {}
    for row in rows:
        entity = {each["entity_type"]: each["entity_name"] for each in row["entity"]}
        found.setdefault(json.dumps(entity), (entity, {}))[1][row["key"]] = row["value"]
    return list(found.values())


def _camel(row: Row) -> Row:
    parts = {name: name.split("_") for name in row}
    return {first + "".join(map(str.capitalize, rest)): row[name] for name, (first, *rest) in parts.items()}


def a_cluster(seed: int) -> ClusterState:
    """Three topics, with partitions in every state; `min.insync.replicas` is set for one, and for the cluster."""
    draw, state = Random(seed), ClusterState()
    records: list[Message] = [FeatureLevelRecord("metadata.version", 25)]
    records += [
        RegisterBrokerRecord(
            broker_id=number,
            incarnation_id=Uuid(bytes([number] * 16)),
            broker_epoch=number,
            rack=rack,
            fenced=draw.random() < 0.5,
            log_dirs=(directory(number), directory(number + 100)),
        )
        for number, rack in BROKERS.items()
    ]
    records += [ConfigRecord(TOPIC, "orders", "min.insync.replicas", "2")]
    records += [ConfigRecord(BROKER, "", "min.insync.replicas", "3")] if seed % 2 else []
    for number, name in enumerate(("orders", "payments", "audit"), 1):
        topic = Uuid(bytes([200 + number] * 16))
        records.append(TopicRecord(name, topic))
        records += [a_partition(draw, topic, partition_id) for partition_id in range(6)]
    state.apply_all(records, 0)
    return state


def a_partition(draw: Random, topic: Uuid, partition_id: int) -> PartitionRecord:
    replicas = tuple(draw.sample((1, 2, 3, 4, 5), draw.choice((1, 3, 4))))
    isr = tuple(draw.sample(replicas, draw.randrange(len(replicas) + 1)))
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic,
        replicas=replicas,
        isr=isr,
        leader=draw.choice(isr) if isr else -1,
        leader_epoch=1,
        partition_epoch=1,
        adding_replicas=replicas[:1] if draw.random() < 0.3 else (),
        removing_replicas=replicas[-1:] if draw.random() < 0.3 else (),
        directories=tuple(directory(each + draw.choice((0, 100))) for each in replicas),
    )


def directory(number: int) -> Uuid:
    return Uuid(bytes([number] * 16))


def walked(state: ClusterState) -> dict[str, list[tuple[object, ...]]]:
    """What each view should have, by a walk of the state; rows without what the partition has anyway, sorted."""
    found: dict[str, list[tuple[object, ...]]] = {name: [] for name in VIEWS}
    loads: dict[object, list[int]] = {number: [0, 0, 0] for number in BROKERS}
    directories = {(b, uuid_text(directory(b + more))): [0, 0] for b in BROKERS for more in (0, 100)}
    of_cluster = int(state.configs.get(BROKER, "", "min.insync.replicas") or 1)
    for topic in state.topics:
        least = int(state.configs.get(TOPIC, topic.name, "min.insync.replicas") or of_cluster)
        found["min_insync_replicas"].append((topic.name, least))
        for number, partition in topic.partitions.items():
            here, size, in_force = (topic.name, number), len(partition.isr), min(least, len(partition.replicas))
            found["under_replicated"] += [here] * (size < len(partition.replicas))
            found["offline"] += [here] * (not partition.has_leader)
            found["under_min_isr"] += [here] * (size < in_force)
            found["at_min_isr"] += [here] * (size == in_force)
            found["not_preferred_leader"] += [here] * partition.is_imbalanced
            found["reassigning"] += [here] * bool(partition.adding_replicas or partition.removing_replicas)
            for position, broker in enumerate(partition.replicas):
                leads, is_out = broker == partition.leader, broker not in partition.isr
                place = uuid_text(partition.directories[position])
                adds, removes = broker in partition.adding_replicas, broker in partition.removing_replicas
                found["replicas"].append((*here, broker, position, leads, not is_out, adds, removes, place))
                if broker in loads:
                    loads[broker] = [have + more for have, more in zip(loads[broker], (1, leads, is_out), strict=True)]
                    directories[broker, place][0] += 1
                    directories[broker, place][1] += leads
    brokers = {each.id: each for each in state.brokers}
    found["broker_load"] = [(b, each.rack, each.fenced, False, *loads[b]) for b, each in brokers.items()]
    for rack in {each.rack for each in brokers.values()}:
        members = [number for number, each in brokers.items() if each.rack == rack]
        sums = [sum(loads[number][at] for number in members) for at in range(3)]
        found["rack_load"].append((rack, len(members), sum(brokers[number].fenced for number in members), *sums))
    found["directory_load"] = [(*at, *counts) for at, counts in directories.items()]
    return found


WIDE = frozenset({"under_replicated", "offline", "under_min_isr", "at_min_isr", "not_preferred_leader", "reassigning"})
"""Views whose rows begin with the partition, and repeat what it has."""


@pytest.mark.parametrize("seed", range(4))
def test_the_views_are_what_a_walk_of_the_image_finds(tmp_path: Path, seed: int) -> None:
    state = a_cluster(seed)
    write_checkpoint(tmp_path, state, OffsetAndEpoch(epoch=1, offset=40))
    for name, expected in walked(state).items():
        rows = [tuple(row.values())[: 2 if name in WIDE else None] for row in asked(f"SELECT * FROM {name}", tmp_path)]

        assert sorted(map(repr, expected)) == sorted(repr(_as_booleans(row, expected)) for row in rows), name


def _as_booleans(row: tuple[Any, ...], like: list[tuple[object, ...]]) -> tuple[Any, ...]:
    """SQLite has numbers where the walk has booleans."""
    return tuple(bool(each) if isinstance(other, bool) else each for each, other in zip(row, like[0], strict=True))


def test_an_answer_is_of_the_state_below_the_offset(tmp_path: Path) -> None:
    directory = write_log(tmp_path, a_history())

    assert [[], [{"name": "foo.bar"}]] == [
        asked("SELECT name FROM topics", directory, "--as-of", offset) for offset in (5, END_OFFSET)
    ]


def test_columns_say_what_they_are() -> None:
    described = asked("SELECT * FROM columns", NODE)
    named = {row["name"] for noun in NOUNS.values() for row in ({"name": each.name} for each in noun.columns)}

    assert named == {row["column_name"] for row in described}
    assert [] == [row for row in described if not row["comment"]]
    (isr,) = (row for row in described if (row["table_name"], row["column_name"]) == ("partitions", "isr"))
    assert ("JSON", "The in-sync replicas.") == (isr["type"], isr["comment"])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("DELETE FROM topics", "a write to topics is refused"),
        ("INSERT INTO topics VALUES ('a', 'b')", "a write to topics is refused"),
        ("UPDATE topics SET name = 'a' RETURNING name", "a write to topics is refused"),
        ("DROP TABLE topics", "is refused"),
        ("CREATE TABLE mine (a)", "is refused"),
        ("ATTACH '{file}' AS other", "ATTACH is refused"),
        ("VACUUM INTO '{file}'", "is refused"),
        ("PRAGMA query_only = OFF", "PRAGMA query_only is refused"),
        ("SELECT * FROM pragma_database_list", "is refused"),
        ("BEGIN", "BEGIN is refused"),
        ("SELECT load_extension('{file}')", "the function load_extension is refused"),
        ("SELECT readfile('{file}')", "no such function: readfile"),
        ("SELECT 1; DELETE FROM topics", "one statement at a time"),
        ("SELECT * FROM topcs", "no such table: topcs; there are topics, partitions, "),
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT '\udcff'", "the query is no UTF-8"),
        ("SELECT zeroblob(1000000000)", "too big"),
        ("SELECT '" + "a" * 100_000 + "'", "the query is longer than 100,000 bytes"),
        (f"{ENDLESS} count(*) FROM n", "the query takes longer than 0.5 s, the cap"),
        ("SELECT count(*) FROM columns, columns AS b, columns AS c, columns AS d, columns AS e", "longer than 0.5 s"),
        (f"{ENDLESS} x FROM n", "the answer has more than 100 rows, the cap: LIMIT takes fewer"),
    ],
)
def test_a_query_that_would_do_more_than_read_within_its_caps_is_refused(
    tmp_path: Path, query: str, reason: str
) -> None:
    directory = write_log(tmp_path, a_history())
    before, file = contents(directory), tmp_path / "another"

    said = refused(query.replace("{file}", str(file)), directory, "--rows-max", 100, "--seconds-max", 0.5)
    assert reason in said
    assert 1 == said.count("\n")
    assert (False, before) == (file.exists(), contents(directory))


def test_rows_are_printed_for_people_and_for_programs() -> None:
    query = "SELECT topic, partition_id, isr, NULL AS nobody FROM partitions ORDER BY 1, 2 LIMIT 2"
    for_people = run("sql", query, "--offline", NODE)
    as_csv = run("sql", query, "--offline", NODE, "--output", "csv")

    assert ["topic", "partition_id", "isr", "nobody"] == for_people.out.splitlines()[0].split()
    assert "2 rows, as of offset 239" == for_people.out.splitlines()[-1]
    assert [tuple(map(str, row.values()))[:3] for row in asked(query, NODE)] == [
        tuple(row.values())[:3] for row in csv.DictReader(io.StringIO(as_csv.out))
    ]
    assert {""} == {row["nobody"] for row in csv.DictReader(io.StringIO(as_csv.out))}


def test_bytes_are_hex_and_a_column_that_json_would_lose_is_refused() -> None:
    by_output = {
        output: run("sql", "SELECT x'00ff' AS key", "--offline", NODE, "--output", output).out
        for output in ("text", "csv")
    }
    assert [{"key": "00ff"}] == asked("SELECT x'00ff' AS key", NODE)
    assert ["00ff", "00ff"] == [text.split()[1] for text in by_output.values()]

    twice = run("sql", "SELECT 1 AS a, 2 AS a", "--offline", NODE, "--output", "json")
    assert 1 == twice.code
    assert "two columns are called a" in json.loads(twice.out)["error"]["message"]
    both = run("sql", "SELECT 1", "--offline", NODE, "--json", "--output", "csv")
    assert (2, True) == (both.code, "--json and --output csv" in both.out + both.err)


def test_what_a_log_has_twice_is_shown_twice(tmp_path: Path) -> None:
    voter = VotersRecord.Voter(1, directory(1))
    image = Image(state=ClusterState(), voters=VotersRecord(0, (voter, voter)))

    assert 2 == len(list(Database(image, now_s=lambda: 0.0).ask("SELECT voter_id FROM voters").rows))


async def test_a_running_cluster_is_asked_as_its_files_are(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, a_cluster(1), OffsetAndEpoch(epoch=1, offset=40))
    leader = Script(
        answer(end=40, snapshot_id=Partition.SnapshotId(40, 1)),
        answer(end=40),
        checkpoint=(tmp_path / "00000000000000000040-0000000001.checkpoint").read_bytes(),
    )
    async with listening(leader) as ((_, port),):
        ran: Ran = await asyncio.to_thread(
            run, "sql", "SELECT name FROM topics", "--bootstrap-controller", f"{LOOPBACK}:{port}", "--json"
        )

    assert [{"name": name} for name in ("audit", "orders", "payments")] == sorted(
        ran.document["rows"], key=lambda row: row["name"]
    )
