"""Kafka's command-line tools of one release in one JVM, which stays: a JVM takes seconds to start."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Final, Self

from deploy.kafka.node import ToolFailed
from deploy.kafka.release import POM
from tests.interop.kafka.release import java

PROGRAM: Final = Path(__file__).with_name("Tools.java")
STOP_TIMEOUT_S: Final = 60


class Toolbox:
    """The tools of the release that `pom` names; one call after the other."""

    def __init__(self, pom: Path = POM) -> None:
        self._command = java("Tools", source=PROGRAM, pom=pom)
        self._process: subprocess.Popen[str] | None = None
        self._calls = asyncio.Lock()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

    async def run(self, main: str, *arguments: object) -> str:
        """What the tool prints. Raises ToolFailed with all that it said."""
        async with self._calls:
            status, out, error = await asyncio.to_thread(self._answer, [main, *map(str, arguments)])
        if status:
            raise ToolFailed(f"{main} {' '.join(map(str, arguments))}: exit {status}\n{out}{error}")
        return out

    def _answer(self, line: list[str]) -> tuple[int, str, str]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the JVM ended at {line}"
        read = json.loads(answer)
        return read["status"], read["out"], read["error"]
