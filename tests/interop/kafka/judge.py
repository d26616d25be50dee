"""What a Kafka release says of files: of its own in the fixtures, and of those that Quorate wrote."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from deploy.kafka.node import Node, tool
from deploy.kafka.release import POM
from deploy.local.ports import free_ports
from tests.interop.kafka.release import java

SHELL_TIMEOUT_S: Final = 60
SHELL_TRIES: Final = 8
MISSES: Final = "No such file or directory"
DIRECTORY: Final = "__cluster_metadata-0"

_BATCH: Final = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*?partitionLeaderEpoch: (-?\d+)")
_RECORD: Final = re.compile(r"^\| offset: \d+ .*? headerKeys: \[.*?\] (?:payload: )?(.*)$")


class DumpedBatch(NamedTuple):
    """A batch as DumpLogSegments prints it; `lines` are its records: JSON, or a control type and its value."""

    base_offset: int
    last_offset: int
    record_count: int
    epoch: int
    is_control: bool
    lines: tuple[str, ...]


def dump_log(*paths: Path) -> str:
    """What `kafka-dump-log --cluster-metadata-decoder` prints of logs and checkpoints, without their directory.

    A name other than `<offset>.log`, `<offset>-<epoch>.checkpoint` or `bootstrap.checkpoint` is an error of the tool.
    """
    files = ",".join(map(str, paths))
    text = tool("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", files)
    for path in paths:
        text = text.replace(f"{path.parent}/", "")
    return text


def dumped_batches(text: str) -> list[DumpedBatch]:
    """The batches of a dump. Raises AssertionError at one that Kafka calls invalid, or cannot parse."""
    assert "Found " not in text, text
    found: list[DumpedBatch] = []
    for line in text.splitlines():
        if line.startswith("baseOffset:"):
            found.append(_dumped_batch(line))
        elif line.startswith("| "):
            assert found, line
            found[-1] = found[-1]._replace(lines=(*found[-1].lines, _dumped_record(line)))
    for batch in found:
        assert len(batch.lines) == batch.record_count, batch
    return found


def metadata_shell(path: Path, *commands: str, pom: Path = POM) -> str:
    """What `kafka-metadata-shell` of the release that `pom` names prints for one command over a log or a checkpoint.

    The shell waits for ever over a file without a data record above offset 0. It reads in another thread, and on a slow
    machine it may run the command before the records are there, or wait for ever: if it does not end, prints nothing or
    misses what it is asked for, it is asked again.
    """
    command = java("org.apache.kafka.shell.MetadataShell", "--snapshot", path, *commands, pom=pom)
    printed = "it did not end"
    for _ in range(SHELL_TRIES):
        try:
            ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SHELL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            continue
        assert ran.returncode == 0, f"{path}: {ran.stdout}{ran.stderr}"
        printed = ran.stdout
        if printed.strip() and MISSES not in printed:
            break
    return printed


def start_controller_on(
    source: Path, scratch: Path, *, node_id: int = 1, pom: Path = POM, **properties: object
) -> Node:
    """A controller of its own quorum, over a copy of `source`, which holds meta.properties and the metadata log.

    Not waited for: `wait_ready` raises with its last words when it does not like what it reads. kraft.version 0
    needs the voters that the log was written with; the caller then gives `controller_quorum_voters`.
    """
    data = scratch / "data"
    shutil.copytree(source, data, ignore=shutil.ignore_patterns("*.dump.txt"))
    (port,) = free_ports(1)
    return Node(scratch, controller_properties(node_id, port, data) | _dotted(properties), pom=pom).start()


def controller_properties(node_id: int, port: int, data: Path) -> dict[str, object]:
    """Of a controller that is a quorum by itself, unless the caller adds the voters."""
    return {
        "process.roles": "controller",
        "node.id": node_id,
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"{node_id}@127.0.0.1:{port}",
        "log.dirs": data,
    }


def files_of(directory: Path) -> Iterator[Path]:
    """Logs and checkpoints below a directory, by name."""
    for path in sorted(directory.rglob("*")):
        if path.suffix in (".log", ".checkpoint"):
            yield path


def _dumped_batch(line: str) -> DumpedBatch:
    found = _BATCH.match(line)
    assert found, line
    assert line.endswith("isvalid: true"), line
    base, last, count, epoch = map(int, found.groups())
    return DumpedBatch(base, last, count, epoch, "isControl: true" in line, ())


def _dumped_record(line: str) -> str:
    found = _RECORD.match(line)
    assert found, line
    return found[1]


def _dotted(properties: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in properties.items()}
