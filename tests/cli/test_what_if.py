"""`quorate what-if`: what it says of a Kafka's log is what that Kafka then did; and nothing else is touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from kraft import Message, Uuid
from quorate.controller.configs.settings import ControllerSettings
from quorate.metadata.configs import TOPIC
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch, uuid_text
from quorate.records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
)
from quorate.sql.difference import differences
from quorate.sql.nouns import Image
from quorate.what_if import Becomes, lose, take_away
from tests.cli.directories import FIXTURES, batch, run, write_checkpoint, write_log
from tests.cli.directories import a_history as with_one_broker
from tests.cli.test_sql import BROKERS, a_cluster, asked, directory

Row = Mapping[str, Any]  # Any: what JSON has as values

KAFKAS = {
    "the last one in order": ("combined-static/node-1", 1, 54, 60),
    "one of two in order": ("three-dynamic/controller-3", 5, 207, 222),
    "the other one then": ("three-dynamic/controller-3", 4, 223, 239),
    "the only one": ("voters-changed/controller-3", 4, 42, 47),
}
"""A broker that goes, and the offsets of a Kafka's log before and after."""


def said(path: Path, *options: object) -> Any:
    ran = run("what-if", "--offline", path, "--json", *options)
    assert (0, "") == (ran.code, ran.err), ran
    return ran.document


def keyed(rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row["key"].values()): row for row in rows}


@pytest.mark.parametrize(("node", "broker", "before", "after"), KAFKAS.values(), ids=KAFKAS)
def test_what_it_says_a_kafka_did(node: str, broker: int, before: int, after: int) -> None:
    found = said(FIXTURES / node, "--broker", broker, "--as-of", before)
    done = run("image", "diff", f"{before}..{after}", "--offline", FIXTURES / node, "--json").document["rows"]
    expected = keyed([row for row in done if row["table"] == "partitions"])

    assert expected
    assert {key: row["after"] for key, row in expected.items()} == {
        key: row["after"] for key, row in keyed(found["partitions"]).items()
    }
    offline = asked("SELECT * FROM offline", FIXTURES / node, "--as-of", after)
    assert found["after"]["offline"] == len(offline)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [("--broker", 1), ("--broker", 3, "--broker", 2), ("--rack", "a")])
def test_who_is_away_leads_nothing_and_all_else_stays(tmp_path: Path, seed: int, options: tuple[object, ...]) -> None:
    write_checkpoint(tmp_path, a_cluster(seed), OffsetAndEpoch(epoch=1, offset=40))
    found = said(tmp_path, *options)
    gone = set(found["brokers"])
    partitions = {
        (row["topic"], row["topic_id"], row["partition_id"]): row for row in asked("SELECT * FROM partitions", tmp_path)
    }

    assert gone == ({1, 2} if "--rack" in options else set(options) - {"--broker"})
    for key, row in keyed(found["partitions"]).items():
        assert row["before"] == {name: partitions[key][name] for name in row["before"]}
        partitions[key] = {**partitions[key], **row["after"]}
        assert (row["becomes"] == "offline") == (partitions[key]["leader"] == -1)
    unfenced = {row["broker_id"] for row in asked("SELECT broker_id FROM brokers WHERE NOT fenced", tmp_path)}
    for row in partitions.values():
        assert row["leader"] not in gone & unfenced, row
    for name, view in (("offline", "offline"), ("underMinIsr", "under_min_isr")):
        there = asked(f"SELECT * FROM {view} WHERE leader >= 0 OR '{name}' = 'offline'", tmp_path)
        assert found["before"][name] == len(there), name
    assert found["after"]["offline"] == sum(row["leader"] == -1 for row in partitions.values())


def many_of_a_kind(seed: int) -> ClusterState:
    """A cluster of which most partitions are of one kind with others; ELRs are on, or an election may be unclean."""
    draw, state = Random(seed), a_cluster(seed)
    records: list[Message] = [FeatureLevelRecord(ELR_VERSION, seed % 2)]
    for number, name in enumerate(("alike", "unclean"), 1):
        topic = Uuid(bytes([100 + number] * 16))
        records += [TopicRecord(name, topic), ConfigRecord(TOPIC, name, "min.insync.replicas", str(number))]
        for partition_id in range(60):
            replicas = tuple(draw.sample((1, 2, 3, 4, 5), 3))
            isr = replicas if draw.random() < 0.5 else tuple(draw.sample(replicas, draw.choice((1, 2))))
            lost = tuple(sorted({*replicas} - {*isr})) if seed % 2 and number > len(isr) else ()
            at = [directory(each if draw.random() < 0.9 else 77) for each in replicas]
            of = PartitionRecord(partition_id, topic, replicas, isr, leader=draw.choice(isr), directories=tuple(at))
            records.append(replace(of, eligible_leader_replicas=lost, leader_epoch=partition_id, partition_epoch=9))
    records += [
        BrokerRegistrationChangeRecord(each.id, each.epoch, fenced=-1)
        for each in state.brokers
        if each.fenced and each.id != seed
    ]
    records.append(ConfigRecord(TOPIC, "unclean", "unclean.leader.election.enable", "true"))
    state.apply_all(records, 40)
    return state


