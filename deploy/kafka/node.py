"""A Kafka node, broker or controller, as a child process: formatted, started, stopped, killed; and a command-line tool.

Everything listens on loopback; only processes that were started here are ended.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from deploy.kafka.release import HEAP, POM, QUICK, java

__all__ = [
    "STARTED",
    "TOOL_TIMEOUT_S",
    "Node",
    "NodeFailed",
    "Properties",
    "RunTool",
    "ToolFailed",
    "ToolRan",
    "run_apart",
    "tool",
    "tools_run_by",
]

READY_TIMEOUT_S: Final = 300
STOP_TIMEOUT_S: Final = 300
TOOL_TIMEOUT_S: Final = 300
LOOK_EVERY_S: Final = 0.05

STARTED: Final = "Kafka Server started"
"""The line that a node prints once it serves: a broker after it was unfenced."""
SIGTERM_STATUSES: Final = (0, 143, -15)
"""Exit statuses after SIGTERM: Kafka ends itself with 143."""
CLOSED_TOO_EARLY: Final = "java.nio.channels.ClosedChannelException"
"""At its stop a controller of Kafka closes the log before the loader of its image has read it to the end. A loader that
is behind, on a busy machine, then ends the process with status 1; the log on disk is whole."""

Properties = Mapping[str, object]


class ToolFailed(Exception):
    """Raised when a tool of the release ends with an error; the message has all that it said."""


class NodeFailed(Exception):
    """Raised when a node ends too early or is not ready in time; the message has its last words."""


class ToolRan(NamedTuple):
    """A tool that has ended: its exit status, and what it said on standard output and on standard error."""

    status: int
    out: str
    error: str


class RunTool(Protocol):
    """A way to run a tool of the release that `pom` names, by its main class."""

    def __call__(
        self, main: str, arguments: Sequence[str], *, pom: Path, timeout_s: float, stdin: str | None
    ) -> ToolRan:
        """Returns what it said. Raises NotFetched without the release's jars, TimeoutExpired."""


def run_apart(main: str, arguments: Sequence[str], *, pom: Path, timeout_s: float, stdin: str | None) -> ToolRan:
    """Runs a tool in a JVM of its own. Raises NotFetched, TimeoutExpired."""
    command = java(main, *arguments, pom=pom)
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s, input=stdin)
    return ToolRan(ran.returncode, ran.stdout, ran.stderr)


_WAY: Final[list[RunTool]] = [run_apart]
"""The one way in which tools are run now."""


def tools_run_by(way: RunTool) -> RunTool:
    """Has `tool` run tools in this way from now on; returns the way until now."""
    before, _WAY[0] = _WAY[0], way
    return before


def tool(
    main: str, *arguments: object, timeout_s: float = TOOL_TIMEOUT_S, pom: Path = POM, stdin: str | None = None
) -> str:
    """Runs a command-line tool of a Kafka release, by its main class, and returns its standard output.

    Raises ToolFailed if its exit status is not 0, NotFetched without the release's jars, TimeoutExpired.
    """
    words = tuple(map(str, arguments))
    ran = _WAY[0](main, words, pom=pom, timeout_s=timeout_s, stdin=stdin)
    if ran.status != 0:
        raise ToolFailed(f"{main} {' '.join(words)}: exit {ran.status}\n{ran.out}{ran.error}")
    return ran.out


class Node:
    """One server. `directory` has its properties, and what it says (`server.out`); `pom` names the release.

    `options` are its JVM's.
    """

    def __init__(
        self,
        directory: Path,
        properties: Properties,
        *,
        pom: Path = POM,
        heap: str = HEAP,
        options: Sequence[str] = QUICK,
    ) -> None:
        self.directory = directory
        self.properties = dict(properties)
        self.says = directory / "server.out"
        self._pom = pom
        self._heap = heap
        self._options = options
        self._config = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self.configure({})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()

    def configure(self, more: Properties) -> None:
        """Sets these properties, too; they count from the next start on."""
        self.properties |= more
        self._config.write_text("".join(f"{name}={value}\n" for name, value in self.properties.items()))

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process, which was started."""
        assert self._process is not None, self.directory
        return self._process.pid

    def format(self, cluster_id: str, *arguments: object) -> str:
        """Writes the meta.properties (and the first checkpoint) of every directory of this node. Raises ToolFailed."""
        how = ("format", "-t", cluster_id, "-c", self._config, *arguments)
        return tool("kafka.tools.StorageTool", *how, pom=self._pom)

    def start(self) -> Self:
        """Begins to run; `wait_ready` says when it serves."""
        assert not self.is_running, self.directory
        command = java("kafka.Kafka", self._config, level="info", heap=self._heap, pom=self._pom, options=self._options)
        with self.says.open("wb") as out:
            self._process = subprocess.Popen(command, cwd=self.directory, stdout=out, stderr=subprocess.STDOUT)
        return self

    def wait_ready(self) -> Self:
        """Waits until the node says that it serves, and its listeners accept. Raises NodeFailed."""
        self.wait_until(self._serves, "ready", READY_TIMEOUT_S)
        return self

    def wait_until(self, holds: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Waits until `holds`, as long as the process lives. Raises NodeFailed."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if not self.is_running:
                raise NodeFailed(f"{self.directory.name} ended before it was {what}:\n{self.last_words()}")
            if time.monotonic() >= deadline:
                raise NodeFailed(f"{self.directory.name} is not {what} after {timeout_s:g} s:\n{self.last_words()}")
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        """Asks for a controlled shutdown with SIGTERM, and waits for its end. Raises NodeFailed, TimeoutExpired."""
        assert self._process is not None, self.directory
        self._process.terminate()
        status = self._process.wait(STOP_TIMEOUT_S)
        closed_too_early = status == 1 and CLOSED_TOO_EARLY in self.last_words()
        if status not in SIGTERM_STATUSES and not closed_too_early:
            raise NodeFailed(f"{self.directory.name} ended with status {status}:\n{self.last_words()}")

    def send(self, number: signal.Signals) -> None:
        """Sends a signal after which the process lives on: SIGSTOP, SIGCONT."""
        assert self._process is not None, self.directory
        self._process.send_signal(number)

    def kill(self) -> None:
        """Sends SIGKILL: what a power cut leaves (but for what the page cache keeps)."""
        assert self._process is not None, self.directory
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

    def last_words(self, line_count: int = 30) -> str:
        """Returns the last lines of what the node says."""
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
