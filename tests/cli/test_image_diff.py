"""`quorate image diff`: applied to the tables at the first offset, it gives those at the second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.nouns import uuid_text
from quorate.sql.nouns import NOUNS
from tests.cli.directories import END_OFFSET, KAFKA_NODES, TOPIC_ID, a_history, run, write_log
from tests.cli.test_sql import asked

Tables = dict[str, dict[tuple[Any, ...], dict[str, Any]]]  # Any: what JSON has as values
WHOLE = {node.parent.name: node for node in KAFKA_NODES if any(node.rglob("00000000000000000000.log"))}
"""A directory of each cluster with a log from its beginning, of which each offset can be shown."""


def tables(node: Path, offset: int) -> Tables:
    """Every table, its rows by their keys."""
    return {
        name: {
            tuple(row[key] for key in noun.identity): row
            for row in asked(f"SELECT * FROM {name}", node, "--as-of", offset)
        }
        for name, noun in NOUNS.items()
    }


def apply(found: Tables, rows: list[dict[str, Any]]) -> None:
    """Each row has to say truly what was there before."""
    for row in rows:
        table, key = found[row["table"]], tuple(row["key"].values())
        there = table.pop(key, None)
        assert row["before"] == {name: (there or {})[name] for name in row["before"]}, row
        assert (row["change"] == "created") == (there is None), row
        assert row["change"] != "changed" or row["before"].keys() == row["after"].keys() != set(), row
        if row["change"] != "deleted":
            table[key] = {**(there or {}), **row["key"], **row["after"]}


def test_from_the_first_tables_it_leads_to_the_second() -> None:
    node = WHOLE["combined-static"]
    end = run("image", "show", "--offline", node, "--json").document["asOfOffset"]
    found = tables(node, 0)
    for first, last in ((0, end // 3), (end // 3, end // 2), (end // 2, end)):
        shown = run("image", "diff", f"{first}..{last}", "--offline", node, "--json").document
        assert (first, last) == (shown["fromOffset"], shown["toOffset"])
        apply(found, shown["rows"])

        assert tables(node, last) == found


def test_a_row_says_what_has_become_of_it(tmp_path: Path) -> None:
    directory = write_log(tmp_path, a_history())
    topic = f"foo.bar {uuid_text(TOPIC_ID)}"
    ran = run("image", "diff", "5..", "--offline", directory)

    assert (0, "") == (ran.code, ran.err)
    lines = ran.out.splitlines()
    assert [f"created  topics {topic}", f"created  partitions {topic} 0"] == [lines[0], lines[1].partition(" (")[0]]
    assert "created  configs TOPIC foo.bar retention.ms (value=1000)" in lines
    assert "3 rows between offset 5 and offset 11" in lines


def test_times_are_taken_too_and_what_did_not_change_is_not_there(tmp_path: Path) -> None:
    directory = write_log(tmp_path, a_history())
    ran = run("image", "diff", "2023-11-14T22:13:20.008Z..2100-01-01", "--offline", directory, "--json")

    assert [("configs", {"value": "1000"})] == [(row["table"], row["after"]) for row in ran.document["rows"]]
    assert (9, END_OFFSET) == (ran.document["fromOffset"], ran.document["toOffset"])


@pytest.mark.parametrize(
    ("between", "code", "words"),
    [
        ("5", 2, "'5': a range is A..B or A.., of offsets or times"),
        ("5..3-01-01", 2, "A..B '3-01-01': an offset is a number"),
        ("..5", 2, "A..B '': an offset is a number"),
        ("8..5", 1, "8..5: the second offset is below the first"),
        ("5..99", 1, "99 lies beyond it"),
    ],
)
def test_a_range_that_cannot_be_is_refused(tmp_path: Path, between: str, code: int, words: str) -> None:
    ran = run("image", "diff", between, "--offline", write_log(tmp_path, a_history()))

    assert (code, "", True) == (ran.code, ran.out, words in ran.err)
