"""Observers by a number: 2, 6, 2; a client that was there before reads from all that there are."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.kube.network import CONTROL
from tests.kube.places import ROOT, STATE, say
from tests.kube.pods import run_in_network
from tests.kube.release import OBSERVER_PORT, Release, under_load
from tests.kube.waiting import until

MAX_AGE_S = 5
HANDSHAKE_BYTES = 2_500
"""More than a client sends before its first call, its certificate included."""


def show(release: Release) -> None:
    """Each is ready only once it has the metadata. One client reads all the while; gRPC finds the copies for it."""
    release.upgrade(f"observer.connectionMaxAgeSeconds={MAX_AGE_S}")
    with under_load(release, "observers 2 6 2"), _reading(release):
        for count in (6, 2):
            release.upgrade(f"observer.replicas={count}")
            release.wait_for("observer", count)
            sums: Counter[str] = Counter()
            until(f"all {count} observers are read from", partial(_all_are_read, release, count, sums))
            now = {str(pod["metadata"]["name"]) for pod in release.pods("observer")}
            total = sum(sums[name] for name in now)
            shares = sorted(sums[name] / total for name in now)
            say(f"of the bytes of one client, by observer: {', '.join(f'{each:.0%}' for each in shares)}")


@contextmanager
def _reading(release: Release) -> Iterator[None]:
    file = STATE / "reads.txt"
    with file.open("wb") as out:
        process = subprocess.Popen(release.reads(), cwd=ROOT, stdout=out)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)
    *refusals, total = file.read_text().splitlines()
    say(f"reads: {total}; {refusals[:3]}")


def _all_are_read(release: Release, count: int, sums: Counter[str]) -> bool:
    """Whether each observer has been seen with more than a handshake from the client; adds what is seen to `sums`."""
    pods = release.pods("observer")
    for pod in pods:
        received = _received(release, pod)
        if received > HANDSHAKE_BYTES:
            sums[str(pod["metadata"]["name"])] += received - HANDSHAKE_BYTES
    return len(pods) == count and all(sums[str(pod["metadata"]["name"])] for pod in pods)


def _received(release: Release, pod: dict[str, object]) -> int:
    """The bytes of the connections that the client has to a pod, as its network counts them."""
    sockets = f"ss -tinHO state established dst {CONTROL} sport = :{OBSERVER_PORT}"
    text = run_in_network(release, pod, "observer", *sockets.split())
    parts = [part for part in text.split() if part.startswith("bytes_received:")]
    return sum(int(part.partition(":")[2]) for part in parts)
