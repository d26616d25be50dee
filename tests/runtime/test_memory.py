"""A service's process has few of glibc's arenas, however many threads allocate at once, and gives back what is free."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from typing import Final

import pytest

from quorate.runtime.event_loop.memory import ARENAS, LOOKS

THREADS: Final = 8
ALLOCATING: Final = f"""
import ctypes, sys, threading

if sys.argv[1] == "tuned":
    from quorate.runtime.event_loop.memory import tune_memory
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

FREED: Final = """
import ctypes, resource

from quorate.runtime.event_loop.memory import LOOKS, FreeMemory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
free = FreeMemory()
made = [libc.malloc(100_000) for _ in range(1_000)]
for each in made:
    ctypes.memset(ctypes.c_void_p(each), 1, 100_000)

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

before = resident()
looks = [free.look()]  # all is in use
for each in made[:-1]:  # the last one stays, and with it what was freed before it
    libc.free(ctypes.c_void_p(each))
looks += [free.look() for _ in range(LOOKS)]
print(free.is_kept, (before - resident()) >> 20, *looks)
"""
FREED_MIB: Final = 90


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc has no arenas")
def test_threads_share_two_arenas() -> None:
    """By glibc's own account of its heaps, malloc_info(3); without the setting each thread has one of its own."""
    assert _arenas("tuned") <= ARENAS
    assert _arenas("as it is") > ARENAS


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library gives back by itself")
def test_what_was_freed_between_what_is_in_use_goes_back_to_the_system() -> None:
    """Also what was still in use when the process was first seen to have grown; later looks cost nothing."""
    told = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True).stdout.split()

    assert ["True"] * LOOKS + ["False"] == told[2:]
    assert int(told[1]) >= FREED_MIB


def _arenas(how: str) -> int:
    told = subprocess.run([sys.executable, "-c", ALLOCATING, how], capture_output=True, text=True, check=True).stdout
    return len(re.findall("<heap nr=", told))
