"""What can be made wrong in a source file: cosmic-ray's operators that can matter here, and a statement left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cosmic_ray.plugins
import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator

OPERATORS: Final = re.compile(
    r"""core/(
        ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Is_IsNot|IsNot_Is)
        | ReplaceBinaryOperator_(Add_Sub|Sub_Add|FloorDiv_Mul|Div_Mul)
        | ReplaceUnaryOperator_Delete_(USub|Not)
        | AddNot | ReplaceTrueWithFalse | ReplaceFalseWithTrue | ReplaceAndWithOr | ReplaceOrWithAnd
        | ReplaceBreakWithContinue | ReplaceContinueWithBreak | ExceptionReplacer | NumberReplacer
        | ZeroIterationForLoop
    )""",
    re.VERBOSE,
)
"""One replacement of each kind. Left out: other arithmetic in place of arithmetic, which every test of the line sees;
`|`, which stands in annotations only; `*`, which it also finds in signatures; decorators, without which most modules
cannot be imported."""
LEFT_OUT: Final = "a statement left out"
QUIET: Final = re.compile(r"\s*(log\.|assert\b|raise AssertionError|\w+: Final = [\d. *<_]+$)")
"""Lines that only write to the log, that our own code cannot break, or that set a span or a size."""


class RemoveStatement(Operator):  # type: ignore[misc]  # cosmic-ray has no types
    """Replaces a call, awaited or not, that stands by itself, and an assignment to an attribute, by `pass`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        if _stands_alone(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        return parso.python.tree.Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        return ()


@dataclass(frozen=True, order=True)
class Mutation:
    """One change to one file."""

    file: str
    line: int
    operator: str
    occurrence: int

    def applied(self, source: str) -> str:
        """The file with the change in it."""
        return str(mutate_code(source, _operator(self.operator), self.occurrence))


def mutations(root: Path, files: Sequence[str]) -> list[Mutation]:
    """All of them, in order."""
    names = [name for name in cosmic_ray.plugins.operator_names() if OPERATORS.fullmatch(name)]
    return sorted(each for file in files for each in _of(file, (root / file).read_text(), [*names, LEFT_OUT]))


def _of(file: str, source: str, names: Sequence[str]) -> Iterator[Mutation]:
    nodes = list(ast_nodes(get_ast(source)))
    lines = source.splitlines()
    for name in names:
        operator = _operator(name)
        places = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, _) in enumerate(places):
            if not QUIET.match(lines[line - 1]):
                yield Mutation(file, line, name, occurrence)


def _operator(name: str) -> Any:
    return RemoveStatement() if name == LEFT_OUT else cosmic_ray.plugins.get_operator(name)()


def _stands_alone(node: Any) -> bool:
    if node.parent is None or node.parent.type != "simple_stmt" or node.parent.children[0] is not node:
        return False
    if node.type == "expr_stmt":
        target = node.children[0]
        return target.type == "atom_expr" and node.children[1].type != "annassign"
    return node.type in ("atom_expr", "await")
