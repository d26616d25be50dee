"""`python -m deploy.local`: starts the control plane, makes a topic, shows the trace of that request."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TypeAlias

from rich.console import Console

from deploy.kafka.node import NodeFailed, ToolFailed
from deploy.kafka.release import NotFetched, missing
from deploy.local import kafka, show
from deploy.local.broker import BrokerStandIns
from deploy.local.client import Admin
from deploy.local.own import OwnBrokers
from deploy.local.plan import ClusterPlan, announcing_gateways, make_plan, with_page
from deploy.local.processes import NotReady, Running
from quorate.cli.waterfall import waterfall_svg
from quorate.errors import ApiError

TOPIC = "orders"
Brokers: TypeAlias = BrokerStandIns | kafka.KafkaBrokers | OwnBrokers


async def main(
    *,
    once: bool,
    directory: Path,
    with_gateways: bool = False,
    with_kafka: bool = False,
    with_brokers: bool = False,
) -> int:
    """Runs the demonstration, then waits for Ctrl-C unless `once`; stops everything. Returns the exit code.

    SIGINT (Ctrl-C) and SIGTERM end it at any time, and what it has started.
    `with_gateways`: a gateway runs beside each node, for clients that speak Kafka's own wire. `with_kafka`: the brokers
    are Kafka's, on gateways, and Kafka's own tools do the demonstration. `with_brokers`: they are ours.
    """
    console = Console(highlight=False)
    if with_kafka and (why := missing()) is not None:
        console.print(f"[red]not ready:[/] {why}", soft_wrap=True)
        return 1
    plan = make_plan(directory, with_gateways=with_gateways or with_kafka)
    plan = announcing_gateways(plan) if plan.gateways else plan
    plan = with_page(plan)
    running = Running(plan)
    brokers: Brokers = kafka.KafkaBrokers(plan) if with_kafka else BrokerStandIns(plan)
    brokers = OwnBrokers(plan, running) if with_brokers else brokers
    admin = Admin(plan)
    shown = asyncio.ensure_future(_show(console, plan, running, brokers, admin, once=once))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, shown.cancel)  # of what has ended: nothing
    try:
        code = await _code_of(console, shown)
    finally:
        console.print("stopping")
        codes = [await _code_of(console, close()) for close in (brokers.close, admin.close, running.stop)]
    return max(code, *codes)


async def _show(
    console: Console,
    plan: ClusterPlan,
    running: Running,
    brokers: Brokers,
    admin: Admin,
    *,
    once: bool,
) -> None:
    """Runs the demonstration; unless `once` then says what to ask whom, and waits until it is cancelled."""
    await demonstrate(console, plan, running, brokers, admin)
    if once:
        return
    for line in show.lines_to_paste(plan):
        console.print(line, markup=False, soft_wrap=True)
    if not isinstance(brokers, BrokerStandIns):
        console.print(f"  BROKERS={brokers.bootstrap_servers}", markup=False, soft_wrap=True)
    console.print("\nRunning until Ctrl-C; kill any one voter, and writes go on.")
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


async def _code_of(console: Console, work: Awaitable[None]) -> int:
    """Waits for the end of some work, and returns an exit code: 0, or 1 after it has printed what went wrong."""
    try:
        await work
    except asyncio.CancelledError:
        console.print("interrupted")
    except (NotReady, NodeFailed, NotFetched, TimeoutExpired) as problem:
        console.print("[red]not ready:[/]", end=" ")
        console.print(str(problem), markup=False, soft_wrap=True)
    except (ApiError, ToolFailed) as refusal:
        console.print("[red]refused:[/]", end=" ")
        console.print(str(refusal), markup=False, soft_wrap=True)
    else:
        return 0
    return 1


async def demonstrate(console: Console, plan: ClusterPlan, running: Running, brokers: Brokers, admin: Admin) -> None:
    """Starts the control plane, creates a topic, and prints the topic, the quorum and the trace of the request."""
    if isinstance(brokers, kafka.KafkaBrokers):
        await brokers.fetch(console)
    started = time.monotonic()
    console.print(f"{len(plan.processes)} services, {len(plan.brokers)} {brokers.called}; state in {plan.directory}")
    await running.start()
    await brokers.start()
    console.print(f"ready in {time.monotonic() - started:.1f} s\n")
    await admin.create_topic("warm-up", partitions=1, replication_factor=3)  # the first request opens connections
    if isinstance(brokers, kafka.KafkaBrokers):
        await kafka.create_topic(console, brokers, TOPIC)
        trace_id = await admin.latest_trace(root="Envelope", span_name="kraft.service.Controller/CreateTopics")
        await kafka.produce_and_consume(console, brokers, TOPIC)
    else:
        _, trace_id = await admin.create_topic(TOPIC, partitions=3, replication_factor=3)
    console.print(show.topic_table(await admin.describe_topic(TOPIC)))
    console.print(show.quorum_table(await admin.describe_quorum()))
    spans = await admin.trace(trace_id)
    show.trace_lines(console, spans)
    picture = plan.directory / "trace.svg"
    picture.write_text(waterfall_svg(spans))
    console.print(f"the same as a picture: {picture}\n", soft_wrap=True)
    if isinstance(brokers, OwnBrokers):
        await brokers.show_records(console, admin, TOPIC)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    parser.add_argument("--once", action="store_true", help="exit after the demonstration")
    parser.add_argument("--gateways", action="store_true", help="a gateway beside each node, for Kafka's own tools")
    parser.add_argument(
        "--kafka", action="store_true", help="brokers of a Kafka release, on gateways, and Kafka's own tools"
    )
    parser.add_argument(
        "--brokers", action="store_true", help="brokers of our own: records written, a leader killed, and read"
    )
    parser.add_argument("--directory", type=Path, help="where state is kept; a temporary directory if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quorate-") as made:
        place = arguments.directory or Path(made)
        ran = main(
            once=arguments.once,
            directory=place,
            with_gateways=arguments.gateways,
            with_kafka=arguments.kafka,
            with_brokers=arguments.brokers,
        )
        sys.exit(asyncio.run(ran))
