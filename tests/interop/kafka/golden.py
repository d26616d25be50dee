"""Kafka's bytes of messages, as its own serializer writes them: kept in `fixtures/golden.jsonl.gz`.

python -m tests.interop.kafka.golden        writes the file anew (`make fixtures` does it too)
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from deploy.kafka.release import POM
from tests.interop.kafka.release import java

PROGRAM: Final = Path(__file__).with_name("Golden.java")
KEPT: Final = Path(__file__).parents[1] / "fixtures" / "golden.jsonl.gz"
TIMEOUT_S: Final = 300

API_KEYS: Final = (
    *(0, 1, 2, 3, 17, 18, 19, 20, 23),
    *(*range(29, 34), *range(36, 42), *range(43, 47), *range(48, 61)),
    *(62, 63, 64, 67, 70, 73, 75, 80, 81, 82),
)

Line = dict[str, Any]


def kept() -> list[Line]:
    """The lines of the kept file: kind, type, instance, apiKey, version, json, hex (the body, without any frame)."""
    with gzip.open(KEPT, "rt") as lines:
        return [json.loads(line) for line in lines]


def asked(pom: Path = POM, keys: Sequence[int] = API_KEYS) -> str:
    """The same lines as the release of a POM writes them now, of the APIs with these keys."""
    command = java("Golden", ",".join(map(str, keys)), source=PROGRAM, pom=pom)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S).stdout


def main() -> None:
    """Ask, and keep; the same release makes the same file, byte for byte."""
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_bytes(gzip.compress(asked().encode(), mtime=0))


if __name__ == "__main__":
    main()
