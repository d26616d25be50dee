"""What Kafka's own StandardAuthorizer decides in random worlds: kept in `fixtures/decisions.jsonl.gz`.

python -m tests.interop.kafka.decisions     writes the file anew (`make fixtures` does it too)
"""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.interop.kafka.release import java, schema_jars

PROGRAM: Final = Path(__file__).with_name("Decisions.java")
KEPT: Final = Path(__file__).parents[1] / "fixtures" / "decisions.jsonl.gz"
SEED: Final = 7
WORLDS: Final = 80
"""Each with 45 requests."""
TIMEOUT_S: Final = 300

World = dict[str, Any]


def kept() -> list[World]:
    """The kept worlds: settings, entries, and what was decided on them; see `Decisions.java`."""
    with gzip.open(KEPT, "rt") as lines:
        return [json.loads(line) for line in lines]


def asked(seed: int) -> str:
    """One world a line, as the release with our schema decides them now. Needs a JVM.

    Its authorizer knows networks, which those of earlier releases do not (KIP-1276), and runs on their other jars.
    """
    command = java("Decisions", seed, WORLDS, source=PROGRAM)
    classpath = command.index("-cp") + 1
    command[classpath] = f"{schema_jars()}/*:{command[classpath]}"
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S).stdout


def main() -> None:
    """Ask, and keep; the same release makes the same file, byte for byte."""
    KEPT.write_bytes(gzip.compress(asked(SEED).encode(), mtime=0))


if __name__ == "__main__":
    main()
