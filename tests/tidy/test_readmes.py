"""A package with more than three modules has a README whose table names each of them, and a map in its docstring.

A README is short enough to be read at once: a subject that stands by itself has a page of its own.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("deploy", "libs", "protos", "services", "tests")
MODULES_MAX = 3
"""A package with so many modules needs no README: its docstring is enough."""

LINES_MAX = 120
LINES_MAX_OF = {
    "README.md": 212,  # it begins with three things to try, and shows what each prints
    "deploy/helm/quorate/README.md": 370,  # the values of the chart
    "tests/bench/README.md": 830,  # the figures
}
"""Of the only READMEs that may have more lines."""

READMES = sorted(
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *(p for top in TOPS for p in (ROOT / top).rglob("README.md"))]
)
PACKAGES = sorted(
    str(init.parent.relative_to(ROOT))
    for top in ("libs/quorate", "services")
    for init in (ROOT / top).rglob("__init__.py")
)


def modules_of(package: Path) -> set[str]:
    """Returns the names of the package's modules, without `__init__`."""
    return {path.stem for path in package.glob("*.py")} - {"__init__"}


def members_of(package: Path) -> set[str]:
    """Returns the names of the package's modules and subpackages."""
    return modules_of(package) | {init.parent.name for init in package.glob("*/__init__.py")}


def rows_of(text: str) -> set[str]:
    """Returns the names in backticks in the first columns of a README's tables, without `.py` and `/`.

    >>> sorted(rows_of("| module | idea |\\n|---|---|\\n| `a.py` `b` | see `c.py` |\\n| [`d/`](d/README.md) | |"))
    ['a', 'b', 'd']
    """
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return {name for cell in cells for name in re.findall(r"`(\w+)(?:\.py|/)?`", cell)}


def stale_rows_of(text: str, members: set[str]) -> set[str]:
    """Returns the rows that name a file or a folder which the package does not have."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return {name for cell in cells for name in re.findall(r"`(\w+)(?:\.py|/)`", cell)} - members


def faults_of(package: Path) -> list[str]:
    """Returns what is missing: a README, a row of its table, a row's file, a name in the docstring's map."""
    if len(modules_of(package)) <= MODULES_MAX:
        return []
    readme, members = package / "README.md", members_of(package)
    if not readme.exists():
        return ["no README.md"]
    text = readme.read_text()
    map_words = set(re.findall(r"\w+", ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""))
    return [
        *(f"README.md has no row for {name}" for name in sorted(members - rows_of(text))),
        *(f"README.md has a row for {name}, which is gone" for name in sorted(stale_rows_of(text, members))),
        *(f"__init__'s docstring does not name {name}" for name in sorted(members - map_words - {"__main__"})),
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_names_each_module(package: str) -> None:
    assert [] == faults_of(ROOT / package)


@pytest.mark.parametrize("readme", READMES)
def test_is_read_at_once(readme: str) -> None:
    assert len((ROOT / readme).read_text().splitlines()) <= LINES_MAX_OF.get(readme, LINES_MAX)


def test_finds_what_is_missing(tmp_path: Path) -> None:
    """A planted package: one module has no row, one row has no module, one module is not in the map."""
    for name in ("read", "write", "flush", "close"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/__init__.py").touch()
    (tmp_path / "__init__.py").write_text('"""Files.\n\nread, flush  this\nclose        that; disk\n"""\n')

    assert ["no README.md"] == faults_of(tmp_path)

    (tmp_path / "README.md").write_text(
        "# Files\n`write.py` is not in a row.\n\n| module | idea |\n|---|---|\n"
        "| `read.py` | reads, as `write.py` writes |\n| `flush.py` `close` | |\n| `disk/` | |\n| `open.py` | |\n"
    )

    assert [
        "README.md has no row for write",
        "README.md has a row for open, which is gone",
        "__init__'s docstring does not name write",
    ] == faults_of(tmp_path)
