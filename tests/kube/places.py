"""Where things are: what is built once and kept, what one cluster leaves while it is up, and which versions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = Path(os.environ.get("QUORATE_KUBE_CACHE", ROOT / "build" / "kube")).resolve()
"""Programs, bases and layers of images; other checkouts may use the same."""
PROGRAMS: Final = CACHE / "bin"
STATE: Final = ROOT / "build" / "kube-cluster"
"""The files of the one cluster that this checkout has up; `down` removes them."""

KUBERNETES: Final = "1.33.0"
HELM: Final = "3.19.5"
COREDNS: Final = "1.14.7"


def say(text: str) -> None:
    """A line of progress."""
    print(f"kube: {text}", flush=True)
