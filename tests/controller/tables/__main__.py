"""`python -m tests.controller.tables [create_topics …]`: the tables as Markdown, of all commands or of these."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from kraft import Message
from quorate.errors import ErrorCode
from quorate.nouns import uuid_text
from tests.controller.tables.every import TABLES
from tests.controller.tables.table import Row, Table

COLUMNS = ("case", "given", "request", "records", "answer", "Kafka's rule")


def main(names: list[str]) -> int:
    """Print them. The exit code is 2 for a name that is no command."""
    unknown = sorted(set(names) - set(TABLES))
    if unknown:
        sys.stderr.write(f"no such table: {', '.join(unknown)}; there are {', '.join(TABLES)}\n")
        return 2
    for name in names or TABLES:
        print(_markdown(TABLES[name]))
    return 0


def _markdown(table: Table) -> str:
    lines = [f"## {table.api}", "", f"Kafka: {table.kafka}", "", _line(COLUMNS), _line("-" * len(COLUMNS))]
    return "\n".join([*lines, *(_line(_cells(table, row)) for row in table.rows), ""])


def _cells(table: Table, row: Row) -> tuple[str, ...]:
    given = (row.given or table.given).__doc__ or ""
    beside = "".join(f"; {name}: {_brief(value)}" for name, value in row.beside.items())
    records = "; ".join(map(_brief, row.records))
    return row.case, given, _brief(row.request) + beside, records or "none", _brief(row.answer), row.rule


def _line(cells: Any) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _brief(value: Any) -> str:
    """What differs from the defaults, for people."""
    match value:
        case ErrorCode():
            return value.name
        case Message():
            return f"{type(value).__name__}({', '.join(_fields(value))})"
        case tuple() | list():
            return f"[{', '.join(map(_brief, value))}]"
        case bytes() if len(value) == 16:
            return uuid_text(value)
        case _:
            return str(value)


def _fields(message: Message) -> list[str]:
    found = []
    for field in msgspec.structs.fields(message):
        value = getattr(message, field.name)
        if field.default is msgspec.NODEFAULT or value != field.default:
            shown = ErrorCode(value) if field.name == "error_code" else value
            found.append(f"{field.name}={_brief(shown)}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
