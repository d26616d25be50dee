"""A process that is forked for a test is as one that was started plainly, and ends with its test's process."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.local.launching import ROOT, Child, Launch, launch_plainly
from tests.e2e.calls import WITHIN_S, eventually
from tests.forking.client import AT_IMPORT, FORKED, ForkServers

TOLD: Final = "tests.forking.told"
COMMAND: Final = (sys.executable, "-m", TOLD)
READS: Final = """
import importlib, os, sys
read = set()
class Recording(type(os.environ)):
    def __getitem__(self, name):
        read.add(name)
        return super().__getitem__(name)
    def __contains__(self, name):
        read.add(name)
        return super().__contains__(name)
    def __iter__(self):
        read.add("all of them")
        return super().__iter__()
os.environ.__class__ = Recording
for module in sys.argv[1:]:
    importlib.import_module(f"{module}.__main__")
print(*read, sep="\\n")
"""
"""Prints the environment's variables that are read while the services' modules are imported."""
ABANDONED: Final = f"""
import asyncio, os
from tests.e2e.calls import WITHIN_S, eventually
from tests.forking.client import ForkServers
async def main():
    child = await ForkServers(frozenset({{"{TOLD}"}})).launch({COMMAND!r}, environ=dict(os.environ), output=2)
    print(child.pid, flush=True)
    await child.wait()
asyncio.run(main())
"""
"""A test's process: starts one that waits, and says its pid."""


@pytest.fixture(scope="module", autouse=True)
def interruptible() -> Iterator[None]:
    """A shell starts what is to run in the background with SIGINT ignored, which all processes of it inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def servers() -> Iterator[ForkServers]:
    servers = ForkServers(frozenset({TOLD}))
    yield servers
    servers.close()


def environ(**more: str) -> dict[str, str]:
    """This process's, less what pytest changes from test to test."""
    return {name: value for name, value in {**os.environ, **more}.items() if name != "PYTEST_CURRENT_TEST"}


def content(output: Path) -> bytes:
    return output.read_bytes()


async def begun(launch: Launch, output: Path, *words: str) -> Child:
    """The program, once it has said how it was started."""
    with output.open("ab") as file:
        child = await launch((*COMMAND, *words), environ=environ(GIVEN="ü\udcff "), output=file.fileno())

    async def said() -> bytes:
        return content(output)

    await eventually(said, lambda said: b"other stream\n" in said)
    return child


def told(output: Path) -> tuple[Any, float, list[str]]:
    """How it was started, a number that it has drawn, and what it said after that."""
    first, *rest = output.read_text().splitlines()
    return (line := json.loads(first))["as started"], line["drawn"], rest


@pytest.mark.parametrize("words", [("exit", "0"), ("exit", "7"), ("raise",)], ids=" ".join)
async def test_a_forked_process_starts_and_ends_as_a_plain_one(
    words: tuple[str, ...], servers: ForkServers, tmp_path: Path
) -> None:
    forked = await begun(servers.launch, tmp_path / "forked", *words)
    plain = await begun(launch_plainly, tmp_path / "plain", *words)
    codes = [await each.wait() for each in (forked, plain)]
    (as_forked, one, said), (as_plain, other, expected) = told(tmp_path / "forked"), told(tmp_path / "plain")

    assert codes[0] == codes[1]
    assert [forked.returncode, plain.returncode] == codes
    assert as_forked == as_plain
    assert one != other
    assert (said[0], said[-1]) == (expected[0], expected[-1])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_a_signal_ends_a_forked_process_as_a_plain_one(
    number: signal.Signals, servers: ForkServers, tmp_path: Path
) -> None:
    forked = await begun(servers.launch, tmp_path / "forked", "wait")
    plain = await begun(launch_plainly, tmp_path / "plain", "wait")
    for each in (forked, plain):
        each.send_signal(number)
    codes = [await each.wait() for each in (forked, plain)]

    assert [-number, -number] == codes
    with pytest.raises(ProcessLookupError):  # asyncio's own raises it a little later
        forked.send_signal(number)


async def test_processes_of_one_server_draw_different_numbers_and_run_at_once(
    servers: ForkServers, tmp_path: Path
) -> None:
    children = [await begun(servers.launch, tmp_path / name, "wait") for name in ("one", "other")]
    parents = {tuple(parent(each)) for each in children}
    for each in children:
        each.send_signal(signal.SIGSTOP)
        each.kill()
        await each.wait()

    assert 1 == len(parents - {(os.getpid(),)}), parents
    assert told(tmp_path / "one")[1] != told(tmp_path / "other")[1]


@pytest.mark.parametrize(
    ("command", "more"),
    [(COMMAND, {"GRPC_VERBOSITY": "INFO"}), (("/usr/bin/env", *COMMAND), {}), ((sys.executable, "-m", "this"), {})],
    ids=["another environment at the imports", "by another program", "a module that is not forked"],
)
async def test_another_start_is_a_plain_one(
    command: tuple[str, ...], more: dict[str, str], servers: ForkServers
) -> None:
    child = await servers.launch(command, environ=environ(**more), output=subprocess.DEVNULL)
    parents = parent(child)
    if child.returncode is None:
        child.kill()
    await child.wait()

    assert [os.getpid()] == parents


def parent(child: Child) -> list[int]:
    """The parent's pid of a process; none once it has gone."""
    try:
        return [int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])]
    except FileNotFoundError:
        return []


@pytest.fixture
def abandoned() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A test's process, and the pidfd of one that is forked for it."""
    command = [sys.executable, "-c", ABANDONED]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        child = os.pidfd_open(int(worker.stdout.readline()))
        try:
            yield worker, child
        finally:
            worker.kill()
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            os.close(child)


def test_a_killed_test_leaves_no_process(abandoned: tuple[subprocess.Popen[str], int]) -> None:
    worker, child = abandoned
    before = select.select([child], [], [], 0)[0]
    worker.kill()

    assert [] == before
    assert [child] == select.select([child], [], [], WITHIN_S)[0]


def test_imports_read_no_other_variable() -> None:
    """A process whose variables differ from those of its server in these alone is started plainly."""
    command = [sys.executable, "-c", READS, *sorted(FORKED)]
    read = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")

    assert [] == [name for name in read if name and not name.startswith(AT_IMPORT)]
