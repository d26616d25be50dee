"""`python -m tests.fuzz`: bursts of malformed input at every RPC of every service until time or count is up."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import randrange

from tests.fuzz.campaign import Campaign
from tests.fuzz.plane import live_plane
from tests.run_loop import run_loop

FAULTS_SHOWN = 20
FAULT_CHARACTERS = 4_000


async def main(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="quorate-fuzz-") as made:
        async with live_plane(arguments.directory or Path(made)) as plane:
            campaign = Campaign(
                plane, seed=arguments.seed, burst=arguments.burst, only=arguments.only, stops=not arguments.go_on
            )
            print(f"seed {arguments.seed}; again: python -m tests.fuzz --seed {arguments.seed}", flush=True)
            began, shown = time.monotonic(), 0
            async for report in campaign.rounds():
                spent = time.monotonic() - began
                rate = campaign.inputs / spent
                print(f"round {report}: {campaign.inputs} inputs in {spent:.0f} s, {rate:.0f}/s", flush=True)
                for fault in campaign.faults[shown:FAULTS_SHOWN]:  # at once: a long run may be ended from outside
                    print(fault[:FAULT_CHARACTERS], flush=True)
                shown = len(campaign.faults)
                enough = arguments.count and campaign.inputs >= arguments.count
                if (
                    (campaign.faults and not arguments.go_on)
                    or enough
                    or (arguments.seconds and spent >= arguments.seconds)
                ):
                    break
    totals: Counter[str] = sum(campaign.statuses.values(), Counter())
    print(f"{campaign.inputs} inputs at {len(campaign.statuses)} doors; {dict(totals.most_common())}")
    if arguments.table:
        for door, statuses in sorted(campaign.statuses.items()):
            print(f"  {door:70} {dict(statuses.most_common())}")
    print(f"{len(campaign.faults)} faults")
    return 1 if campaign.faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="how long; ends with the round")
    parser.add_argument("--count", type=int, default=0, help="how many inputs; ends with the round")
    parser.add_argument("--seed", type=int, default=randrange(2**31), help="the same seed draws the same inputs")
    parser.add_argument("--burst", type=int, default=40, help="calls of one RPC before the processes are looked at")
    parser.add_argument("--only", default="", help="doors whose name has this: a service, a path, or a part of it")
    parser.add_argument("--go-on", action="store_true", help="after a fault, too")
    parser.add_argument("--table", action="store_true", help="print the statuses of every door")
    parser.add_argument("--directory", type=Path, help="where state is kept; a temporary directory if not given")
    sys.exit(run_loop(main(parser.parse_args())))
