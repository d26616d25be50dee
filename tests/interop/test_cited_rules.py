"""The rules that the tables of APIs cite are where they say: each class and method is in a Kafka release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

from deploy.kafka.release import jars
from tests.controller.tables.every import TABLES
from tests.interop.kafka.release import OPERATIONS_POM, absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent(OPERATIONS_POM) is not None, reason=absent(OPERATIONS_POM) or ""),
]

METHOD: Final = re.compile(r"\b([A-Z][A-Za-z0-9]+)\.([a-z][A-Za-z0-9]+)\b")
"""As `ReplicationControlManager.createPartitions`."""


def cited() -> set[tuple[str, str]]:
    """Class and method."""
    texts = [text for table in TABLES.values() for text in (table.kafka, *(row.rule for row in table.rows))]
    return {(found[1], found[2]) for text in texts for found in METHOD.finditer(text)}


@cache
def classes() -> dict[str, list[tuple[Path, str]]]:
    """Where a class of this name, and those within it, are: the jar, and the entry."""
    found: dict[str, list[tuple[Path, str]]] = {}
    for jar in sorted(jars(OPERATIONS_POM).glob("kafka*.jar")):
        with ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith(".class"):
                    name = entry.rpartition("/")[2].removesuffix(".class").partition("$")[0]
                    found.setdefault(name, []).append((jar, entry))
    return found


def bytecode(name: str) -> Iterator[bytes]:
    for jar, entry in classes().get(name, ()):
        with ZipFile(jar) as archive:
            yield archive.read(entry)


def test_rules_are_cited() -> None:
    assert len(cited()) > 30


@pytest.mark.parametrize(("class_name", "method"), sorted(cited()))
def test_a_released_kafka_has_it(class_name: str, method: str) -> None:
    """A class file holds the names of its methods as they are."""
    assert class_name in classes()
    assert any(method.encode() in each for each in bytecode(class_name))
