"""A bug that is planted in the glue of the services, or in the wire protocol, is found, by the test that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.mutation.planted import TIMEOUT_S, Planted, verdicts
from tests.mutation.tables import ALL
from tests.mutation.tree import ROOT, Tree, copied


@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.number)
def test_the_table_fits_the_tree(bug: Planted) -> None:
    """The right text stands there once, the wrong one can be parsed, and the test exists."""
    file, _, function = bug.test.partition("::")

    compile(bug.text(), bug.file, "exec")
    assert re.search(rf"^(async )?def {function}\(", (ROOT / file).read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def tree() -> Iterator[Tree]:
    with copied() as tree:
        yield tree


@pytest.mark.mutants
def test_without_a_bug_a_run_in_the_copy_passes(tree: Tree) -> None:
    assert 0 == tree.pytest(["tests/wire/test_shared.py", "tests/network/test_network.py"], timeout_s=TIMEOUT_S)


@pytest.mark.mutants
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.number)
def test_a_planted_bug_is_found(bug: Planted, tree: Tree) -> None:
    (verdict,) = verdicts(tree, [bug])

    assert verdict.kills, str(verdict)
