"""A JVM that stays and answers a line of JSON with a line of JSON: starting one takes seconds."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any, Final, Self

STOP_TIMEOUT_S: Final = 60


class AnsweringJvm:
    """The process of a command, from the beginning of the `with` block to its end."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

    def ask(self, question: object) -> dict[str, Any]:
        """Its answer; it blocks until that is there. Raises AssertionError if the JVM has ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the JVM ended at {question}"
        read: dict[str, Any] = json.loads(answer)
        return read
