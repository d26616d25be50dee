"""All tables, by the name of the command."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from tests.controller.tables.table import Table

__all__ = ["TABLES"]

_FRAME: Final = {"__main__", "every", "table", "test_tables"}

TABLES: Final[dict[str, Table]] = {
    path.stem: import_module(f"tests.controller.tables.{path.stem}").TABLE
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if path.stem not in _FRAME
}
