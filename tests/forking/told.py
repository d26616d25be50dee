"""A program that tells how it was started, in one line of JSON, and ends as its first argument says."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import signal
import sys
from pathlib import Path
from typing import Final

from tests.forking.server import LIMITS

SIGNALS: Final = ("SigBlk", "SigIgn", "SigCgt")


def main() -> None:
    """Tells, and ends: `exit N`, `raise`, or `wait` for a signal."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    told = {
        "argv": sys.argv,
        "name": [__name__, getattr(sys.modules["__main__"].__spec__, "name", None)],
        "path": sys.path,
        "directory": str(Path.cwd()),
        "environ": dict(os.environ),
        "leads its session": os.getsid(0) == os.getpid() == os.getpgid(0),
        "files": sorted(each for each in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{each}").exists()),
        "input": os.readlink("/proc/self/fd/0"),
        "streams": [
            (each.encoding, each.errors, each.line_buffering, each.write_through, type(each.buffer).__name__)
            for each in (sys.stdin, sys.stdout, sys.stderr)
            if isinstance(each, io.TextIOWrapper)
        ],
        "limits": [resource.getrlimit(number) for number in LIMITS],
        "signals": {name: status[name].strip() for name in SIGNALS},
        "threads": status["Threads"].strip(),
        "modules": sorted(name for name in sys.modules if name.startswith(("tests", "quorate", "services"))),
    }
    print(json.dumps({"as started": told, "drawn": random.random()}), flush=True)
    print("to the other stream", file=sys.stderr)
    match sys.argv[1:]:
        case ["exit", code]:
            print("at the end", end="")  # not flushed by us
            sys.exit(int(code))
        case ["raise"]:
            raise ValueError("as it was asked to")
        case _:
            signal.pause()


if __name__ == "__main__":
    main()
