"""A state's tables are filled column by column as queries come, and each answer is that of a database of its own."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.sql.database import Database
from quorate.sql.nouns import Image
from tests.cli.test_sql import a_cluster

QUESTIONS = (
    "SELECT count(*) FROM partitions",
    "SELECT rowid FROM partitions",
    "SELECT topic_id FROM partitions",
    "SELECT topic FROM partitions",
    "SELECT replicas, partition_id FROM partitions WHERE leader >= 0",
    "SELECT * FROM under_min_isr",
    "SELECT topic FROM partitions",
    "SELECT name FROM configs",
    "SELECT table_name FROM columns",
    "SELECT * FROM partitions",
)


def answer(database: Database, query: str) -> list[tuple[Any, ...]]:
    return list(database.ask(query).rows)


@pytest.mark.parametrize("questions", [QUESTIONS, QUESTIONS[::-1]], ids=["few columns first", "all columns first"])
def test_what_was_asked_before_changes_no_answer(questions: tuple[str, ...]) -> None:
    image = Image(state=a_cluster(seed=3))
    kept = Database(image, now_s=lambda: 0.0)

    for query in questions:
        found = answer(kept, query)

        assert found == answer(Database(image, now_s=lambda: 0.0), query), query
        assert found, query