@pytest.mark.parametrize("seed", range(8))
def test_all_of_a_kind_are_told_what_the_controller_does_to_each(seed: int) -> None:
    order, settings = Random(seed).sample((1, 2, 3, 4), 3), ControllerSettings()
    done = many_of_a_kind(seed)
    lose(done, brokers=order, settings=settings, next_offset=400)
    told = take_away(many_of_a_kind(seed), brokers=order, settings=settings, next_offset=400)
    before, after = (Image(state=each) for each in (many_of_a_kind(seed), done))
    expected = [each for each in differences(before, after) if each.noun.name == "partitions"]

    assert expected == [each.difference for each in told.changed]
    assert 60 < len(expected)
    assert told.after == take_away(done, brokers=[], settings=settings, next_offset=400).before
    assert {each.after.get("leader") == -1 for each in expected} == {
        each.fate.becomes is Becomes.OFFLINE for each in told.changed
    }


@pytest.mark.parametrize("seed", range(2))
def test_a_directory_takes_the_replicas_in_it(tmp_path: Path, seed: int) -> None:
    write_checkpoint(tmp_path, a_cluster(seed), OffsetAndEpoch(epoch=1, offset=40))
    lost = uuid_text(directory(1))
    found = said(tmp_path, "--directory", lost)
    there = {
        (row["topic"], row["partition_id"])
        for row in asked(f"SELECT * FROM replicas WHERE broker_id = 1 AND directory = '{lost}'", tmp_path)
    }

    changed = {(row["key"]["topic"], row["key"]["partition_id"]) for row in found["partitions"]}
    assert changed <= there
    assert ([], [lost]) == (found["brokers"], found["directories"])


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 2, "give --broker, --rack or --directory: what goes"),
        (["--broker", "one"], 2, "--broker 'one': a broker id is a number from 0 on"),
        (["--broker", "7"], 1, "broker 7 is not registered; registered are: 1, 2, 3, 4"),
        (["--rack", "c"], 1, "no registered broker is in rack 'c'; there are 'a', 'b'"),
        (["--directory", "abc"], 2, "--directory: 'abc' is not an id"),
        (["--directory", uuid_text(Uuid(bytes(15) + b"\x63"))], 1, "no registered broker has the log directory"),
    ],
)
def test_what_is_not_there_cannot_go(tmp_path: Path, options: list[str], code: int, words: str) -> None:
    write_checkpoint(tmp_path, a_cluster(0), OffsetAndEpoch(epoch=1, offset=40))
    ran = run("what-if", *options, "--offline", tmp_path)

    assert (code, "", True) == (ran.code, ran.out, words in ran.err), ran
    assert sorted({each for each in BROKERS.values() if each}) == ["a", "b"]


def test_below_37_iv2_the_log_does_not_say_which_replica_is_in_which_directory(tmp_path: Path) -> None:
    state = a_cluster(0)
    state.apply(FeatureLevelRecord("metadata.version", 11), 40)
    write_checkpoint(tmp_path, state, OffsetAndEpoch(epoch=1, offset=41))
    ran = run("what-if", "--directory", uuid_text(directory(1)), "--offline", tmp_path)

    assert (1, "") == (ran.code, ran.out)
    assert "log directories are in the log from metadata.version 3.7-IV2 on; this is 3.5-IV2" in ran.err


def test_the_text_says_the_same_and_an_open_transaction_counts_for_nothing(tmp_path: Path) -> None:
    log = [*with_one_broker(), batch(2, 11, (BeginTransactionRecord(), 0))]
    ran = run("what-if", "--broker", 2, "--offline", write_log(tmp_path, log))

    assert (0, "") == (ran.code, ran.err)
    lines = ran.out.splitlines()
    assert "Without broker 2, as of offset 12:" == lines[0]
    assert "  offline           0 → 1 partitions" == lines[1]
    assert "1 without a leader:" in lines
    assert any(line.startswith("note: a transaction is open since offset 11") for line in lines)


@pytest.mark.parametrize("prefer", [False, True])
def test_preferred_leaders_lead_afterwards_where_they_may_if_that_is_asked(prefer: bool) -> None:
    state = a_cluster(3)
    lose(state, brokers=[1], settings=ControllerSettings(), next_offset=40, with_preferred_leaders=prefer)
    could = [
        partition.leader == partition.preferred_leader
        for _, _, partition in state.topics.all()
        if partition.preferred_leader in partition.isr and state.brokers.is_active(partition.preferred_leader)
    ]

    assert could
    assert prefer == all(could)
