"""How long the event loop was held, as a scrape of a process tells it."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

from deploy.local.ports import free_ports

PROCESS: Final = """
import asyncio, time, urllib.request
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.telemetry.metrics import Export, exported_metrics

def compute(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass

def scrape():
    return urllib.request.urlopen("http://127.0.0.1:%(port)d/metrics", timeout=10).read().decode()

async def main(life: ServiceLife) -> None:
    export = Export(exporters=frozenset({"prometheus"}), host="127.0.0.1", port=%(port)d)
    async with asyncio.TaskGroup() as tasks, exported_metrics(tasks, export, service="s", instance="1"):
        for seconds in %(holds)r:
            await asyncio.sleep(0.05)
            compute(seconds)
        for _ in range(2000):
            compute(0.00005)
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        print(await asyncio.to_thread(scrape))

raise SystemExit(run(main))
"""


def scraped(*holds: float) -> dict[str, float]:
    """What a process says of its loop that held it for so long, each with a pause before it, and often for 50 µs."""
    (port,) = free_ports(1)
    script = PROCESS % {"port": port, "holds": holds}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=240)
    return {name: float(value) for name, value in re.findall(r"^(kraft_loop_hold\S+) (\S+)$", done.stdout, re.M)}


def test_what_holds_the_loop_is_in_the_histogram_and_the_longest_beside_it() -> None:
    seen = scraped(0.06, 0.3, 0.12)

    held = {
        bound: seen[f'kraft_loop_hold_duration_seconds_bucket{{le="{bound}"}}'] for bound in ("0.05", "0.5", "+Inf")
    }
    assert 3 <= held["+Inf"] - held["0.05"]
    assert 0.3 <= seen["kraft_loop_hold_longest_seconds"]


def test_much_in_small_pieces_holds_nothing() -> None:
    """A tenth of a second in all; a machine that gives the process no time is no hold either."""
    seen = scraped()

    assert seen.get("kraft_loop_hold_longest_seconds", 0.0) < 0.05
