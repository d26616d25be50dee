"""The README's table is the protocol's."""

from __future__ import annotations

from pathlib import Path

import quorate.raft
from quorate.raft import matrix

README = Path(quorate.raft.__file__).parent / "README.md"


def test_the_readme_shows_the_matrix() -> None:
    assert matrix.as_markdown() in README.read_text(encoding="utf-8"), f"the table is now:\n{matrix.as_markdown()}"
