"""Every command decides as its table says; and there is a table for every command, with every error that it knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.controller import commands
from quorate.errors import ApiError, ErrorCode
from tests.controller.tables.every import TABLES
from tests.controller.tables.table import Row, Table, codes, decided, without_words

COMMANDS: Final = {path.stem: path for path in Path(commands.__path__[0]).glob("*.py") if path.stem != "__init__"}
ROWS: Final = [
    pytest.param(table, row, id=f"{table.api}-{row.case}") for table in TABLES.values() for row in table.rows
]
CITED: Final = re.compile(r"KIP-\d+|KAFKA-\d+|RFC \d+|[A-Z][A-Za-z]+\.[a-z]\w+|\b[A-Z][a-z]+[A-Z]\w+")
"""A KIP, an issue, an RFC, or a class of Kafka's."""


def test_every_command_has_a_table() -> None:
    assert sorted(COMMANDS) == sorted(TABLES)


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_a_row(table: Table, row: Row) -> None:
    """The records, the answer, the errors are these; each error has words; and the records apply to that state."""
    cluster = table.cluster(row)
    found = decided(table, row, cluster)
    if isinstance(found, ApiError):
        assert row.answer == found.code, found
        assert found.message
        assert () == row.records
        return

    assert row.records == found.records
    assert row.answer == without_words(found.response)
    silent = [code for code, words in codes(found.response) if code is not ErrorCode.NONE and not words]
    assert [] == silent
    cluster.apply(found.records)


@pytest.mark.parametrize("name", TABLES)
def test_every_error_that_the_command_names_is_in_its_table(name: str) -> None:
    named = {
        node.attr
        for node in ast.walk(ast.parse(COMMANDS[name].read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ErrorCode"
    }

    assert named - {"NONE"} <= {code.name for row in TABLES[name].rows for code in _codes(row.answer)}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_rule_can_be_looked_up(table: Table) -> None:
    assert [] == [row.case for row in table.rows if not CITED.search(row.rule)]
    assert CITED.search(table.kafka)
    assert len({row.case for row in table.rows}) == len(table.rows)
    assert all((row.given or table.given).__doc__ for row in table.rows)


def _codes(answer: Any) -> set[ErrorCode]:
    return {answer} if isinstance(answer, ErrorCode) else {code for code, _ in codes(answer)}
