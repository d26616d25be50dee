"""`quorate --version`: the version, and the levels of each feature that it knows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from quorate.metadata.features import supported_features
from quorate.metadata.versions import LATEST, METADATA_VERSION, OLDEST, RELEASES

__all__ = ["version_lines"]


def version_lines() -> Iterator[str]:
    """Yields the version, the metadata.version levels with their releases, and the levels of the other features."""
    yield f"quorate {version('quorate')}"
    yield f"{METADATA_VERSION}  {OLDEST} to {LATEST} ({RELEASES[OLDEST]} to {RELEASES[LATEST]})"
    others = supported_features()
    del others[METADATA_VERSION]
    width = max(map(len, others))
    for name, (lowest, highest) in sorted(others.items()):
        yield f"{name:<{width}}  {lowest} to {highest}"
