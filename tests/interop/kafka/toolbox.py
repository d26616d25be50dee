"""Kafka's command-line tools of one release in one JVM."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from deploy.kafka.node import ToolFailed
from deploy.kafka.release import POM
from tests.interop.kafka.jvm import AnsweringJvm
from tests.interop.kafka.release import java

PROGRAM: Final = Path(__file__).with_name("Tools.java")


class Toolbox(AnsweringJvm):
    """The tools of the release that `pom` names; one call after the other."""

    def __init__(self, pom: Path = POM) -> None:
        super().__init__(java("Tools", source=PROGRAM, pom=pom))
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
