"""The README's table is the protocol's, and the examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import quorate.raft
from quorate.raft import matrix

README = Path(quorate.raft.__file__).parent / "README.md"
MODULES = sorted(path.stem for path in README.parent.glob("*.py") if path.stem != "__init__")


def test_the_readme_shows_the_matrix() -> None:
    text = README.read_text(encoding="utf-8")

    assert matrix.as_markdown() in text, f"the table is now:\n{matrix.as_markdown()}"
    assert len(text.splitlines()) <= 150


@pytest.mark.parametrize("name", ["quorate.epochs", "quorate.raft", *(f"quorate.raft.{name}" for name in MODULES)])
def test_examples_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert 0 == result.failed
