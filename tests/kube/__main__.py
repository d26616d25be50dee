"""`python -m tests.kube programs|images|up|down|run|kubectl`."""

from __future__ import annotations

import argparse
import signal
import sys

from tests.kube import cluster
from tests.kube.images import PIPELINE, build, build_images
from tests.kube.programs import get_programs
from tests.kube.run import SHOWS, run


def main() -> None:
    """`run` does everything, from the programs to the teardown; the others are its parts. SIGTERM ends it as Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(prog="python -m tests.kube", description="A Kubernetes on this machine")
    parser.add_argument("command", choices=("programs", "images", "up", "down", "run", "kubectl"))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=f"of kubectl; of run: --keep, {', '.join(SHOWS)}")
    chosen = parser.parse_args()
    match chosen.command:
        case "programs":
            get_programs()
        case "images":
            get_programs()
            build_images()
            build((PIPELINE,))
        case "up":
            get_programs()
            build_images()
            cluster.up()
        case "down":
            cluster.down()
        case "run":
            run([each for each in chosen.arguments if each != "--keep"], keep="--keep" in chosen.arguments)
        case "kubectl":
            print(cluster.get().kubectl(*chosen.arguments), end="")


if __name__ == "__main__":
    main()
