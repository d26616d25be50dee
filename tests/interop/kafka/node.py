"""A node of a released Kafka as a child process: formatted, started, stopped, killed.

Everything listens on loopback, on ports that were free a moment ago; only processes of our own are ended.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from tests.interop.kafka.release import POM, java

READY_TIMEOUT_S: Final = 300
STOP_TIMEOUT_S: Final = 300
TOOL_TIMEOUT_S: Final = 300
LOOK_EVERY_S: Final = 0.05

STARTED: Final = "Kafka Server started"
"""What a node says when it serves: a broker after it was unfenced."""

Properties = Mapping[str, object]


def tool(main: str, *arguments: object, timeout_s: float = TOOL_TIMEOUT_S, pom: Path = POM) -> str:
    """What a command-line tool of the release prints. Raises ToolFailed with all that it said."""
    command = java(main, *arguments, pom=pom)
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s)
    if ran.returncode != 0:
        raise ToolFailed(f"{main} {' '.join(map(str, arguments))}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class ToolFailed(Exception):
    """A tool of the release ended with an error."""


class Node:
    """One server. `directory` holds its properties, what it says (`server.out`) and nothing else of ours.

    `pom` names the release.
    """

    def __init__(self, directory: Path, properties: Properties, *, pom: Path = POM) -> None:
        self.directory = directory
        self._pom = pom
        self.properties = dict(properties)
        self.says = directory / "server.out"
        self._config = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._config.write_text("".join(f"{name}={value}\n" for name, value in self.properties.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def format(self, cluster_id: str, *arguments: object) -> str:
        """Write the meta.properties (and the first checkpoint) of every directory of this node."""
        how = ("format", "-t", cluster_id, "-c", self._config, *arguments)
        return tool("kafka.tools.StorageTool", *how, pom=self._pom)

    def start(self) -> Self:
        """Begin to run; `wait_ready` says when it serves."""
        assert not self.is_running, self.directory
        with self.says.open("wb") as out:
            command = java("kafka.Kafka", self._config, level="info", pom=self._pom)
            self._process = subprocess.Popen(command, cwd=self.directory, stdout=out, stderr=subprocess.STDOUT)
        return self

    def wait_ready(self) -> Self:
        """Until the node says that it serves, and its listeners accept. Raises AssertionError with its last words."""
        self.wait_until(self._serves, "ready", READY_TIMEOUT_S)
        return self

    def wait_until(self, holds: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Until `holds`, as long as the process lives."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert self.is_running, f"{self.directory.name} ended before it was {what}:\n{self.last_words()}"
            assert time.monotonic() < deadline, f"{self.directory.name} not {what}:\n{self.last_words()}"
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        """SIGTERM: a controlled shutdown. Kafka ends itself with status 143 after it."""
        assert self._process is not None, self.directory
        self._process.terminate()
        status = self._process.wait(STOP_TIMEOUT_S)
        assert status in (0, 143, -15), (status, self.last_words())

    def kill(self) -> None:
        """SIGKILL: what a power cut leaves (but for what the page cache keeps)."""
        assert self._process is not None, self.directory
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

    def last_words(self, line_count: int = 30) -> str:
        return "\n".join(self.says.read_text(errors="replace").splitlines()[-line_count:])

    def _serves(self) -> bool:
        if STARTED not in self.says.read_text(errors="replace"):
            return False
        return all(_accepts(port) for port in self._ports())

    def _ports(self) -> list[int]:
        return [int(listener.rpartition(":")[2]) for listener in str(self.properties["listeners"]).split(",")]


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
