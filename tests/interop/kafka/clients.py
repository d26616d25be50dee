"""Kafka's own clients in one JVM, each with its own properties: what a cluster lets them do, and how it slows them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from tests.interop.kafka.release import java

PROGRAM: Final = Path(__file__).with_name("Clients.java")
STOP_TIMEOUT_S: Final = 60


class Clients:
    """One client after the other; `Clients.java` says what they can be asked for."""

    def __init__(self) -> None:
        self._command = java("Clients", level="off", source=PROGRAM)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

    async def answer(self, what: str, client: Mapping[str, str], **fields: object) -> dict[str, Any]:
        """What comes of it: an `error` is the name of the exception that the client's user gets."""
        line = json.dumps({"do": what, "client": client, **fields})
        return await asyncio.to_thread(self._answer, line)

    def _answer(self, line: str) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the JVM ended at {line}"
        read: dict[str, Any] = json.loads(answer)
        return read
