"""`quorate history`: each row that a record changed, in order; together they lead from any state to any later one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    with_trace,
)
from tests.cli.directories import (
    END_OFFSET,
    TRACEPARENT,
    a_history,
    batch,
    leader_change,
    run,
    write_checkpoint,
    write_log,
)
from tests.cli.test_image import state_below
from tests.cli.test_image_diff import WHOLE, apply, tables

Row = dict[str, Any]  # Any: what JSON has as values


def told(directory: Path, *options: object) -> list[Row]:
    """The changes, in order."""
    ran = run("history", *options, "--offline", directory, "--json")
    assert (0, "") == (ran.code, ran.err), ran
    return ran.documents


def names(rows: list[Row]) -> list[tuple[int, str, str]]:
    return [(row["offset"], row["change"], f"{row['table']}/{list(row['key'].values())[-1]}") for row in rows]


@pytest.mark.parametrize("node", WHOLE.values(), ids=WHOLE)
def test_all_changes_together_lead_to_the_state_at_any_offset(node: Path) -> None:
    end = run("image", "show", "--offline", node, "--json").document["asOfOffset"]
    middle, found = end // 2, tables(node, 0)
    for begin, until in ((0, middle), (middle, end)):
        rows = told(node, "--from", begin, "--to", until)
        assert all(begin <= row["offset"] < until for row in rows)
        apply(found, rows)
        assert tables(node, until) == found


def test_a_line_has_offset_time_epoch_change_and_the_trace_of_the_request(tmp_path: Path) -> None:
    ran = run("history", "topic/foo.bar", "--offline", write_log(tmp_path, a_history()), "--from", 6)
    trace_id = TRACEPARENT.split(b"-")[1].decode()

    assert (0, "") == (ran.code, ran.err)
    lines = ran.out.splitlines()
    assert ["6", "8", "9"] == [line.split()[0] for line in lines[:-1]], ran.out
    assert (
        "       6  2023-11-14T22:13:20.005+00:00  epoch 1  partition foo.bar-0 is created: replicas 2, ISR 2, leader 2"
        == lines[0]
    )
    assert lines[1].endswith(f"  partition foo.bar-0 leader epoch 0 → 1  trace {trace_id}")
    assert lines[2].endswith("  epoch 2  topic foo.bar retention.ms: not set → 1000")
    assert "3 changes between offset 6 and offset 11" == lines[-1]


def test_the_trace_is_that_of_the_batch(tmp_path: Path) -> None:
    first = with_trace(ConfigRecord(2, "a", "retention.ms", "1"), TRACEPARENT)
    log = [leader_change(1, 0), batch(1, 1, (first, 0), (ConfigRecord(2, "b", "retention.ms", "1"), 0))]
    log.append(batch(1, 3, (ConfigRecord(2, "c", "retention.ms", "1"), 0)))
    trace_id = TRACEPARENT.split(b"-")[1].decode()

    directory = write_log(tmp_path, log)
    assert [trace_id, trace_id, None] == [row["traceId"] for row in told(directory)]
    assert 2 == run("history", "--offline", directory).out.count(f"  trace {trace_id}\n")


def test_a_transaction_is_told_at_its_end_and_an_aborted_or_open_one_is_not(tmp_path: Path) -> None:
    def config(name: str) -> tuple[ConfigRecord, int]:
        return ConfigRecord(2, "a", name, "1"), 0

    log = [
        leader_change(1, 0),
        batch(1, 1, (FeatureLevelRecord("metadata.version", 25), 0)),
        batch(1, 2, (BeginTransactionRecord(), 0), config("one")),
        batch(1, 4, config("two")),
        batch(1, 5, (EndTransactionRecord(), 0)),
        batch(1, 6, (BeginTransactionRecord(), 0), config("three"), (AbortTransactionRecord(), 0)),
        batch(1, 9, config("four")),
        batch(1, 10, (BeginTransactionRecord(), 0), config("five")),
    ]

    directory = write_log(tmp_path, log)
    assert [(5, "created", "configs/one"), (5, "created", "configs/two"), (9, "created", "configs/four")] == names(
        told(directory, "configs")
    )
    assert "note: a transaction is open since offset 10" in run("history", "--offline", directory).out
    within = run("history", "--offline", directory, "--from", 3).out.splitlines()
    assert "3 changes between offset 3 and offset 12" in within
    assert not any("there is no log" in line for line in within)


@pytest.mark.parametrize(
    ("subject", "offsets"),
    [
        ("topic/foo.bar", [5, 6, 8, 9]),
        ("broker/2", [3, 4]),
        ("brokers", [3, 4]),
        ("features", [1, 2]),
        ("topic/foo", []),
        ("broker/22", []),
        ("controller/2", []),
        ("user/foo.bar", []),
        ("topic/a/b\x1b[2J", []),
    ],
)
def test_a_subject_has_its_own_changes_alone(tmp_path: Path, subject: str, offsets: list[int]) -> None:
    assert offsets == [row["offset"] for row in told(write_log(tmp_path, a_history()), subject)]


def test_users_and_voters_are_subjects_too() -> None:
    """Of a Kafka's logs: SCRAM, ACL entries and quotas of a user; registrations and votes of a controller."""
    alice = {row["table"] for row in told(WHOLE["combined-static"], "user/alice")}
    three = {row["table"] for row in told(WHOLE["voters-changed"], "controller/3")}

    assert {"scram_users", "acls", "client_quotas"} == alice
    assert {"controllers", "voters"} == three


def test_what_was_cleaned_is_said_and_the_rest_told(tmp_path: Path) -> None:
    partition = write_log(tmp_path, a_history(), segment_bytes=250)
    write_checkpoint(partition, state_below(7), OffsetAndEpoch(epoch=1, offset=7))
    for path in [each for each in partition.glob("*.log") if int(each.stem) < 7]:
        path.unlink()
    ran = run("history", "--offline", tmp_path)

    *changes, unknown = told(tmp_path)
    nothing = "of what lies before offset 7 there is no log"
    assert [8, 9] == [row["offset"] for row in changes]
    assert {"afterOffset": -1, "untilOffset": 6, "note": nothing} == unknown
    assert ["2 changes between offset 7 and offset 11", f"note: {nothing}"] == (ran.out.splitlines()[-2:])


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["nonsense"], 2, "'nonsense': a history is of topic/…, broker/…"),
        (["topic/"], 2, "'topic/': a history is of topic/…"),
        (["--from", "soon"], 2, "--from 'soon': an offset is a number from 0 on"),
        (["--to", "2026-13-01"], 2, "--to '2026-13-01': an offset"),
        (["--from", "12"], 1, "ends at offset 11; 12 lies beyond it"),
        (["--to", "12"], 1, "ends at offset 11; 12 lies beyond it"),
        (["--from", "2023-11-14"], 1, "the log begins at 2023-11-14T22:13:20.000Z, at offset 0"),
    ],
)
def test_what_cannot_be_told_is_refused(tmp_path: Path, options: list[str], code: int, words: str) -> None:
    ran = run("history", *options, "--offline", write_log(tmp_path, a_history()))

    assert (code, True) == (ran.code, words in ran.err), ran
    assert (not ran.out) == ("--to" not in options or code == 2)  # the changes up to the end are printed before


def test_times_are_taken_too(tmp_path: Path) -> None:
    directory = write_log(tmp_path, a_history())

    assert [3, 4] == [
        row["offset"]
        for row in told(directory, "--from", "2023-11-14T22:13:20.002Z", "--to", "2023-11-14T22:13:20.004Z")
    ]
    assert END_OFFSET == run("image", "show", "--offline", directory, "--json").document["asOfOffset"]
