"""What tests/README.md asks of tests: no mock of our own code, and no private attribute but where it says why."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.reading import is_private, read

ROOT = Path(__file__).resolve().parents[2]
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "__pycache__" not in path.parts)
OURS = sorted(path for folder in ("libs/quorate", "services", "deploy") for path in (ROOT / folder).rglob("*.py"))

MAY_REACH_INSIDE: Final = {
    "tests/sim*/mutants*": "a planted bug is put in place of what is right",
    "tests/exhaustive/node.py": "two states are the same only if nothing in them differs",
    "tests/raft/test_failover.py": "a rule is shown by what happens without it",
}
MAY_MOCK: Final = {"tests/storage/virtual_disk.py": "functions of `os`, which are not ours"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def private_names() -> frozenset[str]:
    """What our code keeps to itself: functions, classes, and what is set on `self`."""
    return frozenset(name for path in OURS for name in read(path).defined if is_private(name))


def reached(path: Path) -> list[str]:
    """The private names of ours that a test file uses of another object, or replaces."""
    known = private_names() - read(path).defined
    return [f"{line}: {name}" for line, name in read(path).private if name in known]


@pytest.mark.parametrize("path", TESTS, ids=named)
def test_a_test_looks_at_what_anybody_may_see(path: Path) -> None:
    if not any(fnmatchcase(named(path), pattern) for pattern in MAY_REACH_INSIDE):
        assert [] == reached(path)


@pytest.mark.parametrize("path", TESTS, ids=named)
def test_a_test_mocks_nothing_of_ours(path: Path) -> None:
    if named(path) not in MAY_MOCK:
        assert [] == [name for name in read(path).imported if name.startswith("unittest.mock")]


@pytest.mark.parametrize("pattern", MAY_REACH_INSIDE)
def test_an_exception_is_still_needed(pattern: str) -> None:
    assert any(reached(path) for path in TESTS if fnmatchcase(named(path), pattern))
