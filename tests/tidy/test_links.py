"""A link of a Markdown file leads to a file of the tree, and to a heading that this file has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    [
        *ROOT.glob("*.md"),
        *(path for top in ("deploy", "libs", "protos", "services", "tests") for path in (ROOT / top).rglob("*.md")),
    ]
)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """Returns the anchors that GitHub gives the headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(path: Path) -> list[str]:
    """Returns the links of the file that lead nowhere; those to other hosts are not looked at."""
    found = []
    for link in LINK.findall(CODE.sub("", path.read_text())):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            found.append(link)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_link_leads_somewhere(path: Path) -> None:
    assert [] == broken(path)


def test_finds_what_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One\n## The other, too\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n[a](other.md#the-other-too) [b](#page) [c](https://example.org/x) `[d](e.md)`\n"
        "[f](gone.md) [g](other.md#gone) [h](#gone)\n"
    )

    assert ["gone.md", "other.md#gone", "#gone"] == broken(page)
