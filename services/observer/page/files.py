"""The files of the page, from the folder `static`: read once, at the start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["File", "page_files"]

FOLDER: Final = Path(__file__).parent / "static"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX: Final = "index.html"


class File(NamedTuple):
    """A file and its type."""

    content: bytes
    content_type: str


def page_files() -> Mapping[str, File]:
    """Returns the files by the path at which they are asked for; `index.html` is at /."""
    found = {f"/{path.name}": File(path.read_bytes(), TYPES[path.suffix]) for path in sorted(FOLDER.iterdir())}
    return {**found, "/": found[f"/{INDEX}"]}
