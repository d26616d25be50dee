"""A service's process has few of glibc's arenas, however many threads allocate at once."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from typing import Final

import pytest

from quorate.runtime.memory import ARENAS

THREADS: Final = 8
ALLOCATING: Final = f"""
import ctypes, sys, threading

if sys.argv[1] == "tuned":
    from quorate.runtime.memory import tune_memory
    tune_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier({THREADS})

def allocate():
    together.wait()
    for _ in range(100):
        libc.malloc(1_000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range({THREADS})]
for each in threads:
    each.start()
for each in threads:
    each.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc has no arenas")
def test_threads_share_two_arenas() -> None:
    """By glibc's own account of its heaps, malloc_info(3); without the setting each thread has one of its own."""
    assert _arenas("tuned") <= ARENAS
    assert _arenas("as it is") > ARENAS


def _arenas(how: str) -> int:
    told = subprocess.run([sys.executable, "-c", ALLOCATING, how], capture_output=True, text=True, check=True).stdout
    return len(re.findall("<heap nr=", told))
