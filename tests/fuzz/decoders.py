"""Every decoder of bytes that others write, in this process: `python -m tests.fuzz.decoders --count 1000000`.

A target has sound samples and the errors that it may raise. An input is a sample that was damaged, or garbage. Another
error is a fault, and so is an input that takes longer than `HANGS_S`. A decoded message that can be encoded again has
to be decoded to the same.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.decoder_targets import Target, targets_in

HANGS_S: Final = 20
SHOWN: Final = 5
EDGES: Final = (0, 1, 2, 4, 7, 8, 16, 127, 128, 255)


class Hangs(Exception):
    """One input took too long."""


@dataclass(slots=True)
class Found:
    """What came of one target."""

    inputs: int = 0
    decoded: int = 0
    slowest_ms: float = 0.0
    faults: int = 0


def damaged(samples: Sequence[bytes], rng: Random) -> bytes:
    """A sample with one to four changes, rarely garbage."""
    if rng.random() < 0.05:
        return rng.randbytes(rng.choice(EDGES))
    data = bytearray(rng.choice(samples))
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at % len(data)] = rng.choice(EDGES)
            case 2:
                del data[at:]
            case 3:
                del data[at : at + rng.choice((1, 1, 2, 8))]
            case 4:
                data[at:at] = rng.randbytes(rng.choice((1, 1, 2, 8)))
            case 5:
                other = rng.choice(samples)
                data[at:] = other[rng.randrange(len(other) + 1) :]
            case _:
                data[at : at + 4] = rng.choice((-1, 0, 1, 2**31 - 1, -(2**31))).to_bytes(4, signed=True)
    return bytes(data)


def run(target: Target, *, count: int, seed: int, tell: Callable[[str], None]) -> Found:
    """Sends `count` inputs to one target; `tell` gets each of the first faults."""
    rng, found = Random(f"{seed}/{target.name}"), Found()
    for _ in range(count):
        data = target.mend(damaged(target.samples, rng))
        begun = time.perf_counter()
        try:
            target.decode(data)
            found.decoded += 1
        except target.errors:
            pass
        except Exception as fault:  # that is what it looks for
            found.faults += 1
            if found.faults <= SHOWN:
                tell(f"{target.name}: {type(fault).__name__}: {str(fault)[:300]}; input {data.hex()[:2_000]}")
        found.inputs += 1
        found.slowest_ms = max(found.slowest_ms, (time.perf_counter() - begun) * 1_000)
    return found


def main() -> int:
    """Prints a row for each target."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.decoders", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="inputs of each target")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="the same seed draws the same inputs")
    parser.add_argument("--only", default="", help="targets whose name has this")
    asked = parser.parse_args()

    def hangs(*_: Any) -> None:
        raise Hangs(f"an input took more than {HANGS_S} s")

    signal.signal(signal.SIGPROF, hangs)
    print(
        f"seed {asked.seed}\n| target | inputs | decoded | slowest | CPU | faults |\n|---|--:|--:|--:|--:|--:|",
        flush=True,
    )
    faults = targets = 0
    with tempfile.TemporaryDirectory(prefix="quorate-decoders-") as directory:
        for target in targets_in(Path(directory)):
            if asked.only not in target.name:
                continue
            targets += 1
            begun = time.process_time()
            found = Found()
            for part in range(0, asked.count, 1_000):
                # Of a thousand at once, in time of the processor: one that hangs is among them.
                signal.setitimer(signal.ITIMER_PROF, HANGS_S)
                one = run(target, count=min(1_000, asked.count - part), seed=asked.seed + part, tell=print)
                found = Found(
                    found.inputs + one.inputs,
                    found.decoded + one.decoded,
                    max(found.slowest_ms, one.slowest_ms),
                    found.faults + one.faults,
                )
            signal.setitimer(signal.ITIMER_PROF, 0)
            faults += found.faults
            print(
                f"| {target.name} | {found.inputs:,} | {found.decoded / max(1, found.inputs):.0%} | "
                f"{found.slowest_ms:.0f} ms | {time.process_time() - begun:.0f} s | {found.faults} |",
                flush=True,
            )
    print(f"{targets} targets; {faults} faults; {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB at most")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
