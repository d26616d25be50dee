"""What the tests of the tree ask of a Python file, from one parse and one walk: those take most of their time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

OF_NAMED_TUPLES: Final = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""Public in spite of the underscore, and ours have fields of such names."""
COMMENT: Final = re.compile(r"(?:^\s*|  )# (.*)")


@dataclass(frozen=True, slots=True)
class Read:
    """One file."""

    docstring: str | None
    functions: tuple[tuple[str, int], ...]
    """(name, lines of the body)"""
    bare: tuple[str, ...]
    """Public functions and classes of the module without a docstring."""
    defined: frozenset[str]
    """Functions, classes, and what is set on `self`."""
    private: tuple[tuple[int, str], ...]
    """(line, name) of each private name that is used of another object than `self`, or replaced by `setattr`."""
    imported: tuple[str, ...]
    texts: tuple[tuple[int, str], ...]
    """(line, text) of what is in quotation marks, without docstrings; of an f-string its parts between values."""
    prose: tuple[str, ...]
    """Docstrings, and comments, of which those of successive lines are one."""


@cache
def read(path: Path) -> Read:
    """Raises SyntaxError."""
    source = path.read_text()
    tree = ast.parse(source)
    functions, defined, private, imported = [], set(), [], []
    texts: list[tuple[int, str]] = []
    docs: dict[ast.Constant, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as doc):
                docs[doc] = str(doc.value)
            case ast.Constant(value=str(text)) if node not in docs:  # the walk comes to statements before their parts
                texts.append((node.lineno, text))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions.append((node.name, (node.end_lineno or 0) - node.body[0].lineno + 1))
                defined.add(node.name)
            case ast.ClassDef():
                defined.add(node.name)
            case ast.Attribute(value=ast.Name(id="self" | "cls" as owner)):
                if owner == "self" and isinstance(node.ctx, ast.Store):
                    defined.add(node.attr)
            case (
                ast.Attribute(attr=name)
                | ast.Call(func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(value=str(name)), *_])
            ) if is_private(name):
                private.append((node.lineno, name))
            case ast.Import():
                imported += [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                imported += [f"{module}.{alias.name}" for alias in node.names]
    return Read(
        docstring=ast.get_docstring(tree),
        functions=tuple(functions),
        bare=tuple(_bare(tree)),
        defined=frozenset(defined),
        private=tuple(private),
        imported=tuple(imported),
        texts=tuple(texts),
        prose=(*docs.values(), *_comments(source)),
    )


def _comments(source: str) -> Iterator[str]:
    """Yields the comments. A `#` within a text counts as one, too, if it stands as one."""
    parts: list[str] = []
    for line in source.splitlines():
        found = COMMENT.search(line)
        if parts and (found is None or line[: found.start()].strip()):
            yield " ".join(parts)
            parts = []
        if found is not None:
            parts.append(found[1])
    if parts:
        yield " ".join(parts)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in OF_NAMED_TUPLES


def _bare(tree: ast.Module) -> list[str]:
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
