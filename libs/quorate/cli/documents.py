"""How a command answers a program: JSON or YAML, the same documents in both."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Final

from quorate.doubles import dumps

__all__ = [
    "Output",
    "TableOutput",
    "asked_document",
    "document_text",
    "is_document",
    "print_document",
    "print_lines",
]


class Output(StrEnum):
    """How a command prints what it has found."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


class TableOutput(StrEnum):
    """How rows are printed."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    ARROW = "arrow"


DOCUMENTS: Final = (Output.JSON, Output.YAML)
OPTION: Final = re.compile(r"(?:--output|-o)(?:=?(.+))?")
WIDTH: Final = (1 << 31) - 1
"""Columns of a line of YAML: the most that libyaml can take, as no text is broken over lines."""
PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]+")
"""A text that stays without quotes if PyYAML, too, takes it for one: it begins as no number of any YAML does, such as
1e3, which is one for YAML 1.2 alone; nor is it `y`, which is one for YAML 1.1 alone."""


def is_document(output: str) -> bool:
    """Returns whether an output is JSON or YAML."""
    return output in DOCUMENTS


def asked_document(arguments: Sequence[str]) -> str | None:
    """Returns the form of documents that a command line asks for, by the last option that has one; None for none.

    >>> asked_document(["topics", "-o", "yaml"]), asked_document(["topics", "--json"]), asked_document(["topics"])
    ('yaml', 'json', None)
    """
    asked = None
    for each, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if each == "--json":
            asked = str(Output.JSON)
        elif found := OPTION.fullmatch(each):
            asked = found[1] or following
    return asked if asked in DOCUMENTS else None


def document_text(document: Any, output: str, *, ensure_ascii: bool = True) -> str:  # Any: JSON values
    """Returns a document as a line of JSON, or as one of a stream of YAML; without the end of its last line."""
    text = dumps(document, ensure_ascii=ensure_ascii)
    if output == Output.JSON:
        return text
    import yaml

    # From JSON's own text, so that both have the same values, doubles above all.
    return str(
        yaml.dump(
            json.loads(text),
            Dumper=_dumper(),
            explicit_start=True,
            sort_keys=False,
            allow_unicode=not ensure_ascii,
            width=WIDTH,
        )
    ).removesuffix("\n")


def print_document(document: Any, output: str, *, ensure_ascii: bool = True) -> None:  # Any: JSON values
    """Prints a document: a line of JSON, or one of a stream of YAML."""
    sys.stdout.write(document_text(document, output, ensure_ascii=ensure_ascii) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Writes each line of a text for people to stdout as soon as it is made; stdout itself may still buffer it.

    Nothing is flushed. `lines` are without their line ends.
    """
    for line in lines:
        sys.stdout.write(line + "\n")


@cache
def _dumper() -> Any:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # libyaml's is not everywhere
        """Writes what JSON has, with quotes around each text that some reader takes for anything else."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: Any, data: str) -> Any:
        style = None if PLAIN.fullmatch(data) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    return Dumper
