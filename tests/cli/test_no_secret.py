"""No command that reads a metadata log shows a secret in it, unless it is asked for every byte."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Final

import pytest

from quorate.controller.secrets import REDACTED
from quorate.metadata.configs import BROKER, TOPIC
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from quorate.sql.nouns import NOUNS
from tests.cli.directories import batch, leader_change, run, write_log

SECRET: Final = "canary"
"""It is in each value that is a secret, also in what another one replaces, and in what is rolled back."""
FORMS: Final = (
    SECRET,
    SECRET.encode().hex(),
    *(base64.b64encode(bytes(before) + SECRET.encode())[3:8].decode() for before in range(3)),
)
"""As text, as hexadecimal digits, and as base64 has it after any bytes."""
FORMATS: Final = ((), ("--json",))
BETWEEN: Final = ("0..", "1..5", "5..7", "7..9")
SUBJECTS: Final = ((), ("user/alice",), ("broker/1",), ("topic/orders",), ("configs",), ("scram_users",))
COMMANDS: Final = (
    ("log", "dump", "{node}"),
    ("log", "dump", "{node}", "--json"),
    ("log", "verify", "{node}"),
    ("log", "verify", "{node}", "--json"),
    ("image", "show", "--offline", "{node}"),
    ("image", "show", "--offline", "{node}", "--json"),
    ("image", "show", "--offline", "{node}", "--json", "--with-open-transaction"),
    *(("image", "diff", between, "--offline", "{node}", *form) for between in BETWEEN for form in FORMATS),
    *(("history", *subject, "--offline", "{node}", *form) for subject in SUBJECTS for form in FORMATS),
    *(("sql", f"SELECT * FROM {noun}", "--offline", "{node}", *form) for noun in NOUNS for form in FORMATS),
    ("sql", "SELECT substr(value, 1, 3), value FROM configs ORDER BY value", "--offline", "{node}", "--output", "csv"),
)
REFUSED: Final = (
    ("sql", "SELECT json_extract(value, '$') FROM configs", "--offline", "{node}"),
    ("what-if", "--broker", "1", "--offline", "{node}"),
)


def with_secrets(number: int) -> tuple[tuple[ConfigRecord | UserScramCredentialRecord, int], ...]:
    """Records of each kind that has secrets: a password, what a plugin may have as one, and the keys of a user."""
    value = f"{SECRET}{number}"
    keys = [f"{name}-{value}".encode() for name in ("salt", "stored", "server")]
    return (
        (ConfigRecord(BROKER, "1", "listener.name.tls.ssl.key.password", value), 0),
        (ConfigRecord(BROKER, "", "plugin.of.somebody", f'{{"key": "{value}"}}'), 0),
        (ConfigRecord(TOPIC, "orders", "plugin.of.somebody", value), 0),
        (UserScramCredentialRecord("alice", 1, *keys, 4096), 0),
    )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with secrets that are set, changed and removed, one half of them in transactions."""
    parts = [
        [(FeatureLevelRecord("metadata.version", 25), 0)],
        with_secrets(1),
        with_secrets(2),
        [(RemoveUserScramCredentialRecord("alice", 1), 0), (ConfigRecord(BROKER, "", "plugin.of.somebody", None), 0)],
        [(BeginTransactionRecord("a"), 0), *with_secrets(3), (EndTransactionRecord(), 0)],
        [(BeginTransactionRecord("b"), 0), *with_secrets(4), (AbortTransactionRecord("no"), 0)],
        [(BeginTransactionRecord("c"), 0), *with_secrets(5)],
    ]
    batches, offset = [leader_change(1, 0)], 1
    for each in parts:
        batches.append(batch(1, offset, *each))
        offset += len(each)
    return write_log(tmp_path_factory.mktemp("secrets"), batches, epoch=1)


@pytest.mark.parametrize("command", COMMANDS + REFUSED, ids=" ".join)
def test_no_secret_of_a_log_is_shown(command: tuple[str, ...], node: Path) -> None:
    ran = run(*(each.format(node=node) for each in command))

    assert (command in REFUSED) == bool(ran.code) == bool(ran.err)
    assert [] == [form for form in FORMS if form in ran.out + ran.err]


def test_that_there_are_secrets_is_shown_and_every_byte_to_who_asks_for_it(node: Path) -> None:
    assert REDACTED in run("history", "--offline", node).out
    assert REDACTED in run("log", "dump", node).out
    assert all(f"{SECRET}{number}" in run("log", "dump", node, "--show-secrets").out for number in range(1, 6))


def test_that_a_secret_became_another_one_is_told_and_nothing_of_it(node: Path) -> None:
    told = run("history", "user/alice", "--offline", node).out
    documents = [json.loads(line) for line in run("history", "--offline", node, "--to", 10, "--json").out.splitlines()]
    compared = run("image", "diff", "6..10", "--offline", node)

    assert ["set", "replaced", "removed", "set"] == re.findall(r"credential of user alice is (\w+)", told)
    assert "scram_users alice SCRAM-SHA-256 (another secret, which is not shown)" in compared.out
    assert [("changed", {}, {})] * 4 == [(each["change"], each["before"], each["after"]) for each in documents[-4:]]
    assert 4 == compared.out.count("(another secret, which is not shown)")
