"""Runs what each client of another make does on a broker of our controllers, then on one of Kafka's: `make clients`.

Each client is a program of its own, of a pinned release, which prints a line for each call. The lines of the two sides
are compared, and a table says how many there were and which differ. It ends with 1 if any does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.interop.kafka.guarded import SIDES
from tests.interop.kafka.release import OPERATIONS_POM
from tests.run_loop import run_loop

HERE: Final = Path(__file__).parent
MADE: Final = HERE.parents[1] / "build" / "clients"
PATIENCE_S: Final = 300
ENDED: Final = "the program ended"


class Client(NamedTuple):
    """A client: the command that runs its program, before the servers, and what must be on PATH for it."""

    command: Sequence[str]
    needs: str = "the group dev"
    is_new: bool = False
    """Whether it needs brokers that are all of the newest release, at its newest metadata.version."""


def _java(program: str) -> Client:
    """A program of `java/`, which has jars beyond those of the servers."""
    return Client(("java", "-cp", f"{MADE / 'java'}:{MADE / 'jvm'}/*", program), "Maven and a JDK 17", is_new=True)


NEWEST: Final = ({101: OPERATIONS_POM, 102: OPERATIONS_POM}, "4.4-IV2")
CLIENTS: Final[Mapping[str, Client]] = {
    "confluent-kafka 2.16.1 (librdkafka)": Client((sys.executable, "-m", "tests.clients.by_confluent_kafka")),
    "kafka-python 3.0.12": Client((sys.executable, "-m", "tests.clients.by_kafka_python")),
    "aiokafka 0.14.0": Client((sys.executable, "-m", "tests.clients.by_aiokafka")),
    "franz-go 1.22.3, kadm 1.20.0": Client((str(MADE / "go/franz"),), "go"),
    "sarama 1.61.1": Client((str(MADE / "go/sarama"),), "go"),
    "kafka-go 0.4.51": Client((str(MADE / "go/segmentio"),), "go"),
    "Kafka's tools 4.4.0": Client((sys.executable, "-m", "tests.clients.by_kafkas_tools")),
    "kafkajs 2.2.4": Client(("node", str(MADE / "node/main.js")), "npm"),
    "Kafka Streams 4.4.0": _java("Streams"),
    "share groups 4.4.0": _java("Share"),
    "Connect 4.4.0": _java("Connect"),
}


async def lines_of(side: str, names: Sequence[str], *, are_new: bool) -> dict[str, list[str]]:
    """Starts a side, and runs the clients on it, one after the other; `are_new` says which brokers they need."""
    with tempfile.TemporaryDirectory() as directory:
        async with SIDES[side](Path(directory), *(NEWEST if are_new else ())) as brokers:
            servers = ",".join(f"127.0.0.1:{port}" for port in brokers.tool_ports.values())
            return {name: await asyncio.to_thread(said_by, (*CLIENTS[name].command, servers)) for name in names}


def differences(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """The lines in which the two differ, the one beside the other; and those of a program that failed on both sides.

    >>> differences(["a: done", "b: 3"], ["a: done", "b: 4"])
    ['b: 3, by Kafka 4']
    >>> differences(["the program ended: x"], ["the program ended: x"])
    ['the program ended: x, by Kafka x']

    """
    longest = max(len(ours), len(theirs))
    padded = ([*each, *["-: no line"] * (longest - len(each))] for each in (ours, theirs))
    pairs = [(one, other) for one, other in zip(*padded, strict=True) if one != other or one.startswith(ENDED)]
    return [f"{one}, by Kafka {other.partition(': ')[2]}" for one, other in pairs]


def main() -> int:
    """Prints the table; returns 1 if a client got another answer on one side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the clients whose names have this in them")
    parser.add_argument("--lines", action="store_true", help="print every line, too")
    asked = parser.parse_args()
    names = [name for name, client in CLIENTS.items() if asked.only in name and is_there(name, client)]
    print("| client | calls | differences |\n|---|--:|---|")
    differ = False
    for are_new in (False, True):
        these = [name for name in names if CLIENTS[name].is_new == are_new]
        if not these:
            continue
        ours, theirs = (run_loop(lines_of(side, these, are_new=are_new)) for side in ("Quorate", "Kafka"))
        for name in these:
            found = differences(ours[name], theirs[name])
            differ = differ or bool(found)
            print(f"| {name} | {len(theirs[name])} | {'; '.join(found) or 'none'} |")
            for line in ours[name] if asked.lines else ():
                print(f"    {line}", flush=True)
    return 1 if differ else 0


def is_there(name: str, client: Client) -> bool:
    """Whether the client can run here; if not, a line says what it needs."""
    there = shutil.which(client.command[0]) is not None
    if not there:
        print(f"{name}: left out; it needs {client.needs}", file=sys.stderr)
    return there


def said_by(command: Sequence[str]) -> list[str]:
    """The lines of a client's program; the last says why, if it has not ended well."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}:{MADE / 'python'}"}
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment)
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        return [*(said if isinstance(said, str) else said.decode()).splitlines(), f"{ENDED}: not within {PATIENCE_S} s"]
    lines = ran.stdout.splitlines()
    return lines if ran.returncode == 0 else [*lines, f"{ENDED}: {ran.stderr.strip().splitlines()[-1:]}"]


if __name__ == "__main__":
    raise SystemExit(main())
