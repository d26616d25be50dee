"""The examples in docstrings hold."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.tidy.reading import read
from tests.tidy.test_shape import CODE, ROOT, named

OF_SPARK = ("deploy/", "libs/quorate/pipeline/", "services/pipeline/")
"""Their modules import Spark and PyArrow, which the tests of the tree do without (`tests/pipeline/test_report.py`)."""


def module_of(path: Path) -> str:
    """Returns the name under which a file is imported.

    >>> module_of(ROOT / "libs/quorate/raft/__init__.py"), module_of(ROOT / "services/broker/reads.py")
    ('quorate.raft', 'services.broker.reads')
    """
    relative = path.relative_to(ROOT / "libs" if path.is_relative_to(ROOT / "libs") else ROOT)
    return ".".join(relative.with_suffix("").parts).removesuffix(".__init__")


def has_examples(path: Path) -> bool:
    return not named(path).startswith(OF_SPARK) and any(">>> " in text for text in read(path).prose)


@pytest.mark.parametrize("path", [path for path in CODE if has_examples(path)], ids=named)
def test_each_example_holds(path: Path) -> None:
    result = doctest.testmod(importlib.import_module(module_of(path)), optionflags=doctest.ELLIPSIS)

    assert result.attempted
    assert 0 == result.failed
