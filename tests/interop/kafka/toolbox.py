"""Kafka's command-line tools of one release in one JVM, and those of all releases for a whole run of tests."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from deploy.kafka.node import ToolFailed, ToolRan, run_apart
from deploy.kafka.release import POM, QUICK
from tests.interop.kafka.jvm import AnsweringJvm
from tests.interop.kafka.release import java

PROGRAM: Final = Path(__file__).with_name("Tools.java")


class Toolbox(AnsweringJvm):
    """The tools of the release that `pom` names, in a JVM with these options; one call after the other."""

    def __init__(self, pom: Path = POM, *, options: Sequence[str] = QUICK) -> None:
        super().__init__(java("Tools", source=PROGRAM, pom=pom, options=options))
        self._calls = asyncio.Lock()

    async def run(self, main: str, *arguments: object) -> str:
        """What the tool prints. Raises ToolFailed with all that it said."""
        async with self._calls:
            said = await asyncio.to_thread(self.ask, [main, *map(str, arguments)])
        if said["status"]:
            command = f"{main} {' '.join(map(str, arguments))}"
            raise ToolFailed(f"{command}: exit {said['status']}\n{said['out']}{said['error']}")
        out: str = said["out"]
        return out


class KeptTools:
    """A toolbox of each release that is asked for, kept until `close`.

    A tool takes 0.6 to 2 s of CPU in a JVM of its own, 0.05 s in one that has done it before.
    """

    def __init__(self) -> None:
        self._toolboxes: dict[Path, Toolbox] = {}
        self._locks: defaultdict[Path, Lock] = defaultdict(Lock)

    def run(self, main: str, arguments: Sequence[str], *, pom: Path, timeout_s: float, stdin: str | None) -> ToolRan:
        """A way to run a tool; one that reads standard input has a JVM of its own."""
        if stdin is not None:
            return run_apart(main, arguments, pom=pom, timeout_s=timeout_s, stdin=stdin)
        with self._locks[pom]:
            if pom not in self._toolboxes:
                self._toolboxes[pom] = Toolbox(pom).__enter__()
            said = self._toolboxes[pom].ask([main, *arguments])
        return ToolRan(said["status"], said["out"], said["error"])

    def close(self) -> None:
        """Ends the JVMs."""
        for toolbox in self._toolboxes.values():
            toolbox.__exit__()
        self._toolboxes.clear()
