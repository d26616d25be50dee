"""Settings of the kernel that a kubelet changes for the whole machine: kept before, restored after."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

NAMES: Final = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def read() -> dict[str, str]:
    """What they are."""
    return {name: _file(name).read_text().strip() for name in NAMES if _file(name).exists()}


def restore(values: Mapping[str, str]) -> None:
    """Writes those that are different."""
    now = read()
    for name, value in values.items():
        if now.get(name) != value:
            _file(name).write_text(value)


def _file(name: str) -> Path:
    return Path("/proc/sys") / name
