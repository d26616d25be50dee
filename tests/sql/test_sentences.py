"""What a change is called: every table has words, for a row that comes, that changes, and that goes."""

from __future__ import annotations

import pytest

from quorate.nouns import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, uuid_text
from quorate.sql.difference import Change, Difference
from quorate.sql.nouns import NOUNS, Value
from quorate.sql.sentences import elected, sentence, sentence_of, voters
from quorate.wire.schema import FieldType

Values = dict[str, Value]
PARTITION: Values = {
    "topic": "orders",
    "partition_id": 0,
    "replicas": "[1,2,3]",
    "isr": "[1,2]",
    "removing_replicas": "[]",
    "adding_replicas": "[]",
    "leader": 1,
    "leader_recovery_state": "RECOVERED",
    "leader_epoch": 4,
    "directories": None,
    "eligible_leader_replicas": "[3]",
    "last_known_elr": None,
}
BROKER: Values = {
    "broker_id": 7,
    "broker_epoch": 10,
    "fenced": False,
    "in_controlled_shutdown": False,
    "log_dirs": '["one","two"]',
    "cordoned_log_dirs": None,
}
QUOTA: Values = {
    "entity": '[{"entity_type":"user","entity_name":null},{"entity_type":"client-id","entity_name":"app"}]',
    "key": "consumer_byte_rate",
    "value": 1024.0,
}
TOKEN: Values = {"token_id": "t1", "owner": "User:alice", "expiration_timestamp": 1_000}
SECRET: Values = {"resource_type": "BROKER", "resource_name": "", "name": "ssl.key.password", "value": "(redacted)"}
MOVED: Values = {"leader": 3, "isr": "[3]", "eligible_leader_replicas": "[1]"}
UNCLEAN: Values = {"leader": 2, "isr": "[2]", "leader_recovery_state": "RECOVERING"}

CHANGES: list[tuple[str, Values, Values, str]] = [
    ("partitions", PARTITION, {}, "partition orders-0 is written again, unchanged"),
    ("partitions", PARTITION, {"leader_epoch": 5}, "partition orders-0 leader epoch 4 → 5"),
    ("partitions", PARTITION, MOVED, "partition orders-0 leader 1 → 3; ISR 1,2 → 3; ELR 3 → 1"),
    ("partitions", PARTITION, UNCLEAN, "partition orders-0 leader 1 → 2; ISR 1,2 → 2; unclean election"),
    (
        "partitions",
        PARTITION | {"isr": "[1]", "eligible_leader_replicas": "[]"},
        {"leader": 2, "isr": "[2]"},
        "partition orders-0 leader 1 → 2; ISR 1 → 2; unclean election",
    ),
    (
        "partitions",
        PARTITION | {"isr": "[1]", "eligible_leader_replicas": "[]"},
        {"leader": 4, "isr": "[4]", "replicas": "[4]"},
        "partition orders-0 leader 1 → 4; ISR 1 → 4; replicas 1,2,3 → 4",
    ),
    (
        "partitions",
        PARTITION | {"leader_recovery_state": "RECOVERING"},
        {"leader_recovery_state": "RECOVERED", "directories": f'["{uuid_text(LOST_DIRECTORY)}"]'},
        "partition orders-0 directories none → lost; has recovered",
    ),
    ("brokers", BROKER, {"fenced": True}, "broker 7 is fenced"),
    ("brokers", BROKER | {"fenced": True}, {"fenced": False}, "broker 7 is unfenced"),
    ("brokers", BROKER, {"in_controlled_shutdown": True}, "broker 7 enters controlled shutdown"),
    ("brokers", BROKER, {"log_dirs": '["two"]'}, "broker 7 directories one,two → two"),
    ("brokers", BROKER, {"cordoned_log_dirs": "[]"}, "broker 7 cordoned directories unknown → none"),
    (
        "brokers",
        BROKER,
        {"broker_epoch": 11, "fenced": True},
        "broker 7 registers in epoch 11, fenced; was unfenced in epoch 10",
    ),
    ("configs", SECRET, {}, "broker (default) ssl.key.password: (redacted) → (redacted)"),
    (
        "features",
        {"name": "metadata.version", "feature_level": 25},
        {"feature_level": 26},
        "feature metadata.version 25 → 26",
    ),
    ("client_quotas", QUOTA, {"value": None}, "quota of client-id app, user (default): consumer_byte_rate 1024 → NaN"),
    ("client_quotas", QUOTA, {"value": 0.5}, "quota of client-id app, user (default): consumer_byte_rate 1024 → 0.5"),
    (
        "scram_users",
        {"name": "alice", "mechanism": "9", "iterations": 4096},
        {},
        "mechanism 9 credential of user alice is replaced, with 4096 iterations",
    ),
    (
        "delegation_tokens",
        TOKEN,
        {"expiration_timestamp": -(1 << 60)},
        f"delegation token t1 of User:alice is renewed: until 1970-01-01 00:00:01 → {-(1 << 60)} ms since 1970",
    ),
]


@pytest.mark.parametrize(("table", "was", "changed", "said"), CHANGES, ids=[each[-1][:60] for each in CHANGES])
def test_a_change_is_told_by_what_was_and_what_is(table: str, was: Values, changed: Values, said: str) -> None:
    assert said == str(sentence_of(table, was, was | changed))


@pytest.mark.parametrize("table", NOUNS)
def test_every_table_has_words_for_the_beginning_and_the_end_of_a_row(table: str) -> None:
    row: Values = {each.name: "[]" if each.kind is FieldType.STRUCT else 1 for each in NOUNS[table].columns}
    key = {name: row[name] for name in NOUNS[table].identity}
    rest = {name: value for name, value in row.items() if name not in key}

    def told(change: Change, before: Values, after: Values, same: Values) -> str:
        return str(
            sentence(Difference(noun=NOUNS[table], key=key, change=change, before=before, after=after, same=same))
        )

    come, gone = told(Change.CREATED, {}, rest, {}), told(Change.DELETED, rest, {}, {})
    again = told(Change.CHANGED, {}, {}, rest)
    assert 3 == len({come, gone, again}) or table == "producer_ids"


def test_a_new_partition_has_its_replicas_and_directories_that_mean_something_are_words() -> None:
    assert "partition orders-0 is created: replicas 1,2,3, ISR 1,2, leader none" == str(
        sentence_of("partitions", None, PARTITION | {"leader": -1})
    )
    unassigned = {"directories": f'["{uuid_text(UNASSIGNED_DIRECTORY)}"]'}
    assert "partition orders-0 directories none → unassigned" == str(
        sentence_of("partitions", PARTITION, PARTITION | unassigned)
    )


def test_what_is_no_row_has_words_too() -> None:
    assert "controller 3 becomes the active controller in epoch 9" == str(elected(3, 9))
    assert "quorum voters 1,2 → 1,2,3" == str(voters([1, 2], [1, 2, 3]))
    assert "quorum voters are written again: none" == str(voters(None, []))
