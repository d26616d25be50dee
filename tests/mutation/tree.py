"""A copy of a working tree, in which something may be broken: the tree itself is never touched."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.forking.client import ForkServers
from tests.outcomes import ENVIRONMENT, ONCE

ROOT: Final = Path(__file__).resolve().parents[2]
GENERATED: Final = "libs/kraft"
"""Not in git, and needed by every test."""
TIMED_OUT: Final = -1
"""In place of an exit code."""


@dataclass(frozen=True)
class Tree:
    """The copy; `directory` is its root, and `runs` has the process from which runs of pytest in it are forked."""

    directory: Path
    runs: ForkServers

    def python(self, *arguments: str, timeout_s: float) -> int:
        """Run Python in the copy, on the copy's own packages; the answer is the exit code, or `TIMED_OUT`."""
        return self.told(*arguments, timeout_s=timeout_s)[0]

    def told(self, *arguments: str, timeout_s: float) -> tuple[int, str]:
        """The same, with what it printed."""
        # A session of its own: what a test has started ends with it when it takes too long.
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.directory,
            env=environment(self.directory),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            output, _ = child.communicate()
            return TIMED_OUT, output
        return child.returncode, output

    def pytest(self, arguments: Sequence[str], *, timeout_s: float) -> int:
        """The exit code of pytest: 0 if all passed, 1 if one failed; or `TIMED_OUT`."""
        with Path(os.devnull).open("wb") as nowhere:
            return asyncio.run(self._forked(arguments, timeout_s, output=nowhere.fileno()))

    async def _forked(self, arguments: Sequence[str], timeout_s: float, *, output: int) -> int:
        """A process of its own, forked from one that has imported what no bug is in: of five bugs 40 % of the CPU."""
        environ = environment(self.directory)
        run = await self.runs.fork(BEGUN, [*OPTIONS, *arguments], environ=environ, output=output, errors=output)
        try:
            return await asyncio.wait_for(run.wait(), timeout_s)
        except TimeoutError:
            os.killpg(run.pid, 9)  # it has a session of its own, too
            await run.wait()
            return TIMED_OUT

    @contextmanager
    def edited(self, file: str, text: str) -> Iterator[None]:
        """`file` holds `text` for as long as the context does."""
        path = self.directory / file
        before = path.read_text()
        path.write_text(text)
        try:
            yield
        finally:
            path.write_text(before)


OPTIONS: Final = ("-x", "-p", "no:cacheprovider", "--override-ini=addopts=--import-mode=importlib -q")
PYTEST: Final = ("-m", "pytest", *OPTIONS)
BEGUN: Final = "tests.mutation.begun"


@contextmanager
def copied(root: Path = ROOT) -> Iterator[Tree]:
    """A copy of all that git knows or would take in `root`, with its bytecode, and of what is generated."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout
    with TemporaryDirectory(prefix="quorate-mutation-") as temporary:
        directory = Path(temporary)
        for name in filter(None, names.split("\0")):
            for file in (root / name, *bytecode(root / name)):
                if file.is_file():
                    copy = directory / file.relative_to(root)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(file, copy)  # bytecode is of the source with the same time
        shutil.copytree(root / GENERATED, directory / GENERATED, dirs_exist_ok=True)
        runs = ForkServers(frozenset({BEGUN}), root=directory, environ=environment(directory))
        try:
            yield Tree(directory, runs)
        finally:
            runs.close()


def environment(directory: Path) -> dict[str, str]:
    """The variables of a process in a copy."""
    # What becomes of a test in a broken copy is no outcome of this run.
    inherited = {name: value for name, value in os.environ.items() if name not in (ENVIRONMENT, ONCE)}
    paths = [str(directory / "libs"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    # Python knows bytecode by the second and the size of its source, which a bug and its mend may share.
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def bytecode(source: Path) -> Iterator[Path]:
    """What Python and pytest, which makes its own of tests, have kept of a module; any other file has nothing there."""
    if source.suffix == ".py":
        yield from (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc")
