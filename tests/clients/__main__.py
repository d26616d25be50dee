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
from tests.run_loop import run_loop

HERE: Final = Path(__file__).parent
MADE: Final = HERE.parents[1] / "build" / "clients"
PATIENCE_S: Final = 300
ENDED: Final = "the program ended"


class Client(NamedTuple):
    """A client: the command that runs its program, before the servers, and what must be on PATH for it."""

    command: Sequence[str]
    needs: str = "the group dev"


CLIENTS: Final[Mapping[str, Client]] = {
    "confluent-kafka 2.16.1 (librdkafka)": Client((sys.executable, "-m", "tests.clients.by_confluent_kafka")),
    "kafka-python 3.0.12": Client((sys.executable, "-m", "tests.clients.by_kafka_python")),
    "franz-go 1.22.3, kadm 1.20.0": Client((str(MADE / "go/franz"),), "go"),
    "sarama 1.61.1": Client((str(MADE / "go/sarama"),), "go"),
    "kafka-go 0.4.51": Client((str(MADE / "go/segmentio"),), "go"),
    "kafkajs 2.2.4": Client(("node", str(MADE / "node/main.js")), "npm"),
}


async def lines_of(side: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Starts a side, and runs the clients on it, one after the other."""
    with tempfile.TemporaryDirectory() as directory:
        async with SIDES[side](Path(directory)) as brokers:
            servers = ",".join(f"127.0.0.1:{port}" for port in brokers.tool_ports.values())
            return {name: await asyncio.to_thread(_said, CLIENTS[name].command, servers) for name in names}


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
    """Prints the table; returns 1 if a client was told something else on one side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the clients whose names have this in them")
    parser.add_argument("--lines", action="store_true", help="print every line, too")
    asked = parser.parse_args()
    names = [name for name, client in CLIENTS.items() if asked.only in name and _is_there(name, client)]
    ours, theirs = (run_loop(lines_of(side, names)) for side in ("Quorate", "Kafka"))
    print("| client | calls | differences |\n|---|--:|---|")
    found = {name: differences(ours[name], theirs[name]) for name in names}
    for name in names:
        print(f"| {name} | {len(theirs[name])} | {'; '.join(found[name]) or 'none'} |")
        for line in ours[name] if asked.lines else ():
            print(f"    {line}")
    return 1 if any(found.values()) else 0


def _is_there(name: str, client: Client) -> bool:
    there = shutil.which(client.command[0]) is not None
    if not there:
        print(f"{name}: left out; it needs {client.needs}", file=sys.stderr)
    return there


def _said(command: Sequence[str], servers: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    ran = subprocess.run(
        [*command, servers], capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment
    )
    lines = ran.stdout.splitlines()
    return lines if ran.returncode == 0 else [*lines, f"{ENDED}: {ran.stderr.strip().splitlines()[-1:]}"]


if __name__ == "__main__":
    raise SystemExit(main())
