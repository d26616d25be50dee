"""The first process of a machine of namespaces: mounts what is the machine's own, then reaps until it is killed.

Run by `tests.kube.machine` with the machine's directory: `python machine_init.py DIRECTORY NAME`. Nobody else sees the
mounts made here, and they are gone with the last process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

OWN = {"/run": (), "/var/lib": (), "/var/log": ("pods", "containers")}
"""Directories that are empty in a machine and in memory, so that it is soon gone; but for these, which are on disk."""


def main() -> None:
    """Writes the file `ready` into the directory once everything is mounted."""
    directory, name = Path(sys.argv[1]), sys.argv[2]
    # What containers and the kubelet mount must be seen by each other, and by nobody outside.
    mount("--make-rshared", "/")
    for place, kept in OWN.items():
        on_disk = [(directory / each, Path(place) / each) for each in kept]
        mount("-t", "tmpfs", "tmpfs", place)
        for source, target in on_disk:
            source.mkdir(exist_ok=True)
            target.mkdir()
            mount("--bind", str(source), str(target))
    subprocess.run(["hostname", name], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (directory / "ready").touch()
    while True:
        signal.sigwait([signal.SIGCHLD])
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def mount(*arguments: str) -> None:
    """As the command does it."""
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    main()
