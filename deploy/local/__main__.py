"""`python -m deploy.local [--once] [--gateways]`: starts the control plane, creates a topic, and shows its trace."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from deploy.local import show
from deploy.local.broker import BrokerStandIn
from deploy.local.client import Admin
from deploy.local.plan import ClusterPlan, make_plan
from deploy.local.processes import NotReady, Running
from quorate.cli.waterfall import waterfall_svg
from quorate.errors import ApiError

TOPIC = "orders"


async def main(*, once: bool, directory: Path, with_gateways: bool = False) -> int:
    """Runs the demonstration, then waits for Ctrl-C unless `once`; stops everything. Returns the exit code.

    `with_gateways`: a gateway runs beside each node, for clients that speak Kafka's own wire.
    """
    console = Console(highlight=False)
    plan = make_plan(directory, with_gateways=with_gateways)
    running = Running(plan)
    brokers = [stand_in(plan, broker_id) for broker_id in plan.brokers]
    admin = Admin(plan)
    try:
        await demonstrate(console, plan, running, brokers, admin)
        if not once:
            for line in show.lines_to_paste(plan):
                console.print(line, markup=False, soft_wrap=True)
            console.print("\nRunning until Ctrl-C; kill any one voter, and writes go on.")
            await interrupted()
    except NotReady as problem:
        console.print(f"[red]not ready:[/] {problem}")
        return 1
    except ApiError as refusal:
        console.print(f"[red]refused:[/] {refusal}")
        return 1
    finally:
        console.print("stopping")
        for broker in brokers:
            await broker.close()
        await admin.close()
        await running.stop()
    return 0


async def demonstrate(
    console: Console, plan: ClusterPlan, running: Running, brokers: list[BrokerStandIn], admin: Admin
) -> None:
    """Starts the control plane, creates a topic, and prints the topic, the quorum and the trace of the request."""
    started = time.monotonic()
    console.print(f"{len(plan.processes)} services, {len(brokers)} broker stand-ins; state in {plan.directory}")
    await running.start()
    async with asyncio.TaskGroup() as joining:
        for broker in brokers:
            joining.create_task(broker.start())
    console.print(f"ready in {time.monotonic() - started:.1f} s\n")
    await admin.create_topic("warm-up", partitions=1, replication_factor=1)  # the first request opens connections
    _, trace_id = await admin.create_topic(TOPIC, partitions=3, replication_factor=3)
    console.print(show.topic_table(await admin.describe_topic(TOPIC)))
    console.print(show.quorum_table(await admin.describe_quorum()))
    spans = await admin.trace(trace_id)
    show.trace_lines(console, spans)
    picture = plan.directory / "trace.svg"
    picture.write_text(waterfall_svg(spans))
    console.print(f"the same as a picture: {picture}\n", soft_wrap=True)


def stand_in(plan: ClusterPlan, broker_id: int) -> BrokerStandIn:
    """Returns a stand-in for one of the plan's brokers."""
    return BrokerStandIn(
        broker_id,
        cluster_id=plan.cluster_id,
        rack=plan.racks[broker_id],
        quorum=[each.address for each in plan.quorum],
        controllers=[each.address for each in plan.controllers],
        heartbeat=plan.heartbeat.address,
    )


async def interrupted() -> None:
    """Waits for SIGINT (Ctrl-C) or SIGTERM."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await asked.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    parser.add_argument("--once", action="store_true", help="exit after the demonstration")
    parser.add_argument("--gateways", action="store_true", help="a gateway beside each node, for Kafka's own tools")
    parser.add_argument("--directory", type=Path, help="where state is kept; a temporary directory if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quorate-") as made:
        place = arguments.directory or Path(made)
        sys.exit(asyncio.run(main(once=arguments.once, directory=place, with_gateways=arguments.gateways)))
